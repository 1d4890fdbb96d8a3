"""What is kept of captures, and of parts, in pieces: each has those that some consecutive runs have read.

A run writes a piece of its own, and again those in which something has changed. At the end the smaller ones become one. So there are few
pieces, and of a hundred thousand captures a run does not write all: on average each is written again as often as their number doubles.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dcpinspect.spark import files

TABLES = ("captures", "bad")
"""Tables that are written in the same pieces."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The captures, or the parts, of some consecutive runs."""

    low: int
    """The first of these runs."""
    high: int
    """The last one."""
    run: int
    """That which wrote the piece."""
    name: str
    """Of its files."""

    @property
    def batches(self) -> range:
        """These runs."""
        return range(self.low, self.high + 1)

    @property
    def rows(self) -> str:
        """Its file of each table that is in pieces, as a path in the folder of that."""
        return f"batch={self.run}/{self.name}.parquet"

    @property
    def state(self) -> str:
        """Name of the file that has the captures, or parts, themselves."""
        return f"{self.name}.json.zst"


def divided(before: Sequence[Piece], changed: Collection[int], rows: Mapping[int, int], run: int, attempt: str) -> list[Piece]:
    """The pieces after a run; those that it has to write have its number.

    ``changed``: runs of which something is not as it was; ``rows``: by run, how much there is of it; ``attempt``: in the names of files.
    """

    def new(low: int, high: int) -> Piece:
        return Piece(low, high, run, f"{low}-{high}-{attempt}")

    def size(piece: Piece) -> int:
        return sum(count for batch, count in rows.items() if batch in piece.batches)

    found = [new(one.low, one.high) if any(batch in one.batches for batch in changed) else one for one in before]
    found.append(new(found[-1].high + 1 if found else 0, run))
    while len(found) > 1 and 2 * size(found[-1]) > size(found[-2]):
        found[-2:] = [new(found[-2].low, found[-1].high)]
    return found


def write(folder: str, piece: Piece, everything: Sequence[Any]) -> None:
    """Writes what is in a piece of all captures, or parts, each with its number."""
    import zstandard  # deferred: few look at pieces

    content = [[number, asdict(one)] for number, one in enumerate(everything) if one.batch in piece.batches]
    files.write(f"{folder}/{piece.state}", zstandard.compress(json.dumps(content).encode(), 1))


def read(folder: str, pieces: Sequence[Piece]) -> list[tuple[int, Any]]:
    """All that is in pieces, as JSON has it, each with its number. Raises OSError, ValueError."""
    import zstandard  # deferred: as above

    found: list[tuple[int, Any]] = []
    for piece in pieces:
        try:
            found += json.loads(zstandard.decompress(files.content(f"{folder}/{piece.state}")))
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
    return found
