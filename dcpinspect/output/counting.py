"""Counts messages once, also where a capture shows a conversation twice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol, TypeVar

import numpy as np

from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.copies import Copies
from dcpinspect.streams.tcp_facts import command_counting
from dcpinspect.tables.messages import MessageBatch


class _Counter(Protocol):
    def feed(self, batch: MessageBatch, rows: RowNumbers, /) -> None:
        """Counts these messages of a batch."""


_C = TypeVar("_C", bound=_Counter)


def count_once(
    reading: Reading,
    batches: Iterable[MessageBatch],
    new_counter: Callable[[], _C],
    rows_of: Callable[[MessageBatch], RowNumbers],
    redactor: Redactor | None = None,
) -> tuple[_C, Collection[int]]:
    """Feeds a counter with rows of all batches of a reading, without connections that show what
    another connection shows.

    Only the end of a reading tells which these are, so files are then read again. What came through
    a pipe is gone. Returns the counter, and the connections that it counts all the same.
    """
    counter, samples = new_counter(), Copies()
    for batch in batches:
        samples.feed(batch)
        counter.feed(batch.redacted(redactor), rows_of(batch))
    copies = () if command_counting.copies else samples.among(reading.links).keys()
    if not copies or reading.capture.size is None or not reading.is_through:
        return counter, copies
    counter = new_counter()
    with Reading(reading.files, **reading.options) as again:
        for batch in again:
            rows = rows_of(batch)
            counter.feed(
                batch.redacted(redactor), rows[~np.isin(batch.connection[rows], list(copies))]
            )
    return counter, ()
