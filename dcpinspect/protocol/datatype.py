"""The datatype byte: what the value is wrapped in.

The bits describe the value as sent. Undo them in this order: snappy around everything, then the
xattr section, then the body, to which the JSON bit applies.
"""

from dcpinspect.protocol.fields import Bit, bit_names

JSON = 0x01
SNAPPY = 0x02
XATTR = 0x04

DATATYPE_BITS = (
    Bit(JSON, "json", "the document body is JSON"),
    Bit(SNAPPY, "snappy", "the whole value, xattrs included, is snappy-compressed"),
    Bit(XATTR, "xattr", "the value starts with an xattr section"),
)

UNDEFINED = 0xF8
"""Bits that no server accepts."""

DATATYPE_NAMES = tuple(tuple(bit_names(DATATYPE_BITS, value)) for value in range(256))
"""Names of the bits of each possible byte."""
