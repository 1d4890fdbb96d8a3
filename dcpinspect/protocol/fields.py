"""What layouts of messages are made of; ``layout_text`` reads the texts they are written in.

A ``Layout`` says how the body of one message in one generation is built; a ``Field`` says where a
value stands and what it means. Decoder, encoder, field tables, JSON keys, table columns,
``explain`` and the protocol page are all driven by these records, so adding a field is one line in
``layouts/``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Literal

from dcpinspect.lazy_dataclass import dataclass

MessageSide = Literal["request", "response"]


class FieldKind(Enum):
    """How bytes are read, and how their value is shown."""

    U8 = ("u8", 1)
    U16 = ("u16", 2)
    U32 = ("u32", 4)
    U64 = ("u64", 8)
    I64 = ("i64", 8)
    """Signed, two's complement."""
    SEQNO = ("seqno", 8)
    UUID = ("uuid", 8)
    """Shown as a 0x-string of 16 digits."""
    CAS = ("cas", 8)
    """Shown as a 0x-string of 16 digits; a hybrid logical clock, so it has a time."""
    TIME = ("time", 4)
    """Seconds since 1970, 0 = none."""
    ID = ("id", 4)
    """Collection or scope id, written in hexadecimal by everything that shows it."""
    OPAQUE = ("opaque", 4)
    STATUS = ("status", 2)
    BYTES = ("bytes", 0)
    TEXT = ("text", 0)
    """UTF-8 text without a collection prefix."""
    KEY = ("key", 0)
    """Document key: collection id (LEB128) and key if collections are on, else the key alone."""
    JSON = ("json", 0)
    DOCUMENT = ("document", 0)
    """A document as the datatype says: snappy around xattrs around a body."""
    ERROR = ("error", 0)
    """JSON error document of a refused request."""
    SECRET = ("secret", 0)
    """Credentials: never shown, only measured."""
    FLATBUFFER = ("flatbuffer", 0)
    FEATURE = ("feature", 2)
    COMMAND = ("command", 1)
    """An opcode inside a value."""

    def __init__(self, text: str, size: int) -> None:
        self.text = text
        self.size = size
        """Size in bytes; 0 if the message says how many."""


TextRedactor = Callable[[bytes, bytes, Callable[[bytes], bytes]], bytes]
"""Gets a text, the key of its message, and what replaces texts. Returns the text with replacements
for what is private in it.
"""


@dataclass(frozen=True, slots=True)
class Bit:
    """One bit of a flags field."""

    mask: int
    name: str
    doc: str


@dataclass(frozen=True, slots=True)
class Slot:
    """One field of a FlatBuffer table: its vtable slot decides where it stands."""

    slot: int
    name: str
    kind: Literal["u64", "u32", "bool", "string"]
    doc: str
    default: int = 0


@dataclass(frozen=True, slots=True)
class Field:
    """Where a value stands, how it is read and what it means."""

    name: str
    """JSON key and column name, snake case."""
    offset: int
    """Bytes from the start of its section or record; unused behind fields of variable size."""
    kind: FieldKind
    doc: str
    label: str = ""
    """The specification's own name; empty: ``name`` with blanks."""
    flags: tuple[Bit, ...] = ()
    values: Mapping[int, str] | None = None
    """Words for particular values."""
    first_generation: Mapping[int, int] | None = None
    """Numbers to which the first specification (UPR) gave another meaning -> the number that has
    this meaning since.
    """
    words: bool = False
    """Whether the JSON key of the message holds the word instead of the number."""
    size: int | str | None = None
    """For kinds without a size: a number, the name of the earlier field that gives it, or None for
    everything that is left.
    """
    default: int = 0
    """What a sender of this layout writes if nothing else is asked for."""
    alias: str = ""
    """Name of a second column that holds the same number."""
    reserved: bool = False
    """Whether it must be zero."""
    slots: tuple[Slot, ...] = ()
    """The slots of a FLATBUFFER's table."""
    stream_id: str = ""
    """For a JSON value: the key that holds the DCP stream-id."""
    bodyless: bool = False
    """Whether it is a DOCUMENT that may only hold xattrs."""
    private: bool | None = None
    """Whether it may hold what users store, who they are, or what they call things; None: if it is
    no number. For any peer can send any text in any place, and errors quote what they complain
    about.
    """
    shown: TextRedactor | None = None
    """For a private text: what of it are the protocol's own words, which name nothing, or None."""
    shown_members: tuple[str, ...] = ()
    """For a SECRET that is a JSON object: members that are shown all the same, if their values are
    numbers, texts or lists of them.
    """

    @property
    def is_private(self) -> bool:
        """Whether it may hold a key, a value, or a name."""
        return not self.kind.size if self.private is None else self.private

    @property
    def title(self) -> str:
        """The name that a field table prints."""
        return self.label or self.name.replace("_", " ")

    def word(self, value: int) -> str | None:
        """Returns the word for a value: of the enumeration, or the names of set bits."""
        if self.values is not None and value in self.values:
            return self.values[value]
        if self.flags:
            return ", ".join(bit_names(self.flags, value)) or None
        return f"unknown ({value})" if self.words else None


@dataclass(frozen=True, slots=True)
class RecordList:
    """A run of equal records that fills what is left of its section."""

    name: str
    fields: tuple[Field, ...]
    doc: str
    label: str = ""
    """The name of one record; records are numbered when shown."""

    @property
    def title(self) -> str:
        """The name that a field table prints."""
        return self.label or self.name.replace("_", " ")


LayoutItem = Field | RecordList

Check = Callable[[Mapping[str, int]], tuple[str, str] | None]
"""Gets numbers by field name; returns (field, reason) of what does not fit, or None."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the body of one message is built, in one generation."""

    opcode: int
    side: MessageSide
    generation: str
    spec: str
    """The page of the specification, and what differs from it."""
    extras: tuple[Field, ...] = ()
    key: Field | None = None
    value: tuple[LayoutItem, ...] = ()
    key_required: bool = True
    """Whether a message without the key is reported; meaningless if ``key`` is None."""
    value_required: bool = True
    status: tuple[int, ...] | Literal["success", "error", "any"] = "success"
    """Which responses have this body."""
    when: tuple[tuple[int, int, int], ...] = ()
    """(offset, size, number) of extras that must hold, where lengths alone do not choose."""
    check: Check | None = None
    """Looks at the numbers of the message and returns what contradicts itself."""
    server: bool = False
    """True for the opcode table of the magics 0x82 and 0x83."""
    legacy: bool = False
    """Whether it is an older generation, which gets a note when met."""
    columns: bool = True
    """The messages table has columns of its numbers; False: only of other layouts' numbers."""
    note: str = ""
    """What to say to somebody who meets this generation."""

    @property
    def extras_size(self) -> int:
        """Size of the extras in bytes."""
        return fixed_size(self.extras) or 0

    @property
    def value_size(self) -> int | None:
        """Size of the value in bytes if the layout fixes it, else None."""
        return fixed_size(self.value)

    def fits_extras(self, extras: bytes) -> bool:
        """Returns whether the extras have this layout's size and the numbers that it asks for."""
        return len(extras) == self.extras_size and all(
            int.from_bytes(extras[offset : offset + size], "big") == number
            for offset, size, number in self.when
        )

    def fits_value(self, value_size: int) -> bool:
        """Returns whether the length of the value allows this layout."""
        want = self.value_size
        if want is None:
            return True
        return value_size == want or (value_size == 0 and not self.value_required)


def fixed_size(items: tuple[LayoutItem, ...]) -> int | None:
    """Returns the size in bytes of a section if all its items have a size, else None."""
    total = 0
    for item in items:
        if isinstance(item, RecordList):
            return None
        size = item.kind.size or item.size
        if not isinstance(size, int):
            return None
        total += size
    return total


def bit_names(bits: tuple[Bit, ...], value: int) -> list[str]:
    """Returns the names of the bits that are set; unknown bits become one 0x-number each."""
    names = [bit.name for bit in bits if value & bit.mask]
    unknown = value & ~sum(bit.mask for bit in bits)
    while unknown:
        lowest = unknown & -unknown
        names.append(f"0x{lowest:02x}")
        unknown ^= lowest
    return names


def bits_value(bits: tuple[Bit, ...], names: list[str] | tuple[str, ...]) -> int:
    """Returns the number whose set bits have these names; the way back from ``bit_names``."""
    masks = {bit.name: bit.mask for bit in bits}
    value = 0
    for name in names:
        value |= masks[name] if name in masks else int(name, 16)
    return value
