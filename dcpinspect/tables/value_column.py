"""The column ``value``: the content of a message's value after unpacking, as text.

Values of documents are unpacked here, all other values by ``annotate``. A value that ``annotate``
hides is null here, too.
"""

from __future__ import annotations

import codecs
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcpinspect.arrays import BoolArray
from dcpinspect.protocol.column_types import RowNumbers, Slices
from dcpinspect.protocol.datatype import SNAPPY, XATTR
from dcpinspect.protocol.fields import Field, FieldKind
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.secrecy import Secrecy, secrecy
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.protocol.xattr import decode_xattrs
from dcpinspect.tables.arrow_types import as_text, gathered
from dcpinspect.tables.messages import MessageBatch

MAX_BYTES = 1 << 16
"""Greatest number of bytes of a value in the column; an ellipsis stands for the rest."""
_SHOWN = frozenset({"json", "text", "binary"})
"""Encodings of values whose bytes are shown."""
_ELLIPSIS = "…"


def _is_document(layout: Any) -> bool:
    first = layout.value[0] if len(layout.value) == 1 else None
    is_open = secrecy(layout.opcode, layout.side, server=layout.server) is Secrecy.OPEN
    return (
        is_open
        and isinstance(first, Field)
        and first.kind is FieldKind.DOCUMENT
        and not first.bodyless
    )


_IS_DOCUMENT = np.array([*map(_is_document, LAYOUTS), False, False], dtype=np.bool_)
"""Layouts whose value is a document that may be shown completely."""


def values(batch: MessageBatch, rows: RowNumbers) -> Any:
    """Returns values as Arrow strings.

    Null stands for no value, a hidden or incomplete value, and a value that is a run of fields,
    because these have columns of their own.
    """
    decoded = batch.decoded
    size, start = decoded.value.size[rows], decoded.value.start[rows]
    has_value = size > 0
    plain = _plain(batch, rows) & has_value
    datatype = decoded.datatype[rows]
    bare = plain & (datatype & (SNAPPY | XATTR) == 0) & (size <= MAX_BYTES)
    texts = gathered(batch.data, Slices(start, size), bare)
    unusual_rows = np.flatnonzero(has_value & ~bare)
    if not len(unusual_rows):
        return _as_text(texts)
    data = batch.data.data.toreadonly()
    bodies: list[bytes | None] = []
    for index in unusual_rows.tolist():
        body = None
        if plain[index]:
            body = _unwrapped(
                bytes(data[start[index] : start[index] + size[index]]), int(datatype[index])
            )
        body = _annotated(batch, int(rows[index])) if body is None else body or None
        bodies.append(None if body is None else body[: MAX_BYTES + 1])
    is_other = np.zeros(len(rows), dtype=np.bool_)
    is_other[unusual_rows] = True
    return _as_text(pc.replace_with_mask(texts, pa.array(is_other), pa.array(bodies, pa.binary())))


def _plain(batch: MessageBatch, rows: RowNumbers) -> BoolArray:
    """Returns which messages are documents without any problem, as far as columns tell."""
    decoded = batch.decoded
    plain: BoolArray = (
        _IS_DOCUMENT[decoded.layout[rows]] & decoded.fits[rows] & (decoded.problem[rows] == 0)
    )
    plain &= ~decoded.underlying_datatype[rows] & ~np.isin(rows, batch.missing.row)
    metadata = decoded.numbers.get("nmeta")
    if metadata is not None:
        plain &= metadata.values[rows] == 0
    return plain if batch.redactor is None else np.zeros_like(plain)


def _unwrapped(value: bytes, datatype: int) -> bytes | None:
    """Returns the body of a document; None if there is any problem."""
    try:
        content = decode_snappy(value) if datatype & SNAPPY else value
    except SnappyError:
        return None
    if not datatype & XATTR:
        return content
    section = decode_xattrs(content)
    return content[section.body_offset :] if section.problem is None else None


def _annotated(batch: MessageBatch, index: int) -> bytes | None:
    value = batch.annotate(index).value
    return value.body or None if value is not None and value.encoding in _SHOWN else None


def _as_text(raw: Any) -> Any:
    """Returns values as text: digits if they are not text, and with an ellipsis if cut."""
    longest = pc.max(pc.binary_length(raw)).as_py() or 0
    text = as_text(raw)
    if longest <= MAX_BYTES and text.null_count == raw.null_count:
        return text
    texts = text.to_pylist()
    is_long = pc.fill_null(pc.binary_length(raw), 0).to_numpy() > MAX_BYTES
    is_lost = pc.and_(pc.is_null(text), pc.is_valid(raw)).to_numpy(zero_copy_only=False)
    for index in np.flatnonzero(is_long | is_lost).tolist():
        texts[index] = _one_text(raw[index].as_py())
    return pa.array(texts, pa.string())


def _one_text(value: bytes) -> str:
    is_cut = len(value) > MAX_BYTES
    ending = _ELLIPSIS if is_cut else ""
    try:
        # the cut may be inside a character
        return (
            codecs.getincrementaldecoder("utf-8")().decode(value[:MAX_BYTES], final=not is_cut)
            + ending
        )
    except UnicodeDecodeError:
        return f"0x{value[:MAX_BYTES].hex()}{ending}"
