"""Headers of many messages, each read once: what they say, and where the sections are."""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import Array, BoolArray, ByteArray, IntArray
from dcpinspect.kernels.kernel import be16, be32, kernel, kernel_function
from dcpinspect.protocol.column_types import RowNumbers, Slices
from dcpinspect.protocol.datatype import UNDEFINED
from dcpinspect.protocol.flex import STREAM_ID
from dcpinspect.protocol.header import HEADER_SIZE, MAX_BODY, Header, Magic
from dcpinspect.protocol.opcodes import Opcode

_MAGICS = tuple(map(int, Magic))
_, _RESPONSE, _FLEX_REQUEST, _FLEX_RESPONSE, _SERVER_REQUEST, _SERVER_RESPONSE = _MAGICS
_DELETION, _EXPIRATION = int(Opcode.DCP_DELETION), int(Opcode.DCP_EXPIRATION)
_STREAM_ID, _STREAM_ID_SIZE = STREAM_ID << 4 | 2, 3
"""Framing extras that hold a stream-id and nothing else: this byte and the number."""

BAD_MAGIC = 1
LENGTH_MISMATCH = 2
UNDEFINED_DATATYPE = 4
OVERSIZED_BODY = 8
UNDECLARED_STREAM_ID = 16
HEADER_RULES = {
    BAD_MAGIC: "bad-magic",
    LENGTH_MISMATCH: "length-mismatch",
    UNDEFINED_DATATYPE: "undefined-datatype",
    OVERSIZED_BODY: "oversized-body",
    UNDECLARED_STREAM_ID: "undeclared-stream-id",
}
"""The bit of each rule that a header alone may break, in order of precedence."""

# Columns of 64 bits, then of 8.
(
    _EXTRAS_SIZE, _SPECIFIC, _BODY_SIZE, _OPAQUE, _FRAMING_SIZE, _EXTRAS_AT, _KEY_AT, _KEY_SIZE, _VALUE_AT, _VALUE_SIZE, _KIND, _WIDE,
) = range(12)  # fmt: skip
_MAGIC, _OPCODE, _DATATYPE, _IS_RESPONSE, _IS_SERVER, _HAS_MAGIC, _IS_DIVIDED, _FAULTS, _NARROW = (
    range(9)
)


class HeaderColumns:
    """Columns of the messages that begin at ``start``, with one entry for each message; ``data``
    holds all of each.
    """

    def __init__(self, data: ByteArray, start: RowNumbers) -> None:
        wide = np.empty((_WIDE, len(start)), np.int64)
        narrow = np.empty((_NARROW, len(start)), np.uint8)
        faulty = int(read_headers(data, np.ascontiguousarray(start, np.int64), wide, narrow))
        flags = narrow.view(np.bool_)
        self.magic: ByteArray = narrow[_MAGIC]
        self.opcode: ByteArray = narrow[_OPCODE]
        self.datatype: ByteArray = narrow[_DATATYPE]
        self.is_response: BoolArray = flags[_IS_RESPONSE]
        self.is_server: BoolArray = flags[_IS_SERVER]
        self.has_magic: BoolArray = flags[_HAS_MAGIC]
        """Whether the first byte is a magic; if not, it starts no message."""
        self.is_divided: BoolArray = flags[_IS_DIVIDED]
        """Whether there are sections; if not, the lengths contradict each other."""
        self.header_faults: ByteArray = narrow[_FAULTS]
        """The bits of the rules that the header breaks."""
        self.extras_size: RowNumbers = wide[_EXTRAS_SIZE]
        self.specific: Array = wide[_SPECIFIC].view(np.uint64)
        """Bytes 6-7: vbucket of a request, status of a response."""
        self.body_size: RowNumbers = wide[_BODY_SIZE]
        self.opaque: Array = wide[_OPAQUE].view(np.uint64)
        """The four opaque bytes, big-endian."""
        self.framing_size: RowNumbers = wide[_FRAMING_SIZE]
        """Bytes of framing extras, also if the header does not count them."""
        self.extras_at: RowNumbers = wide[_EXTRAS_AT]
        self.prefixed_key = Slices(wide[_KEY_AT], wide[_KEY_SIZE])
        """The key with its collection id; size -1 if it is empty."""
        self.value = Slices(wide[_VALUE_AT], wide[_VALUE_SIZE])
        self.kind: RowNumbers = wide[_KIND]
        """A number that is equal for messages of the same side, direction, command and extras
        length and, for responses, status.
        """
        self.is_sound = not faulty
        """Whether no header breaks a rule."""


@kernel_function
def header_faults(
    magic: int,
    opcode: int,
    framing: int,
    extras: int,
    key: int,
    datatype: int,
    body: int,
    first: int,
) -> int:
    """Returns the bits of the rules that a header breaks, by its numbers and lengths, and the first
    byte of the body.

    Servers leave a stream-id out of byte 2 in deletions v2 and expirations on streams with an id:
    from 8.0 on, and from 6.5 to 7.6 if the message did not fit the write buffer. Read literally
    they have a seqno of 0x22….
    """
    if magic not in _MAGICS:
        return BAD_MAGIC  # nothing else counts
    faults = LENGTH_MISMATCH if framing + extras + key > body else 0
    if datatype & UNDEFINED:
        faults |= UNDEFINED_DATATYPE
    if body > MAX_BODY:
        faults |= OVERSIZED_BODY
    may_lack = (opcode == _DELETION and extras == 21) or (opcode == _EXPIRATION and extras == 20)
    if (
        may_lack
        and magic == _FLEX_REQUEST
        and framing == 0
        and first == _STREAM_ID
        and body >= _STREAM_ID_SIZE + extras + key
    ):
        faults |= UNDECLARED_STREAM_ID
    return faults


def faults_of(header: Header, body: bytes) -> int:
    """Returns the bits of the rules that a header breaks; ``body``: what follows it."""
    lengths = header.framing_size, header.extras_size, header.key_size
    return header_faults(
        header.magic,
        header.opcode,
        *lengths,
        header.datatype,
        header.body_size,
        body[0] if body else 0,
    )


@kernel("int64(octets, int64[::1], int64[:,::1], uint8[:,::1])")
def read_headers(data: ByteArray, start: IntArray, wide: IntArray, narrow: ByteArray) -> int:
    """Fills both tables; returns how many messages have a fault. One step for each message."""
    faulty = 0
    for i in range(len(start)):
        header = start[i]
        magic = int(data[header])
        opcode = int(data[header + 1])
        extras_size = int(data[header + 4])
        datatype = int(data[header + 5])
        key_size = be16(data, header + 2)
        specific = be16(data, header + 6)
        body_size = be32(data, header + 8)
        is_response = magic in (_RESPONSE, _FLEX_RESPONSE, _SERVER_RESPONSE)
        is_server = magic in (_SERVER_REQUEST, _SERVER_RESPONSE)
        framing_size = 0
        if magic in (_FLEX_REQUEST, _FLEX_RESPONSE):
            framing_size, key_size = key_size >> 8, key_size & 0xFF
        # of another message, or none, if there is no body
        first = data[min(header + HEADER_SIZE, len(data) - 1)]
        faults = header_faults(
            magic, opcode, framing_size, extras_size, key_size, datatype, body_size, first
        )
        if faults & UNDECLARED_STREAM_ID:
            framing_size = _STREAM_ID_SIZE
        is_divided = faults & (BAD_MAGIC | LENGTH_MISMATCH) == 0
        extras_at = header + HEADER_SIZE + framing_size
        if faults:
            faulty += 1
        narrow[_MAGIC, i] = magic
        narrow[_OPCODE, i] = opcode
        narrow[_DATATYPE, i] = datatype
        narrow[_IS_RESPONSE, i] = 1 if is_response else 0
        narrow[_IS_SERVER, i] = 1 if is_server else 0
        narrow[_HAS_MAGIC, i] = 0 if faults == BAD_MAGIC else 1
        narrow[_IS_DIVIDED, i] = 1 if is_divided else 0
        narrow[_FAULTS, i] = faults
        wide[_EXTRAS_SIZE, i] = extras_size
        wide[_SPECIFIC, i] = specific
        wide[_BODY_SIZE, i] = body_size
        wide[_OPAQUE, i] = be32(data, header + 12)
        wide[_FRAMING_SIZE, i] = framing_size
        wide[_EXTRAS_AT, i] = extras_at
        wide[_KEY_AT, i] = extras_at + extras_size
        wide[_KEY_SIZE, i] = key_size if is_divided and key_size > 0 else -1
        wide[_VALUE_AT, i] = extras_at + extras_size + key_size
        wide[_VALUE_SIZE, i] = (
            body_size - framing_size - extras_size - key_size if is_divided else 0
        )
        kind = (
            (extras_size << 16)
            | (opcode << 24)
            | ((1 if is_response else 0) << 32)
            | ((1 if is_server else 0) << 33)
        )
        wide[_KIND, i] = kind | specific if is_response else kind
    return faulty
