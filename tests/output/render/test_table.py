from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from dcpinspect.output.render.table import MEASURED, WIDEST, TextTable, cell_texts


def lines(table: Any, *, width: int | None = None, first: Sequence[str] = ()) -> list[str]:
    text = TextTable(table.schema, width=width, first=first)
    return [line for batch in table.to_batches() for line in text.lines(batch)] + list(text.end())


def test_numbers_stand_right_and_texts_left_under_their_names() -> None:
    table = pa.table(
        {
            "vbucket": [1, 1023],
            "name": ["a", "long name"],
            "n": pa.array([2**64 - 1, None], pa.uint64()),
        }
    )
    assert lines(table) == [
        "vbucket  name                          n",
        "      1  a          18446744073709551615",
        "   1023  long name",
    ]


def test_every_kind_of_value_has_a_text() -> None:
    table = pa.table(
        {"l": [["a", None]], "s": [{"x": 1, "y": None}], "b": [True], "raw": [b"\xff"], "f": [0.5]}
    )
    assert lines(table)[1] == "a,   x=1 y=  true  0xff  0.5"


def test_connections_are_numbered_and_not_counted() -> None:
    numbers = pa.array([[1], [1, 12], []], pa.list_(pa.int64()))
    assert cell_texts(numbers, "connections") == ["con 1", "con 1, 12", ""]
    assert cell_texts(numbers, "rows") == ["1", "1, 12", ""]
    assert cell_texts(pa.array([3]), "connections") == ["3"], "as info counts them"


def test_nothing_from_a_value_or_a_name_steers_the_terminal() -> None:
    table = pa.table(
        {
            "na\x1bme": ["\x1b[2J\n", "[bold]"],
            "l": [["\x07"], None],
            "s": [{"k\x9b": "\u202e"}, None],
        }
    )
    assert all(line.isprintable() for line in lines(table))
    assert lines(table)[1].startswith("\\x1b[2J\\x0a")


def test_the_lines_of_a_plan_are_lines_and_nothing_else_of_it_is_let_through() -> None:
    plans = pa.table(
        {"explain_key": ["one", "two"], "explain_value": ["╭──╮\n╰\x1b[2J╯\n", "a\r\x07\n b"]}
    )
    assert lines(plans) == [
        "explain_key  explain_value",
        "one          ╭──╮",
        "             ╰\\x1b[2J╯",
        "two          a\\x0d\\x07",
        "              b",
    ]
    assert lines(pa.table({"plan": [1, None]})) == ["plan", "   1", ""]
    assert lines(pa.table({"key": ["a\nb"]})) == ["key", "a\\x0ab"], (
        "what a capture has makes no lines"
    )


def test_wide_characters_keep_the_columns_straight() -> None:
    table = pa.table({"key": ["日本", "abcd"], "n": [1, 2]})
    assert lines(table) == ["key   n", "日本  1", "abcd  2"]


def test_texts_are_cut_to_the_width_and_numbers_left_out_whole() -> None:
    table = pa.table({"a": ["x" * 25], "b": ["y" * 50], "n": [123]})
    assert [len(line) for line in lines(table, width=50)] == [28, 50]
    assert lines(table.select(["a", "n"]), width=22) == ["a", "x" * 21 + "…"]


def test_a_wider_line_lacks_no_important_column() -> None:
    table = pa.table(
        {"client": ["c" * 29], "n": [1], "cause": ["x" * 40], "m": [12345], "k": ["y"]}
    )
    shown = [lines(table, width=width) for width in range(20, 100)]
    names = [heading.split()[:3] for heading, _ in shown]
    assert [has.count("cause") for has in names] == sorted(has.count("cause") for has in names)
    assert names[-1] == ["client", "n", "cause"]
    assert shown[-1][1].count("c") == 29


def test_a_wider_line_has_every_column_of_a_narrower_one() -> None:
    sizes = [9, 4, 25, 6, 14, 3, 11, 30, 5, 8, 20, 7]
    table = pa.table({f"c{number}": ["x" * size] for number, size in enumerate(sizes)})
    shown = [
        {*lines(table, width=width, first=["c4", "c2", "c0"])[0].split()}
        for width in range(80, 170)
    ]
    assert all(less <= more for less, more in pairwise(shown))
    assert len(shown[0]) < len(shown[40]) < len(shown[-1]) == len(sizes)


def test_a_long_text_pushes_only_its_own_line() -> None:
    table = pa.table({"a": ["x" * 2 * WIDEST, "y"], "b": [1, 2]})
    heading, long, short = lines(table)
    assert long == "x" * 2 * WIDEST + "  1"
    assert heading.index("b") == short.index("2") == WIDEST + 2


def test_widths_follow_from_the_first_rows_and_lines_come_as_rows_do() -> None:
    table = TextTable(pa.schema([("a", pa.string())]))
    first = pa.RecordBatch.from_pydict({"a": ["x"] * MEASURED})
    assert len(list(table.lines(first))) == 1 + MEASURED
    assert list(table.lines(pa.RecordBatch.from_pydict({"a": ["longer"]}))) == ["longer"]
    assert list(table.end()) == []


def test_no_rows_leave_the_heading() -> None:
    assert lines(pa.table({"a": pa.array([], pa.string())})) == ["a"]


def test_a_row_is_the_same_alone_and_among_others_that_need_more_care() -> None:
    rows = {
        "key": ["plain", "日本", "\x07", None, "back\\slash"],
        "n": [1, -22, None, 4, 5],
        "note": ["x", None, "y  ", "é", ""],
    }
    table = pa.table(rows)
    width = len(lines(table)[0]) + 2
    for clipped in (None, width, 8):
        whole = lines(table, width=clipped)
        alone = TextTable(table.schema, width=clipped)
        heading = [line for batch in table.to_batches() for line in alone.lines(batch)] + list(
            alone.end()
        )[:1]
        again = [
            line
            for row in range(table.num_rows)
            for line in [*alone.lines(table.slice(row, 1).to_batches()[0]), *alone.end()]
        ]
        assert (heading, again) == (whole[:1], whole[1:])


def test_an_opaque_has_the_form_that_lines_and_findings_have() -> None:
    batch = pa.record_batch({"opaque": pa.array([0x11000000, 17, None], pa.uint32())})
    table = TextTable(batch.schema)
    lines = [*table.lines(batch), *table.end()]
    assert [line.strip() for line in lines] == ["opaque", "0x11000000", "0x00000011", ""]
