from __future__ import annotations

from dataclasses import replace

from dcpinspect.spark import plan
from dcpinspect.spark.manifest import Manifest, ReadUnit
from dcpinspect.spark.scan import ScanReport
from dcpinspect.spark.units import Unit


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
