"""Stores captures and parts in pieces: each piece has those that some consecutive runs have read.

A run writes a piece of its own, and rewrites pieces in which something has changed. At the end,
smaller pieces are merged into one. So there are few pieces, and a run need not write all of a
hundred thousand captures. On average, each capture is written again once per doubling.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark import files

TABLES = ("captures", "bad")
"""Tables that are written in the same pieces."""


@dataclass(frozen=True, slots=True)
class ManifestPiece:
    """The captures or the parts of some consecutive runs."""

    low: int
    """Number of the first run."""
    high: int
    """Number of the last run."""
    run: int
    """Number of the run that wrote the piece."""
    name: str
    """Name of the piece's files, without ending."""

    @property
    def batches(self) -> range:
        """Numbers of the runs whose captures or parts are in the piece."""
        return range(self.low, self.high + 1)

    @property
    def rows(self) -> str:
        """The piece's file in each table of ``TABLES``, as a path in the folder of the table."""
        return f"batch={self.run}/{self.name}.parquet"

    @property
    def state(self) -> str:
        """Name of the file with the captures or parts."""
        return f"{self.name}.json.zst"


def divided(
    before: Sequence[ManifestPiece],
    changed: Collection[int],
    rows: Mapping[int, int],
    run: int,
    attempt: str,
) -> list[ManifestPiece]:
    """Returns the pieces after a run; pieces that the run has to write have its number.

    ``changed``: runs of which something has changed. ``rows``: number of captures or parts, by run.
    ``attempt``: used in the names of files.
    """

    def new(low: int, high: int) -> ManifestPiece:
        return ManifestPiece(low, high, run, f"{low}-{high}-{attempt}")

    def size(piece: ManifestPiece) -> int:
        return sum(count for batch, count in rows.items() if batch in piece.batches)

    pieces = [
        new(earlier.low, earlier.high)
        if any(batch in earlier.batches for batch in changed)
        else earlier
        for earlier in before
    ]
    pieces.append(new(pieces[-1].high + 1 if pieces else 0, run))
    while len(pieces) > 1 and 2 * size(pieces[-1]) > size(pieces[-2]):
        pieces[-2:] = [new(pieces[-2].low, pieces[-1].high)]
    return pieces


def write(folder: str, piece: ManifestPiece, everything: Sequence[Any]) -> None:
    """Writes the captures or parts of a piece, each with its number in ``everything``."""
    from dcpinspect.capture.zstd import zstd  # deferred: pieces are rarely written

    content = [
        [number, asdict(entry)]
        for number, entry in enumerate(everything)
        if entry.batch in piece.batches
    ]
    files.write(f"{folder}/{piece.state}", zstd.compress(json.dumps(content).encode(), 1))


def read(folder: str, pieces: Sequence[ManifestPiece]) -> list[tuple[int, Any]]:
    """Reads captures or parts in pieces, as JSON with numbers. Raises OSError, ValueError."""
    from dcpinspect.capture.zstd import zstd  # deferred, as above

    entries: list[tuple[int, Any]] = []
    for piece in pieces:
        try:
            entries += json.loads(zstd.decompress(files.content(f"{folder}/{piece.state}")))
        except zstd.ZstdError as error:
            raise ValueError(str(error)) from error
    return entries
