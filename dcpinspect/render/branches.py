"""The history of a vbucket as its failover logs tell it: branches, where each leaves its parent, and the streams that requested it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from dcpinspect.records import dataclass
from dcpinspect.render.lanes import Scale
from dcpinspect.streams.story import StreamStory

_LINE, _LEFT, _LEAVES = "━", "╌", "┻"
"""Glyphs for a branch, for the part of it that later branches do not share, and for the place where another branch leaves it."""


@dataclass(slots=True)
class Branch:
    """One entry of failover logs."""

    uuid: int | None
    """None: the branch of streams for which nobody knows what they requested."""
    start: int | None = None
    """Seqno where the branch begins; None: no log contains the branch, only a request does."""
    end: int = 0
    """Greatest known seqno of the branch."""
    parent: int | None = None
    """UUID of the branch that it leaves; None: it is the first branch, or this is unknown."""
    leaves: list[int] = field(default_factory=list)
    """Seqnos where other branches leave this one."""
    streams: list[int] = field(default_factory=list)
    """Places of the streams that requested the branch."""


def branches(streams: Sequence[StreamStory]) -> list[Branch]:
    """Returns all branches in logs and requests, the newest first."""
    found: dict[int | None, Branch] = {}
    for story in streams:
        log: Sequence[tuple[int, int]] = story.stream["failover_log"] or ()
        for number, (uuid, seqno) in enumerate(log, 1):
            branch = found.setdefault(uuid, Branch(uuid))
            branch.start = seqno if branch.start is None else min(branch.start, seqno)
            if number < len(log):
                branch.parent = log[number][0]
    for place, story in enumerate(streams):
        asked = _asked(story)
        branch = found.setdefault(asked, Branch(asked))
        branch.streams.append(place)
        stream = story.stream
        branch.end = max(branch.end, stream["requested_start"] or 0, stream["last_seqno"] or 0)
    for branch in found.values():
        branch.end = max(branch.end, branch.start or 0)
        if branch.parent is not None:
            found[branch.parent].leaves.append(branch.start or 0)
            found[branch.parent].end = max(found[branch.parent].end, branch.start or 0)
    return sorted(found.values(), key=lambda one: (one.start is None, -(one.start or 0)))


def _asked(story: StreamStory) -> int | None:
    """Returns the branch that a stream requested; for a stream without data so far, the oldest one in the log of its answer."""
    uuid, log = story.stream["vbucket_uuid"], story.stream["failover_log"]
    return int(uuid) if uuid else log[-1][0] if log else None


def drawn(branch: Branch, scale: Scale, columns: int) -> npt.NDArray[np.str_]:
    """Returns a line of ``columns`` characters: heavy while later branches share the branch, broken after the last of them has left it."""
    text = np.full(columns, " ")
    start = branch.start if branch.start is not None else scale.first
    first, last = column_of(start, scale, columns), column_of(branch.end, scale, columns)
    shared = max(branch.leaves, default=branch.end)
    text[first : last + 1] = _LEFT
    text[first : column_of(shared, scale, columns) + 1] = _LINE
    for at in branch.leaves:
        if scale.first <= at <= scale.last:
            text[column_of(at, scale, columns)] = _LEAVES
    if scale.first <= start <= scale.last:
        text[first] = "?" if branch.start is None else "┏" if branch.parent is not None else "●"
    return text


def column_of(seqno: int, scale: Scale, columns: int) -> int:
    """Returns the column of a seqno; for a seqno outside, the nearest column."""
    cell = (min(max(seqno, scale.first), scale.last) - scale.first) // scale.step
    return -(-cell * columns // scale.cells)


def words(branch: Branch) -> str:
    """Describes a branch."""
    if branch.uuid is None:
        return "branch not known"
    if branch.start is None:
        return f"uuid 0x{branch.uuid:016x}, in no failover log of the capture"
    return f"uuid 0x{branch.uuid:016x} from seqno {branch.start}"


def connectors(found: Sequence[Branch], above: int, place: int, scale: Scale, columns: int) -> Iterator[int]:
    """Yields the columns in which one of the first ``above`` branches rises from an older branch that is drawn below ``place``."""
    for branch in found[:above]:
        is_below = branch.parent is not None and any(one.uuid == branch.parent for one in found[place + 1 :])
        if is_below and branch.start is not None and scale.first <= branch.start <= scale.last:
            yield column_of(branch.start, scale, columns)
