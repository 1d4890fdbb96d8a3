"""The 24 bytes that every message begins with.

Source: kv_engine ``docs/BinaryProtocol.md``. Bytes 2-3 are one key length, or with flex framing a
framing-extras length and a key length; bytes 6-7 are a vbucket in requests and a status in
responses.
"""

from __future__ import annotations

from dataclasses import astuple
from enum import IntEnum
from functools import cache
from struct import Struct

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.datatype import DATATYPE_BITS
from dcpinspect.protocol.fields import Field, MessageSide

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
    magic, opcode, key_size, *numbers = _STRUCT.unpack_from(data)
    framing_size = 0
    if magic in (Magic.FLEX_REQUEST, Magic.FLEX_RESPONSE):
        framing_size, key_size = key_size >> 8, key_size & 0xFF
    return Header(magic, opcode, framing_size, key_size, *numbers)


def encode_header(header: Header) -> bytes:
    """Returns the 24 bytes of a header; the way back from ``decode_header``."""
    magic, opcode, framing_size, key_size, *numbers = astuple(header)
    return _STRUCT.pack(
        magic, opcode, framing_size << 8 | key_size if header.is_flex else key_size, *numbers
    )


@cache
def header_fields(magic: int) -> tuple[Field, ...]:
    """Returns the rows of a field table for a message's header with this magic byte."""
    from dcpinspect.protocol.layout_text import fields  # deferred: most readers have no table

    is_flex = magic in (Magic.FLEX_REQUEST, Magic.FLEX_RESPONSE)
    is_response = magic in (Magic.RESPONSE, Magic.FLEX_RESPONSE, Magic.SERVER_RESPONSE)
    members = {
        "magics": {"values": {int(magic): doc for magic, doc in MAGIC_DOCS.items()}},
        "bits": {"flags": DATATYPE_BITS},
    }
    lengths, specific = _FLEX if is_flex else _CLASSIC, _RESPONSE if is_response else _REQUEST
    return fields("\n".join((_START, lengths, _MIDDLE, specific, _END)), members)


_START = """
magic u8 (Magic) &magics: what the message is
opcode command (Opcode): command; the magic chooses the table"""
_CLASSIC = "key_length u16 (Key length): bytes of the key"
_FLEX = """
framing_extras_length u8 (Framing length): bytes of framing extras, before the extras
key_length u8 (Key length): bytes of the key"""
_MIDDLE = """
extras_length u8 (Extra length): bytes of the extras
datatype u8 (Data type) &bits: what the value is wrapped in"""
_REQUEST = "vbucket u16 (Vbucket): vbucket of the message"
_RESPONSE = "status status (Status): outcome; a response does not repeat the vbucket"
_END = """
total_body_length u32 (Total body): bytes after the header: framing extras, extras, key, value
opaque opaque (Opaque): four bytes that a response copies from its request
cas cas (CAS): version of the document, a hybrid logical clock"""
