"""Rules about the values of documents: compression, xattrs, JSON, bodies of deletions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dcpinspect.export.json_check import are_json
from dcpinspect.findings.candidates import Candidates
from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.columns import Mask, Rows
from dcpinspect.protocol.fields import Field, Kind
from dcpinspect.protocol.meanings import json_error
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.protocol.xattr import decode_xattrs
from dcpinspect.tables.messages import MessageBatch


def broken_values(batch: MessageBatch, whole: Mask) -> Iterator[Candidates]:
    """Documents that are not what their datatype says; ``whole`` are messages that the capture has all bytes of.

    Plain JSON is checked in bulk; what is wrapped is unwrapped one by one, since that is what the library does.
    """
    decoded = batch.decoded
    found: dict[str, list[int]] = {}
    for group in decoded.groups:
        layout = group.choice.layout
        document = layout.value[0] if layout is not None and layout.value and group.choice.value_fits else None
        if not isinstance(document, Field) or document.kind is not Kind.DOCUMENT:
            continue
        rows = group.rows[whole[group.rows] & (decoded.value.size[group.rows] > 0)]
        rows = rows[~decoded.underlying_datatype[rows]]
        has_tail = _has_metadata(batch, rows)
        wrapped = ((decoded.datatype[rows] & _WRAPPED) != 0) | has_tail
        plain = rows[~wrapped]
        if document.bodyless and len(plain):
            found.setdefault("deletion-with-body", []).extend(plain.tolist())
        plain = plain[(decoded.datatype[plain] & datatypes.JSON) != 0]
        for row in plain[~are_json(batch.data, decoded.value.start[plain], decoded.value.size[plain])].tolist():
            if json_error(_value(batch, row)) is not None:
                found.setdefault("json-bit-not-json", []).append(row)
        for row in rows[has_tail].tolist():
            for problem in batch.annotate(row).problems:
                if problem.rule in _HERE:
                    found.setdefault(problem.rule, []).append(row)
        for row in rows[wrapped & ~has_tail].tolist():
            for rule in _faults(_value(batch, row), int(decoded.datatype[row]), is_bodyless=document.bodyless):
                found.setdefault(rule, []).append(row)
    for rule, broken in found.items():
        yield Candidates(rule, np.array(sorted(broken), dtype=np.int64))


_WRAPPED = datatypes.SNAPPY | datatypes.XATTR
_HERE = ("bad-snappy", "bad-xattr-section", "json-bit-not-json", "deletion-with-body")


def _has_metadata(batch: MessageBatch, rows: Rows) -> Mask:
    """Messages whose value ends with extended metadata (3.x to 6.6)."""
    nmeta = batch.decoded.numbers.get("nmeta")
    if nmeta is None or nmeta.valid is None:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(nmeta.valid[rows] & (nmeta.values[rows] > 0))


def _value(batch: MessageBatch, row: int) -> bytes:
    at, size = int(batch.decoded.value.start[row]), int(batch.decoded.value.size[row])
    return batch.data[at : at + size].tobytes()


def _faults(content: bytes, datatype: int, *, is_bodyless: bool) -> Iterator[str]:
    """Rules that a compressed value, or one with xattrs, breaks."""
    if datatype & datatypes.SNAPPY:
        try:
            content = decode_snappy(content)
        except SnappyError:
            yield "bad-snappy"
            return
    if datatype & datatypes.XATTR and content:
        section = decode_xattrs(content)
        if section.problem is not None:
            yield "bad-xattr-section"
        content = content[section.body_offset :]
    if content and is_bodyless:
        yield "deletion-with-body"
    if content and datatype & datatypes.JSON and json_error(content) is not None:
        yield "json-bit-not-json"
