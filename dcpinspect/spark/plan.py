"""Plans a run: which captures are new, what numbers they get, and which parts they affect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import merge
from typing import Any

from dcpinspect.errors import UsageError
from dcpinspect.spark.analysis import MOST_SHARES, PartTask
from dcpinspect.spark.bundles import group_marks, group_sizes, read_keys
from dcpinspect.spark.data_marks import GroupMarks, together
from dcpinspect.spark.manifest import BATCH, PARTS, Manifest, ManifestPart, ReadUnit
from dcpinspect.spark.output_reading import work_of
from dcpinspect.spark.secrets import Secrets
from dcpinspect.spark.states import mark_of
from dcpinspect.spark.stitch import PointPackets, balanced, components, copies
from dcpinspect.spark.units import END, Unit, in_order
from dcpinspect.streams.events import new_secrets

PART_BYTES = 8 << 20
"""Least size of a part in bytes, except if there is less data."""
PARTS_A_PROCESSOR = 2


def new_units(manifest: Manifest, units: Iterable[Unit]) -> list[Unit]:
    """Returns units that have not been read, each once, and those that could not be opened."""
    identities = {
        _identity(unit_read.unit)
        for unit_read in manifest.units
        if unit_read.begins or not unit_read.continued
    }
    new = []
    for unit in units:
        if not unit.head or _identity(unit) not in identities:
            identities.add(_identity(unit))
            new.append(unit)
    return new


def copies_in(units: Sequence[Unit]) -> int:
    """Returns how many of the units have the same bytes as another one of them."""
    return len(units) - len(set(map(_identity, units)))


def _identity(unit: Unit) -> tuple[Any, ...]:
    """Returns what identifies a unit: for a unit without readable bytes, its path."""
    return unit.identity if unit.size and unit.head else (unit.point, unit.path)


def numbered(manifest: Manifest, read: Sequence[ReadUnit]) -> tuple[Manifest, bool]:
    """Returns the manifest with newly read units, and whether older units have new numbers now.

    Units of a point are numbered in their order, and units of different points by the times of
    their first packets. New units are numbered after the old ones, except if one belongs before an
    old unit of its point.
    """
    batch = manifest.number + 1
    good, bad = ([unit for unit in read if unit.is_bad is is_bad] for is_bad in (False, True))
    further, again = {unit.after for unit in good} - {""}, {unit.unit.path for unit in read}
    old = []
    for unit in manifest.units:
        is_begin = unit.bundles in further
        is_read = unit.is_bad and unit.unit.path in again and not unit.continued
        old.append(replace(unit, continued=True, begins=is_begin) if is_begin or is_read else unit)
    before = [unit for unit in old if not unit.is_bad and not unit.continued]
    ordered = _ordered([*before, *good])
    of_before = {point: [unit for unit in before if unit.unit.point == point] for point in ordered}
    is_renumbered = any(
        point_units[: len(of_before[point])] != of_before[point]
        for point, point_units in ordered.items()
    )
    if is_renumbered:
        put_aside = [unit for unit in old if unit.is_bad or (unit.continued and not unit.begins)]
        begun = {unit.bundles: unit for unit in old if unit.begins}
        units = [
            *put_aside,
            *(reading for unit in _by_time(ordered) for reading in _whole_of(unit, begun)),
            *bad,
        ]
    else:
        coming = {
            point: [unit for unit in point_units if unit.batch == batch]
            for point, point_units in ordered.items()
        }
        units = [*old, *_by_time(coming), *bad]
    renumbered, base = [], 0
    for unit in units:
        base -= unit.skipped
        # unchanged units are not written again
        renumbered.append(unit if unit.base == base else replace(unit, base=base))
        base += unit.report.packets
    return replace(manifest, units=renumbered), is_renumbered


def _whole_of(unit: ReadUnit, begun: Mapping[str, ReadUnit]) -> list[ReadUnit]:
    """Returns a unit after the readings that have its earlier packets."""
    readings = [unit]
    while readings[-1].after in begun:
        readings.append(begun[readings[-1].after])
    return readings[::-1]


def last_times(units: Sequence[ReadUnit]) -> list[int | None]:
    """Returns the time of the last packet of each unit's capture, in the latest reading of it."""
    last_times_ns: list[int | None] = []
    later: dict[str, int | None] = {}  # by file of the bundles that a later reading continues
    for unit in reversed(units):
        last_times_ns.append(later.get(unit.bundles, unit.report.last_ns))
        if unit.after:
            later[unit.after] = last_times_ns[-1]
    return last_times_ns[::-1]


def begins_of(manifest: Manifest, units: Sequence[Unit]) -> list[ReadUnit | None]:
    """Returns an earlier run's reading of each file that has grown since then; None for other
    files.

    The file may have another name now. If it was small, it is only looked for where a capture was
    still being written: as the one with the newest packet of its point.
    """
    alike: dict[tuple[str, str], list[ReadUnit]] = {}
    newest: dict[str, ReadUnit] = {}
    for earlier in manifest.units:
        if earlier.bundles and not (earlier.is_bad or earlier.continued):
            point = earlier.unit.point
            for name in (
                (earlier.unit.path, earlier.unit.head)
                if earlier.unit.size >= END
                else (earlier.unit.path,)
            ):
                alike.setdefault((point, name), []).append(earlier)
            if point not in newest or (earlier.report.last_ns or 0) >= (
                newest[point].report.last_ns or 0
            ):
                newest[point] = earlier
    earlier_readings = []
    for unit in units:
        candidates = [
            earlier
            for name in (unit.path, unit.head)
            for earlier in alike.get((unit.point, name), ())
        ]
        candidates += [newest[unit.point]] if unit.point in newest else []
        earlier_readings.append(
            next(
                (
                    earlier
                    for earlier in candidates
                    if unit.size > earlier.unit.size and earlier.unit.is_continued_by(unit.path)
                ),
                None,
            )
        )
    return earlier_readings


def _ordered(units: Sequence[ReadUnit]) -> dict[str, list[ReadUnit]]:
    """Returns the units of every point in their order."""
    units_of_point: dict[str, list[ReadUnit]] = {}
    for point in dict.fromkeys(unit_read.unit.point for unit_read in units):
        reading_of_unit = {
            id(unit_read.unit): unit_read for unit_read in units if unit_read.unit.point == point
        }
        units_of_point[point] = [
            reading_of_unit[id(unit)]
            for unit in in_order(
                [
                    (unit_read.unit, unit_read.report.first_ns)
                    for unit_read in reading_of_unit.values()
                ]
            )
        ]
    return units_of_point


def _by_time(ordered: Mapping[str, Sequence[ReadUnit]]) -> list[ReadUnit]:
    """Returns all points' units by times of first packets; each point keeps its order."""
    return list(merge(*ordered.values(), key=lambda one: one.report.first_ns or 0))


def divide(
    manifest: Manifest,
    processors: int,
    *,
    anew: bool,
    secrets: Secrets | None = None,
    opened: Collection[str] = (),
) -> tuple[list[ManifestPart], list[PartTask]]:
    """Returns the parts that stay as they are, and the parts that must be read.

    ``anew``: all must be read; ``opened``: files of parts that must be read, too.
    """
    plan = _Plan(manifest, processors, anew, secrets or Secrets(), opened)
    for name in plan.points:
        plan.add(name)
    return plan.staying, plan.works


class _Plan:
    """The parts of a run, point by point."""

    def __init__(
        self,
        manifest: Manifest,
        processors: int,
        anew: bool,
        secrets: Secrets,
        opened: Collection[str],
    ) -> None:
        self._manifest = manifest
        self._processors = processors
        self._anew = anew
        self._secrets = secrets
        self._opened = opened
        self._batch = manifest.number + 1
        self.points: dict[str, _Point] = {}
        for number in manifest.counting:
            unit = manifest.units[number]
            point = self.points.setdefault(unit.unit.point, _Point())
            point.add(
                number, manifest.index(number), unit, is_new=anew or unit.batch == self._batch
            )
        self._total = sum(sum(point.sizes.values()) for point in self.points.values())
        self._copies = copies(_seen(self.points))
        self._left = {name: _of_left(manifest, name) for name in self.points}
        again = {
            (manifest_part.point, key)
            for manifest_part in manifest.parts
            if manifest_part.file in opened
            for key in read_keys(manifest.path(manifest_part.file))
        }
        self._new = again | {
            (name, key)
            for name, point in self.points.items()
            for key in point.touched | self._left[name]
        }
        self.staying: list[ManifestPart] = []
        self.works: list[PartTask] = []

    def add(self, name: str) -> None:
        """Adds the parts of a point."""
        point, originals = self.points[name], self._copies.get(name, {})
        component = components(point.sizes, point.joins)
        compared = {key for key, original in originals.items() if original in self._new}
        touched = (point.touched | self._left[name] | compared) & component.keys()
        copied = _whole_components(component, set(originals))
        old = self._old(name, component, {component[key] for key in touched}, copied)
        touched.update(key for _, keys in old for key in keys if key in component)
        going_on = (
            []
            if self._anew
            else _going_on(self._manifest, point, component, old, {*copied, *self._opened})
        )
        for manifest_part, keys in going_on:
            self._add_going_on(name, manifest_part, keys)
        roots = {component[key] for key in touched} - {
            component[key] for _, keys in going_on for key in keys
        }
        for is_copy in (False, True):
            members: dict[bytes, list[bytes]] = {}
            for key, root in component.items():
                if root in roots and (key in copied) == is_copy:
                    members.setdefault(root, []).append(key)
            self._add_groups(name, members, originals, is_copy=is_copy)

    def _old(
        self, name: str, component: Mapping[bytes, bytes], roots: set[bytes], copied: set[bytes]
    ) -> list[tuple[ManifestPart, list[bytes]]]:
        """Returns the parts of a point that do not stay as they are, each with its groups.

        ``roots``: of the components with something new.
        """
        old = []
        for manifest_part in self._manifest.parts:
            if manifest_part.point == name:
                keys = read_keys(self._manifest.path(manifest_part.file))
                is_same = all(
                    key in component
                    and component[key] not in roots
                    and (key in copied) == manifest_part.is_copy
                    for key in keys
                )
                if is_same and not self._anew and manifest_part.file not in self._opened:
                    self.staying.append(manifest_part)
                else:
                    old.append((manifest_part, keys))
        return old

    def _work(
        self, name: str, keys: Sequence[bytes], *, is_copy: bool, is_beside: bool = False
    ) -> PartTask:
        manifest = self._manifest
        file = "" if is_beside else f"{BATCH}{self._batch}/{len(self.works):06}"
        return work_of(
            manifest,
            name,
            self.points[name].having(keys),
            keys,
            self._secrets,
            part=manifest.path(f"{PARTS}/{file}"),
            messages="" if is_copy else manifest.path(f"messages/{file}"),
        )

    def _add_going_on(self, name: str, part: ManifestPart, keys: Sequence[bytes]) -> None:
        """Adds a part that continues from its state."""
        units = self.points[name].units
        size = sum(
            sizes.get(key, 0)
            for number, sizes in units.items()
            if self._manifest.units[number].batch == self._batch
            for key in keys
        )
        self._add_shared(
            _continued(self._manifest, self._work(name, keys, is_copy=False), part), size
        )

    def _add_groups(
        self,
        name: str,
        members: Mapping[bytes, list[bytes]],
        originals: Mapping[bytes, tuple[str, bytes]],
        *,
        is_copy: bool,
    ) -> None:
        """Adds new parts of about equal size for components, by root."""
        sizes = self.points[name].sizes
        weight = {root: sum(sizes[key] for key in keys) for root, keys in members.items()}
        share = sum(weight.values())
        part_count = min(
            -(-share // PART_BYTES),
            -(-PARTS_A_PROCESSOR * self._processors * share // max(1, self._total)),
        )
        for group in balanced(weight, part_count):
            keys = sorted(key for root in group for key in members[root])
            work = self._work(name, keys, is_copy=is_copy)
            if is_copy:
                self.works.append(self._with_originals(work, keys, originals))
            else:
                self._add_shared(work, sum(weight[root] for root in group))

    def _with_originals(
        self, work: PartTask, keys: Sequence[bytes], originals: Mapping[bytes, tuple[str, bytes]]
    ) -> PartTask:
        """Returns the work on copies, which are read beside what they are copies of."""
        there: dict[str, list[bytes]] = {}
        for other_point, key in sorted({originals[key] for key in keys}):
            there.setdefault(other_point, []).append(key)
        beside = [
            self._work(other_point, point_keys, is_copy=True, is_beside=True)
            for other_point, point_keys in there.items()
        ]
        translated = {
            key.hex(): originals[key][1].hex() for key in keys if originals[key][1] != key
        }
        return replace(work, originals=translated, beside=beside)

    def _add_shared(self, work: PartTask, size: int) -> None:
        """Adds the work for as many tasks as its share of all bytes asks for."""
        shares = max(
            1,
            min(
                MOST_SHARES, size // PART_BYTES, -(-self._processors * size // max(1, self._total))
            ),
        )
        self.works.append(
            replace(work, shares=shares, hashed_by=new_secrets() if shares > 1 else None)
        )


class _Point:
    """The groups in the units of a point."""

    def __init__(self) -> None:
        self.units: dict[int, dict[bytes, int]] = {}
        """Number of bytes of each group, by number of the unit."""
        self.sizes: dict[bytes, int] = {}
        """Number of bytes of each group in all units."""
        self.begun: dict[bytes, set[int]] = {}
        self.marks: dict[bytes, list[GroupMarks]] = {}
        """Marks of each group, one element per unit."""
        self.joins: list[tuple[bytes, bytes]] = []
        self.touched: set[bytes] = set()
        """Groups in new units."""

    def add(self, number: int, index: Any, one: ReadUnit, *, is_new: bool) -> None:
        self.units[number] = sizes = group_sizes(index)
        for key, marks in group_marks(index).items():
            self.marks.setdefault(key, []).append(marks)
        for key, size in sizes.items():
            self.sizes[key] = self.sizes.get(key, 0) + size
        for name, numbers in one.report.begun.items():
            self.begun.setdefault(bytes.fromhex(name), set()).update(numbers)
        self.joins += [
            (bytes.fromhex(a), bytes.fromhex(b))
            for a, b in (*one.report.joins, *one.report.tunnels)
        ]
        if is_new:
            self.touched.update(sizes)

    def having(self, keys: Collection[bytes]) -> list[int]:
        """Returns the numbers of the units that contain some of these groups."""
        return [number for number, sizes in self.units.items() if not sizes.keys().isdisjoint(keys)]


def _seen(points: Mapping[str, _Point]) -> Iterator[PointPackets]:
    for name, point in points.items():
        for key in point.begun.keys() | point.marks.keys():
            yield PointPackets(
                name,
                key,
                point.begun.get(key, ()),
                point.sizes.get(key, 0),
                together(point.marks.get(key, ())),
            )


def _whole_components(root_of: Mapping[bytes, bytes], keys: set[bytes]) -> set[bytes]:
    """Returns those of the groups whose whole component is in ``keys``."""
    split_roots = {root for key, root in root_of.items() if key not in keys}
    return {key for key in keys if key in root_of and root_of[key] not in split_roots}


def _of_left(manifest: Manifest, point: str) -> set[bytes]:
    """Returns the groups of units read before that are read again now, or were removed."""
    groups: set[bytes] = set()
    for number, unit in enumerate(manifest.units):
        if (
            ((unit.continued and not unit.begins) or unit.expired)
            and unit.unit.point == point
            and unit.pieces
        ):
            with suppress(UsageError):  # the file may have been removed
                groups.update(group_sizes(manifest.index(number)))
    return groups


def _going_on(
    manifest: Manifest,
    point: _Point,
    root_of: Mapping[bytes, bytes],
    old: Sequence[tuple[ManifestPart, Sequence[bytes]]],
    but: Collection[bytes | str],
) -> list[tuple[ManifestPart, list[bytes]]]:
    """Returns the ``old`` parts of a point that continue from their states, each with its groups
    and those that new captures have added to them.

    A part continues only if no new packet comes before or between those of its state, and if no
    component was joined with one of another part. ``but``: groups, and files of parts, that do not
    continue.
    """
    owner = {key: manifest_part.file for manifest_part, keys in old for key in keys}
    members: dict[bytes, list[bytes]] = {}
    for key, root in root_of.items():
        members.setdefault(root, []).append(key)
    there: set[str] | None = None
    continuing = []
    for manifest_part, keys in old:
        if (
            not manifest_part.state
            or not root_of.keys() >= {*keys}
            or any(name_or_key in but for name_or_key in (manifest_part.file, *keys))
        ):
            continue
        wide = sorted({member for key in keys for member in members[root_of[key]]})
        units = point.having(wide)
        before = [
            name_or_key
            for number in units
            if manifest.units[number].batch <= manifest.number
            for name_or_key in manifest.bundled(number, wide)
        ]
        if mark_of(before) != manifest_part.folded or any(
            owner.get(key, manifest_part.file) != manifest_part.file for key in wide
        ):
            continue
        if manifest_part.ending:
            there = set(manifest.files("messages")) if there is None else there
            # others have compacted these files with other files
            if not there.issuperset(map(manifest.path, manifest_part.ending)):
                continue
        continuing.append((manifest_part, wide))
    return continuing


def _continued(manifest: Manifest, work: PartTask, part: ManifestPart) -> PartTask:
    """Returns the work on a part that continues from its state."""
    before, new = (
        [
            bundle
            for bundle in work.bundles
            if (manifest.units[bundle.file].batch > manifest.number) is is_new
        ]
        for is_new in (False, True)
    )
    former = replace(
        part,
        closed=(),  # it may be long, and no task needs it
        state=manifest.path(part.state),
        messages=tuple(name for name in part.messages if name not in part.ending),
        rows=part.rows - part.ending_rows,
        keys=tuple(map(manifest.path, part.keys)),
    )
    return replace(work, bundles=new, earlier=before, before=former)
