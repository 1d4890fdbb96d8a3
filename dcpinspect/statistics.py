"""What was said how often, how large, how fast, and how whole the capture is: of one reading, as it goes on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dcpinspect.coverage import OTHER
from dcpinspect.protocol.columns import Numbers, Rows
from dcpinspect.reading import Reading
from dcpinspect.render.coverage import interfaces
from dcpinspect.streams.balance import Balance
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.records import Worded
from dcpinspect.tables.statistics import MessageStats, Row, distribution


class Statistics:
    """Feed it with every batch of a reading."""

    def __init__(self, *, of_all: bool = True) -> None:
        """``of_all``: all messages are counted; then there are also snapshots and windows, which belong to all of them."""
        self._of_all = of_all
        self._counted = MessageStats()
        self._balance = Balance()

    @property
    def messages(self) -> int:
        """Messages that were counted."""
        return self._counted.messages

    def feed(self, batch: MessageBatch, rows: Rows | None = None) -> None:
        """Takes the next messages of the reading; ``rows``: those that are to be counted."""
        self._counted.feed(batch, np.arange(len(batch)) if rows is None else rows)
        if self._of_all:
            self._balance.feed(batch)

    def rows(self, reading: Reading) -> list[Row]:
        """The table of statistics by now; the reading tracks streams if all messages are counted."""
        return [*self._counted.rows(), *(_of_streams(reading, self._balance) if self._of_all else ()), *_of_capture(reading)]


def _of_streams(reading: Reading, balance: Balance) -> Iterator[Row]:
    """Sizes of snapshots by type, and the windows of connections that have one and lost nothing."""
    tables = reading.tables
    types, items = (tables.snapshots.columns[name] for name in ("type", "items"))
    assert isinstance(types, Worded)
    assert isinstance(items, Numbers)
    for kind, number in sorted((word, number) for number, word in enumerate(types.words)):
        own = items.values[types.codes == number]
        if len(own):
            yield {"section": "snapshots", "name": kind, "count": len(own), "unit": "items", **distribution(own)}
    names = ("connection", "window_bytes", "outstanding_bytes")
    for connection, window, outstanding in zip(*(tables.connections.values(name) for name in names), strict=True):
        if outstanding is not None:
            yield {"section": "flow", "name": "window", "connection": connection, "bytes": window}
            greatest = balance.greatest.get(connection, 0)
            yield {"section": "flow", "name": "most outstanding", "connection": connection, "bytes": greatest, "share": greatest / window}


def _of_capture(reading: Reading) -> Iterator[Row]:
    """What became of packets and bytes; messages of the whole reading, whatever was filtered."""
    coverage = reading.coverage
    for place, counts in interfaces(reading.capture.files):
        if counts.dropped is not None or counts.system_dropped is not None:
            yield {"section": "capture", "name": f"packets dropped at {place}", "count": counts.lost}
    for name, count in coverage.packets.items():
        if count:
            yield {"section": "capture", "name": f"packets {name}", "count": count}
    own = [one for one in coverage.directions if one.protocol != OTHER]
    for name, size in (
        ("captured", sum(one.captured for one in own)),
        ("decoded", sum(one.decoded for one in own)),
        ("skipped", sum(sum(one.skipped.values()) for one in own)),
        ("unfinished", sum(one.unfinished for one in own)),
        ("not decodable", sum(one.not_decodable for one in own)),
        ("duplicate", sum(one.duplicate for one in own)),
        ("late", sum(one.late for one in own)),
        ("missing", sum(one.missing for one in own)),
        ("cut off", sum(one.cut for one in own)),
    ):
        yield {"section": "capture", "name": name, "bytes": size}
    yield {"section": "capture", "name": "holes", "count": sum(one.holes for one in own)}
