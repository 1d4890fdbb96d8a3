"""What events are about, followed through their streams: keys that come twice, prepares that nobody completes, collections.

The latest keys of a reading are remembered, up to a number; with more, the oldest are forgotten, and what depends on them is not judged.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Array, Mask, Rows
from dcpinspect.streams import keys as k
from dcpinspect.streams import state as s
from dcpinspect.streams.collections import named_collections
from dcpinspect.streams.events import collections_of, key_hashes
from dcpinspect.tables.messages import MessageBatch

Table = npt.NDArray[np.int64]

MOST = 1 << 20
"""Keys remembered: 110 MB."""
_GROWTH = 8
"""Room for so many times as many keys is made at once: they are sorted in anew each time, and memory that is not used yet costs nothing."""
_SPREAD = 0x9E3779B97F4A7C15


class Contents:
    """Feed it with every batch, once the tracker's kernel has followed its messages."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: Table = np.zeros((min(256, most), k.ENTRY), dtype=np.int64)
        self._slots: Table = np.full(2 * len(self._entries), -1, dtype=np.int64)
        self._marks: Table = np.array([0, -1, 0], dtype=np.int64)
        self._seed = secrets.randbits(31)

    def feed(self, batch: MessageBatch, messages: Table, state: s.State, filters: list[dict[str, Any] | None]) -> None:
        """``messages``: as the kernel left them; ``filters``: the parsed values of stream requests."""
        chosen = np.flatnonzero((messages[s.M_STANDING] & s.IS_EVENT != 0) & (messages[s.M_KIND] != s.SEQNO_ADVANCED))
        if not len(chosen):
            return
        events = _view(batch, messages, chosen, state.rows(s.N_STREAMS), filters)
        start = 0
        while start < len(chosen):
            state.make_room_in(s.N_ANOMALIES)
            self._make_room()
            start = int(
                k.follow_keys(
                    len(chosen) - start,
                    start,
                    self._seed,
                    events,
                    messages,
                    self._slots,
                    self._entries,
                    self._marks,
                    state.tables[s.N_STREAMS],
                    state.tables[s.N_SNAPSHOTS],
                    state.tables[s.N_ANOMALIES],
                    state.counts,
                )
            )

    def _make_room(self) -> None:
        used = int(self._marks[k.USED])
        if len(self._entries) - used >= k.ROOM:
            return
        if len(self._entries) < self._most:
            before = self._entries
            self._entries = np.zeros((min(_GROWTH * len(before), self._most), k.ENTRY), dtype=np.int64)
            self._entries[:used] = before[:used]
        else:
            self._forget(used)
        self._slots = np.full(2 * len(self._entries), -1, dtype=np.int64)
        used = int(self._marks[k.USED])
        k.refill_entries(used, self._seed, self._slots, self._entries, used)

    def _forget(self, used: int) -> None:
        """Forgets the older half of the keys; of those, sooner what is no collection and not pending."""
        entries = self._entries[:used]
        is_special = (entries[:, k.H_KEY] < 0) | (entries[:, k.H_PREPARED] > s.LEAST)
        order = np.lexsort((entries[:, k.H_ROW], is_special))
        dropped, kept = np.split(order, [used - used // 2])
        self._marks[k.FORGOTTEN] = max(int(self._marks[k.FORGOTTEN]), int(entries[dropped, k.H_ROW].max()))
        self._entries[: len(kept)] = entries[kept]
        self._marks[k.USED] = len(kept)


def _view(batch: MessageBatch, messages: Table, chosen: Rows, streams: Table, filters: list[dict[str, Any] | None]) -> Table:
    rows = batch.index_of(messages[s.M_PLACE + s.AT_ROW, chosen])
    numbers, decoded = batch.decoded.numbers, batch.decoded
    collection = collections_of(batch, rows)
    hashed = np.where(decoded.key.size[rows] > 0, key_hashes(batch, rows), -1)
    view = np.empty((k.VIEW, len(chosen)), dtype=np.int64)
    view[k.V_MESSAGE] = chosen
    view[k.V_KEY] = np.where(hashed < 0, -1, (hashed ^ (collection.view(np.uint64) * np.uint64(_SPREAD)).view(np.int64)) & ((1 << 62) - 1))
    view[k.V_CAS] = s.biased(decoded.cas[rows])
    view[k.V_COLLECTION] = collection
    view[k.V_PREPARED] = s.biased(_column(numbers, "prepared_seqno", rows))
    view[k.V_EVENT] = _column(numbers, "event", rows).astype(np.int64)
    view[k.V_UID] = s.biased(_column(numbers, "manifest_uid", rows))
    view[k.V_IS_OUTSIDE] = _is_outside(messages[s.M_STANDING, chosen], messages[s.M_STREAM, chosen], collection, streams, filters)
    return view


def _column(numbers: Mapping[str, Any], name: str, rows: Rows) -> Array:
    column = numbers.get(name)
    return np.zeros(len(rows), dtype=np.uint64) if column is None else np.asarray(column.values[rows])


def _is_outside(standing: Rows, stream: Rows, collection: Rows, streams: Table, filters: list[dict[str, Any] | None]) -> Mask:
    """Events of collections that the request of their stream, which names some, does not name."""
    asked = standing & s.IS_ASKED != 0
    number = np.where(asked & (collection >= 0), streams[stream, s.S_FILTER], -1)
    outside = np.zeros(len(number), dtype=np.bool_)
    for one in np.unique(number[number >= 0]).tolist():
        named = named_collections(filters[one])
        if named is not None:
            mine = number == one
            outside[mine] = ~np.isin(collection[mine], np.array(sorted(named), dtype=np.int64))
    return outside
