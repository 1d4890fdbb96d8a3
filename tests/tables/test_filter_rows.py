"""Filters at work: DuckDB keeps the messages that three-valued logic, written out here, keeps."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.reading.reading import Reading
from dcpinspect.tables.arrow import record_batch
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.presets import FILTERS
from dcpinspect.tables.schema import COLUMNS
from dcpinspect.tables.select import Selection, statuses
from dcpinspect.tables.vocabulary import vocabulary
from tests.catalogue import each
from tests.encode import encode
from tests.tables.build import batch

SAMPLES = Path(__file__).parents[2] / "sample_captures"
BY_KIND = {
    kind: [column for column in COLUMNS if column.kind == kind]
    for kind in {column.kind for column in COLUMNS}
}
NUMBERS = [column for kind in ("u8", "u16", "u32", "u64", "i64") for column in BY_KIND[kind]]
TEXTS = [column for kind in ("text", "word") for column in BY_KIND[kind]]
MOST = {"u8": 2**8 - 1, "u16": 2**16 - 1, "u32": 2**32 - 1, "u64": 2**64 - 1, "i64": 2**63 - 1}


Messages = tuple[MessageBatch, list[dict[str, Any]]]
"""The same messages as a batch, and as records with every column."""


def recorded(one: MessageBatch) -> Messages:
    return one, record_batch(
        one, np.arange(len(one)), [column.name for column in COLUMNS]
    ).to_pylist()


@cache
def sample() -> Messages:
    """Most messages of a capture of everything."""
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        return recorded(max(reading, key=len))


@cache
def odd() -> Messages:
    """Messages with what filters stumble over: keys that are no text, quotes, signs of patterns,
    the greatest numbers.
    """
    keys = [
        b"it's",
        b"100%",
        b"a_b",
        b"a\\b",
        b"x y",
        b"\xff\xfe",
        "é😀".encode(),
        b"line\nbreak",
        b'"; --',
        b"airline_10",
    ]
    numbers = enumerate(keys)
    messages = [
        encode("hello", features=[{"feature": 0x12}]),
        encode("hello", "response", features=[{"feature": 0x12}]),
        *(
            encode(
                "dcp_mutation",
                vbucket=n,
                key=key,
                collection=n + 8,
                by_seqno=2**64 - 1 - n,
                cas=2**63 + n,
            )
            for n, key in numbers
        ),
        encode(
            "dcp_snapshot_marker",
            start_seqno=2**63,
            end_seqno=2**64 - 1,
            snapshot_type=["disk", "checkpoint"],
        ),
        encode("dcp_open", flags=["producer"]),
    ]
    return recorded(batch(*messages))


# -- conditions, written and evaluated without the code under test
# -------------------------------------

Record = dict[str, Any]
Three = bool | None
Case = tuple[str, int, Callable[[Record], Three]]
"""A condition: as text, how tightly its outermost operation binds (or 0, and 1, not 2, others 3),
and what it is of a record.
"""

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "==": operator.eq, "<>": operator.ne, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def lifted(test: Callable[..., bool], *operands: Any) -> Three:
    return None if any(operand is None for operand in operands) else test(*operands)


def inverse(value: Three) -> Three:
    return None if value is None else not value


def all_of(values: list[Three]) -> Three:
    return False if False in values else None if None in values else True


def any_of(values: list[Three]) -> Three:
    return True if True in values else None if None in values else False


def ordered(value: Any) -> Any:
    """Text is ordered by its bytes, in every engine."""
    return value.encode() if isinstance(value, str) else value


def quoted(value: Any) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@cache
def seen(column: str) -> list[Any]:
    """Values of a column, some."""
    return sorted(
        {
            record[column]
            for _, records in (sample(), odd())
            for record in records
            if record[column] is not None
        }
    )[:50]


def comparison(column: str, sign: str, value: Any, is_flipped: bool) -> Case:
    test = OPERATORS[sign]
    text = (
        f"{quoted(value)} {FLIPPED.get(sign, sign)} {column}"
        if is_flipped
        else f"{column} {sign} {quoted(value)}"
    )
    return (
        text,
        3,
        lambda record: lifted(lambda held: test(ordered(held), ordered(value)), record[column]),
    )


def between(column: str, low: Any, high: Any) -> Case:
    return (
        f"{column} between {quoted(low)} and {quoted(high)}",
        3,
        lambda record: lifted(
            lambda held: ordered(low) <= ordered(held) <= ordered(high), record[column]
        ),
    )


def within(column: str, values: list[Any], is_negated: bool) -> Case:
    text = f"{column} {'not ' * is_negated}in ({', '.join(map(quoted, values))})"
    return (
        text,
        3,
        lambda record: lifted(lambda held: (held in values) != is_negated, record[column]),
    )


def of_two(one: str, sign: str, other: str) -> Case:
    return (
        f"{one} {sign} {other}",
        3,
        lambda record: lifted(OPERATORS[sign], ordered(record[one]), ordered(record[other])),
    )


def like(column: str, pattern: str, is_negated: bool) -> Case:
    signs = {"%": ".*", "_": "."}
    expression = re.compile(
        "".join(signs.get(character) or re.escape(character) for character in pattern), re.DOTALL
    )
    text = f"{column} {'not ' * is_negated}like {quoted(pattern)}"
    return (
        text,
        3,
        lambda record: lifted(
            lambda held: (expression.fullmatch(held) is not None) != is_negated, record[column]
        ),
    )


def escaped(column: str, value: str) -> Case:
    pattern = re.sub("[%_!]", r"!\g<0>", value)
    return (
        f"{column} like {quoted(pattern)} escape '!'",
        3,
        lambda record: lifted(lambda held: bool(held == value), record[column]),
    )


def null(column: str, is_negated: bool) -> Case:
    return (
        f"{column} is {'not ' * is_negated}null",
        3,
        lambda record: (record[column] is None) != is_negated,
    )


def holds(column: str, word: str, sign: str) -> Case:
    return (
        f"{column} {sign} '{word}'",
        3,
        lambda record: lifted(lambda held: (word in held) == (sign == "="), record[column]),
    )


def negation(item: Case) -> Case:
    text, binds, test = item
    return f"not {text if binds >= 2 else f'({text})'}", 2, lambda record: inverse(test(record))


def joined(word: str, items: list[Case]) -> Case:
    strength = {"or": 0, "and": 1}[word]
    text = f" {word} ".join(one if binds > strength else f"({one})" for one, binds, _ in items)
    combine = all_of if word == "and" else any_of
    return text, strength, lambda record: combine([test(record) for _, _, test in items])


def upper(item: Case) -> Case:
    """The same with keywords and names of columns in capitals, as SQL allows."""
    return re.sub(
        r"'(?:[^']|'')*'|\w+",
        lambda match: match[0] if "'" in match[0] else match[0].upper(),
        item[0],
    ), *item[1:]


def values_of(column: Any) -> st.SearchStrategy[Any]:
    known = seen(column.name)
    if column in NUMBERS:
        edges = [0, MOST[column.kind], *known]
        near = [
            value + step
            for value in known
            for step in (-1, 1)
            if 0 <= value + step <= MOST[column.kind]
        ]
        return st.sampled_from(edges + near)
    words = vocabulary(column.name)
    return st.sampled_from(known or (words.words if words else ["0x0000000000000001"]))


COMPARED = [
    column for kind in ("text", "word", "hex64", "bytes") for column in BY_KIND[kind]
] + NUMBERS


@st.composite
def single(draw: st.DrawFn) -> Case:
    column = draw(st.sampled_from(COMPARED))
    name, values, is_negated = column.name, values_of(column), draw(st.booleans())
    match draw(
        st.sampled_from(["compare", "between", "in", "like", "escape", "null", "holds", "two"])
    ):
        case "compare":
            return comparison(
                name, draw(st.sampled_from(sorted(OPERATORS))), draw(values), is_negated
            )
        case "between":
            return between(name, draw(values), draw(values))
        case "in":
            return within(name, draw(st.lists(values, min_size=1, max_size=4)), is_negated)
        case "null":
            return null(draw(st.sampled_from(COLUMNS)).name, is_negated)
        case "two":
            return of_two(
                draw(st.sampled_from(NUMBERS)).name,
                draw(st.sampled_from(sorted(OPERATORS))),
                draw(st.sampled_from(NUMBERS)).name,
            )
        case "holds":
            word = draw(st.sampled_from(["json", "snappy"]))
            return holds("datatype", word, draw(st.sampled_from(["=", "<>"])))
        case kind:
            text = draw(st.sampled_from(TEXTS))
            value = draw(st.sampled_from([*seen(text.name), "it's", "100%"]))
            cut = draw(st.integers(0, len(value)))
            return (
                escaped(text.name, value)
                if kind == "escape"
                else like(text.name, f"{value[:cut]}%{value[cut + 1 :]}_"[: cut + 9], is_negated)
            )


def combined(items: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    several = st.lists(items, min_size=2, max_size=3)
    return (
        st.builds(negation, items)
        | st.builds(joined, st.sampled_from(["and", "or"]), several)
        | st.builds(upper, items)
    )


@pytest.mark.slow
@given(st.recursive(single(), combined, max_leaves=6))
def test_duckdb_keeps_what_three_valued_logic_keeps(case: Case) -> None:
    text, _, test = case
    keeper = FilterRows(parse_filter(text))
    for messages, records in (sample(), odd()):
        expected = [index for index, record in enumerate(records) if test(record) is True]
        assert keeper.rows(messages, np.arange(len(messages))).tolist() == expected


# -- cases worth a name
# ----------------------------------------------------------------------------------


def kept(text: str, messages: MessageBatch) -> list[int]:
    rows: list[int] = (
        FilterRows(parse_filter(text)).rows(messages, np.arange(len(messages))).tolist()
    )
    return rows


@each(
    ("text", "rows"),
    [
        ("by_seqno = 18446744073709551615", [2]),
        ("by_seqno > 18446744073709551612", [2, 3, 4]),
        ("cas > '0x8000000000000007'", [10, 11]),
        ("cas = '0X8000000000000000'", [2]),
        ("key = 'it''s'", [2]),
        ("key like '%!%%' escape '!'", [3]),
        ("key like 'a_b'", [4, 5]),
        ("key = 'a\\b'", [5]),
        ("key like 'a\\b'", [5]),
        ("key like '__'", [8]),
        ("key like 'line%'", [9]),
        ("key = 'x y'", [6]),
        ("key is null and key_bytes is not null", [7]),
        ("key_bytes = x'fffe'", [7]),
        ("key_bytes >= x'ff'", [7]),
        ("snapshot_type = 'disk'", [12]),
        ("snapshot_type <> 'disk'", []),
        ("snapshot_type <> 'memory'", [12]),
        ("snapshot_type in ('memory', 'checkpoint')", [12]),
        ("not flags in ('notifier')", [13]),
        ("9223372036854775809 between start_seqno and end_seqno", [12]),
        ("start_seqno < end_seqno", [12]),
        ("time = '2024-04-06T05:34:37.412000123Z'", [1]),
        ("time < '2024-04-06T05:34:37.412000123'", [0]),
        ("not by_seqno > 0", []),
        ("true", list(range(14))),
        ("false or not true", []),
    ],
)
def test_rows_that_a_filter_keeps(text: str, rows: list[int]) -> None:
    assert kept(text, odd()[0]) == rows


def test_errors_are_what_the_short_flag_calls_errors() -> None:
    messages = sample()[0]
    assert (
        kept("@errors", messages)
        == Selection(statuses=statuses("error")).rows(messages).tolist()
        != []
    )


@pytest.mark.slow
def test_every_preset_finds_something_in_the_samples() -> None:
    keepers = {name: FilterRows(parse_filter(f"@{name}")) for name in FILTERS}
    found = set()
    for path in SAMPLES.glob("*.pcap*"):
        if path.stat().st_size < 500_000:
            with Reading([str(path)]) as reading:
                for one in reading:
                    found |= {
                        name
                        for name, keeper in keepers.items()
                        if len(keeper.rows(one, np.arange(len(one))))
                    }
    assert set(FILTERS) - found == set()


def test_only_the_rows_that_are_left_are_asked() -> None:
    messages = sample()[0]
    keeper = FilterRows(parse_filter("name = 'dcp_mutation'"))
    everything = keeper.rows(messages, np.arange(len(messages)))
    assert keeper.rows(messages, everything[3:5]).tolist() == everything[3:5].tolist()
    assert keeper.rows(messages, np.arange(0)).tolist() == []


def test_a_filter_goes_with_the_short_flags() -> None:
    messages = sample()[0]
    both = Selection(
        vbuckets=(range(417, 418),),
        filter=FilterRows(parse_filter("by_seqno > 5 and datatype = 'json'")),
    )
    records = sample()[1]
    expected = [
        n
        for n, one in enumerate(records)
        if one["vbucket"] == 417 and (one["by_seqno"] or 0) > 5 and "json" in one["datatype"]
    ]
    assert both.rows(messages).tolist() == expected != []


@pytest.mark.slow
def test_a_list_of_thousands_is_taken() -> None:
    assert kept(f"by_seqno in ({', '.join(map(str, range(10_000)))})", odd()[0]) == []
    assert kept(" or ".join(f"vbucket = {n}" for n in range(3_000)), odd()[0]) == list(range(14))


def test_deep_nesting_is_evaluated() -> None:
    assert kept("(" * 99 + "row = 3" + ")" * 99, odd()[0]) == [2]
    assert kept("not " * 100 + "row = 3", odd()[0]) == [2]
