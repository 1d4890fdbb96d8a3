"""Finds out which streams have gaps in dispute. Each task judges some vbuckets, from what the parts say about their gaps."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from dcpinspect.capture.batch import Column
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape
from dcpinspect.parts import judged, packed, unpacked
from dcpinspect.protocol.columns import Mask
from dcpinspect.records import dataclass
from dcpinspect.spark import files
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.tasks import Tasks
from dcpinspect.streams.rows import Streams

ENDING = ".gaps"
"""Ending of the file with the gaps of a part."""
SHARES = 2
"""Number of shares for each processor."""


@dataclass(frozen=True, slots=True)
class _Share:
    """Streams of some vbuckets, and where the streams of the parts are among them."""

    parts: Sequence[tuple[str, Column, Column]]
    """For each part: its file, the numbers of its streams there, and their places in ``streams``."""
    streams: Streams
    branches: Column
    salt: Salt | None


def write_bounds(part: str, bounds: Column, salt: Salt | None) -> str:
    """Writes the bounds of a part's gaps to a file beside it, and returns its path."""
    content = io.BytesIO()
    np.save(content, bounds)
    files.write(f"{part}{ENDING}", packed([content.getvalue()]), salt)
    return f"{part}{ENDING}"


def judge(tasks: Tasks, parts: Sequence[str], salt: Salt | None, places: Sequence[Column], streams: Streams, branches: Column) -> Mask:
    """Judges gaps as ``Judge`` of the parts does. ``parts``: their paths. Raises UsageError if a file of theirs is missing."""
    shares = SHARES * tasks.processors
    found, items, sizes, chosen = np.zeros(len(streams), dtype=np.bool_), [], [], []
    try:
        bounds = [files.size(f"{part}{ENDING}") for part in parts]
    except OSError as error:
        raise UsageError(f"a part cannot be read ({escape(str(error))}); run the pipeline into a new directory") from error
    for share in range(shares):
        own = np.flatnonzero(streams.vbucket % shares == share)
        if not len(own):
            continue
        among = np.full(len(streams) + 1, -1, dtype=np.int64)  # the last place stands for streams of other shares
        among[own] = np.arange(len(own))
        of_parts, size = [], 0
        for part, place, own_size in zip(parts, places, bounds, strict=True):
            here = among[place]
            numbers = np.flatnonzero(here >= 0)
            if len(numbers):
                of_parts.append((f"{part}{ENDING}", numbers, here[numbers]))
                size += own_size
        sizes.append(size)  # all of a file is read, whatever the share
        items.append(_Share(of_parts, streams[own], branches[own], salt))
        chosen.append(own)
    for own, mask in zip(chosen, tasks.each("comparing gaps", _judged, items, sizes), strict=True):
        found[own] = mask
    return found


def _judged(one: _Share) -> Mask:
    bounds, places = [], []
    for path, numbers, place in one.parts:
        table = np.load(io.BytesIO(unpacked(files.content(path, one.salt))[0]))
        of_stream = np.full(max(int(table[:, 0].max(initial=0)), int(numbers.max())) + 1, -1, dtype=np.int64)
        of_stream[numbers] = place
        bounds.append(table[of_stream[table[:, 0]] >= 0])
        places.append(of_stream)
    return judged(bounds, places, one.streams, one.branches)
