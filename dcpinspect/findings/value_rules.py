"""Rules about the values of documents: compression, xattrs, JSON, bodies of deletions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.finding import Candidates
from dcpinspect.findings.wire_rules import ERROR_TEXT
from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.annotate import RECORD_RULES
from dcpinspect.protocol.column_types import RowNumbers, numbers_at
from dcpinspect.protocol.fields import Field, FieldKind, Layout, MessageSide, RecordList, fixed_size
from dcpinspect.protocol.layout_choice import LayoutChoice
from dcpinspect.protocol.meanings import are_json
from dcpinspect.protocol.secrecy import hides_value
from dcpinspect.protocol.values import unwrap
from dcpinspect.tables.messages import MessageBatch

_BrokenRows = dict[tuple[str, bool], list[int]]
"""Rows by rule, and whether they are only a note."""
_OF_ERROR_TEXT = (
    "operators have nothing to do; a client has to go by the status, the text is for people"
)


def broken_values(batch: MessageBatch, looked_at: BoolArray) -> Iterator[Candidates]:
    """Yields values that do not fit their datatype or command; ``looked_at``: mask of messages.
    Texts with holes are not read.
    """
    broken_rows: _BrokenRows = {}
    for group in batch.decoded.groups:
        choice, layout = group.choice, group.choice.layout
        rows = group.rows[looked_at[group.rows] & ~batch.decoded.underlying_datatype[group.rows]]
        items = layout.value if layout is not None and choice.value_fits else ()
        item = items[0] if items else None
        if not len(rows) or _is_hidden(batch, int(rows[0]), choice):
            continue
        is_single = len(items) == 1 and isinstance(item, Field) and item.size is None
        has_value = rows[batch.decoded.value.size[rows] > 0]
        if is_single and isinstance(item, Field) and item.kind is FieldKind.DOCUMENT:
            _documents(batch, has_value, layout if choice.extras_fit else None, item, broken_rows)
        elif item is None or (is_single and isinstance(item, Field) and item.kind in _TEXTS):
            _texts(
                batch,
                _read(batch, has_value),
                item if isinstance(item, Field) else _BYTES,
                broken_rows,
            )
        elif len(items) == 1 and isinstance(item, RecordList) and fixed_size(item.fields):
            _records(batch, has_value, item, broken_rows)
        elif fixed_size(items) is None:
            _annotated(batch, rows, broken_rows)
    for (rule, is_note), broken in broken_rows.items():
        yield Candidates(
            rule,
            np.array(sorted(broken), dtype=np.int64),
            severity="note" if is_note else None,
            cause=ERROR_TEXT if is_note else None,
            next=_OF_ERROR_TEXT if is_note else None,
        )


def _is_hidden(batch: MessageBatch, row: int, choice: LayoutChoice) -> bool:
    decoded = batch.decoded
    side: MessageSide = "response" if decoded.is_response[row] else "request"
    return hides_value(choice, int(decoded.opcode[row]), side, server=bool(decoded.is_server[row]))


_TEXTS = (FieldKind.BYTES, FieldKind.TEXT, FieldKind.JSON, FieldKind.ERROR)
_BYTES = Field("value", 0, FieldKind.BYTES, "value")


def _documents(
    batch: MessageBatch,
    rows: RowNumbers,
    layout: Layout | None,
    document: Field,
    broken_rows: _BrokenRows,
) -> None:
    """Checks documents. Those of datatype JSON alone go to the parser as they stand in the batch,
    others are unwrapped one by one.
    """
    has_tail = _has_metadata(batch, rows, layout)
    _annotated(batch, rows[has_tail], broken_rows)
    rows = _read(batch, rows[~has_tail])
    value, datatype = batch.decoded.value, batch.decoded.datatype[rows]
    is_judged: BoolArray = ((datatype & _WRAPPED) != 0) | document.bodyless
    plain = np.flatnonzero(~is_judged & ((datatype & datatypes.JSON) != 0))
    is_judged[plain] = ~are_json(batch.data.data, value.start[rows[plain]], value.size[rows[plain]])
    _judge(batch, rows[is_judged], document, broken_rows)


def _read(batch: MessageBatch, rows: RowNumbers) -> RowNumbers:
    """Returns the messages whose values are whole."""
    value = batch.decoded.value
    return rows[~batch.decoded.holes.hit(value.start[rows], value.size[rows])]


def _texts(batch: MessageBatch, rows: RowNumbers, text: Field, broken_rows: _BrokenRows) -> None:
    """Checks values that are text, JSON or bytes by their command; the datatype only says whether
    they are compressed.

    Who is asked for something in a text that is no JSON refuses that: other rules tell it, with
    what is to be done.
    """
    if text.kind is FieldKind.JSON:
        is_asked = ~batch.decoded.is_response[rows]
        _texts(batch, rows[is_asked], _BYTES, broken_rows)
        rows = rows[~is_asked]
    elif text.kind is not FieldKind.ERROR:
        rows = rows[(batch.decoded.datatype[rows] & datatypes.SNAPPY) != 0]
    _judge(batch, rows, text, broken_rows)


def _judge(batch: MessageBatch, rows: RowNumbers, spec: Field, broken_rows: _BrokenRows) -> None:
    data, value, datatype = batch.data.data, batch.decoded.value, batch.decoded.datatype[rows]
    start, end = value.start[rows], value.start[rows] + value.size[rows]
    for row, begin, stop, kind in zip(
        rows.tolist(), start.tolist(), end.tolist(), datatype.tolist(), strict=True
    ):
        for rule, severity, *_ in unwrap(bytes(data[begin:stop]), kind, spec)[-1]:
            broken_rows.setdefault((rule, severity == "note"), []).append(row)


def _records(
    batch: MessageBatch, rows: RowNumbers, records: RecordList, broken_rows: _BrokenRows
) -> None:
    """Checks that records of one size fill the value."""
    wrong = batch.decoded.value.size[rows] % (fixed_size(records.fields) or 1) != 0
    rule = RECORD_RULES.get(records.name, "length-mismatch")
    broken_rows.setdefault((rule, False), []).extend(rows[wrong].tolist())


def _annotated(batch: MessageBatch, rows: RowNumbers, broken_rows: _BrokenRows) -> None:
    for row in rows.tolist():
        for rule in {problem.rule for problem in batch.annotate(row).problems} & _HERE:
            broken_rows.setdefault((rule, False), []).append(row)


_WRAPPED = datatypes.SNAPPY | datatypes.XATTR
_HERE = {
    "bad-snappy",
    "bad-xattr-section",
    "json-bit-not-json",
    "deletion-with-body",
    "length-mismatch",
    *RECORD_RULES.values(),
}


def _has_metadata(batch: MessageBatch, rows: RowNumbers, layout: Layout | None) -> BoolArray:
    """Returns a mask of messages whose value ends with extended metadata (3.x to 6.6)."""
    extras = layout.extras if layout is not None else ()
    nmeta = next((item for item in extras if item.name == "nmeta"), None)
    if nmeta is None:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(
        numbers_at(batch.data, batch.decoded.extras_at[rows] + nmeta.offset, nmeta.kind.size) > 0
    )
