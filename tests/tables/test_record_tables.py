"""Tables of records: the same values as JSON and as Arrow, null where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.arrow_types import hex64 as hex_texts
from dcpinspect.tables.column_kinds import Column, columns
from dcpinspect.tables.record_tables import (
    LazyColumn,
    Records,
    RecordTable,
    WordColumn,
    counted,
    hex64,
    time_text,
    worded,
)

SAMPLES = Path(__file__).parents[2] / "sample_captures"
TABLE = RecordTable(
    "sample",
    (
        Column("seqno", "u64", ""),
        Column("state", "word", "", ("open", "cut")),
        Column("flags", "words", ""),
        Column("time", "time", ""),
        Column("uuid", "hex64", ""),
        Column("log", "log", ""),
        Column("filter", "object", ""),
        Column("controls", "controls", ""),
        Column("gaps", "counts", ""),
        Column("interval", "seconds", ""),
        Column("rows", "numbers", ""),
        Column("name", "text", ""),
    ),
)
NS = 1_712_404_860_123_456_789


def sample() -> Records:
    return Records(
        TABLE,
        {
            "seqno": NumberColumn(np.array([2**64 - 1, 0], np.uint64), np.array([True, False])),
            "state": WordColumn(np.array([1, -1]), ("open", "cut")),
            "flags": WordColumn(np.array([0, 1]), [["memory"], []]),
            "time": NumberColumn(np.array([NS, NS + 1])),
            "uuid": NumberColumn(np.array([2**63, 5], np.uint64)),
            "log": [[(2**64 - 1, 7)], None],
            "filter": [{"sid": 5}, None],
            "controls": [{"enable_noop": {"value": "true", "status": None}}, {}],
            "gaps": [{"rollback": 1}, {}],
            "interval": [1.5, None],
            "rows": LazyColumn(2, lambda rows: [[row, row + 1] for row in rows.tolist()]),
            "name": ["é", None],
        },
        2,
    )


def test_a_record_has_every_key_and_is_ready_for_json() -> None:
    first, second = sample().records()
    assert first == {
        "schema": "dcpinspect.sample/1",
        "seqno": 2**64 - 1,
        "state": "cut",
        "flags": ["memory"],
        "time": "2024-04-06T12:01:00.123456789Z",
        "uuid": "0x8000000000000000",
        "log": [{"uuid": "0xffffffffffffffff", "seqno": 7}],
        "filter": {"sid": 5},
        "controls": {"enable_noop": {"value": "true", "status": None}},
        "gaps": {"rollback": 1},
        "interval": 1.5,
        "rows": [0, 1],
        "name": "é",
    }
    nulls = {key for key, value in second.items() if value is None}
    assert nulls == {"seqno", "state", "log", "filter", "interval", "name"}


def test_arrow_has_the_same_values_and_times_with_all_digits() -> None:
    table = sample().arrow()
    assert table.schema.field("seqno").type == pa.uint64()
    assert table.column("seqno").to_pylist() == [2**64 - 1, None]
    assert table.column("state").to_pylist() == ["cut", None]
    assert table.column("flags").to_pylist() == [["memory"], []]
    assert table.column("time_ns").to_pylist() == [NS, NS + 1]
    assert table.column("time").cast(pa.int64()).to_pylist() == [NS // 1000, (NS + 1) // 1000]
    assert table.column("log").to_pylist() == [[{"uuid": "0xffffffffffffffff", "seqno": 7}], None]
    assert table.column("filter").to_pylist() == ['{"sid":5}', None]
    assert table.column("controls").to_pylist()[0] == [
        ("enable_noop", {"value": "true", "status": None})
    ]
    assert table.column("rows").to_pylist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("is_list", [True, False])
def test_no_end_is_a_word_in_json_and_a_number_in_arrow(is_list: bool) -> None:
    table = RecordTable("sample", (Column("end", "u64", "", ("no end",)),))
    ends = [2**64 - 1, 5]
    values = ends if is_list else NumberColumn(np.array(ends, np.uint64))
    records = Records(table, {"end": values}, 2)
    assert [record["end"] for record in records.records()] == ["no end", 5]
    assert records.arrow().column("end").to_pylist() == ends


def test_objects_and_lists_that_are_kept_once_go_to_arrow_as_others_do() -> None:
    columns = (Column("filter", "object", ""), Column("flags", "words", ""))
    codes = np.array([1, -1, 0])
    worded = {
        "filter": WordColumn(codes, [{"sid": 5}, {"scope": "8"}]),
        "flags": WordColumn(codes, [["a"], ["b", "c"]]),
    }
    table = Records(RecordTable("sample", columns), worded, 3).arrow()
    assert table.to_pydict() == {
        "filter": ['{"scope":"8"}', None, '{"sid":5}'],
        "flags": [["b", "c"], None, ["a"]],
    }


def test_times_before_1970_are_times_too() -> None:
    assert time_text(-1) == "1969-12-31T23:59:59.999999999Z"


def test_some_columns_are_made_without_the_others() -> None:
    def fails(_: object) -> list[int]:
        raise AssertionError

    records = sample()
    columns = {**records.columns, "rows": LazyColumn(2, fails)}
    some = Records(TABLE, columns, 2).arrow(["time_ns", "seqno"])
    assert some.equals(records.arrow().select(["time_ns", "seqno"]))
    assert Records(TABLE, columns, 2).arrow([]).column_names == []


def test_columns_without_a_value_are_known() -> None:
    records = sample()
    assert all(records.has_values(column.name) for column in TABLE.columns)
    second = records.take(np.array([1]))
    without = {column.name for column in TABLE.columns if not second.has_values(column.name)}
    assert without == {"seqno", "state", "log", "filter", "interval", "name"}
    assert not any(
        records.take(np.array([], np.int64)).has_values(column.name) for column in TABLE.columns
    )


def test_counts_by_word_are_the_same_in_arrow() -> None:
    numbers, words = np.array([[0, 3, 0], [0, 0, 0], [1, 0, 2]]), ("a", "b", "c")
    zeros = [dict(zip(words, row, strict=True)) for row in numbers.tolist()]
    for with_zeros, told in ((False, [{"b": 3}, {}, {"a": 1, "c": 2}]), (True, zeros)):
        found = counted(numbers, words, with_zeros=with_zeros)
        assert found.arrow is not None
        rows = np.array([2, 0, 1])
        assert found.make(rows) == [told[row] for row in rows]
        assert list(map(dict, found.arrow(rows).to_pylist())) == found.make(rows)


def test_numbers_of_64_bits_are_written_as_one_by_one() -> None:
    numbers = np.array([0, 0xABC, (1 << 64) - 1], dtype=np.uint64)
    assert hex_texts(NumberColumn(numbers)).to_pylist() == [
        hex64(number) for number in numbers.tolist()
    ]
    assert hex_texts(NumberColumn(numbers, np.array([True, False, True]))).to_pylist() == [
        hex64(0),
        None,
        hex64(-1),
    ]
    assert hex_texts(NumberColumn(numbers[:0])).to_pylist() == []


def test_words_have_numbers_whatever_they_are_made_of() -> None:
    found = worded(["x", None, "y", "x"])
    assert (found.codes.tolist(), found.words) == ([0, -1, 1, 0], ["x", "y"])
    assert worded(found) is found


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.pcap*")), ids=lambda path: path.name)
def test_columns_that_are_made_are_the_same_in_arrow(path: Path) -> None:
    with Reading([str(path)]) as reading:
        reading.check()
        for _ in reading:
            pass
        tables = reading.by_name()
    made = {
        (name, column)
        for name, records in tables.items()
        for column, values in records.columns.items()
        if isinstance(values, LazyColumn)
    }
    assert ("gaps", "evidence") in made
    for name, column in made:
        one_by_one = tables[name].with_column(column, tables[name].values(column))
        assert tables[name].arrow([column]).equals(one_by_one.arrow([column]))


def test_columns_are_declared_by_a_text() -> None:
    first, second = columns("side word: who: one of two", "count i64: how many", side=("a", "b"))
    assert (first.name, first.kind, first.doc, first.words) == (
        "side",
        "word",
        "who: one of two",
        ("a", "b"),
    )
    assert (second.kind, second.words) == ("i64", ())


def test_a_column_of_no_kind_and_words_of_no_column_are_refused() -> None:
    with pytest.raises(AssertionError, match="count is of no kind int"):
        columns("count int: how many")
    with pytest.raises(AssertionError, match="no column is called side"):
        columns("count i64: how many", side=("a", "b"))
