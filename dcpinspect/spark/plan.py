"""What a run has to do: which captures are new, what numbers they get, which parts they touch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from typing import Any

from dcpinspect.spark.analysis import Work
from dcpinspect.spark.bundles import Bundled, group_sizes, read_index
from dcpinspect.spark.manifest import BATCH, PARTS, Kept, Manifest, Read
from dcpinspect.spark.stitch import balanced, components
from dcpinspect.spark.units import END, Unit, in_order
from dcpinspect.spark.whole import names_of, ports, read_keys, write_keys

PART_BYTES = 8 << 20
"""A part is not smaller without need."""
PARTS_A_PROCESSOR = 2


def new_units(manifest: Manifest, found: Iterable[Unit]) -> list[Unit]:
    """Units that have not been read, each one once; what could not be opened is tried again."""
    known = {_identity(one.unit) for one in manifest.units if not one.continued}
    new = []
    for unit in found:
        if not unit.head or _identity(unit) not in known:
            known.add(_identity(unit))
            new.append(unit)
    return new


def _identity(unit: Unit) -> tuple[Any, ...]:
    """By which a unit is known again; of what has no bytes, or shows none, its path."""
    return unit.identity if unit.size and unit.head else (unit.point, unit.path)


def numbered(manifest: Manifest, read: Sequence[Read]) -> tuple[Manifest, bool]:
    """The manifest with units that were just read in it, and whether what was numbered before has other numbers now.

    The units of a point are numbered in their order, those of different points by the times of their first packets, and what is new
    behind what was there; unless a new one belongs before an old one of its point.
    """
    batch = manifest.number + 1
    old = [replace(one, continued=one.continued or _is_replaced(one, read)) for one in manifest.units]
    before = [one for one in old if not one.is_bad and not one.continued]
    good, bad = ([one for one in read if one.is_bad is is_bad] for is_bad in (False, True))
    ordered = _ordered([*before, *good])
    of_before = {point: [one for one in before if one.unit.point == point] for point in ordered}
    is_renumbered = any(ones[: len(of_before[point])] != of_before[point] for point, ones in ordered.items())
    if is_renumbered:
        put_aside = [one for one in old if one.is_bad or one.continued]
        units = [*put_aside, *_by_time(ordered), *bad]
    else:
        coming = {point: [one for one in ones if one.batch == batch] for point, ones in ordered.items()}
        units = [*old, *_by_time(coming), *bad]
    found, base = [], 0
    for one in units:
        found.append(replace(one, base=base))
        base += one.report.packets
    return replace(manifest, units=found), is_renumbered


def _is_replaced(one: Read, new: Sequence[Read]) -> bool:
    """Whether a new unit takes the place of one that was read before: it goes on where that ended, or can be read at last."""
    if one.is_bad:
        return any(one.unit.path == other.unit.path for other in new)
    return any(
        one.unit.point == other.unit.point
        and other.unit.size > one.unit.size
        and (one.unit.path == other.unit.path or (one.unit.size >= END and one.unit.head == other.unit.head))
        and one.unit.is_continued_by(other.unit.path)
        for other in new
    )


def _ordered(units: Sequence[Read]) -> dict[str, list[Read]]:
    """The units of every point in their order."""
    found: dict[str, list[Read]] = {}
    for point in dict.fromkeys(one.unit.point for one in units):
        here = {id(one.unit): one for one in units if one.unit.point == point}
        found[point] = [here[id(unit)] for unit in in_order([(one.unit, one.report.first_ns) for one in here.values()])]
    return found


def _by_time(ordered: Mapping[str, Sequence[Read]]) -> list[Read]:
    """The units of all points, by the times of their first packets as far as the order of each point lets them."""
    return list(merge(*ordered.values(), key=lambda one: one.report.first_ns or 0))


def parts(manifest: Manifest, processors: int, *, anew: bool) -> tuple[list[Kept], list[Work]]:
    """The parts that stay as they are, and those that have to be read; ``anew``: all.

    Writes beside each of the latter which groups are in it.
    """
    batch = manifest.number + 1
    counting = manifest.counting
    sizes_of = {number: group_sizes(read_index(manifest.path(manifest.units[number].bundles))) for number in counting}
    total = sum(sum(sizes.values()) for sizes in sizes_of.values())
    stay: list[Kept] = []
    works: list[Work] = []
    for point in dict.fromkeys(manifest.units[number].unit.point for number in counting):
        units = [number for number in counting if manifest.units[number].unit.point == point]
        sizes: dict[bytes, int] = {}
        touched = _of_continued(manifest, point)
        for number in units:
            for key, size in sizes_of[number].items():
                sizes[key] = sizes.get(key, 0) + size
            if anew or manifest.units[number].batch == batch:
                touched.update(sizes_of[number])
        reports = [manifest.units[number].report for number in units]
        joins = [(bytes.fromhex(one), bytes.fromhex(two)) for report in reports for one, two in (*report.joins, *report.tunnels)]
        of = components(sizes, joins)
        roots = {of[key] for key in touched if key in of}
        for part in manifest.parts:
            if part.point == point:
                keys = read_keys(manifest.path(part.file))
                if anew or any(key not in of or of[key] in roots for key in keys):
                    touched.update(keys)
                else:
                    stay.append(part)
        roots = {of[key] for key in touched if key in of}
        members: dict[bytes, list[bytes]] = {}
        weight: dict[bytes, int] = {}
        for key, root in of.items():
            if root in roots:
                members.setdefault(root, []).append(key)
                weight[root] = weight.get(root, 0) + sizes[key]
        share = sum(weight.values())
        wanted = min(-(-share // PART_BYTES), -(-PARTS_A_PROCESSOR * processors * share // max(1, total)))
        for group in balanced(weight, wanted):
            keys = sorted(key for root in group for key in members[root])
            bundles = [
                Bundled(manifest.path(manifest.units[number].bundles), number, manifest.units[number].base, keys)
                for number in units
                if not sizes_of[number].keys().isdisjoint(keys)
            ]
            works.append(_work(manifest, point, bundles, keys, f"{BATCH}{batch}/{len(works):06}"))
    return stay, works


def _of_continued(manifest: Manifest, point: str) -> set[bytes]:
    """Groups of units that were read before, and are read again now."""
    found: set[bytes] = set()
    for one in manifest.units:
        if one.continued and one.unit.point == point and one.bundles and os.path.exists(manifest.path(f"{one.bundles}.index")):
            found.update(group_sizes(read_index(manifest.path(one.bundles))))
    return found


def _work(manifest: Manifest, point: str, bundles: Sequence[Bundled], keys: Sequence[bytes], name: str) -> Work:
    part, messages = manifest.path(f"{PARTS}/{name}.part"), manifest.path(f"messages/{name}")
    os.makedirs(os.path.dirname(part), exist_ok=True)
    write_keys(part, keys)
    return Work(point, names_of(manifest.units), bundles, part=part, messages=messages, **ports(manifest))
