"""``spark.readStream.format("dcp")``: the messages of captures as they come, each once.

An offset is a time of change. A batch has the captures whose last change is after its start and not
after its end. The time of change is when a file was moved to its place or last written, as the file
system stores it (ctime). So a file that comes late with an old time of writing is not missed, and a
query that is started again asks for the same files.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from dcpinspect.capture.remote import info
from dcpinspect.capture.stores import is_uri
from dcpinspect.spark.data_source import Task, TaskReader
from dcpinspect.spark.source_options import SourceOptions

_CHANGED = "changed_ns"


class StreamReader(TaskReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds the new captures, plans tasks, and runs one."""

    def __init__(self, asked: SourceOptions) -> None:
        super().__init__(asked)
        self._last_ns: int | None = None
        """Latest time of change of wanted captures; None: no limit."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Returns the offset before all captures."""
        return {_CHANGED: 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Returns the limit from the option ``max_files_per_trigger``."""
        most = self.asked.most_files
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remembers the latest capture at this moment."""
        self._last_ns = max(self._rested(0), default=0)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Returns the offset of the last capture to read next."""
        times = sorted(
            time_ns
            for time_ns in self._rested(start[_CHANGED])
            if self._last_ns is None or time_ns <= self._last_ns
        )
        if isinstance(limit, ReadMaxFiles):
            times = times[: limit.max_files]
        return {_CHANGED: times[-1]} if times else start

    def _rested(self, after_ns: int) -> list[int]:
        """Returns the times of change of the new captures that have not changed for long enough."""
        now_ns = time.time_ns()
        times_ns = (
            _changed_ns(path)
            for capture_slice in self.asked.task_parts(may_be_empty=True)
            for path in capture_slice.files
        )
        return [
            time_ns
            for time_ns in times_ns
            if time_ns is not None and after_ns < time_ns <= now_ns - self.asked.rested_ns
        ]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Returns one task for the new captures of each point. It also reads the capture before
        them, in which messages may begin.
        """
        tasks: list[InputPartition] = []
        for capture_slice in self.asked.task_parts(may_be_empty=True):
            times = sorted(
                (time_ns, path)
                for path in capture_slice.files
                if (time_ns := _changed_ns(path)) is not None
            )
            new = [path for time_ns, path in times if start[_CHANGED] < time_ns <= end[_CHANGED]]
            before = [path for time_ns, path in times if time_ns <= start[_CHANGED]]
            if new:
                tasks.append(
                    Task(replace(capture_slice, files=tuple(new), before=tuple(before[-1:])))
                )
        return tasks

    def commit(self, end: dict[str, int]) -> None:
        """Does nothing, because nothing is stored."""


def _changed_ns(path: str) -> int | None:
    try:
        if is_uri(path):
            return int(info(path).mtime_ns or 0) or None
        about = os.stat(path)
    except OSError:
        return None
    return about.st_ctime_ns if stat.S_ISREG(about.st_mode) and about.st_size else None
