"""The value of a message: documents with their xattrs, compressed or not; text, JSON and FlatBuffers."""

from __future__ import annotations

from collections.abc import Sequence

from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.annotation import Annotation
from dcpinspect.protocol.fields import Field, Kind
from dcpinspect.protocol.flatbuffer import FlatBufferError, decode_table
from dcpinspect.protocol.json_grammar import is_json_text
from dcpinspect.protocol.meanings import json_error, stream_id_in, text_or_bytes
from dcpinspect.protocol.message import Encoding, FieldValue, Value
from dcpinspect.protocol.secrecy import Secrecy
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.protocol.xattr import Xattr, decode_xattrs


def _place(at: int, offset: int, inflated: bool) -> tuple[int, str]:
    """Returns (byte of the message, words) for a place in a value that begins at ``at``; an inflated value has no bytes of its own on the
    wire."""
    return (at, f" (byte {offset} of the inflated value)") if inflated else (at + offset, "")


def flatbuffer(annotation: Annotation, spec: Field, at: int, raw: bytes, depth: int, path: str) -> FieldValue:
    """Returns a field with the slots of a FlatBuffer table nested in it."""
    field = FieldValue(spec.name, spec.title, at, len(raw), raw, None, spec.doc, depth=depth, spec=spec)
    try:
        table = decode_table(raw, spec.slots)
    except FlatBufferError as error:
        annotation.problem("system-event-length", "error", path, at, f"FlatBuffer: {error}")
        return field
    field.fields = tuple(
        FieldValue(
            slot.name,
            slot.name.replace("_", " "),
            at + offset,
            size,
            raw[offset : offset + size],
            value,
            "not sent" if not size and slot.kind != "string" else annotation.name_of(slot.name, value) if isinstance(value, int) else None,
            depth=depth + 1,
        )
        for slot, value, offset, size in table
    )
    return field


def _inflate(annotation: Annotation, raw: bytes, at: int, path: str, datatype: int) -> bytes | None:
    """Returns the value without snappy; None if it was not compressed or cannot be decompressed."""
    if not datatype & datatypes.SNAPPY or not raw:
        return None
    try:
        return decode_snappy(raw)
    except SnappyError as error:
        if not annotation.context.underlying_datatype:
            annotation.problem("bad-snappy", "error", path, at, f"value {error}")
        return None


def _datatype(annotation: Annotation) -> int:
    return annotation.message.header.datatype if annotation.message.header is not None else 0


def document(annotation: Annotation, spec: Field, at: int, raw: bytes, depth: int, path: str, own_datatype: int | None) -> FieldValue:
    """Returns a document as its datatype says: xattrs, compressed or not, JSON; ``own_datatype``: given if its record has one."""
    is_value = own_datatype is None
    datatype = _datatype(annotation) if own_datatype is None else own_datatype
    field = FieldValue(spec.name, spec.title, at, len(raw), raw, depth=depth, spec=spec)
    parts: list[FieldValue] = []
    meanings: list[str] = []
    content = raw
    nmeta = next((item.value for item in annotation.message.fields if item.name in ("nmeta", "metadata_size")), 0)
    if isinstance(nmeta, int) and nmeta > len(raw):
        reason = f"extended metadata of {nmeta} bytes exceeds the value of {len(raw)}"
        annotation.problem("length-mismatch", "error", path, at, reason)
    elif isinstance(nmeta, int) and nmeta:
        # 3.x to 6.6 with enable_ext_metadata, and mutate with meta: the end is no part of the document.
        content = raw[: len(raw) - nmeta]
        parts.append(
            FieldValue(
                "extended_metadata",
                "extended metadata",
                at + len(content),
                nmeta,
                raw[len(content) :],
                text_or_bytes(raw[len(content) :]),
                depth=depth + 1,
            )
        )
    inflated = _inflate(annotation, content, at, path, datatype)
    is_inflated = inflated is not None
    failed = bool(datatype & datatypes.SNAPPY and content and not is_inflated)
    if failed and not annotation.context.underlying_datatype:
        datatype = 0
    if inflated is not None:
        content = inflated
        meanings.append(f"snappy, {len(content)} bytes inflated")
    base = 0 if is_inflated else at
    body, body_at = content, 0
    pairs: tuple[tuple[bytes, bytes], ...] = ()
    if datatype & datatypes.XATTR and content:
        section = decode_xattrs(content)
        if section.problem is not None and not annotation.context.underlying_datatype:
            where, inside = _place(at, section.problem_offset, is_inflated)
            annotation.problem("bad-xattr-section", "error", path, where, f"xattr section: {section.problem}{inside}")
        pairs = tuple((pair.key, pair.value) for pair in section.pairs)
        body_at = section.body_offset
        body = content[body_at:]
        parts.insert(0, _xattr_field(content, base, body_at, section.pairs, depth + 1, is_inflated))
        meanings.append(f"{len(pairs)} xattr{'s' if len(pairs) != 1 else ''}")
    encoding = _body_encoding(annotation, body, bool(datatype & datatypes.JSON), (at, body_at, is_inflated), path)
    if body and (pairs or is_inflated):
        parts.append(
            FieldValue(
                "body", "body", base + body_at, len(body), body, text_or_bytes(body), encoding, depth=depth + 1, inflated=is_inflated
            )
        )
    if body:
        meanings.append(encoding)
    is_said = datatype & datatypes.JSON and not annotation.context.underlying_datatype
    if spec.bodyless and (body or is_said):
        where, inside = _place(at, body_at, is_inflated)
        what = f"carries a {len(body)}-byte body{inside}" if body else "has the datatype JSON, but no body"
        annotation.problem("deletion-with-body", "warning", path, where, f"{annotation.message.name} {what}")
    if is_value:
        annotation.message.value = Value(encoding, len(raw), body, len(content) if is_inflated else None, pairs)
    field.value = text_or_bytes(raw) if not is_inflated and not pairs and encoding != "binary" else None
    field.meaning = ", ".join(meanings) or None
    field.fields = tuple(parts)
    return field


def _xattr_field(content: bytes, base: int, end: int, pairs: Sequence[Xattr], depth: int, inflated: bool) -> FieldValue:
    inner = []
    for pair in pairs:
        name = text_or_bytes(pair.key)
        inner.append(
            FieldValue(
                name if isinstance(name, str) else "xattr",
                "xattr",
                base + pair.offset,
                pair.size,
                content[pair.offset : pair.offset + pair.size],
                text_or_bytes(pair.value),
                None,
                depth=depth + 1,
                inflated=inflated,
            )
        )
    return FieldValue(
        "xattrs", "xattrs", base, end, content[:end], None, f"{len(inner)} pairs", tuple(inner), depth=depth, inflated=inflated
    )


def _body_encoding(annotation: Annotation, body: bytes, is_json: bool, place: tuple[int, int, bool], path: str) -> Encoding:
    if is_json and body:
        error = json_error(body)
        if error is None:
            return "json"
        if not annotation.context.underlying_datatype and not is_json_text(body):
            at, body_at, is_inflated = place
            where, inside = _place(at, body_at + error[0], is_inflated)
            annotation.problem("json-bit-not-json", "warning", path, where, f"marked JSON, but {error[1]} at byte {error[0]}{inside}")
    return "text" if isinstance(text_or_bytes(body), str) else "binary"


def plain_value(annotation: Annotation, spec: Field, at: int, raw: bytes, depth: int, path: str) -> FieldValue:
    """Returns a value that is text, JSON or bytes by its command, whatever the datatype says besides snappy."""
    datatype = _datatype(annotation)
    inflated = _inflate(annotation, raw, at, path, datatype)
    body = raw if inflated is None else inflated
    encoding: Encoding = "binary"
    if spec.kind is not Kind.BYTES:
        encoding = "text" if isinstance(text_or_bytes(body), str) else "binary"
    expects_json = spec.kind is Kind.JSON or (spec.kind is Kind.ERROR and body[:1] == b"{")
    if expects_json:
        error = json_error(body)
        if error is None:
            encoding = "json"
            if spec.stream_id and (stream_id := stream_id_in(body, spec.stream_id)) is not None:
                annotation.message.sid = stream_id
        elif not is_json_text(body):
            where, inside = _place(at, error[0], inflated is not None)
            annotation.problem("json-bit-not-json", "warning", path, where, f"should be JSON, but {error[1]} at byte {error[0]}{inside}")
    elif datatype & datatypes.JSON and json_error(body) is None:
        encoding = "json"
    is_unread = annotation.secrecy is Secrecy.DESCRIBED and bool(datatype & datatypes.SNAPPY) and inflated is None
    if is_unread or annotation.names_credentials(body):
        return annotation.hidden(spec, at, len(raw), depth, is_value=True)
    annotation.message.value = Value(encoding, len(raw), body, None if inflated is None else len(body))
    meaning = None if inflated is None else f"snappy, {len(body)} bytes inflated"
    value = text_or_bytes(body) if encoding != "binary" else body
    return FieldValue(spec.name, spec.title, at, len(raw), raw, value, meaning, depth=depth, spec=spec)
