"""The 24 bytes that every message begins with.

Source: kv_engine ``docs/BinaryProtocol.md``. Bytes 2-3 are one key length, or with flex framing a
framing-extras length and a key length; bytes 6-7 are a vbucket in requests and a status in
responses.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.datatype import DATATYPE_BITS
from dcpinspect.protocol.fields import Field, FieldKind, MessageSide

HEADER_SIZE = 24

MIB = 1 << 20
MAX_BODY = 30 * MIB
"""Servers refuse a whole frame above 30 MiB (default max_packet_size), so a longer body is lost
sync or a hostile length.
"""


class Magic(IntEnum):
    """First byte of a message."""

    REQUEST = 0x80
    RESPONSE = 0x81
    FLEX_REQUEST = 0x08
    FLEX_RESPONSE = 0x18
    SERVER_REQUEST = 0x82
    SERVER_RESPONSE = 0x83


MAGIC_DOCS = {
    Magic.REQUEST: "request",
    Magic.RESPONSE: "response",
    Magic.FLEX_REQUEST: "request, flex framing",
    Magic.FLEX_RESPONSE: "response, flex framing",
    Magic.SERVER_REQUEST: "request of the server",
    Magic.SERVER_RESPONSE: "response to the server",
}

_STRUCT = Struct(">BBHBBHIIQ")


@dataclass(frozen=True, slots=True)
class Header:
    """The numbers of a header; lengths as the sender declared them."""

    magic: int
    opcode: int
    framing_size: int
    """Declared bytes of framing extras; 0 without flex framing."""
    key_size: int
    extras_size: int
    datatype: int
    specific: int
    """Bytes 6-7: vbucket of a request, status of a response."""
    body_size: int
    opaque: int
    cas: int

    @property
    def is_flex(self) -> bool:
        """Whether bytes 2-3 hold two lengths."""
        return self.magic in (Magic.FLEX_REQUEST, Magic.FLEX_RESPONSE)

    @property
    def is_server(self) -> bool:
        """Whether the opcode is one of the server's own table."""
        return self.magic in (Magic.SERVER_REQUEST, Magic.SERVER_RESPONSE)

    @property
    def side(self) -> MessageSide:
        """Request or response; an unknown magic counts as a request."""
        if self.magic in (Magic.RESPONSE, Magic.FLEX_RESPONSE, Magic.SERVER_RESPONSE):
            return "response"
        return "request"

    @property
    def size(self) -> int:
        """Size of the whole message in bytes."""
        return HEADER_SIZE + self.body_size

    @property
    def value_size(self) -> int:
        """Bytes left for the value; negative if the declared lengths contradict each other."""
        return self.body_size - self.framing_size - self.extras_size - self.key_size


def decode_header(data: bytes | memoryview) -> Header:
    """Returns the header at the start of ``data``.

    Raises ``struct.error`` if there are fewer than 24 bytes.
    """
    magic, opcode, key_size, extras_size, datatype, specific, body_size, opaque, cas = (
        _STRUCT.unpack_from(data)
    )
    framing_size = 0
    if magic in (Magic.FLEX_REQUEST, Magic.FLEX_RESPONSE):
        framing_size, key_size = key_size >> 8, key_size & 0xFF
    return Header(
        magic,
        opcode,
        framing_size,
        key_size,
        extras_size,
        datatype,
        specific,
        body_size,
        opaque,
        cas,
    )


def encode_header(header: Header) -> bytes:
    """Returns the 24 bytes of a header; the way back from ``decode_header``."""
    key_size = header.framing_size << 8 | header.key_size if header.is_flex else header.key_size
    return _STRUCT.pack(
        header.magic,
        header.opcode,
        key_size,
        header.extras_size,
        header.datatype,
        header.specific,
        header.body_size,
        header.opaque,
        header.cas,
    )


def header_fields(magic: int) -> tuple[Field, ...]:
    """Returns the rows of a field table for a message's header with this magic byte."""
    return _FIELDS[magic in (Magic.FLEX_REQUEST, Magic.FLEX_RESPONSE)][
        magic in (Magic.RESPONSE, Magic.FLEX_RESPONSE, Magic.SERVER_RESPONSE)
    ]


_START = (
    Field(
        "magic",
        0,
        FieldKind.U8,
        "what the message is",
        "Magic",
        values={int(magic): doc for magic, doc in MAGIC_DOCS.items()},
    ),
    Field("opcode", 1, FieldKind.COMMAND, "command; the magic chooses the table", "Opcode"),
)
_CLASSIC = (Field("key_length", 2, FieldKind.U16, "bytes of the key", "Key length"),)
_FLEX = (
    Field(
        "framing_extras_length",
        2,
        FieldKind.U8,
        "bytes of framing extras, before the extras",
        "Framing length",
    ),
    Field("key_length", 3, FieldKind.U8, "bytes of the key", "Key length"),
)
_MIDDLE = (
    Field("extras_length", 4, FieldKind.U8, "bytes of the extras", "Extra length"),
    Field(
        "datatype",
        5,
        FieldKind.U8,
        "what the value is wrapped in",
        "Data type",
        flags=DATATYPE_BITS,
    ),
)
_REQUEST = (Field("vbucket", 6, FieldKind.U16, "vbucket of the message", "Vbucket"),)
_RESPONSE = (
    Field(
        "status", 6, FieldKind.STATUS, "outcome; a response does not repeat the vbucket", "Status"
    ),
)
_END = (
    Field(
        "total_body_length",
        8,
        FieldKind.U32,
        "bytes after the header: framing extras, extras, key, value",
        "Total body",
    ),
    Field(
        "opaque",
        12,
        FieldKind.OPAQUE,
        "four bytes that a response copies from its request",
        "Opaque",
    ),
    Field("cas", 16, FieldKind.CAS, "version of the document, a hybrid logical clock", "CAS"),
)
_FIELDS = tuple(
    tuple((*_START, *length, *_MIDDLE, *specific, *_END) for specific in (_REQUEST, _RESPONSE))
    for length in (_CLASSIC, _FLEX)
)
