"""Puts the parts of a run together, and writes the tables that need everything. One task does it,
so the driver never has the streams.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.reading.joining import SET_APART, to_bytes
from dcpinspect.spark import files
from dcpinspect.spark.analysis import EventLook, events_looked_for
from dcpinspect.spark.attempts import attempt
from dcpinspect.spark.manifest import BATCH, PARTS, Manifest
from dcpinspect.spark.nested import nested
from dcpinspect.spark.output_reading import RunResults, read_results
from dcpinspect.spark.outputs import write_tables
from dcpinspect.spark.record_files import WrittenAnew, mark_of
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.secrets import Secrets
from dcpinspect.spark.task_runner import TaskRunner
from dcpinspect.streams.changes import Changes
from dcpinspect.streams.events import VBUCKETS, EventQuery, FoundEvents
from dcpinspect.streams.histories import Contradiction, StreamPairs, contradictions
from dcpinspect.streams.tables import NAMES

SHARES = 2
"""Number of shares for each processor."""


def compare(
    tasks: TaskRunner,
    results: RunResults,
    secrets: Secrets,
    stem: str,
    wanted: EventQuery,
    pairs: StreamPairs,
) -> tuple[list[Contradiction], int]:
    """Compares streams as ``Differ`` says. The changes of each part go to files by vbucket, and from
    there to the task that compares them; only contradictions come here. ``stem``: path of the files.
    """
    looks = results.looks(wanted, secrets)
    shares = max(SHARES * tasks.processors, len(looks))
    sizes = [event_look.work.size for event_look in looks]
    write = partial(_written, shares=shares, stem=stem)
    change_files = tasks.map("comparing streams", write, looks, sizes)
    behind = min((vbuckets for _, vbuckets in change_files), default=VBUCKETS)
    vbuckets = wanted.vbuckets(pairs.first)
    items, sizes = [], []
    for share in range(shares):
        share_pairs = pairs[(vbuckets < behind) & (vbuckets % shares == share)]
        changes = [written[share] for written, _ in change_files if share in written]
        if len(share_pairs) and changes:
            items.append(([path for path, _ in changes], share_pairs))
            sizes.append(sum(size for _, size in changes))
    differing = partial(_differing, salt=results.manifest.salt)
    return list(chain(*tasks.map("comparing streams", differing, items, sizes))), behind


def _written(look: EventLook, *, shares: int, stem: str) -> tuple[dict[int, tuple[str, int]], int]:
    """Returns, for each share, the file with the changes of a part and how many bytes they have;
    and the first vbucket whose changes did not fit into memory.
    """
    found_events, attempt_name = events_looked_for(look), attempt()
    written = {}
    for share, changes in enumerate(found_events.divided(shares)):
        if changes:
            streams = np.repeat(
                np.array(list(changes), dtype=np.int64), [len(table) for table in changes.values()]
            )
            content = io.BytesIO()
            np.save(
                content,
                np.column_stack((streams, Changes.joined(list(changes.values())).as_integers())),
            )
            path = f"{stem}.{attempt_name}-{share}.changes"
            files.write(path, content.getvalue(), look.work.salt)
            written[share] = path, len(content.getvalue())
    return written, found_events.vbuckets


def _differing(
    share: tuple[Sequence[str], StreamPairs], *, salt: Salt | None
) -> list[Contradiction]:
    """Compares streams of some vbuckets, whose changes are in these files."""
    of_stream: dict[int, Changes] = {}
    paths, pairs = share
    for path in paths:
        rows = np.load(io.BytesIO(files.content(path, salt)))
        edges = np.flatnonzero(np.diff(rows[:, 0], prepend=-1))
        for begin, end in zip(edges, [*edges[1:], len(rows)], strict=True):
            of_stream[int(rows[begin, 0])] = Changes.of_integers(rows[begin:end, 1:])
    return contradictions(lambda stream: of_stream.get(stream, Changes.zeros(0)), pairs)


@dataclass(frozen=True, slots=True)
class RunParts:
    """A run whose parts are to be put together."""

    manifest: Manifest
    """The parts, and everything else that the run will commit."""
    batch: int
    secrets: Secrets
    there: Mapping[str, Sequence[str]]
    """The files of each table so far, as paths in its folder."""

    @classmethod
    def from_manifest(cls, manifest: Manifest, batch: int, secrets: Secrets) -> RunParts:
        """Returns what a task needs of a run."""
        there = {name: manifest.paths(name) for name in (*NAMES, "findings", "paths")}
        return cls(replace(manifest, opened={}, kept=None), batch, secrets, there)

    @property
    def stem(self) -> str:
        """Path of files of this run beside its parts, without the end that each attempt has."""
        return f"{self.manifest.out}/{PARTS}/{BATCH}{self.batch}/together"


@dataclass(frozen=True, slots=True)
class NewRows:
    """A part whose rows in the tables of ``SET_APART`` have to be written."""

    part: int
    """Place of the part in the manifest."""
    mark: str
    """``ManifestPart.of_whole`` of the part from now on."""
    of_whole: str
    """Path of the file with what only the whole shows of the part."""


@dataclass(frozen=True, slots=True)
class RunTables:
    """What was made of all parts."""

    tables: Mapping[str, WrittenAnew]
    """The changes to each table that was written."""
    rows: Sequence[NewRows]


def put_together(joining: RunParts, tasks: TaskRunner) -> tuple[RunResults, RunTables]:
    """Puts all parts together in this process, and writes their tables. Raises UsageError for parts
    that are missing or damaged.

    ``tasks``: compare streams.
    """
    results = read_results(joining.manifest, few=tasks)
    results.merged.compare(
        lambda wanted: _find_events(tasks, results, wanted, joining.secrets),
        partial(compare, tasks, results, joining.secrets, joining.stem),
    )
    rows = _new_rows(joining, results)
    return results, RunTables(write_tables(results, joining.batch, joining.there), rows)


def put_together_apart(joining: RunParts, tasks: TaskRunner) -> RunTables:
    """Puts all parts together in a task, and writes their tables. Raises UsageError."""
    return nested(
        tasks,
        "putting streams together",
        _apart,
        joining,
        stem=joining.stem,
        salt=joining.manifest.salt,
    )


def _apart(joining: RunParts, tasks: TaskRunner) -> RunTables:
    return put_together(joining, tasks)[1]


def _find_events(
    tasks: TaskRunner, results: RunResults, wanted: EventQuery, secrets: Secrets
) -> FoundEvents:
    """Reads the wanted events again, to compare streams."""
    looks = results.looks(wanted, secrets)
    sizes = [event_look.work.size for event_look in looks]
    return FoundEvents.joined(
        wanted, tasks.map("comparing streams", events_looked_for, looks, sizes)
    )


def _new_rows(joining: RunParts, results: RunResults) -> list[NewRows]:
    """Returns the parts of which the tables lack rows, or have others."""
    manifest = joining.manifest
    there = {name: set(joining.there[name]) for name in SET_APART}
    new = []
    part_numbers = (
        part_number
        for part_number, manifest_part in enumerate(manifest.parts)
        if not manifest_part.is_copy
    )
    # if there are no parts, one empty part stands in for them
    for part_number, of_whole in zip(part_numbers, results.merged.of_parts(), strict=False):
        manifest_part, mark = manifest.parts[part_number], mark_of(of_whole, len(manifest.units))
        has_rows = all(
            name.removeprefix(f"{table}/") in there[table]
            for table, name in manifest_part.tables.items()
        )
        if manifest_part.of_whole != mark or not has_rows:
            path = f"{joining.stem}.{attempt()}.whole"
            files.write(path, to_bytes(of_whole), manifest.salt)
            new.append(NewRows(part_number, mark, path))
    return new
