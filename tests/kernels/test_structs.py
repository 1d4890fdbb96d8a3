"""Tables of records: one declaration, seen alike by NumPy, by Python and by machine code."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.kernel import kernel, kernel_function
from dcpinspect.kernels.structs import (
    FieldPair,
    Struct,
    StructRows,
    T,
    Tables,
    by_direction,
    nested,
    number,
)
from tests.kernels.made import compile_here


class Spot(Struct[T]):
    """Something inside another struct."""

    row: T = number("Its row.", reset=-1, of="messages")
    time: T = number("Its time.")


class Gauge(Struct[T]):
    """A struct with every kind of field."""

    level: T = number("How full it is.", reset=7)
    here: Spot[T] = nested(Spot, "Where that was measured.")
    there: Spot[T] = nested(Spot, "Where else.")
    lost: FieldPair[T] = by_direction("What was lost.", reset=3)
    number: T = number("Its number.")


class Gauges(Gauge[IntArray], StructRows[Gauge]):
    """Gauges."""


class Sum(Struct[T]):
    """A record of its own."""

    total: T = number("All levels.")
    kept: Spot[T] = nested(Spot, "The last place.")


class GaugeTables(Tables):
    """What the kernel works on."""

    gauges: Gauges
    sum: Sum
    weights: IntArray
    factor: int

    def __init__(self, gauges: Gauges, weights: list[int], factor: int) -> None:
        self.gauges, self.weights, self.factor, self.sum = (
            gauges,
            np.array(weights, dtype=np.int64),
            factor,
            Sum.single(),
        )


reset_gauge = kernel_function(Gauge.resetter())


@kernel_function
def weigh(tables: GaugeTables, gauge: Gauge, way: int) -> None:
    """Writes to a record, to one inside it, to a pair, to an array and to a single record."""
    gauge.level *= tables.factor
    gauge.lost[way] += gauge.level
    gauge.there = gauge.here
    gauge.here.time = tables.weights[gauge.number]
    tables.weights[gauge.number] = -1
    tables.sum.total += gauge.level
    tables.sum.kept = gauge.here


@kernel("int64(int64, GaugeTables)")
def weigh_all(start: int, tables: GaugeTables) -> int:
    """Every second gauge is weighed, the others get what a new one has."""
    for g in range(start, len(tables.gauges)):
        gauge = tables.gauges[g]
        if g % 2:
            weigh(tables, gauge, g & 1)
        else:
            reset_gauge(gauge)
    return len(tables.gauges)


@pytest.fixture(scope="module", autouse=True)
def machine_code() -> None:
    compile_here(weigh_all)


WORDS = 8
"""Integers of a gauge."""


def some(count: int = 4) -> Gauges:
    return Gauges.of_integers(np.arange(count * WORDS, dtype=np.int64).reshape(count, WORDS))


def test_a_table_has_its_integers_in_the_order_of_the_fields() -> None:
    gauges = some(2)
    assert Gauge.dtype.itemsize == WORDS * 8
    assert gauges.level.tolist() == [0, 8]
    assert (gauges.here.row.tolist(), gauges.here.time.tolist()) == ([1, 9], [2, 10])
    assert (gauges.there.row.tolist(), gauges.there.time.tolist()) == ([3, 11], [4, 12])
    assert (gauges.lost[0].tolist(), gauges.lost[1].tolist(), gauges.number.tolist()) == (
        [5, 13],
        [6, 14],
        [7, 15],
    )


def test_a_record_has_the_integers_of_its_row() -> None:
    gauge = some()[1]
    assert (
        gauge.level,
        gauge.here.row,
        gauge.here.time,
        gauge.lost[0],
        gauge.lost[1],
        gauge.number,
    ) == (8, 9, 10, 13, 14, 15)
    assert some()[-1].number == 31
    assert [one.level for one in some()] == [0, 8, 16, 24]


def test_what_is_written_to_a_record_a_column_or_a_slice_is_in_the_table() -> None:
    gauges = some(3)
    gauges[0].here.time, gauges[0].lost[1] = 100, 200
    gauges.level[1] = 300
    gauges.there = gauges.here
    gauges[1:].number[:] = 400
    gauges.lost[0] = np.array([1, 2, 3])
    assert gauges.as_integers().tolist() == [
        [0, 1, 100, 1, 100, 1, 200, 7],
        [300, 9, 10, 9, 10, 2, 14, 400],
        [16, 17, 18, 17, 18, 3, 22, 400],
    ]


def test_chosen_rows_are_a_copy_and_are_put_back_by_assignment() -> None:
    gauges = some()
    chosen = gauges[np.array([3, 0])]
    chosen.level[:] = -1
    assert gauges.level.tolist() == [0, 8, 16, 24]
    gauges[np.array([3, 0])] = chosen
    assert gauges.level.tolist() == [-1, 8, 16, -1]
    assert gauges.number.tolist() == [7, 15, 23, 31]


def test_a_record_is_put_into_a_table_by_assignment() -> None:
    gauges = some()
    gauges[2] = gauges[0]
    assert gauges.as_integers()[2].tolist() == gauges.as_integers()[0].tolist()
    assert gauges.number.tolist() == [7, 15, 7, 31]


def test_of_a_pair_each_record_has_the_one_of_its_direction() -> None:
    assert some(3).lost.in_direction(np.array([0, 1, 0])).tolist() == [5, 14, 21]


def test_a_new_record_is_as_its_fields_say() -> None:
    assert Gauge.resets() == {
        "level": 7,
        "here.row": -1,
        "there.row": -1,
        "lost[0]": 3,
        "lost[1]": 3,
    }
    assert Gauges.reset(2).as_integers().tolist() == [[7, -1, 0, -1, 0, 3, 3, 0]] * 2
    assert Gauges.zeros(1).as_integers().tolist() == [[0] * WORDS]
    one = Gauge.single()
    assert (one.level, one.here.row, one.lost[1], one.number) == (7, -1, 3, 0)


def test_a_field_says_what_it_means() -> None:
    assert {name: field.meaning for name, field in Spot.fields.items()} == {
        "row": "Its row.",
        "time": "Its time.",
    }
    assert [field.of for field in Spot.fields.values()] == ["messages", ""]
    assert (
        Gauge.fields["here"].struct,
        Gauge.fields["lost"].is_pair,
        Gauge.fields["level"].reset,
    ) == (Spot, True, 7)
    assert (Gauges.fields, Gauges.declared) == (Gauge.fields, Gauge)


def test_tables_are_joined_in_order() -> None:
    assert Gauges.joined([some(1), Gauges.zeros(0), some(2)]).level.tolist() == [0, 0, 8]
    assert len(Gauges.joined([])) == 0


def test_integers_come_back_and_those_of_another_struct_do_not() -> None:
    gauges = some()
    assert (
        Gauges.of_integers(gauges.as_integers()).as_integers().tolist()
        == gauges.as_integers().tolist()
    )
    assert gauges[::2].as_integers().tolist() == gauges.as_integers()[::2].tolist()
    with pytest.raises(ValueError):  # noqa: PT011 - NumPy's words
        Gauges.of_integers(np.zeros((2, WORDS - 1), dtype=np.int64))


def test_bytes_of_a_record_come_back_as_a_copy_and_others_do_not() -> None:
    one = Gauge.single()
    one.here.time = 99
    data = Gauge.as_bytes(one)
    other = Gauge.of_bytes(data)
    other.level = 5
    assert (other.here.time, other.level, one.level) == (99, 5, 7)
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(ValueError, match="are no Gauge"):
            Gauge.of_bytes(wrong)


def test_a_table_can_be_pickled() -> None:
    gauges = some()
    assert len(gauges.records()) == 4  # what was made for kernels stays behind
    assert (
        pickle.loads(pickle.dumps(gauges)).as_integers().tolist() == gauges.as_integers().tolist()  # noqa: S301 - our own
    )


def test_an_empty_table_is_a_table() -> None:
    gauges = Gauges.zeros(0)
    assert (len(gauges), gauges.here.time.tolist(), list(gauges)) == (0, [], [])
    assert Gauges.of_integers(gauges.as_integers()).as_integers().shape == (0, WORDS)
    for run in (weigh_all.interpreted, weigh_all.compiled):
        assert run(0, GaugeTables(gauges, [], 1)) == 0


def test_both_forms_of_a_kernel_do_the_same_to_the_same_tables() -> None:
    found: list[Any] = []
    for run in (weigh_all.interpreted, weigh_all.compiled):
        gauges = some(5)
        gauges.number = np.arange(5)
        tables = GaugeTables(gauges, [10, 20, 30, 40, 50], 3)
        assert run(1, tables) == 5
        found.append(
            (gauges.as_integers().tolist(), tables.weights.tolist(), Sum.as_bytes(tables.sum))
        )
        assert (tables.sum.total, tables.sum.kept.row, tables.sum.kept.time) == (
            3 * (8 + 24),
            25,
            40,
        )
        assert gauges[1].lost[1] == 14 + 24
    assert found[0] == found[1]
    assert found[0][:2] == (
        [
            [0, 1, 2, 3, 4, 5, 6, 0],
            [24, 9, 20, 9, 10, 13, 38, 1],
            [7, -1, 18, -1, 20, 3, 3, 2],
            [72, 25, 40, 25, 26, 29, 102, 3],
            [7, -1, 34, -1, 36, 3, 3, 4],
        ],
        [10, -1, 30, -1, 50],
    )


def test_machine_code_is_found_by_the_layout_of_its_tables() -> None:
    layout = GaugeTables.layout()
    assert [
        name for name in ("level", "time", "lost", "weights", "factor") if name not in layout
    ] == []

    class Other(GaugeTables):
        gauges: Sum  # type: ignore[assignment] # another struct under the name

    assert Other.layout() != layout


def test_machine_code_is_given_no_table_that_it_would_misread() -> None:
    gauges = some()
    tables = GaugeTables(gauges[::2], [1, 2, 3, 4], 1)
    with pytest.raises(TypeError, match="contiguous"):
        weigh_all.compiled(0, tables)
    tables.gauges = some()
    tables.gauges.array.flags.writeable = False
    with pytest.raises(TypeError, match="contiguous"):
        weigh_all.compiled(0, tables)
