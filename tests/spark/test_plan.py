from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.spark import plan
from dcpinspect.spark.analysis import MOST_SHARES
from dcpinspect.spark.manifest import Manifest, ManifestPart, ReadUnit
from dcpinspect.spark.scan import ScanReport
from dcpinspect.spark.states import mark_of
from dcpinspect.spark.units import END, Unit, digested


def unit(name: str, point: str = "p", head: str = "") -> Unit:
    return Unit(name, f"/{point}/{name}", point, 5, head or f"h{name}", f"t{name}")


def read(
    name: str, first_ns: int | None, batch: int = 1, point: str = "p", error: str | None = None
) -> ReadUnit:
    return ReadUnit(
        unit(name, point), ScanReport(packets=10, first_ns=first_ns, error=error), batch, 0
    )


def numbered(manifest: Manifest, *new: ReadUnit) -> tuple[list[tuple[str, int]], bool]:
    found, is_renumbered = plan.numbered(manifest, new)
    return [(one.unit.name, one.base) for one in found.units], is_renumbered


def before(*units: ReadUnit) -> Manifest:
    return Manifest("/out", 1, units=plan.numbered(Manifest("/out"), units)[0].units)


def test_units_of_points_are_numbered_in_order_of_time_and_each_point_in_its_own() -> None:
    new = [
        read("a2", 30),
        read("a1", 10),
        read("b1", 20, point="q"),
        read("b2", 5, point="q"),
        read("x", None, error="bad"),
    ]
    assert numbered(Manifest("/out"), *new) == (
        [("b2", 0), ("a1", 10), ("b1", 20), ("a2", 30), ("x", 40)],
        False,
    )


def test_what_is_new_comes_behind_what_was_there() -> None:
    manifest = before(read("a1", 10), read("a2", 20))
    assert numbered(manifest, read("b1", 5, 2, "q"), read("a3", 40, 2)) == (
        [("a1", 0), ("a2", 10), ("b1", 20), ("a3", 30)],
        False,
    )


def test_what_belongs_before_gives_all_new_numbers() -> None:
    manifest = before(read("a1", 10), read("a3", 30))
    assert numbered(manifest, read("a2", 20, 2)) == ([("a1", 0), ("a2", 10), ("a3", 20)], True)


def test_units_are_read_once_and_what_could_not_be_opened_again() -> None:
    manifest = before(
        read("a1", 10), replace(read("a2", None, error="closed"), unit=replace(unit("a2"), head=""))
    )
    known, renamed = unit("a1"), replace(unit("z"), head="ha1", tail="ta1")
    closed, other_point = replace(unit("a2"), head=""), unit("a1", "q")
    assert plan.new_units(manifest, [known, renamed, closed, other_point, other_point]) == [
        closed,
        other_point,
    ]
    assert plan.copies_in([known, renamed, closed, other_point, other_point]) == 2
    empty = [replace(unit(name), size=0, head="same", tail="same") for name in ("e1", "e2")]
    assert plan.new_units(manifest, empty) == empty
    assert plan.copies_in(empty) == 0


def begun(name: str, first_ns: int, packets: int, after: str = "", skipped: int = 0) -> ReadUnit:
    """A reading of a file that may grow; ``after``: of what it goes on with."""
    report = ScanReport(packets=packets, first_ns=first_ns, last_ns=first_ns + 9)
    batch = 2 if after else 1
    return ReadUnit(unit(name), report, batch, 0, f"b-{name}-{batch}", after=after, skipped=skipped)


def test_a_file_that_has_grown_has_the_numbers_of_its_earlier_packets() -> None:
    """Its report counts all packets; those that were skipped have their numbers already."""
    manifest = before(begun("a1", 10, 4))
    grown = begun("a1", 10, 7, after="b-a1-1", skipped=4)
    assert numbered(manifest, grown, read("a2", 30, 2)) == (
        [("a1", 0), ("a1", 0), ("a2", 7)],
        False,
    )
    earlier, later, _ = plan.numbered(manifest, [grown, read("a2", 30, 2)])[0].units
    assert (earlier.continued, earlier.begins, earlier.counts) == (True, True, True)
    assert (later.continued, later.counts) == (False, True)


def test_what_belongs_before_a_file_that_has_grown_moves_both_of_its_readings() -> None:
    units = plan.numbered(before(begun("a2", 10, 4)), [begun("a2", 10, 7, "b-a2-1", 4)])[0].units
    manifest = Manifest("/out", 2, units=units)
    assert numbered(manifest, read("a1", 5, 3)) == ([("a1", 0), ("a2", 10), ("a2", 10)], True)


def test_what_could_not_be_read_is_put_aside_once_it_can_be() -> None:
    manifest = before(read("a1", None, error="bad"), read("a2", 10))
    first, *_, last = plan.numbered(manifest, [read("a1", 5, 2)])[0].units
    assert (first.is_bad, first.is_replaced, first.counts) == (True, True, False)
    assert [one.counts for one in plan.numbered(manifest, [read("a1", 5, 2)])[0].units] == [
        False,
        True,
        True,
    ]
    assert last.unit.name == "a2"


def test_the_last_time_of_a_reading_is_that_of_the_one_that_goes_on_with_it() -> None:
    units = [
        begun("a", 10, 4),
        replace(begun("a", 50, 7, after="b-a-1"), bundles="b-a-2"),
        replace(begun("a", 90, 9, after="b-a-2"), bundles="b-a-3"),
        begun("z", 20, 4),
    ]
    assert plan.last_times(units) == [99, 99, 99, 29]


def on_disk(folder: Path, name: str, data: bytes, point: str = "p") -> Unit:
    (folder / name).write_bytes(data)
    return digested(Unit(name, str(folder / name), point, len(data)))


def test_a_file_has_grown_if_it_is_longer_and_begins_with_the_same_bytes(tmp_path: Path) -> None:
    long = bytes(range(256)) * (2 * END // 256)
    earlier = {
        name: ReadUnit(on_disk(tmp_path, name, data), ScanReport(last_ns=at), 1, 0, f"b-{name}")
        for at, (name, data) in enumerate(
            {"same": long, "grown": b"abc", "cut": b"abc", "other": b"abc", "big": long}.items()
        )
    }
    manifest = Manifest("/out", 1, units=list(earlier.values()))
    for name, data in (
        ("grown", b"abcd"),
        ("cut", b"ab"),
        ("other", b"abxd"),
        ("renamed", long + b"!"),
    ):
        on_disk(tmp_path, name, data)
    units = [
        on_disk(tmp_path, name, (tmp_path / name).read_bytes())
        for name in ("same", "grown", "cut", "other", "renamed")
    ]
    found = plan.begins_of(manifest, units)
    assert [one and one.unit.name for one in found] == [None, "grown", None, None, "same"]
    elsewhere = [replace(one, point="q") for one in units]
    assert plan.begins_of(manifest, elsewhere) == [None] * 5
    gone = [replace(one, continued=True) for one in manifest.units]
    assert plan.begins_of(replace(manifest, units=gone), units) == [None] * 5


def test_a_small_file_with_another_name_has_grown_only_from_the_newest(tmp_path: Path) -> None:
    units = [
        ReadUnit(on_disk(tmp_path, name, b"abc"), ScanReport(last_ns=at), 1, 0, f"b-{name}")
        for at, name in ((5, "newest"), (3, "older"))
    ]
    manifest, renamed = Manifest("/out", 1, units=units), on_disk(tmp_path, "new", b"abcd")
    assert plan.begins_of(manifest, [renamed]) == [units[0]]


A, B, C, D = (bytes([number]) for number in range(4))


def point_of(
    *units: Mapping[bytes, int], new: Collection[int] = (), joins: Collection[bytes] = ()
) -> plan.Point:
    """A point whose units have so many bytes of each group; ``joins``: groups of one component."""
    point = plan.Point()
    for number, sizes in enumerate(units):
        point.units[number] = dict(sizes)
        for key, size in sizes.items():
            point.sizes[key] = point.sizes.get(key, 0) + size
        if number in new:
            point.touched.update(sizes)
            point.new.append(number)
    first, *others = joins or (A,)
    point.joins += [(first, other) for other in others]
    return point


def manifest_of(*batches: int) -> Manifest:
    """A manifest after one run, whose units were read by these."""
    units = [
        ReadUnit(unit(f"u{number}"), ScanReport(), batch, 10 * number, f"b{number}")
        for number, batch in enumerate(batches)
    ]
    return Manifest("/out", 1, units=units)


def part_of(
    manifest: Manifest, file: str, *keys: bytes, seen: Collection[int] = (0,), is_copy: bool = False
) -> tuple[ManifestPart, list[bytes]]:
    """A part that has seen its groups in these units; copies have no state."""
    folded = mark_of([bundle for one in seen for bundle in manifest.bundled(one, list(keys))])
    part = ManifestPart(
        "p", file, (), 1, state="" if is_copy else f"{file}.state", folded=folded, is_copy=is_copy
    )
    return part, list(keys)


def divided(
    manifest: Manifest,
    point: plan.Point,
    *parts: tuple[ManifestPart, list[bytes]],
    copied: Mapping[bytes, bool] | None = None,
    again: Collection[str] = (),
) -> tuple[list[str], list[tuple[str, list[bytes]]], list[list[bytes]], list[list[bytes]]]:
    found = plan.divided(manifest, point, parts, copied or {}, again)
    return (
        [part.file for part in found.staying],
        [(part.file, keys) for part, keys in found.continuing],
        sorted(found.originals.values()),
        sorted(found.copies.values()),
    )


def test_at_first_all_groups_are_read_and_those_of_a_component_together() -> None:
    point = point_of({A: 1, B: 2, C: 3}, new=[0], joins=[A, C])
    assert divided(Manifest("/out"), point) == ([], [], [[A, C], [B]], [])


def test_parts_stay_that_have_nothing_new_and_others_continue_with_what_is_new() -> None:
    manifest = manifest_of(1, 2)
    point = point_of({A: 1, B: 2, C: 3}, {B: 1, D: 1}, new=[1])
    parts = [part_of(manifest, "ab", A, B), part_of(manifest, "c", C)]
    assert divided(manifest, point, *parts) == (["c"], [("ab", [A, B])], [[D]], [])
    assert point.new_bytes([A, B]) == 1


@pytest.mark.parametrize("again", [["ab"], ["ab", "c"]])
def test_a_part_that_is_read_again_goes_on_with_nothing(again: list[str]) -> None:
    manifest = manifest_of(1)
    parts = [part_of(manifest, "ab", A, B), part_of(manifest, "c", C)]
    staying, continuing, originals, _ = divided(
        manifest, point_of({A: 1, B: 2, C: 3}), *parts, again=again
    )
    assert (staying, continuing) == (["c"] if "c" not in again else [], [])
    assert originals == [[A], [B], [C]][: 2 + ("c" in again)]


def test_a_part_does_not_continue_that_is_joined_with_another_part() -> None:
    manifest = manifest_of(1, 2)
    point = point_of({A: 1, B: 2, C: 3}, {A: 1, B: 1}, new=[1], joins=[A, B])
    parts = [part_of(manifest, name, key) for name, key in (("a", A), ("b", B), ("c", C))]
    assert divided(manifest, point, *parts) == (["c"], [], [[A, B]], [])


def test_a_part_continues_with_a_new_group_of_its_component() -> None:
    manifest = manifest_of(1, 2)
    point = point_of({A: 1}, {B: 1}, new=[1], joins=[A, B])
    assert divided(manifest, point, part_of(manifest, "a", A)) == ([], [("a", [A, B])], [], [])


def test_a_part_continues_only_behind_the_packets_of_its_state() -> None:
    manifest = manifest_of(1, 1, 2)
    point = point_of({A: 1}, {A: 1}, {A: 1}, new=[2])
    for seen, goes_on in (([0, 1], True), ([0], False), ([1], False)):
        staying, continuing, originals, _ = divided(
            manifest, point, part_of(manifest, "a", A, seen=seen)
        )
        assert (staying, continuing, originals) == (
            [],
            [("a", [A])] if goes_on else [],
            [] if goes_on else [[A]],
        )
    moved = replace(manifest, units=[replace(one, base=one.base + 1) for one in manifest.units])
    assert divided(moved, point, part_of(manifest, "a", A, seen=[0, 1]))[1] == []


def test_a_part_without_a_state_or_with_a_group_that_has_left_is_read_anew() -> None:
    manifest = manifest_of(1, 2)
    point = point_of({A: 1}, {A: 1}, new=[1])
    part, keys = part_of(manifest, "a", A)
    assert divided(manifest, point, (replace(part, state=""), keys)) == ([], [], [[A]], [])
    assert divided(manifest, point, part_of(manifest, "ab", A, B)) == ([], [], [[A]], [])


def test_copies_are_parts_of_their_own_and_read_again_where_what_they_are_compared_with_is_new() -> (
    None
):
    manifest, point = manifest_of(1), point_of({A: 1, B: 1})
    parts = [part_of(manifest, "a", A, is_copy=True), part_of(manifest, "b", B)]
    assert divided(manifest, point, *parts, copied={A: False}) == (["a", "b"], [], [], [])
    assert divided(manifest, point, *parts, copied={A: True}) == (["b"], [], [], [[A]])
    assert divided(manifest, point, *parts) == (["b"], [], [[A]], []), "it counts here now"
    alone = divided(manifest, point, parts[1], copied={B: False})
    assert alone == ([], [], [], [[B]]), "it counts elsewhere now"


def test_a_component_is_a_copy_if_all_of_it_is() -> None:
    manifest, point = manifest_of(1), point_of({A: 1, B: 1}, new=[0], joins=[A, B])
    assert divided(manifest, point, copied={A: False}) == ([], [], [[A, B]], [])
    assert divided(manifest, point, copied={A: False, B: False}) == ([], [], [], [[A, B]])


def test_a_part_is_shared_by_as_many_tasks_as_its_bytes_ask_for() -> None:
    mebibyte = 1 << 20
    assert plan.shares_of(0, 8, 0) == 1
    assert plan.shares_of(7 * mebibyte, 8, 7 * mebibyte) == 1, "it is small"
    assert plan.shares_of(16 * mebibyte, 8, 16 * mebibyte) == 2
    assert plan.shares_of(800 * mebibyte, 2, 800 * mebibyte) == 2, "one for a processor"
    assert plan.shares_of(400 * mebibyte, 3, 800 * mebibyte) == 2, "of its share, rounded up"
    assert plan.shares_of(8000 * mebibyte, 500, 8000 * mebibyte) == MOST_SHARES
