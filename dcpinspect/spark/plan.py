"""Plans a run: which captures are new, what numbers they get, and which parts they affect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from heapq import merge
from itertools import pairwise
from typing import Any

from dcpinspect.capture.file_reader import EARLIEST
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark.analysis import MOST_SHARES, PartTask
from dcpinspect.spark.bundles import group_marks, group_sizes, read_keys
from dcpinspect.spark.data_marks import GroupMarks, together
from dcpinspect.spark.manifest import BATCH, PARTS, Manifest, ManifestPart, ReadUnit
from dcpinspect.spark.output_reading import work_of
from dcpinspect.spark.scan import may_be_set
from dcpinspect.spark.secrets import Secrets
from dcpinspect.spark.states import mark_of
from dcpinspect.spark.stitch import PointPackets, balanced, components, copies
from dcpinspect.spark.units import END, Unit, in_order, natural
from dcpinspect.streams.events import new_secrets
from dcpinspect.transport.clock_steps import BEFORE, Edges, goes_on

PART_BYTES = 8 << 20
"""Least size of a part in bytes, except if there is less data."""
PARTS_A_PROCESSOR = 2


def new_units(manifest: Manifest, units: Iterable[Unit]) -> list[Unit]:
    """Returns units that have not been read, each once, and those that could not be opened."""
    identities = {
        _identity(unit_read.unit) for unit_read in manifest.units if not unit_read.is_replaced
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

    Units of a point are numbered in their order, on one clock, and units of different points by the
    times of their first packets. New units are numbered after the old ones, except if one belongs before an
    old unit of its point.
    """
    batch = manifest.number + 1
    good, bad = ([unit for unit in read if unit.is_bad is is_bad] for is_bad in (False, True))
    old = _outdated(manifest.units, read)
    before = [unit for unit in old if not unit.is_bad and not unit.continued]
    ordered = _ordered([*before, *good])
    of_before = {point: [unit for unit in before if unit.unit.point == point] for point in ordered}
    ordered = {
        point: _on_one_clock(manifest, of_before[point], units) for point, units in ordered.items()
    }
    is_renumbered = any(
        point_units[: len(of_before[point])] != of_before[point]
        for point, point_units in ordered.items()
    )
    if is_renumbered:
        put_aside = [unit for unit in old if unit.is_bad or unit.is_replaced]
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
    return replace(manifest, units=_with_bases(units)), is_renumbered


def _outdated(units: Sequence[ReadUnit], read: Sequence[ReadUnit]) -> list[ReadUnit]:
    """Returns older units as they are after new readings: of a file that has grown, the newer one
    has the packets behind; of one that could not be read, it has all.
    """
    further, again = {unit.after for unit in read} - {""}, {unit.unit.path for unit in read}
    outdated = []
    for unit in units:
        begins = unit.bundles in further
        is_read = unit.is_bad and unit.unit.path in again and not unit.continued
        outdated.append(replace(unit, continued=True, begins=begins) if begins or is_read else unit)
    return outdated


def _with_bases(units: Iterable[ReadUnit]) -> list[ReadUnit]:
    """Returns the units with the number of the first packet of each; those without a change are not
    written again. Where a reading goes on with an earlier one, the numbers do, too.
    """
    numbered_units, base = [], 0
    for unit in units:
        base -= unit.skipped
        numbered_units.append(unit if unit.base == base else replace(unit, base=base))
        base += unit.report.packets
    return numbered_units


def _whole_of(unit: ReadUnit, begun: Mapping[str, ReadUnit]) -> list[ReadUnit]:
    """Returns a unit after the readings that have its earlier packets, which have its clock."""
    readings = [unit]
    while readings[-1].after in begun:
        readings.append(replace(begun[readings[-1].after], ahead=unit.ahead))
    return readings[::-1]


def last_times(units: Sequence[ReadUnit]) -> list[int | None]:
    """Returns the time of the last packet of each unit's capture, in the latest reading of it."""
    times: list[int | None] = []
    later: dict[str, int | None] = {}  # by file of the bundles that a later reading continues
    for unit in reversed(units):
        times.append(later.get(unit.bundles, unit.last_ns))
        if unit.after:
            later[unit.after] = times[-1]
    return times[::-1]


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
            point, head = earlier.unit.point, earlier.unit.head
            for name in (earlier.unit.path, *([head] if earlier.unit.size >= END else [])):
                alike.setdefault((point, name), []).append(earlier)
            if point not in newest or (earlier.last_ns or 0) >= (newest[point].last_ns or 0):
                newest[point] = earlier

    def begin_of(unit: Unit) -> ReadUnit | None:
        names = (unit.path, unit.head)
        candidates = [earlier for name in names for earlier in alike.get((unit.point, name), ())]
        candidates += [newest[unit.point]] if unit.point in newest else []
        grown = (earlier for earlier in candidates if earlier.unit.is_continued_by(unit.path))
        return next(grown, None)

    return [begin_of(unit) for unit in units]


def _ordered(units: Sequence[ReadUnit]) -> dict[str, list[ReadUnit]]:
    """Returns the units of every point in their order."""
    readings: dict[str, dict[int, ReadUnit]] = {}
    for unit_read in units:
        readings.setdefault(unit_read.unit.point, {})[id(unit_read.unit)] = unit_read
    begins = _begins(units)
    return {
        point: [
            of_unit[id(unit)]
            for unit in in_order([(one.unit, begins[id(one.unit)]) for one in of_unit.values()])
        ]
        for point, of_unit in readings.items()
    }


def _begins(units: Sequence[ReadUnit]) -> dict[int, tuple[int, int] | None]:
    """Returns when each unit begins at the earliest, and how many units it goes on with, by id of
    the ``Unit``; None if it has no packets.
    """
    of_file = {name: unit for unit in units for name in (unit.after, unit.bundles) if name}
    begins: dict[int, tuple[int, int] | None] = {}
    for unit in units:
        chain = dict[int, ReadUnit]()
        before: ReadUnit | None = unit
        while before and id(before.unit) not in chain and id(before.unit) not in begins:
            chain[id(before.unit)] = before
            before = of_file.get(before.goes_on)
        for scanned_file in reversed(chain.values()):
            before = of_file.get(scanned_file.goes_on)
            begin = begins.get(id(before.unit)) if before else None
            first_ns, count = begin or (EARLIEST, 0)
            begins[id(scanned_file.unit)] = (
                begin
                if scanned_file.first_ns is None
                else (max(first_ns, scanned_file.first_ns), count + 1)
            )
    return begins


def _on_one_clock(
    manifest: Manifest, before: Sequence[ReadUnit], units: list[ReadUnit]
) -> list[ReadUnit]:
    """Returns the units of a point in their order, each on the clock of the one that it goes on
    with. ``before``: those of earlier runs in the order of these. ``units``: all as far as times and
    earlier runs tell.
    """
    batch, pairs = manifest.number + 1, [*pairwise(units)]
    is_set = any(
        batch in (unit.batch, later.batch) and _may_be_set(unit, later) for unit, later in pairs
    )
    if not is_set and all(
        natural(unit.unit.path) <= natural(later.unit.path) for unit, later in pairs
    ):
        return units
    (ordered,) = _ordered(_linked(manifest, units)).values()
    clocked, is_known = list[ReadUnit](), True
    for number, unit in enumerate(ordered):
        is_known &= number < len(before) and unit is before[number]
        if not is_known:
            ahead = _ahead(manifest, clocked, unit)
            unit = unit if unit.ahead == ahead else replace(unit, ahead=ahead)
        clocked.append(unit)
    return clocked


def _may_be_set(unit: ReadUnit, later: ReadUnit) -> bool:
    return bool(unit.ahead) or may_be_set(unit.report, later.report)


def _is_continued_by(unit: ReadUnit, later: ReadUnit) -> bool:
    return bool(later.goes_on) and later.goes_on in (unit.bundles, unit.after)


def _ahead(
    manifest: Manifest, before: Sequence[ReadUnit], unit: ReadUnit
) -> tuple[tuple[int, int], ...]:
    """Returns ``ReadUnit.ahead`` of the unit behind others."""
    if not before or not _may_be_set(before[-1], unit):
        return ()
    edges, later_edges = manifest.edges(before[-1]), manifest.edges(unit, 1)
    for number in range(len(before) - 1, 0, -1):
        earlier, later = before[number - 1 : number + 1]
        is_one = later.ahead or _is_continued_by(earlier, later) or not _may_be_set(earlier, later)
        if edges is None or len(edges.last) >= BEFORE or not is_one:
            break
        if (earlier_edges := manifest.edges(earlier)) is None:
            break
        edges = edges.with_earlier(earlier_edges)
    if edges is None or later_edges is None:
        return ()
    return edges.ahead_in(later_edges, goes_on=_is_continued_by(before[-1], unit))


def _linked(manifest: Manifest, units: Sequence[ReadUnit]) -> list[ReadUnit]:
    """Returns the units of a point with what new ones go on with, and what goes on with them."""
    batch, ended = manifest.number + 1, {unit.goes_on for unit in units} - {""}
    open_ended = [
        unit for unit in units if not unit.goes_on or ended.isdisjoint((unit.bundles, unit.after))
    ]
    bundles_before = dict[int, str]()
    for number, number_before in goes_on(_EdgesOf(manifest, open_ended)).items():
        earlier, later = open_ended[number_before], open_ended[number]
        is_linked = later.goes_on or not ended.isdisjoint((earlier.bundles, earlier.after))
        if batch in (earlier.batch, later.batch) and not is_linked:
            bundles_before[id(later)] = earlier.bundles
    return [
        replace(unit, goes_on=bundles_before[id(unit)]) if id(unit) in bundles_before else unit
        for unit in units
    ]


class _EdgesOf(Sequence[Edges | None]):
    """The edges of units, which are read when they are asked for: all of them may be too many."""

    def __init__(self, manifest: Manifest, units: Sequence[ReadUnit]) -> None:
        self._manifest, self._units = manifest, units

    def __len__(self) -> int:
        return len(self._units)

    def __getitem__(self, number: Any) -> Any:
        return self._manifest.edges(self._units[number], number)


def _by_time(ordered: Mapping[str, Sequence[ReadUnit]]) -> list[ReadUnit]:
    """Returns all points' units by times of first packets; each point keeps its order."""
    return list(merge(*ordered.values(), key=lambda one: one.first_ns or 0))


@dataclass(frozen=True, slots=True)
class Division:
    """How the groups of a point are divided into parts."""

    staying: list[ManifestPart]
    """Parts that stay as they are."""
    continuing: list[tuple[ManifestPart, list[bytes]]]
    """Parts that continue from their states, each with all its groups."""
    originals: dict[bytes, list[bytes]]
    """The groups of each component that is read from its first packet on, by root."""
    copies: dict[bytes, list[bytes]]
    """The same of components all of whose groups count elsewhere."""


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
    points: dict[str, Point] = {}
    for number in manifest.counting:
        unit = manifest.units[number]
        points.setdefault(unit.unit.point, Point()).add(
            number, manifest.index(number), unit, is_new=anew or unit.batch > manifest.number
        )
    for name, point in points.items():
        point.touched |= _of_left(manifest, name)
    parts = [
        (manifest_part, read_keys(manifest.path(manifest_part.file)))
        for manifest_part in manifest.parts
    ]
    originals_of = copies(_seen(points))
    new = {(name, key) for name, point in points.items() for key in point.touched}
    new |= {
        (manifest_part.point, key)
        for manifest_part, keys in parts
        if manifest_part.file in opened
        for key in keys
    }
    tasks, staying = _Tasks(manifest, points, processors, secrets or Secrets()), []
    for name, point in points.items():
        originals = originals_of.get(name, {})
        division = divided(
            manifest,
            point,
            [(manifest_part, keys) for manifest_part, keys in parts if manifest_part.point == name],
            {key: original in new for key, original in originals.items()},
            {
                manifest_part.file
                for manifest_part, _ in parts
                if anew or manifest_part.file in opened
            },
        )
        staying += division.staying
        tasks.add(name, division, originals)
    return staying, tasks.works


def divided(
    manifest: Manifest,
    point: Point,
    parts: Sequence[tuple[ManifestPart, Sequence[bytes]]],
    copied_groups: Mapping[bytes, bool],
    again: Collection[str],
) -> Division:
    """Decides about the parts of a point. ``parts``: each with its groups. ``copied_groups``:
    groups that count at another point, and whether those there have something new. ``again``: files
    of parts that are read again in any case.
    """
    root_of = components(point.sizes, point.joins)
    compared = {key for key, is_new in copied_groups.items() if is_new}
    touched = (point.touched | compared) & root_of.keys()
    copied = _whole_components(root_of, set(copied_groups))
    new_roots = {root_of[key] for key in touched}
    staying, old = [], []
    for manifest_part, keys in parts:
        is_same = manifest_part.file not in again and all(
            key in root_of
            and root_of[key] not in new_roots
            and (key in copied) == manifest_part.is_copy
            for key in keys
        )
        if is_same:
            staying.append(manifest_part)
        else:
            old.append((manifest_part, keys))
    touched |= {key for _, keys in old for key in keys if key in root_of}
    continuing = _continuing(manifest, point, root_of, old, copied, again)
    roots = {root_of[key] for key in touched}
    roots -= {root_of[key] for _, keys in continuing for key in keys}
    members: dict[bool, dict[bytes, list[bytes]]] = {False: {}, True: {}}
    for key, root in root_of.items():
        if root in roots:
            members[key in copied].setdefault(root, []).append(key)
    return Division(staying, continuing, members[False], members[True])


def shares_of(size: int, processors: int, total: int) -> int:
    """Returns how many tasks share the work on a part, as its share of all bytes asks for."""
    of_all = -(-processors * size // max(1, total))
    return max(1, min(MOST_SHARES, size // PART_BYTES, of_all))


class _Tasks:
    """The tasks that read the parts of all points."""

    def __init__(
        self,
        manifest: Manifest,
        points: Mapping[str, Point],
        processors: int,
        secrets: Secrets,
    ) -> None:
        self._manifest = manifest
        self._points = points
        self._processors = processors
        self._secrets = secrets
        self._total = sum(sum(point.sizes.values()) for point in points.values())
        self.works: list[PartTask] = []

    def add(
        self,
        name: str,
        division: Division,
        originals: Mapping[bytes, tuple[str, bytes]],
    ) -> None:
        """Adds those of a point. ``originals``: of each copied group, where it counts."""
        for manifest_part, keys in division.continuing:
            work = self._work(name, keys, is_copy=False)
            size = self._points[name].new_bytes(keys)
            self._add_shared(_continued(self._manifest, work, manifest_part), size)
        for keys, size in self._balanced(name, division.originals):
            self._add_shared(self._work(name, keys, is_copy=False), size)
        for keys, _ in self._balanced(name, division.copies):
            work = self._work(name, keys, is_copy=True)
            self.works.append(self._with_originals(work, keys, originals))

    def _work(
        self, name: str, keys: Sequence[bytes], *, is_copy: bool, is_beside: bool = False
    ) -> PartTask:
        manifest = self._manifest
        file = "" if is_beside else f"{BATCH}{manifest.number + 1}/{len(self.works):06}"
        return work_of(
            manifest,
            name,
            self._points[name].having(keys),
            keys,
            self._secrets,
            part=manifest.path(f"{PARTS}/{file}"),
            messages="" if is_copy else manifest.path(f"messages/{file}"),
        )

    def _balanced(
        self, name: str, members: Mapping[bytes, list[bytes]]
    ) -> Iterator[tuple[list[bytes], int]]:
        """Yields the groups of new parts of about equal size for components, by root, each with its
        size.
        """
        sizes = self._points[name].sizes
        weight = {root: sum(sizes[key] for key in keys) for root, keys in members.items()}
        size = sum(weight.values())
        part_count = min(
            -(-size // PART_BYTES),
            -(-PARTS_A_PROCESSOR * self._processors * size // max(1, self._total)),
        )
        for roots in balanced(weight, part_count):
            yield (
                sorted(key for root in roots for key in members[root]),
                sum(weight[root] for root in roots),
            )

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
        """Adds the work for as many tasks as share it."""
        shares = shares_of(size, self._processors, self._total)
        hashed_by = new_secrets() if shares > 1 else None
        self.works.append(replace(work, shares=shares, hashed_by=hashed_by))


class Point:
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
        """Groups in new units, and in those that count no more."""
        self.new: list[int] = []
        """Numbers of the new units."""

    def add(self, number: int, index: Any, one: ReadUnit, *, is_new: bool) -> None:
        """Takes a unit, with its index."""
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
            self.new.append(number)

    def having(self, keys: Collection[bytes]) -> list[int]:
        """Returns the numbers of the units that contain some of these groups."""
        return [number for number, sizes in self.units.items() if not sizes.keys().isdisjoint(keys)]

    def new_bytes(self, keys: Collection[bytes]) -> int:
        """Returns how many bytes the new units have of these groups."""
        return sum(self.units[number].get(key, 0) for number in self.new for key in keys)


def _seen(points: Mapping[str, Point]) -> Iterator[PointPackets]:
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
        if (unit.is_replaced or unit.expired) and unit.unit.point == point and unit.pieces:
            with suppress(UsageError):  # the file may have been removed
                groups.update(group_sizes(manifest.index(number)))
    return groups


def _continuing(
    manifest: Manifest,
    point: Point,
    root_of: Mapping[bytes, bytes],
    old: Sequence[tuple[ManifestPart, Sequence[bytes]]],
    copied: Set[bytes],
    again: Collection[str],
) -> list[tuple[ManifestPart, list[bytes]]]:
    """Returns the ``old`` parts of a point that continue from their states, each with its groups
    and those that new captures have added to them.

    A part continues only if no new packet comes before or between those of its state, and if no
    component was joined with one of another part.
    """
    owner = {key: manifest_part.file for manifest_part, keys in old for key in keys}
    members: dict[bytes, list[bytes]] = {}
    for key, root in root_of.items():
        members.setdefault(root, []).append(key)
    there: set[str] | None = None
    continuing = []
    for manifest_part, keys in old:
        is_there = (
            manifest_part.state and manifest_part.file not in again and root_of.keys() >= {*keys}
        )
        if not is_there or not copied.isdisjoint(keys):
            continue
        wide = sorted({member for key in keys for member in members[root_of[key]]})
        before = [
            bundle
            for number in point.having(wide)
            if manifest.units[number].batch <= manifest.number
            for bundle in manifest.bundled(number, wide)
        ]
        is_joined = any(owner.get(key, manifest_part.file) != manifest_part.file for key in wide)
        if is_joined or mark_of(before) != manifest_part.folded:
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
