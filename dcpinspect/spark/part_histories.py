"""Compares streams of one history in tasks. The changes of each part go to files by vbucket, and
from there to the task that compares them.

Only the contradictions come to the process that asks for them, never the changes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import chain

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark import files
from dcpinspect.spark.analysis import EventLook, events_looked_for
from dcpinspect.spark.attempts import attempt
from dcpinspect.spark.output_reading import RunResults
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.secrets import Secrets
from dcpinspect.spark.task_runner import TaskRunner
from dcpinspect.streams.changes import Changes
from dcpinspect.streams.events import VBUCKETS, EventQuery
from dcpinspect.streams.histories import Contradiction, StreamPairs, contradictions

SHARES = 2
"""Number of shares for each processor."""


@dataclass(frozen=True, slots=True)
class _Sought:
    """A part from which changes are wanted."""

    look: EventLook
    shares: int
    stem: str
    """Path of the files, without the end that is different for each attempt."""


@dataclass(frozen=True, slots=True)
class _HistoryShare:
    """Streams of some vbuckets that are to be compared."""

    files: Sequence[str]
    pairs: StreamPairs
    salt: Salt | None


def compare(
    tasks: TaskRunner,
    results: RunResults,
    secrets: Secrets,
    stem: str,
    wanted: EventQuery,
    pairs: StreamPairs,
) -> tuple[list[Contradiction], int]:
    """Compares streams as ``Differ`` says. ``stem``: path of temporary files."""
    looks = results.looks(wanted, secrets)
    shares = max(SHARES * tasks.processors, len(looks))
    change_files = tasks.map(
        "comparing streams",
        _written,
        [_Sought(event_look, shares, stem) for event_look in looks],
        [event_look.work.size for event_look in looks],
    )
    behind = min((vbuckets for _, vbuckets in change_files), default=VBUCKETS)
    vbuckets = wanted.vbuckets(pairs.first)
    items, sizes = [], []
    for share in range(shares):
        share_pairs = pairs[(vbuckets < behind) & (vbuckets % shares == share)]
        changes = [written[share] for written, _ in change_files if share in written]
        if len(share_pairs) and changes:
            items.append(
                _HistoryShare([path for path, _ in changes], share_pairs, results.manifest.salt)
            )
            sizes.append(sum(size for _, size in changes))
    return list(chain(*tasks.map("comparing streams", _differing, items, sizes))), behind


def _written(sought: _Sought) -> tuple[dict[int, tuple[str, int]], int]:
    """Returns, for each share, the file with its changes and how many bytes they have; and the
    first vbucket whose changes did not fit into memory.
    """
    found_events, attempt_name = events_looked_for(sought.look), attempt()
    written = {}
    for share, changes in enumerate(found_events.divided(sought.shares)):
        if changes:
            streams = np.repeat(
                np.array(list(changes), dtype=np.int64), [len(table) for table in changes.values()]
            )
            content = io.BytesIO()
            np.save(
                content,
                np.column_stack((streams, Changes.joined(list(changes.values())).as_integers())),
            )
            path = f"{sought.stem}.{attempt_name}-{share}.changes"
            files.write(path, content.getvalue(), sought.look.work.salt)
            written[share] = path, len(content.getvalue())
    return written, found_events.vbuckets


def _differing(share: _HistoryShare) -> list[Contradiction]:
    of_stream: dict[int, Changes] = {}
    for path in share.files:
        rows = np.load(io.BytesIO(files.content(path, share.salt)))
        edges = np.flatnonzero(np.diff(rows[:, 0], prepend=-1))
        for begin, end in zip(edges, [*edges[1:], len(rows)], strict=True):
            of_stream[int(rows[begin, 0])] = Changes.of_integers(rows[begin:end, 1:])
    return contradictions(lambda stream: of_stream.get(stream, Changes.zeros(0)), share.pairs)
