"""Puts all parts of an output together, with the same result as one reading of all captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, give_back
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.reading.joining import MergedReading, ReadingPart, merged, merged_apart
from dcpinspect.spark import files
from dcpinspect.spark.analysis import EventLook, PartTask, events_looked_for, nothing
from dcpinspect.spark.bundles import group_sizes, read_keys
from dcpinspect.spark.manifest import FEW, Manifest, ManifestPart, ReadUnit
from dcpinspect.spark.part_disputes import judge
from dcpinspect.spark.program import program
from dcpinspect.spark.record_files import include_looks
from dcpinspect.spark.secrets import Secrets
from dcpinspect.spark.task_runner import TaskRunner
from dcpinspect.streams.events import EventQuery, FoundEvents
from dcpinspect.text import escape


@dataclass(frozen=True, slots=True)
class RunResults:
    """The parts that a manifest names, and all of them as one."""

    manifest: Manifest
    kept: Sequence[ManifestPart]
    """The parts that are put together, as the manifest has them, without copies."""
    begun: Sequence[IntArray]
    """For each part, the packet that began each connection, as ``ReadingPart.opened_by``."""
    merged: MergedReading
    copies: MergedReading
    """What is known of connections that were captured more completely at another point."""
    copied: Sequence[tuple[ManifestPart, IntArray]]
    """The parts of these connections, each with the packets that began its connections."""

    def looks(self, wanted: EventQuery, secrets: Secrets) -> list[EventLook]:
        """Returns the parts that must be read again to compare streams."""
        works = zip(works_of(self.manifest, self.kept, secrets), self.merged.numbers, strict=True)
        connections = wanted.connections
        return [
            EventLook(work, wanted.on(numbers), numbers)
            for work, numbers in works
            if np.isin(connections, numbers).any()
        ]


def names_of(units: Sequence[ReadUnit]) -> list[str]:
    """Returns the names of the captures in tables, by number."""
    return [escape(unit_read.unit.name) for unit_read in units]


def read_results(manifest: Manifest, *, few: TaskRunner | None = None) -> RunResults:
    """Puts all parts together, without comparing their streams. Raises UsageError for parts that
    are missing or damaged.

    ``few``: tasks that find out which snapshots and gaps cannot be part of a finding; these are
    left out, but counted.
    """
    if manifest.program != program():
        folder = escape(manifest.out)
        problem = (
            f"{folder}: was written by another build of dcpinspect ({escape(manifest.program)}; "
            f"this is {program()})"
        )
        again = (
            f"write 'dcpinspect pipeline run CAPTURES… -o {folder}', which reads it again from "
            "the packets that are there"
        )
        raise UsageError(
            f"{problem}; {again}; 'dcpinspect pipeline sql {folder} \"from findings\"' shows what "
            "was found then"
        )
    left_out: Counter[str] = Counter()
    for number in manifest.counting:
        left_out.update(manifest.units[number].report.left_out)
    counting_parts = [
        manifest_part for manifest_part in manifest.parts if not manifest_part.is_copy
    ]
    copied = [manifest_part for manifest_part in manifest.parts if manifest_part.is_copy]
    names = names_of(manifest.units)
    together, begun = _together(manifest, counting_parts, names, left_out, few=few)
    copies, begun_copies = _together(manifest, copied, names, {}, few=few)
    give_back()  # each part is freed as soon as it is in the whole
    units = [unit for unit in manifest.units if not unit.continued]
    times_ns = [unit.last_ns for unit in units if unit.last_ns is not None]
    return RunResults(
        manifest,
        counting_parts,
        begun,
        replace(
            together,
            packets=sum(unit.report.packets for unit in units),
            last_time_ns=max(times_ns, default=None),
        ),
        copies,
        list(zip(copied, begun_copies, strict=True)),
    )


def _together(
    manifest: Manifest,
    counting_parts: Sequence[ManifestPart],
    names: Sequence[str],
    left_out: Mapping[str, int],
    *,
    few: TaskRunner | None,
) -> tuple[MergedReading, list[IntArray]]:
    def having(number: int, but: BoolArray | None) -> ReadingPart:
        merged_part = _read(manifest, counting_parts[number], FEW if but is None else "")
        if but is not None:
            merged_part.tracker.set_apart(but)
        return merged_part

    if few is not None and counting_parts:
        judge_gaps = partial(
            judge,
            few,
            [manifest.path(manifest_part.file) for manifest_part in counting_parts],
            manifest.salt,
        )
        return merged_apart(having, len(counting_parts), judge_gaps, names, left_out=left_out)
    merged_parts = [_read(manifest, manifest_part) for manifest_part in counting_parts]
    return merged(merged_parts or [nothing(names)], names, left_out=left_out), [
        merged_part.opened_by for merged_part in merged_parts
    ]


def _read(manifest: Manifest, kept: ManifestPart, ending: str = "") -> ReadingPart:
    path = f"{manifest.path(kept.file)}{ending}"
    with files.reading_known_file(path):
        merged_part = ReadingPart.from_bytes(files.content(path, manifest.salt))
    include_looks(merged_part, map(manifest.path, (*kept.looks, *kept.ending_looks)), manifest.salt)
    return merged_part


def compared(
    manifest: Manifest, secrets: Secrets | None = None, *, few: bool = False
) -> RunResults:
    """Puts all parts together, and compares their streams in this process."""
    results = read_results(manifest, few=TaskRunner() if few else None)
    known_secrets = secrets or Secrets()
    results.merged.compare(
        lambda wanted: FoundEvents.joined(
            wanted,
            [events_looked_for(event_look) for event_look in results.looks(wanted, known_secrets)],
        )
    )
    return results


def with_embedded(manifest: Manifest, secrets: Secrets, point: str) -> Secrets:
    """Returns the secrets of a capture point, with those in all of its captures."""
    with_secrets = [
        unit_read
        for unit_read in map(manifest.units.__getitem__, manifest.counting)
        if unit_read.unit.point == point and unit_read.report.secrets
    ]
    return replace(
        secrets.of_point(point),
        captures=[(unit_read.unit.path, unit_read.report.secrets) for unit_read in with_secrets],
    )


def works_of(
    manifest: Manifest, manifest_parts: Sequence[ManifestPart], secrets: Secrets
) -> list[PartTask]:
    """Returns the work that reads each of the parts again."""
    works = []
    groups = {number: group_sizes(manifest.index(number)).keys() for number in manifest.counting}
    for manifest_part in manifest_parts:
        keys = read_keys(manifest.path(manifest_part.file))
        units = [
            number
            for number in groups
            if manifest.units[number].unit.point == manifest_part.point
            and not groups[number].isdisjoint(keys)
        ]
        works.append(work_of(manifest, manifest_part.point, units, keys, secrets))
    return works


def work_of(
    manifest: Manifest,
    point: str,
    units: Sequence[int],
    keys: Sequence[bytes],
    secrets: Secrets,
    *,
    part: str = "",
    messages: str = "",
) -> PartTask:
    """Returns the work that reads some groups of a point. ``part``, ``messages``: where to."""
    return PartTask(
        point,
        names_of(manifest.units),
        [bundle for number in units for bundle in manifest.bundled(number, keys)],
        secrets=with_embedded(manifest, secrets, point),
        salt=manifest.salt,
        **ports(manifest),
        part=part,
        messages=messages,
    )


def ports(manifest: Manifest) -> dict[str, Any]:
    """Returns the options by which connections are found."""
    return {
        "extra_ports": tuple(manifest.options["extra_ports"]),
        "find_ports": bool(manifest.options["find_ports"]),
    }
