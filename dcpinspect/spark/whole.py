"""Puts all parts of an output together, with the same result as one reading of all captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dcpinspect.capture.batch import Column
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape
from dcpinspect.growing import give_back
from dcpinspect.parts import Merged, Part, merged, merged_apart
from dcpinspect.protocol.columns import Mask
from dcpinspect.records import dataclass
from dcpinspect.spark import files
from dcpinspect.spark.analysis import EventLook, Work, look, nothing
from dcpinspect.spark.bundles import group_sizes, read_keys
from dcpinspect.spark.disputes import judge
from dcpinspect.spark.looks import include_looks
from dcpinspect.spark.manifest import FEW, Manifest, ManifestPart, Read
from dcpinspect.spark.program import program
from dcpinspect.spark.secrets import Secrets
from dcpinspect.spark.tasks import OwnTasks, Tasks
from dcpinspect.streams.events import EventQuery, FoundEvents


@dataclass(frozen=True, slots=True)
class RunResults:
    """The parts that a manifest names, and all of them as one."""

    manifest: Manifest
    kept: Sequence[ManifestPart]
    """The parts that are put together, as the manifest has them, without copies."""
    begun: Sequence[Column]
    """For each part, the packet that began each connection, as ``Part.opened_by``."""
    merged: Merged
    copies: Merged
    """What is known of connections that were captured more completely at another point."""
    copied: Sequence[tuple[ManifestPart, Column]]
    """The parts of these connections, each with the packets that began its connections."""

    def looks(self, wanted: EventQuery, secrets: Secrets) -> list[EventLook]:
        """Returns the parts that must be read again to compare streams."""
        works = zip(works_of(self.manifest, self.kept, secrets), self.merged.numbers, strict=True)
        connections = wanted.connections
        return [EventLook(work, wanted.on(numbers), numbers) for work, numbers in works if np.isin(connections, numbers).any()]


def names_of(units: Sequence[Read]) -> list[str]:
    """Returns the names of the captures in tables, by number."""
    return [escape(one.unit.name) for one in units]


def whole(manifest: Manifest, *, few: Tasks | None = None) -> RunResults:
    """Puts all parts together, without comparing their streams. Raises UsageError for parts that are missing or damaged.

    ``few``: tasks that find out which snapshots and gaps cannot be part of a finding; these are left out, but counted.
    """
    if manifest.program != program():
        out = escape(manifest.out)
        what = f"{out}: was written by another build of dcpinspect ({escape(manifest.program)}; this is {program()})"
        again = f"write 'dcpinspect pipeline run CAPTURES… -o {out}', which reads it again from the packets that are there"
        raise UsageError(f"{what}; {again}; 'dcpinspect pipeline sql {out} \"from findings\"' shows what was found then")
    left_out: Counter[str] = Counter()
    for number in manifest.counting:
        left_out.update(manifest.units[number].report.left_out)
    kept = [one for one in manifest.parts if not one.is_copy]
    copied = [one for one in manifest.parts if one.is_copy]
    names = names_of(manifest.units)
    together, begun = _together(manifest, kept, names, left_out, few=few)
    copies, begun_copies = _together(manifest, copied, names, {}, few=few)
    give_back()  # each part is freed as soon as it is in the whole
    return RunResults(manifest, kept, begun, together, copies, list(zip(copied, begun_copies, strict=True)))


def _together(
    manifest: Manifest, kept: Sequence[ManifestPart], names: Sequence[str], left_out: Mapping[str, int], *, few: Tasks | None
) -> tuple[Merged, list[Column]]:
    def having(number: int, but: Mask | None) -> Part:
        part = _read(manifest, kept[number], FEW if but is None else "")
        if but is not None:
            part.tracker.set_apart(but)
        return part

    if few is not None and kept:
        own = partial(judge, few, [manifest.path(one.file) for one in kept], manifest.salt)
        return merged_apart(having, len(kept), own, names, left_out=left_out)
    parts = [_read(manifest, one) for one in kept]
    return merged(parts or [nothing(names)], names, left_out=left_out), [part.opened_by for part in parts]


def _read(manifest: Manifest, kept: ManifestPart, ending: str = "") -> Part:
    path = f"{manifest.path(kept.file)}{ending}"
    try:
        part = Part.from_bytes(files.content(path, manifest.salt))
    except (OSError, ValueError) as error:
        what = f"{escape(path)}: cannot be read ({escape(str(error))})"
        raise UsageError(f"{what}; run the pipeline into a new directory") from error
    include_looks(part, map(manifest.path, (*kept.looks, *kept.ending_looks)), manifest.salt)
    return part


def compared(manifest: Manifest, secrets: Secrets | None = None, *, few: bool = False) -> RunResults:
    """Puts all parts together, and compares their streams in this process."""
    found = whole(manifest, few=OwnTasks() if few else None)
    known = secrets or Secrets()
    found.merged.compare(lambda wanted: FoundEvents.joined(wanted, [look(one) for one in found.looks(wanted, known)]))
    return found


def with_embedded(manifest: Manifest, secrets: Secrets, point: str) -> Secrets:
    """Returns the secrets of a capture point, with those in all of its captures."""
    found = [one for one in map(manifest.units.__getitem__, manifest.counting) if one.unit.point == point and one.report.secrets]
    return replace(secrets.of(point), captures=[(one.unit.path, one.report.secrets) for one in found])


def works_of(manifest: Manifest, parts: Sequence[ManifestPart], secrets: Secrets) -> list[Work]:
    """Returns the work that reads each of the parts again."""
    found = []
    groups = {number: group_sizes(manifest.index(number)).keys() for number in manifest.counting}
    files = names_of(manifest.units)
    for part in parts:
        keys = read_keys(manifest.path(part.file))
        bundles = [
            one
            for number in groups
            if manifest.units[number].unit.point == part.point and not groups[number].isdisjoint(keys)
            for one in manifest.bundled(number, keys)
        ]
        found.append(
            Work(
                part.point,
                files,
                bundles,
                secrets=with_embedded(manifest, secrets, part.point),
                salt=manifest.salt,
                **ports(manifest),
            )
        )
    return found


def ports(manifest: Manifest) -> dict[str, Any]:
    """Returns the options by which connections are found."""
    return {"extra_ports": tuple(manifest.options["extra_ports"]), "find_ports": bool(manifest.options["find_ports"])}
