"""One message with every field explained: what ``annotate`` makes, for lines, tables and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from dcpinspect.protocol.fields import Field, Layout
from dcpinspect.protocol.header import Header

Severity = Literal["error", "warning", "note"]
Encoding = Literal["json", "text", "binary", "fields", "hidden", "missing"]
Collections = Literal["on", "off", "inferred", "unknown"]
Generation = Literal["unknown", "upr", "dcp"]


class CollectionNames(Protocol):
    """What collections are called where a message stands; None for what nobody said."""

    def collection(self, number: int) -> str | None:
        """Name and id of a collection."""

    def scope(self, number: int) -> str | None:
        """Name and id of a scope."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a connection negotiated that the reading of its messages depends on."""

    collections: Collections = "unknown"
    """Whether document keys start with a collection id."""
    underlying_datatype: bool = False
    """DCP open flag 0x40: the datatype is that of the stored document, whatever the value holds."""
    generation: Generation = "unknown"
    """*upr*: a layout was met that only the first specification has, and nothing that it does not have; *dcp*: something that it lacks."""
    names: CollectionNames | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a message that does not fit."""

    rule: str
    """Stable id of what is broken."""
    severity: Severity
    field: str
    """Path of the field, such as ``extras.lock_time``; ``message`` for the whole."""
    offset: int
    """Byte of the message."""
    reason: str


@dataclass(slots=True)
class FieldValue:
    """One field of a message: where it stands, its bytes, its value and what that means."""

    name: str
    label: str
    offset: int
    """From the start of the message; of the inflated value when ``inflated``."""
    size: int
    raw: bytes
    """The bytes that the capture holds of it."""
    value: int | bool | str | bytes | None = None
    """Number or text; bytes that are not UTF-8; None when bytes are missing or there is nothing to say."""
    meaning: str | None = None
    fields: tuple[FieldValue, ...] = ()
    depth: int = 0
    """How far a field table indents it."""
    spec: Field | None = None
    group: str = ""
    """Name of the run of records that this is one of; empty for other fields."""
    hidden: bool = False
    """Credentials: neither bytes nor value are ever shown."""
    inflated: bool = False
    """It stands in the uncompressed value, not on the wire."""
    current: int | None = None
    """The number that has the meaning of this one since the first generation, where its connection is of the first generation."""
    missing: bool = False
    """Some of its bytes are not in the capture."""
    redacted: bool = False
    """Bytes and value are not those of the wire, which hold what users store or who they are."""

    @property
    def word(self) -> str | None:
        """The word for the number, as the connection's generation has it."""
        if self.spec is None or not isinstance(self.value, int):
            return None
        return self.spec.word(self.value if self.current is None else self.current)

    def walk(self) -> Iterator[FieldValue]:
        """This field and all inside it."""
        yield self
        for inner in self.fields:
            yield from inner.walk()


@dataclass(frozen=True, slots=True)
class Value:
    """What a message's value holds once unwrapped."""

    encoding: Encoding
    size: int
    """Bytes on the wire."""
    body: bytes = b""
    """The document body, uncompressed, without xattrs."""
    inflated_size: int | None = None
    """Bytes after decompression; None when it was not compressed."""
    xattrs: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(slots=True)
class Message:
    """A message and everything that can be said of it alone."""

    data: bytes
    header: Header | None
    """None when fewer than 24 bytes are there."""
    name: str
    layout: Layout | None = None
    generation: str | None = None
    """The layout's name: ``v1``, ``upr`` …; None when none fits."""
    fields: list[FieldValue] = dataclasses.field(default_factory=list)
    problems: list[Problem] = dataclasses.field(default_factory=list)
    missing: tuple[tuple[int, int], ...] = ()
    """Byte ranges [start, end) of the message that the capture does not hold."""
    sid: int | None = None
    """DCP stream-id."""
    collection_id: int | None = None
    key: bytes | None = None
    """Without the collection id; None when the message has none, or not all of it."""
    value: Value | None = None
    framing_size: int = 0
    """Bytes of framing extras, also where the header forgot to count them."""

    @property
    def size(self) -> int:
        """Bytes of the whole message on the wire."""
        return self.header.size if self.header is not None else len(self.data)

    def field(self, name: str) -> FieldValue | None:
        """The field of this name among the outermost, or None."""
        return next((item for item in self.fields if item.name == name), None)
