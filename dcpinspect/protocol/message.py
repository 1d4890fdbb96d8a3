"""One message with every field explained: what ``annotate`` makes, for lines, tables and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal, Protocol, Self

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.fields import Field, Layout
from dcpinspect.protocol.header import Header
from dcpinspect.text import counted

Severity = Literal["error", "warning", "note"]
Encoding = Literal["json", "text", "binary", "fields", "hidden", "missing"]
Collections = Literal["on", "off", "inferred", "unknown"]
Generation = Literal["unknown", "upr", "dcp"]


class CollectionNames(Protocol):
    """The names of collections and scopes at a message's place; None for an untold name."""

    def collection(self, number: int) -> str | None:
        """Returns name and id of a collection."""

    def scope(self, number: int) -> str | None:
        """Returns name and id of a scope."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a connection negotiated that the reading of its messages depends on."""

    collections: Collections = "unknown"
    """Whether document keys start with a collection id."""
    underlying_datatype: bool = False
    """DCP open flag 0x40: the datatype is that of the stored document, whatever the value holds."""
    generation: Generation = "unknown"
    """*upr*: a layout was met that only the first specification has, and nothing that it lacks;
    *dcp*: something that it lacks was met.
    """
    names: CollectionNames | None = None


SEVERITIES: dict[str, Severity] = {
    "contradiction": "warning",
    "legacy-layout": "note",
    "oversized-body": "warning",
    "refused-payload": "warning",
    "too-many-records": "note",
    "trailing-bytes": "note",
    "undeclared-stream-id": "note",
    "unexpected-section": "warning",
}
"""How bad it is that a rule of messages is broken; an error if nothing is said here."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a message that does not fit."""

    rule: str
    """Stable id of the rule that is broken."""
    severity: Severity
    field: str
    """Path of the field, such as ``extras.lock_time``; ``message`` for the whole."""
    offset: int
    """Byte of the message."""
    reason: str


@dataclass(slots=True)
class FieldValue:
    """One field of a message: its place, its bytes, its value and what that means."""

    name: str
    label: str
    offset: int
    """Bytes from the start of the message; from the start of the inflated value if ``inflated``."""
    size: int
    raw: bytes
    """The bytes of the field that the capture holds."""
    value: int | bool | str | bytes | None = None
    """Number or text; bytes that are not UTF-8; None if bytes are missing or say nothing."""
    meaning: str | None = None
    fields: tuple[FieldValue, ...] = ()
    depth: int = 0
    """How far a field table indents it."""
    spec: Field | None = None
    group: str = ""
    """Name of the run of records that it belongs to; empty for other fields."""
    hidden: bool = False
    """Whether it is a credential: neither bytes nor value are ever shown."""
    inflated: bool = False
    """Whether it is in the uncompressed value, not on the wire."""
    current: int | None = None
    """If the connection is of the first generation: the number that means the same since."""
    missing: bool = False
    """Whether some of its bytes are not in the capture."""
    redacted: bool = False
    """Whether bytes and value were replaced: those on the wire hold what users store, or names."""

    @classmethod
    def of(
        cls,
        spec: Field,
        offset: int,
        size: int,
        raw: bytes,
        value: int | str | bytes | None = None,
        meaning: str | None = None,
        *,
        depth: int,
        missing: bool = False,
        hidden: bool = False,
    ) -> Self:
        """Returns a field that a layout describes."""
        bounds = spec.name, spec.title, offset, size
        return cls(*bounds, raw, value, meaning, (), depth, spec, "", hidden, False, None, missing)

    def __repr__(self) -> str:
        value = "hidden" if self.hidden else repr(self.value)
        return (
            f"<{self.name} at {self.offset}, {counted(self.size, 'byte')}: "
            f"{value}{f' ({self.meaning})' if self.meaning else ''}>"
        )

    @property
    def word(self) -> str | None:
        """The word for the number, by the generation of the connection."""
        if self.spec is None or not isinstance(self.value, int):
            return None
        return self.spec.word(self.value if self.current is None else self.current)

    def part(
        self,
        name: str,
        start: int,
        end: int,
        value: int | bool | str | bytes | None = None,
        meaning: str | None = None,
        *,
        label: str | None = None,
    ) -> FieldValue:
        """Returns a field inside this one, of the bytes [start, end) of its own."""
        return FieldValue(
            name,
            label or name.replace("_", " "),
            self.offset + start,
            end - start,
            self.raw[start:end],
            value,
            meaning,
            depth=self.depth + 1,
            inflated=self.inflated,
        )

    def walk(self) -> Iterator[FieldValue]:
        """Yields this field and all fields inside it."""
        yield self
        for inner in self.fields:
            yield from inner.walk()


@dataclass(frozen=True, slots=True)
class Value:
    """What a message's value holds once unwrapped."""

    encoding: Encoding
    size: int
    """Size in bytes on the wire."""
    body: bytes = b""
    """The document body, uncompressed, without xattrs."""
    inflated_size: int | None = None
    """Size in bytes after decompression; None if it was not compressed."""
    xattrs: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(slots=True)
class Message:
    """A message and everything that can be said of it alone."""

    data: bytes
    header: Header | None
    """None if fewer than 24 bytes are there."""
    name: str
    layout: Layout | None = None
    generation: str | None = None
    """The layout's name: ``v1``, ``upr`` …; None if none fits."""
    fields: list[FieldValue] = dataclasses.field(default_factory=list)
    problems: list[Problem] = dataclasses.field(default_factory=list)
    missing: tuple[tuple[int, int], ...] = ()
    """Byte ranges [start, end) of the message that the capture does not hold."""
    sid: int | None = None
    """DCP stream-id."""
    collection_id: int | None = None
    key: bytes | None = None
    """The key without the collection id; None if the message has none, or not all of it."""
    value: Value | None = None
    framing_size: int = 0
    """Bytes of framing extras, also if the header forgot to count them."""

    def __repr__(self) -> str:
        generation = f" {self.generation}" if self.generation else ""
        return (
            f"<{self.name}{generation}, {counted(self.size, 'byte')}, "
            f"{counted(len(self.fields), 'field')}, {counted(len(self.problems), 'problem')}>"
        )

    @property
    def size(self) -> int:
        """Bytes of the whole message on the wire."""
        return self.header.size if self.header is not None else len(self.data)

    def field(self, name: str) -> FieldValue | None:
        """Returns the outermost field of this name, or None."""
        return next((item for item in self.fields if item.name == name), None)
