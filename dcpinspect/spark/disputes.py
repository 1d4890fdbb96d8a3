"""Which streams have gaps in dispute, found out by tasks: each looks at some vbuckets, in what parts have told of their gaps."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dcpinspect.capture.batch import Column
from dcpinspect.parts import judged, packed, unpacked
from dcpinspect.protocol.columns import Mask
from dcpinspect.spark import files
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.tasks import Tasks
from dcpinspect.streams.rows import Streams

ENDING = ".gaps"
"""What the name of a part's file ends with that has its gaps."""
SHARES = 2
"""Tasks for each processor."""


@dataclass(frozen=True, slots=True)
class _Share:
    """Streams of some vbuckets, and the places that those of parts have among them."""

    parts: Sequence[tuple[str, Column, Column]]
    """File of the part; numbers of its streams there, and their places."""
    streams: Streams
    branches: Column
    salt: Salt | None


def write_bounds(part: str, bounds: Column, salt: Salt | None) -> str:
    """Writes what is told of the gaps of a part beside it, and gives the path."""
    content = io.BytesIO()
    np.save(content, bounds)
    files.write(f"{part}{ENDING}", packed([content.getvalue()]), salt)
    return f"{part}{ENDING}"


def judge(tasks: Tasks, parts: Sequence[str], salt: Salt | None, places: Sequence[Column], streams: Streams, branches: Column) -> Mask:
    """As ``Judge`` of parts has it; ``parts``: their paths."""
    shares = SHARES * tasks.processors
    found, items, chosen = np.zeros(len(streams), dtype=np.bool_), [], []
    for share in range(shares):
        own = np.flatnonzero(streams.vbucket % shares == share)
        if not len(own):
            continue
        among = np.full(len(streams) + 1, -1, dtype=np.int64)  # the last one is that of others
        among[own] = np.arange(len(own))
        of_parts = []
        for part, place in zip(parts, places, strict=True):
            here = among[place]
            numbers = np.flatnonzero(here >= 0)
            if len(numbers):
                of_parts.append((f"{part}{ENDING}", numbers, here[numbers]))
        items.append(_Share(of_parts, streams[own], branches[own], salt))
        chosen.append(own)
    for own, mask in zip(chosen, tasks.each("comparing gaps", _judged, items, [len(one.streams) for one in items]), strict=True):
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
