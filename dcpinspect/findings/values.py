"""Rules about the values of documents: compression, xattrs, JSON, bodies of deletions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dcpinspect.findings.candidates import Candidates
from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.annotate import RECORD_RULES
from dcpinspect.protocol.choose import Choice
from dcpinspect.protocol.columns import Mask, Rows, numbers_at
from dcpinspect.protocol.fields import Field, Kind, Layout, Records, Side, fixed_size
from dcpinspect.protocol.json_grammar import is_json_text
from dcpinspect.protocol.meanings import are_json, json_error
from dcpinspect.protocol.secrecy import hides_value
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.protocol.xattr import decode_xattrs
from dcpinspect.tables.messages import MessageBatch


def broken_values(batch: MessageBatch, whole: Mask) -> Iterator[Candidates]:
    """Yields values that do not fit their datatype or command; ``whole``: mask of messages that were captured whole."""
    found: dict[str, list[int]] = {}
    for group in batch.decoded.groups:
        choice, layout = group.choice, group.choice.layout
        rows = group.rows[whole[group.rows] & ~batch.decoded.underlying_datatype[group.rows]]
        items = layout.value if layout is not None and choice.value_fits else ()
        item = items[0] if items else None
        if not len(rows) or _is_hidden(batch, int(rows[0]), choice):
            continue
        is_single = len(items) == 1 and isinstance(item, Field) and item.size is None
        has_value = rows[batch.decoded.value.size[rows] > 0]
        if is_single and isinstance(item, Field) and item.kind is Kind.DOCUMENT:
            _documents(batch, has_value, layout if choice.extras_fit else None, item, found)
        elif item is None or (is_single and isinstance(item, Field) and item.kind in _TEXTS):
            _texts(batch, has_value, None if item is None else item.kind, found)
        elif len(items) == 1 and isinstance(item, Records) and fixed_size(item.fields):
            _records(batch, has_value, item, found)
        elif fixed_size(items) is None:
            _annotated(batch, rows, found)
    for rule, broken in found.items():
        yield Candidates(rule, np.array(sorted(broken), dtype=np.int64))


def _is_hidden(batch: MessageBatch, row: int, choice: Choice) -> bool:
    decoded = batch.decoded
    side: Side = "response" if decoded.is_response[row] else "request"
    return hides_value(choice, int(decoded.opcode[row]), side, server=bool(decoded.is_server[row]))


_TEXTS = (Kind.BYTES, Kind.TEXT, Kind.JSON, Kind.ERROR)


def _documents(batch: MessageBatch, rows: Rows, layout: Layout | None, document: Field, found: dict[str, list[int]]) -> None:
    """Checks documents. Those of datatype JSON alone go to the parser as they stand in the batch, others are unwrapped one by one."""
    decoded = batch.decoded
    has_tail = _has_metadata(batch, rows, layout)
    wrapped = ((decoded.datatype[rows] & _WRAPPED) != 0) | has_tail
    plain = rows[~wrapped]
    if document.bodyless and len(plain):
        found.setdefault("deletion-with-body", []).extend(plain.tolist())
    plain = plain[(decoded.datatype[plain] & datatypes.JSON) != 0]
    for row in plain[~are_json(batch.data.data, decoded.value.start[plain], decoded.value.size[plain])].tolist():
        if _is_no_json(_value(batch, row)):
            found.setdefault("json-bit-not-json", []).append(row)
    _annotated(batch, rows[has_tail], found)
    rows, data = rows[wrapped & ~has_tail], batch.data.data
    start, end = decoded.value.start[rows], decoded.value.start[rows] + decoded.value.size[rows]
    for row, at, stop, datatype in zip(rows.tolist(), start.tolist(), end.tolist(), decoded.datatype[rows].tolist(), strict=True):
        for rule in _faults(bytes(data[at:stop]), datatype, is_bodyless=document.bodyless):
            found.setdefault(rule, []).append(row)


def _texts(batch: MessageBatch, rows: Rows, kind: Kind | None, found: dict[str, list[int]]) -> None:
    """Checks values that are text, JSON or bytes by their command; the datatype only says whether they are compressed.

    Who is asked for something in a text that is no JSON refuses that: other rules tell it, with what is to be done.
    """
    decoded = batch.decoded
    if kind not in (Kind.JSON, Kind.ERROR):
        rows = rows[(decoded.datatype[rows] & datatypes.SNAPPY) != 0]
    for row in rows.tolist():
        content = _value(batch, row)
        if decoded.datatype[row] & datatypes.SNAPPY:
            try:
                content = decode_snappy(content)
            except SnappyError:
                found.setdefault("bad-snappy", []).append(row)
        is_json = (kind is Kind.JSON and decoded.is_response[row]) or (kind is Kind.ERROR and content[:1] == b"{")
        if is_json and _is_no_json(content):
            found.setdefault("json-bit-not-json", []).append(row)


def _records(batch: MessageBatch, rows: Rows, records: Records, found: dict[str, list[int]]) -> None:
    """Checks that records of one size fill the value."""
    wrong = batch.decoded.value.size[rows] % (fixed_size(records.fields) or 1) != 0
    found.setdefault(RECORD_RULES.get(records.name, "length-mismatch"), []).extend(rows[wrong].tolist())


def _annotated(batch: MessageBatch, rows: Rows, found: dict[str, list[int]]) -> None:
    for row in rows.tolist():
        for rule in {problem.rule for problem in batch.annotate(row).problems} & _HERE:
            found.setdefault(rule, []).append(row)


_WRAPPED = datatypes.SNAPPY | datatypes.XATTR
_HERE = {"bad-snappy", "bad-xattr-section", "json-bit-not-json", "deletion-with-body", "length-mismatch", *RECORD_RULES.values()}


def _has_metadata(batch: MessageBatch, rows: Rows, layout: Layout | None) -> Mask:
    """Returns a mask of messages whose value ends with extended metadata (3.x to 6.6)."""
    extras = layout.extras if layout is not None else ()
    nmeta = next((item for item in extras if item.name == "nmeta"), None)
    if nmeta is None:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(numbers_at(batch.data, batch.decoded.extras_at[rows] + nmeta.offset, nmeta.kind.size) > 0)


def _value(batch: MessageBatch, row: int) -> bytes:
    at, size = int(batch.decoded.value.start[row]), int(batch.decoded.value.size[row])
    return batch.data[at : at + size].tobytes()


def _is_no_json(text: bytes) -> bool:
    """Returns whether a text breaks the grammar of JSON; a text that only exceeds a parser's limits is JSON all the same."""
    return json_error(text) is not None and not is_json_text(text)


def _faults(content: bytes, datatype: int, *, is_bodyless: bool) -> list[str]:
    """Returns the rules that a compressed value, or one with xattrs, breaks."""
    rules = []
    if datatype & datatypes.SNAPPY:
        try:
            content = decode_snappy(content)
        except SnappyError:
            rules.append("bad-snappy")
            datatype = 0  # nobody knows what it is instead
    if datatype & datatypes.XATTR and content:
        section = decode_xattrs(content)
        if section.problem is not None:
            rules.append("bad-xattr-section")
        content = content[section.body_offset :]
    if is_bodyless and (content or datatype & datatypes.JSON):
        rules.append("deletion-with-body")
    if content and datatype & datatypes.JSON and _is_no_json(content):
        rules.append("json-bit-not-json")
    return rules
