"""Finds out which streams have gaps in dispute. Each task judges some vbuckets, from what the parts
say about their gaps.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.reading.joining import judged, packed, unpacked
from dcpinspect.spark import files
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.task_runner import TaskRunner
from dcpinspect.streams.records import Streams
from dcpinspect.text import escape

ENDING = ".gaps"
"""Ending of the file with the gaps of a part."""
SHARES = 2
"""Number of shares for each processor."""


@dataclass(frozen=True, slots=True)
class _DisputeShare:
    """Streams of some vbuckets, and where the streams of the parts are among them."""

    parts: Sequence[tuple[str, IntArray, IntArray]]
    """For each part: its file, the numbers of its streams there, and their places in ``streams``.
    """
    streams: Streams
    branches: IntArray
    salt: Salt | None


def write_bounds(part: str, bounds: IntArray, salt: Salt | None) -> str:
    """Writes the bounds of a part's gaps to a file beside it, and returns its path."""
    content = io.BytesIO()
    np.save(content, bounds)
    files.write(f"{part}{ENDING}", packed([content.getvalue()]), salt)
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
        items.append(_DisputeShare(of_parts, streams[share_rows], branches[share_rows], salt))
        judged_rows.append(share_rows)
    for share_rows, mask in zip(
        judged_rows, tasks.map("comparing gaps", _judged, items, sizes), strict=True
    ):
        is_disputed[share_rows] = mask
    return is_disputed


def _judged(share: _DisputeShare) -> BoolArray:
    bounds, stream_tables = [], []
    for path, numbers, stream_numbers in share.parts:
        table = np.load(io.BytesIO(unpacked(files.content(path, share.salt))[0]))
        of_stream = np.full(
            max(int(table[:, 0].max(initial=0)), int(numbers.max())) + 1, -1, dtype=np.int64
        )
        of_stream[numbers] = stream_numbers
        bounds.append(table[of_stream[table[:, 0]] >= 0])
        stream_tables.append(of_stream)
    return judged(bounds, stream_tables, share.streams, share.branches)
