"""Finds out which streams have gaps in dispute. Each task judges some vbuckets, from what the parts
say about their gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.errors import UsageError
from dcpinspect.reading.joining import from_bytes, judged, to_bytes
from dcpinspect.spark import files
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.task_runner import TaskRunner
from dcpinspect.streams.records import Streams
from dcpinspect.text import escape

ENDING = ".gaps"
"""Ending of the file with the gaps of a part."""
SHARES = 2
"""Number of shares for each processor."""


_PartStreams = tuple[str, IntArray, IntArray]
"""The file of a part, the numbers of its streams there, and their places among those of a share."""


def write_bounds(part: str, bounds: IntArray, salt: Salt | None) -> str:
    """Writes the bounds of a part's gaps to a file beside it, and returns its path."""
    files.write(f"{part}{ENDING}", to_bytes(bounds), salt)
    return f"{part}{ENDING}"


def judge(
    tasks: TaskRunner,
    parts: Sequence[str],
    salt: Salt | None,
    places: Sequence[IntArray],
    streams: Streams,
    branches: IntArray,
) -> BoolArray:
    """Judges gaps as ``Judge`` of the parts does. ``parts``: their paths. Raises UsageError if a
    file of theirs is missing.
    """
    shares = SHARES * tasks.processors
    is_disputed, items, sizes, judged_rows = np.zeros(len(streams), dtype=np.bool_), [], [], []
    try:
        bounds = [files.size(f"{part_path}{ENDING}") for part_path in parts]
    except OSError as error:
        raise UsageError(
            f"a part cannot be read ({escape(str(error))}); run the pipeline into a new directory"
        ) from error
    for share in range(shares):
        share_rows = np.flatnonzero(streams.vbucket % shares == share)
        if not len(share_rows):
            continue
        # the last place stands for streams of other shares
        among = np.full(len(streams) + 1, -1, dtype=np.int64)
        among[share_rows] = np.arange(len(share_rows))
        of_parts, size = [], 0
        for part_path, part_streams, own_size in zip(parts, places, bounds, strict=True):
            rows_in_part = among[part_streams]
            numbers = np.flatnonzero(rows_in_part >= 0)
            if len(numbers):
                of_parts.append((f"{part_path}{ENDING}", numbers, rows_in_part[numbers]))
                size += own_size
        sizes.append(size)  # all of a file is read, whatever the share
        items.append((of_parts, streams[share_rows], branches[share_rows]))
        judged_rows.append(share_rows)
    for share_rows, mask in zip(
        judged_rows,
        tasks.map("comparing gaps", partial(_judged, salt=salt), items, sizes),
        strict=True,
    ):
        is_disputed[share_rows] = mask
    return is_disputed


def _judged(
    share: tuple[Sequence[_PartStreams], Streams, IntArray], *, salt: Salt | None
) -> BoolArray:
    """Judges the gaps of some vbuckets: of their streams, each with its branch, in these parts."""
    of_parts, streams, branches = share
    bounds, stream_tables = [], []
    for path, numbers, stream_numbers in of_parts:
        table = from_bytes(files.content(path, salt), np.ndarray)
        of_stream = np.full(
            max(int(table[:, 0].max(initial=0)), int(numbers.max())) + 1, -1, dtype=np.int64
        )
        of_stream[numbers] = stream_numbers
        bounds.append(table[of_stream[table[:, 0]] >= 0])
        stream_tables.append(of_stream)
    return judged(bounds, stream_tables, streams, branches)
