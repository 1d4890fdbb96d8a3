"""Events on disk, sorted into files by vbucket, so that the events of some vbuckets can be read
without the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from dcpinspect.diff.event_batches import SCHEMA
from dcpinspect.errors import SpoolError
from dcpinspect.reading.store.spool import Spool

SHELVES = 32
"""Number of files; a vbucket's events are in the file with its number modulo this."""
_FLUSH = 1 << 13
"""Number of events of each file that wait in memory before they are written."""
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Shelves:
    """The events of one side. Write them while used as a context manager; read them after that."""

    def __init__(self, name: str, spool: Spool) -> None:
        self._paths = [spool.path(f"{name}-{number}.arrow") for number in range(SHELVES)]
        self._folder: Path = spool.folder
        self._waiting: list[list[Any]] = [[] for _ in range(SHELVES)]
        self._writers: dict[int, Any] = {}
        self.counts = [0] * SHELVES
        """Number of events in each file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            for number in range(SHELVES):
                self._flush(number)
        try:
            for writer in self._writers.values():
                writer.close()
        except OSError as error:
            if kind is None:
                raise SpoolError(self._folder, error) from error

    def add(self, batch: Any) -> None:
        """Adds the next events. Raises SpoolError."""
        if not batch.num_rows:
            return
        shelf = batch.column("vbucket").to_numpy() % SHELVES
        order = np.argsort(shelf, kind="stable")
        ordered = batch.take(pa.array(order))
        numbers, starts = np.unique(shelf[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
            self._waiting[number].append(ordered.slice(start, end - start))
            self.counts[number] += end - start
            if sum(waiting.num_rows for waiting in self._waiting[number]) >= _FLUSH:
                self._flush(number)

    def _flush(self, number: int) -> None:
        if not self._waiting[number]:
            return
        try:
            if number not in self._writers:
                self._writers[number] = pa.ipc.new_stream(
                    str(self._paths[number]), SCHEMA, options=_OPTIONS
                )
            self._writers[number].write_batch(pa.concat_batches(self._waiting[number]))
        except OSError as error:
            raise SpoolError(self._folder, error) from error
        self._waiting[number] = []

    def batches(self, numbers: Iterable[int]) -> Iterator[Any]:
        """Yields the batches of these files, after one without events that shows the columns."""
        yield pa.RecordBatch.from_pylist([], SCHEMA)
        for number in numbers:
            if self.counts[number]:
                with (
                    pa.memory_map(str(self._paths[number])) as file,
                    pa.ipc.open_stream(file) as stored,
                ):
                    yield from stored


def groups(counts: Iterable[int], limit: int) -> Iterator[list[int]]:
    """Yields the numbers of files to compare together: as many as have at most ``limit`` events in
    all, or a single one.
    """
    group, size = list[int](), 0
    for number, count in enumerate(counts):
        if group and size + count > limit:
            yield group
            group, size = [], 0
        group.append(number)
        size += count
    if group:
        yield group
