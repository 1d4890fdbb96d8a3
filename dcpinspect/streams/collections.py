"""Collections and scopes as a connection hears of them: from system events, and from the manifest where it was asked for.

Every vbucket tells of every collection, mostly in the same bytes: each different telling is read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dcpinspect.protocol.message import Message

_MOST = 1 << 12
"""Collections, scopes and different tellings remembered of a connection."""
_MOST_TEXT = 1 << 8
_MAX_ID = 0xFFFF_FFFF
_DIGITS = 16
_BEGIN, _END, _CREATE_SCOPE, _MODIFY = 0, 1, 3, 5


@dataclass(slots=True)
class Collection:
    """What is known of one."""

    name: str | None
    scope: int
    keeps_history: bool | None = None
    """Whether none of its changes is de-duplicated in snapshots with history; None: not told."""
    has_ended: bool = False


@dataclass(slots=True)
class Manifest:
    """The collections and scopes of a bucket, as far as one connection told of them."""

    uid: int = 0
    """The greatest one told."""
    collections: dict[int, Collection] = field(default_factory=dict)
    scopes: dict[int, str] = field(default_factory=dict)
    _heard: set[bytes] = field(default_factory=set)

    @property
    def lacks_history(self) -> bool:
        """Whether a collection is known that keeps no history."""
        return any(collection.keeps_history is False for collection in self.collections.values())

    def is_news(self, told: bytes) -> bool:
        """Whether a system event with these bytes says anything that is not known."""
        if told in self._heard:
            return False
        if len(self._heard) >= _MOST:
            self._heard.clear()
        self._heard.add(told)
        return True

    def take_event(self, message: Message) -> None:
        """A system event that could be read whole."""
        said = {inner.name: inner.value for outer in message.fields for inner in outer.walk()}
        event, uid, scope, number = (said.get(name) for name in ("event", "manifest_uid", "scope_id", "collection_id"))
        if not isinstance(uid, int) or not isinstance(scope, int):
            return
        self.uid = max(self.uid, uid)
        name = _text(said.get("key"))
        if event == _CREATE_SCOPE and name is not None:
            self._add_scope(scope, name)
        elif event in (_BEGIN, _MODIFY) and isinstance(number, int):
            history = said.get("history")
            self._add(number, Collection(name, scope, history if isinstance(history, bool) else None))
        elif event == _END and isinstance(number, int):
            known = self.collections.get(number)
            if known is None:
                self._add(number, Collection(None, scope, has_ended=True))
            else:
                known.has_ended = True

    def take_answer(self, manifest: Mapping[str, Any]) -> None:
        """The manifest of the bucket, as the server has it."""
        self.uid = max(self.uid, _hex(manifest.get("uid")) or 0)
        for scope in _objects(manifest.get("scopes")):
            scope_id, name = _hex(scope.get("uid")), _text(scope.get("name"))
            if scope_id is None or name is None:
                continue
            self._add_scope(scope_id, name)
            for one in _objects(scope.get("collections")):
                number, history = _hex(one.get("uid")), one.get("history")
                if number is not None:
                    self._add(number, Collection(_text(one.get("name")), scope_id, history if isinstance(history, bool) else None))

    def _add(self, number: int, collection: Collection) -> None:
        if number in self.collections or len(self.collections) < _MOST:
            self.collections[number] = collection

    def _add_scope(self, number: int, name: str) -> None:
        if number in self.scopes or len(self.scopes) < _MOST:
            self.scopes[number] = name


def named_collections(filter_: Mapping[str, Any] | None) -> frozenset[int] | None:
    """Collections that the value of a stream request names; None where it names none."""
    named = filter_.get("collections") if filter_ is not None else None
    if not isinstance(named, list):
        return None
    return frozenset(number for text in named if (number := _hex(text)) is not None and number <= _MAX_ID)


def _hex(text: object) -> int | None:
    """A number as JSON has it here: hexadecimal digits."""
    try:
        return int(text, 16) if isinstance(text, str) and text.isalnum() and len(text) <= _DIGITS else None
    except ValueError:
        return None


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return value[:_MOST_TEXT] if isinstance(value, str) else None


def _objects(values: object) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
