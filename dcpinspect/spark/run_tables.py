"""Puts the parts of a run together, and writes the tables that need everything. One task does it,
so the driver never has the streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.reading.joining import SET_APART, to_bytes
from dcpinspect.spark import files, part_histories
from dcpinspect.spark.analysis import events_looked_for
from dcpinspect.spark.attempts import attempt
from dcpinspect.spark.manifest import BATCH, PARTS, Manifest
from dcpinspect.spark.nested import nested
from dcpinspect.spark.output_reading import RunResults, read_results
from dcpinspect.spark.outputs import write_tables
from dcpinspect.spark.record_files import WrittenAnew, mark_of
from dcpinspect.spark.secrets import Secrets
from dcpinspect.spark.task_runner import TaskRunner
from dcpinspect.streams.events import EventQuery, FoundEvents
from dcpinspect.streams.tables import NAMES


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
    """``Kept.of_whole`` of the part from now on."""
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
        partial(part_histories.compare, tasks, results, joining.secrets, joining.stem),
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
    return FoundEvents.joined(
        wanted,
        tasks.map(
            "comparing streams",
            events_looked_for,
            looks,
            [event_look.work.size for event_look in looks],
        ),
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
        if manifest_part.of_whole != mark or not manifest.has_rows_of(manifest_part, there):
            path = f"{joining.stem}.{attempt()}.whole"
            files.write(path, to_bytes(of_whole), manifest.salt)
            new.append(NewRows(part_number, mark, path))
    return new
