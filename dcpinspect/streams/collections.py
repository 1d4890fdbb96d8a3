"""Collections and scopes as a connection hears of them: from system events, and from a manifest
that was asked for.

Every vbucket tells of every collection, mostly in the same bytes: each different text is read once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.fields import Field, LayoutItem
from dcpinspect.protocol.flatbuffer import FlatBufferError, decode_table
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.tables.collection_names import DEFAULT, shown_name, unnamed, with_id
from dcpinspect.tables.messages import MessageBatch

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

_MOST = 1 << 12
"""Greatest number of collections, scopes and different texts remembered of a connection."""
_MOST_TEXT = 1 << 8
_MAX_ID = 0xFFFF_FFFF
_DIGITS = 16
_BEGIN, _END, _CREATE_SCOPE, _MODIFY = 0, 1, 3, 5


@dataclass(slots=True)
class Collection:
    """What is known of one collection."""

    name: str | None
    scope: int
    keeps_history: bool | None = None
    """Whether snapshots with history hold all its changes, none de-duplicated; None: not told."""
    has_ended: bool = False


@dataclass(slots=True)
class Manifest:
    """The collections and scopes of a bucket, as far as one connection was told of them."""

    uid: int = 0
    """The greatest manifest uid that was told."""
    collections: dict[int, Collection] = field(default_factory=dict)
    scopes: dict[int, str] = field(default_factory=dict)
    _heard: dict[bytes, None] = field(default_factory=dict)
    """A dict, as an empty set takes 150 bytes more, on every connection."""

    @property
    def lacks_history(self) -> bool:
        """Whether some collection is known to keep no history."""
        return any(collection.keeps_history is False for collection in self.collections.values())

    def is_news(self, manifest_text: bytes) -> bool:
        """Returns whether a system event with these bytes says something new."""
        if manifest_text in self._heard:
            return False
        if len(self._heard) >= _MOST:
            self._heard.clear()
        self._heard[manifest_text] = None
        return True

    def take_event(self, change: SaidByEvent) -> None:
        """Takes what a system event says."""
        self.uid = max(self.uid, change.uid)
        if change.event == _CREATE_SCOPE and change.name is not None:
            self._add_scope(change.scope, change.name)
        elif change.event in (_BEGIN, _MODIFY) and change.collection is not None:
            self._add(change.collection, Collection(change.name, change.scope, change.history))
        elif change.event == _END and change.collection is not None:
            collection = self.collections.get(change.collection)
            if collection is None:
                self._add(change.collection, Collection(None, change.scope, has_ended=True))
            else:
                collection.has_ended = True

    def take_answer(self, manifest: Mapping[str, Any], redactor: Redactor | None = None) -> None:
        """Takes the manifest of the bucket, as the server has it. ``redactor``: names are replaced
        before they are remembered.
        """
        self.uid = max(self.uid, hex_uid(manifest.get("uid")) or 0)
        for scope, name, collections in scopes_of(manifest):
            self._add_scope(scope, shown_name(name, redactor))
            for number, collection in collections:
                named = None if collection.name is None else shown_name(collection.name, redactor)
                self._add(number, replace(collection, name=named))

    def _add(self, number: int, collection: Collection) -> None:
        if number in self.collections or len(self.collections) < _MOST:
            self.collections[number] = collection

    def _add_scope(self, number: int, name: str) -> None:
        if number in self.scopes or len(self.scopes) < _MOST:
            self.scopes[number] = name


class SaidByEvent(NamedTuple):
    """What a system event says."""

    event: int
    uid: int
    scope: int
    collection: int | None
    name: str | None
    history: bool | None

    @property
    def names_scope(self) -> bool:
        """Whether the event tells the name of its scope."""
        return self.event == _CREATE_SCOPE

    @property
    def names_collection(self) -> bool:
        """Whether the event tells the name of its collection."""
        return self.event in (_BEGIN, _MODIFY)


def said_by_event(batch: MessageBatch, row: int) -> SaidByEvent | None:
    """Returns what a system event says; None unless it was captured whole, fits its layout and says
    enough.

    Only the fields needed are read: explaining every field would take fifty times as long, and
    there may be thousands of events.
    """
    decoded = batch.decoded
    layout = LAYOUTS[int(decoded.layout[row])]
    start = int(decoded.extras_at[row])
    value = int(decoded.value.start[row])
    change = _numbers(layout.extras, batch.data[start : start + layout.extras_size].tobytes())
    change |= _numbers(
        layout.value, batch.data[value : value + int(decoded.value.size[row])].tobytes()
    )
    event, uid, scope, history = (
        change.get(name) for name in ("event", "manifest_uid", "scope_id", "history")
    )
    if event is None or uid is None or scope is None:
        return None
    keeps = None if history is None else bool(history)
    return SaidByEvent(
        event, uid, scope, change.get("collection_id"), _text(batch.key_of(row) or None), keeps
    )


def _numbers(items: Sequence[LayoutItem], data: bytes) -> dict[str, int]:
    """Returns the numbers of a section by name, with those of a FlatBuffer in it."""
    numbers_by_name: dict[str, int] = {}
    for spec in items:
        if isinstance(spec, Field) and spec.kind.size:
            numbers_by_name[spec.name] = int.from_bytes(
                data[spec.offset : spec.offset + spec.kind.size], "big"
            )
        elif isinstance(spec, Field) and spec.slots:
            with suppress(FlatBufferError):
                numbers_by_name |= {
                    slot.name: value
                    for slot, value, _, _ in decode_table(data, spec.slots)
                    if isinstance(value, int)
                }
    return numbers_by_name


def scopes_of(
    manifest: Mapping[str, Any],
) -> Iterator[tuple[int, str, list[tuple[int, Collection]]]]:
    """Yields (id, name, collections with their ids) of each scope in a manifest; scopes and
    collections without an id are left out.
    """
    for scope in _objects(manifest.get("scopes")):
        scope_id, name = hex_uid(scope.get("uid")), _text(scope.get("name"))
        if scope_id is None or name is None:
            continue
        scopes = []
        for collection in _objects(scope.get("collections")):
            number, history = hex_uid(collection.get("uid")), collection.get("history")
            if number is not None:
                scopes.append(
                    (
                        number,
                        Collection(
                            _text(collection.get("name")),
                            scope_id,
                            history if isinstance(history, bool) else None,
                        ),
                    )
                )
        yield scope_id, name, scopes


def named_collections(filter_: Mapping[str, Any] | None) -> frozenset[int] | None:
    """Returns the collections that the value of a stream request names; None if it names none."""
    named = filter_.get("collections") if filter_ is not None else None
    if not isinstance(named, list):
        return None
    return frozenset(
        number for text in named if (number := hex_uid(text)) is not None and number <= _MAX_ID
    )


def named_scope(filter_: Mapping[str, Any] | None) -> int | None:
    """Returns the scope that the value of a stream request names; None if it names none."""
    number = hex_uid(filter_.get("scope")) if filter_ is not None else None
    return number if number is not None and number <= _MAX_ID else None


class KnownNames:
    """Names at the end of a reading: told on the connection itself, or on another one to the same
    bucket of the same server.
    """

    def __init__(self, manifests: Mapping[int, Manifest], buckets: Mapping[int, Hashable]) -> None:
        """``manifests``: by connection. ``buckets``: by connection, where the bucket is known."""
        self._own = manifests
        self._buckets = buckets
        self._shared: dict[Hashable, Manifest] = {}
        for connection in sorted(buckets.keys() & manifests.keys()):
            manifest = manifests[connection]
            shared = self._shared.setdefault(buckets[connection], Manifest())
            for number, scope in manifest.scopes.items():
                shared.scopes.setdefault(number, scope)
            for number, collection in manifest.collections.items():
                if collection.name is not None:
                    shared.collections.setdefault(number, collection)

    def requested_names(self, connection: int, filter_: Mapping[str, Any] | None) -> str | None:
        """Returns the collections or scope that a stream request names, as text, or None."""
        scope, collections = named_scope(filter_), named_collections(filter_)
        if scope is not None:
            name = self._scope(connection, scope)
            return f"scope {unnamed(scope) if name is None else with_id(name, scope)}"
        if collections is None:
            return None
        labels = [(self._collection(connection, number), number) for number in sorted(collections)]
        return ", ".join(
            unnamed(number) if name is None else with_id(name, number) for name, number in labels
        )

    def _manifests(self, connection: int) -> list[Manifest]:
        manifests = (self._own.get(connection), self._shared.get(self._buckets.get(connection)))
        return [manifest for manifest in manifests if manifest is not None]

    def _collection(self, connection: int, number: int) -> str | None:
        if number == 0:
            return f"{DEFAULT}.{DEFAULT}"
        collections = (manifest.collections.get(number) for manifest in self._manifests(connection))
        collection = next(
            (
                collection
                for collection in collections
                if collection is not None and collection.name is not None
            ),
            None,
        )
        if collection is None:
            return None
        return f"{self._scope(connection, collection.scope) or unnamed(collection.scope)}.{collection.name}"

    def _scope(self, connection: int, number: int) -> str | None:
        if number == 0:
            return DEFAULT
        return next(
            (
                manifest.scopes[number]
                for manifest in self._manifests(connection)
                if number in manifest.scopes
            ),
            None,
        )


def hex_uid(text: object) -> int | None:
    """Returns a number of hexadecimal digits, as in manifests' JSON; None for other text."""
    try:
        if isinstance(text, str) and text.isalnum() and len(text) <= _DIGITS:
            return int(text, 16)
        return None
    except ValueError:
        return None


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return value[:_MOST_TEXT] if isinstance(value, str) else None


def _objects(values: object) -> list[Mapping[str, Any]]:
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )
