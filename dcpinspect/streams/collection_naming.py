"""Finds what messages tell of the names of collections: system events, manifests, and ids that were
asked for by name.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.collections import Manifest, said_by_event, scopes_of
from dcpinspect.streams.session import document, event_bytes, json_object, readable, text
from dcpinspect.tables.collection_names import DEFAULT, Names
from dcpinspect.tables.messages import MessageBatch

_MOST_WAITING = 1 << 6
_MOST_TEXT = 1 << 20
"""Greatest number of unanswered requests whose texts are kept, and of bytes of each text."""
_MOST_ID = 0xFFFF_FFFF
_IN_VALUE = (
    Opcode.COLLECTIONS_SET_MANIFEST,
    Opcode.COLLECTIONS_GET_ID,
    Opcode.COLLECTIONS_GET_SCOPE_ID,
)
_TELLS = np.zeros(256, dtype=np.bool_)
_TELLS[
    [Opcode.DCP_SYSTEM_EVENT, Opcode.COLLECTIONS_GET_MANIFEST, Opcode.SELECT_BUCKET, *_IN_VALUE]
] = True


class NameTeller:
    """Tells ``names`` what batches say; the batches are fed in order."""

    def __init__(self) -> None:
        self.names = Names()
        self._heard: dict[int, Manifest] = {}
        self._asked: dict[int, bytes] = {}
        """What each request asked for, by its row: its key, or its value if it has no key."""

    def feed(self, batch: MessageBatch) -> None:
        """Takes the next messages of the reading."""
        decoded = batch.decoded
        tells = _TELLS[decoded.opcode]
        if not tells.any():
            return
        for index in np.flatnonzero(
            tells & ~decoded.is_server & decoded.has_magic & readable(batch)
        ).tolist():
            opcode = int(decoded.opcode[index])
            if not decoded.is_response[index]:
                self._request(batch, index, opcode)
            elif decoded.fits[index] or opcode == Opcode.SELECT_BUCKET:
                self._answer(batch, index, opcode)

    def _request(self, batch: MessageBatch, index: int, opcode: int) -> None:
        connection = int(batch.connection[index])
        if opcode == Opcode.DCP_SYSTEM_EVENT:
            heard = self._heard.setdefault(connection, Manifest())
            if batch.decoded.fits[index] and heard.is_news(event_bytes(batch, index)):
                self._event(batch, index, connection)
        elif opcode == Opcode.SELECT_BUCKET or opcode in _IN_VALUE:
            if len(self._asked) >= _MOST_WAITING:
                del self._asked[next(iter(self._asked))]
            self._asked[int(batch.row[index])] = (batch.key_of(index) or document(batch, index))[
                :_MOST_TEXT
            ]

    def _event(self, batch: MessageBatch, index: int, connection: int) -> None:
        change, row = said_by_event(batch, index), int(batch.row[index])
        if change is None or change.name is None:
            return
        if change.names_scope:
            self.names.tell_scope(row, connection, change.scope, change.name)
        elif change.names_collection and change.collection is not None:
            self.names.add(row, connection, change.collection, change.scope, change.name)

    def _answer(self, batch: MessageBatch, index: int, opcode: int) -> None:
        row, connection = int(batch.row[index]), int(batch.connection[index])
        request = batch.request_row.value_at(index)
        asked_name = self._asked.pop(request, b"") if request is not None else b""
        if batch.decoded.specific[index] != Status.SUCCESS:
            return
        if opcode == Opcode.SELECT_BUCKET and asked_name:
            if self.names.select(
                row, connection, batch.endpoints.server[connection - 1], asked_name
            ):
                # in another bucket, the same ids are other collections
                self._heard.pop(connection, None)
        elif opcode in (Opcode.COLLECTIONS_GET_MANIFEST, Opcode.COLLECTIONS_SET_MANIFEST):
            answer_text = (
                document(batch, index) if opcode == Opcode.COLLECTIONS_GET_MANIFEST else asked_name
            )
            for scope, name, collections in scopes_of(json_object(answer_text) or {}):
                self.names.tell_scope(row, connection, scope, name)
                for number, collection in collections:
                    if collection.name is not None and number <= _MOST_ID:
                        self.names.add(row, connection, number, scope, collection.name)
        elif opcode == Opcode.COLLECTIONS_GET_SCOPE_ID and asked_name:
            scope_id = batch.annotate(index).field("scope_id")
            if scope_id is not None and isinstance(scope_id.value, int):
                self.names.tell_scope(
                    row, connection, scope_id.value, text(asked_name).partition(".")[0] or DEFAULT
                )
        elif opcode == Opcode.COLLECTIONS_GET_ID and asked_name:
            collection_id = batch.decoded.collection_id.value_at(index)
            scope_name, dot, name = text(asked_name).partition(".")
            if collection_id is not None and dot:
                self.names.add(
                    row, connection, collection_id, scope_name or DEFAULT, name or DEFAULT
                )
