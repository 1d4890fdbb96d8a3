"""The value of a message: documents with xattrs, compressed or not; text, JSON, FlatBuffers."""

from __future__ import annotations

from collections.abc import Sequence

from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.annotation import Annotation
from dcpinspect.protocol.fields import Field, FieldKind
from dcpinspect.protocol.flatbuffer import FlatBufferError, decode_table
from dcpinspect.protocol.meanings import is_json_text, json_error, stream_id_in, text_or_bytes
from dcpinspect.protocol.message import Encoding, FieldValue, Severity, Value
from dcpinspect.protocol.secrecy import Secrecy
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.protocol.xattr import Xattr, XattrSection, decode_xattrs

Unwrapped = tuple[bytes, XattrSection | None, bytes, bool, Sequence[tuple[str, Severity, int, str]]]
"""A value without snappy; the xattrs that it begins with, if any; the body behind them; whether it
must be JSON and is. And what is wrong: rule, severity, byte of the value without snappy, and why. A
plain tuple, since many documents are judged: a class costs a tenth more.
"""


def unwrap(raw: bytes, datatype: int, spec: Field, *, is_underlying: bool = False) -> Unwrapped:
    """Undoes what a value is wrapped in, and judges it: a document by its datatype; text, JSON and
    bytes by the command, but for snappy.

    ``is_underlying``: the datatype is that of a document that was left out, so nothing is wrong if
    it does not fit. Nor is it with zeros alone, which ``-w --redact`` leaves of a value.
    """
    is_underlying = is_underlying or (bool(raw) and not raw.strip(b"\0"))
    faults: list[tuple[str, Severity, int, str]] = []
    content, section, is_document, is_known = raw, None, spec.kind is _DOCUMENT, True
    if datatype & datatypes.SNAPPY and raw:
        try:
            content = decode_snappy(raw)
        except SnappyError as error:
            faults.append(("bad-snappy", "error", 0, f"value {error}"))
            is_known = is_underlying  # nobody knows what it is instead
    body = content
    if is_document:
        must_be_json = is_known and datatype & datatypes.JSON != 0
        if is_known and datatype & datatypes.XATTR and content:
            section = decode_xattrs(content)
            body = content[section.body_offset :]
            if section.problem is not None:
                problem_text = f"xattr section: {section.problem}"
                faults.append(("bad-xattr-section", "error", section.problem_offset, problem_text))
    else:
        must_be_json = is_known and (
            spec.kind is FieldKind.JSON or (spec.kind is FieldKind.ERROR and body[:1] == b"{")
        )
    is_json = False
    if must_be_json and body:
        flaw = json_error(body)
        is_json = flaw is None
        if flaw is not None and not is_json_text(body):
            expectation = "marked" if is_document else "should be"
            problem_offset = len(content) - len(body) + flaw[0]
            problem_text = f"{expectation} JSON, but {flaw[1]} at byte {flaw[0]}"
            severity: Severity = "note" if spec.kind is FieldKind.ERROR else "warning"
            faults.append(("json-bit-not-json", severity, problem_offset, problem_text))
    if spec.bodyless and (body or must_be_json):
        problem_text = (
            f"carries a {len(body)}-byte body" if body else "has the datatype JSON, but no body"
        )
        faults.append(("deletion-with-body", "warning", len(content) - len(body), problem_text))
    return content, section, body, is_json, () if is_underlying else faults


_DOCUMENT = FieldKind.DOCUMENT


def _unwrapped(
    annotation: Annotation, spec: Field, at: int, raw: bytes, path: str, datatype: int
) -> Unwrapped:
    """Returns the value that begins at ``at``, and tells what is wrong with it."""
    unwrapped = unwrap(raw, datatype, spec, is_underlying=annotation.context.underlying_datatype)
    for rule, severity, offset, reason in unwrapped[-1]:
        # an inflated value has no bytes of its own on the wire
        wire_offset, inside = (
            (at + offset, "")
            if unwrapped[0] is raw
            else (at, f" (byte {offset} of the inflated value)")
        )
        name = f"{annotation.message.name} " if rule == "deletion-with-body" else ""
        annotation.problem(rule, path, wire_offset, f"{name}{reason}{inside}", severity)
    return unwrapped


def flatbuffer(
    annotation: Annotation, spec: Field, at: int, raw: bytes, depth: int, path: str
) -> FieldValue:
    """Returns a field with the slots of a FlatBuffer table nested in it."""
    field = FieldValue.of(spec, at, len(raw), raw, None, spec.doc, depth=depth)
    try:
        table = decode_table(raw, spec.slots)
    except FlatBufferError as error:
        annotation.problem("system-event-length", path, at, f"FlatBuffer: {error}")
        return field
    field.fields = tuple(
        field.part(
            slot.name,
            offset,
            offset + size,
            value,
            "not sent"
            if not size and slot.kind != "string"
            else annotation.name_of(slot.name, value)
            if isinstance(value, int)
            else None,
        )
        for slot, value, offset, size in table
    )
    return field


def _datatype(annotation: Annotation) -> int:
    return annotation.message.header.datatype if annotation.message.header is not None else 0


def document(
    annotation: Annotation,
    spec: Field,
    at: int,
    raw: bytes,
    depth: int,
    path: str,
    own_datatype: int | None,
) -> FieldValue:
    """Returns a document as its datatype says: xattrs, compressed or not, JSON; ``own_datatype``:
    given if its record has one.
    """
    is_value = own_datatype is None
    datatype = _datatype(annotation) if own_datatype is None else own_datatype
    field = FieldValue.of(spec, at, len(raw), raw, depth=depth)
    meanings: list[str] = []
    wrapped = raw[: len(raw) - _metadata_size(annotation, len(raw), path, at)]
    inner_fields: list[FieldValue] = []
    if len(wrapped) < len(raw):
        metadata = text_or_bytes(raw[len(wrapped) :])
        inner_fields.append(field.part("extended_metadata", len(wrapped), len(raw), metadata))
    content, section, body, is_json, _ = _unwrapped(annotation, spec, at, wrapped, path, datatype)
    is_inflated = content is not wrapped
    if is_inflated:
        meanings.append(f"snappy, {len(content)} bytes inflated")
    unwrapped = (
        FieldValue("value", "value", 0, len(content), content, depth=depth, inflated=True)
        if is_inflated
        else field
    )
    body_at = len(content) - len(body)
    pairs: tuple[tuple[bytes, bytes], ...] = ()
    if section is not None:
        pairs = tuple((pair.key, pair.value) for pair in section.pairs)
        inner_fields.insert(0, _xattr_field(unwrapped, body_at, section.pairs))
        meanings.append(f"{len(pairs)} xattr{'s' if len(pairs) != 1 else ''}")
    encoding: Encoding = (
        "json" if is_json else "text" if isinstance(text_or_bytes(body), str) else "binary"
    )
    if body and (pairs or is_inflated):
        value = text_or_bytes(body)
        inner_fields.append(unwrapped.part("body", body_at, len(content), value, encoding))
    if body:
        meanings.append(encoding)
    if is_value:
        annotation.message.value = Value(
            encoding, len(raw), body, len(content) if is_inflated else None, pairs
        )
    field.value = (
        text_or_bytes(raw) if not is_inflated and not pairs and encoding != "binary" else None
    )
    field.meaning = ", ".join(meanings) or None
    field.fields = tuple(inner_fields)
    return field


def _metadata_size(annotation: Annotation, size: int, path: str, at: int) -> int:
    """Returns how many bytes at the end of a value are no part of the document: extended metadata,
    of 3.x to 6.6 with enable_ext_metadata, and of mutate with meta.
    """
    fields = annotation.message.fields
    nmeta = next((item.value for item in fields if item.name in ("nmeta", "metadata_size")), 0)
    if not isinstance(nmeta, int):
        return 0
    if nmeta > size:
        reason = f"extended metadata of {nmeta} bytes exceeds the value of {size}"
        annotation.problem("length-mismatch", path, at, reason)
        return 0
    return nmeta


def _xattr_field(unwrapped: FieldValue, end: int, pairs: Sequence[Xattr]) -> FieldValue:
    xattrs = unwrapped.part("xattrs", 0, end, None, f"{len(pairs)} pairs")
    inner = []
    for pair in pairs:
        name, stop = text_or_bytes(pair.key), pair.offset + pair.size
        name = name if isinstance(name, str) else "xattr"
        value = text_or_bytes(pair.value)
        inner.append(xattrs.part(name, pair.offset, stop, value, label="xattr"))
    xattrs.fields = tuple(inner)
    return xattrs


def plain_value(
    annotation: Annotation, spec: Field, at: int, raw: bytes, depth: int, path: str
) -> FieldValue:
    """Returns a value that is text, JSON or bytes by its command, whatever its datatype says."""
    datatype = _datatype(annotation)
    body, _, _, is_json, _ = _unwrapped(annotation, spec, at, raw, path, datatype)
    is_inflated = body is not raw
    is_text = spec.kind is not FieldKind.BYTES and isinstance(text_or_bytes(body), str)
    encoding: Encoding = "text" if is_text else "binary"
    if is_json:
        if spec.stream_id and (stream_id := stream_id_in(body, spec.stream_id)) is not None:
            annotation.message.sid = stream_id
        encoding = "json"
    elif datatype & datatypes.JSON and json_error(body) is None:
        encoding = "json"
    is_unread = (
        annotation.secrecy is Secrecy.DESCRIBED
        and bool(datatype & datatypes.SNAPPY)
        and not is_inflated
    )
    if is_unread or annotation.names_credentials(body):
        return annotation.hidden(spec, at, len(raw), depth, is_value=True)
    annotation.message.value = Value(encoding, len(raw), body, len(body) if is_inflated else None)
    meaning = f"snappy, {len(body)} bytes inflated" if is_inflated else None
    value = text_or_bytes(body) if encoding != "binary" else body
    return FieldValue.of(spec, at, len(raw), raw, value, meaning, depth=depth)
