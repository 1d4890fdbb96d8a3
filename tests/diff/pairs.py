"""Pairs of captures made to be compared: conversations told twice, and what the comparison
finds.
"""

from __future__ import annotations

from pathlib import Path

from dcpinspect.diff.difference_columns import DifferenceRow, Differences
from dcpinspect.diff.differences import SideComparison
from dcpinspect.diff.reading_side import ComparisonSide
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.spool import Spool
from dcpinspect.tables.select import Selection
from tests.peers.script import Stream
from tests.streams.told import Told, capture, opened

LOG = ((0xABCD, 0),)


def compared(
    a: Path, b: Path, wanted: tuple[Selection, Selection] = (Selection(), Selection())
) -> Differences:
    """What the comparison of two captures finds."""
    spool = Spool()
    try:
        sides: list[ComparisonSide] = []
        for name, path, chosen in zip("ab", (a, b), wanted, strict=True):
            sides.append(ComparisonSide(name, Reading([str(path)], track=True), spool))
            sides[-1].read(chosen)
        with SideComparison(spool) as comparison:
            return comparison.compare(sides[0], sides[1])
    finally:
        spool.close()


def told(folder: Path, a: Told, b: Told) -> Differences:
    """The same of two conversations."""
    paths = folder / "a.pcap", folder / "b.pcap"
    for path, talk in zip(paths, (a, b), strict=True):
        path.write_bytes(capture(talk))
    return compared(*paths)


def streaming(
    vbucket: int = 7,
    *flags: str,
    log: tuple[tuple[int, int], ...] = LOG,
    start: int = 0,
    **asked: object,
) -> tuple[Told, Stream]:
    """A connection with one stream."""
    talk = opened("test:1", *flags)
    return talk, talk.stream(vbucket, log=list(log), start=start, uuid=log[0][0], **asked)  # type: ignore[arg-type]


def brief(found: Differences) -> list[tuple[object, ...]]:
    """Kind, side that lacks it, seqnos and events of each record."""
    return [brief_of(row) for row in found.rows]


def brief_of(row: DifferenceRow) -> tuple[object, ...]:
    """The same of one."""
    return row["kind"], row["lacks"], row["first_seqno"], row["last_seqno"], row["events"]
