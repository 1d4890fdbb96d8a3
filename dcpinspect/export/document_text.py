"""Documents with xattrs as JSON text, without the objects in between: a tenth of the messages of many captures have xattrs."""

from __future__ import annotations

import orjson

from dcpinspect.export.json import steered
from dcpinspect.protocol.datatype import JSON, SNAPPY
from dcpinspect.protocol.fields import Field
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.protocol.xattr import decode_xattrs


def document_text(spec: Field, raw: bytes, datatype: int, at: int, *, fields: bool) -> tuple[bytes, bytes] | None:
    """(field, object) of a document with xattrs, as ``field_object`` and ``value_object`` write it; None for what is not plain.

    Written out by hand: a tenth of the messages of many captures have xattrs, and this takes a third of the time.
    """
    content, compressed = raw, bool(datatype & SNAPPY)
    try:
        if compressed:
            content = decode_snappy(raw)
        section = decode_xattrs(content)
        body = content[section.body_offset :]
        names = [pair.key.decode() for pair in section.pairs]
        text = body.decode()
    except (SnappyError, UnicodeDecodeError):
        return None
    is_json = bool(datatype & JSON and body)
    if section.problem is not None or not names or (body and spec.bodyless) or (is_json and not _is_json(body)):
        return None
    if not all(_is_json(pair.value) for pair in section.pairs):
        return None
    encoding = b"json" if is_json else b"text"
    inflated = b',"inflated_size":%d' % len(content) if compressed else b""
    xattrs = b",".join(orjson.dumps(name) + b":" + _one_line(pair.value) for name, pair in zip(names, section.pairs, strict=True))
    written = b'{"encoding":"%b","compressed":%b,"size":%d%b,"xattrs":{%b},"%b":%b}' % (
        *(encoding, b'"snappy"' if compressed else b"null", len(raw), inflated),
        *(xattrs, encoding, _one_line(body) if is_json else orjson.dumps(text)),
    )
    if not fields:
        return b"", steered(written)
    base, mark = (0, b',"inflated":true') if compressed else (at, b"")
    pairs = b",".join(
        b'{"name":%b,"label":"xattr","offset":%d,"size":%d,"hex":"%b","value":%b,"meaning":null%b}'
        % (
            *(orjson.dumps(name), base + pair.offset, pair.size, content[pair.offset : pair.offset + pair.size].hex().encode()),
            *(orjson.dumps(pair.value.decode()), mark),
        )
        for name, pair in zip(names, section.pairs, strict=True)
    )
    end = section.body_offset
    inner = b'{"name":"xattrs","label":"xattrs","offset":%d,"size":%d,"hex":"%b","value":null,"meaning":"%d pairs","fields":[%b]%b}' % (
        *(base, end, content[:end].hex().encode(), len(names), pairs, mark),
    )
    if body:
        inner += b',{"name":"body","label":"body","offset":%d,"size":%d,"hex":"%b","value":%b,"meaning":"%b"%b}' % (
            *(base + end, len(body), body.hex().encode(), orjson.dumps(text), encoding, mark),
        )
    meanings = [f"snappy, {len(content)} bytes inflated"] if compressed else []
    meanings += [f"{len(names)} xattr{'s' if len(names) != 1 else ''}", *([encoding.decode()] if body else [])]
    field = b'{"name":"%b","label":"%b","offset":%d,"size":%d,"hex":"%b","value":null,"meaning":"%b","fields":[%b]}' % (
        *(spec.name.encode(), spec.title.encode(), at, len(raw), raw.hex().encode(), ", ".join(meanings).encode(), inner),
    )
    return steered(field), steered(written)


def _one_line(text: bytes) -> bytes:
    """JSON as it is, on one line."""
    return text.replace(b"\n", b" ").replace(b"\r", b" ")


def _is_json(text: memoryview | bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
