"""The filter language: what is a filter, what it is read as, and what the refusal of anything else
points at.
"""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.errors import PlacedError
from dcpinspect.tables.filter import MAX_DEPTH, MAX_LENGTH, parse_filter
from dcpinspect.tables.filter_sql import Sql
from dcpinspect.tables.filter_tree import FilterSource
from dcpinspect.tables.presets import FILTERS
from tests.catalogue import each


def read_as(text: str, **saved: str) -> str:
    """The filter as it is handed on, with all its parentheses."""
    return Sql().condition(
        parse_filter(
            text,
            saved={name: FilterSource(f"[filters] {name}", one) for name, one in saved.items()},
        ).condition
    )


def refusal(text: str, **saved: str) -> PlacedError:
    with pytest.raises(PlacedError) as caught:
        read_as(text, **saved)
    return caught.value


@each(
    ("text", "same"),
    [
        ("vbucket = 5", '"vbucket" = 5'),
        ("VBucket=5", '"vbucket" = 5'),
        ("vbucket == 5", '"vbucket" = 5'),
        ("vbucket != 5", '"vbucket" <> 5'),
        ("5 < vbucket", '"vbucket" > 5'),
        ("5 >= vbucket", '"vbucket" <= 5'),
        ("connection > -1", '"connection" > -1'),
        ("start_seqno < end_seqno", '"start_seqno" < "end_seqno"'),
        ("end_seqno = 18446744073709551615", '"end_seqno" = 18446744073709551615'),
        ("vbucket in (1, 5)", '"vbucket" in (1, 5)'),
        ("vbucket NOT IN (1)", 'not ("vbucket" in (1))'),
        ("vbucket between 1 and 5", '("vbucket" >= 1) and ("vbucket" <= 5)'),
        ("vbucket not between 1 and 5", 'not (("vbucket" >= 1) and ("vbucket" <= 5))'),
        ("17 between start_seqno and end_seqno", '("start_seqno" <= 17) and ("end_seqno" >= 17)'),
        ("key like 'a%'", "\"key\" like 'a%'"),
        ("key not like 'a!_%' escape '!'", "not (\"key\" like 'a!_%' escape '!')"),
        ("key is null", '"key" is null'),
        ("key is not null", 'not ("key" is null)'),
        ("key = 'it''s'", "\"key\" = 'it''s'"),
        ("key = ''", "\"key\" = ''"),
        ("key_bytes = x'00FF'", "\"key_bytes\" = '\\x00\\xff'::blob"),
        ("datatype = 'json'", "list_contains(\"datatype\", 'json')"),
        ("datatype <> 'json'", "not (list_contains(\"datatype\", 'json'))"),
        (
            "flags in ('producer', '0x400')",
            "(list_contains(\"flags\", 'producer')) or (list_contains(\"flags\", '0x400'))",
        ),
        ("time >= '2024-04-06'", '"time_ns" >= 1712361600000000000'),
        ("true", "true"),
        ("row = 1 or row = 2 and row = 3", '("row" = 1) or (("row" = 2) and ("row" = 3))'),
        ("(row = 1 or row = 2) and row = 3", '(("row" = 1) or ("row" = 2)) and ("row" = 3)'),
        ("not row = 1 and row = 2", '(not ("row" = 1)) and ("row" = 2)'),
        ("not (row = 1 and row = 2)", 'not (("row" = 1) and ("row" = 2))'),
        ("not not row = 1", 'not (not ("row" = 1))'),
        ("row between 1 and 2 and row = 3", '(("row" >= 1) and ("row" <= 2)) and ("row" = 3)'),
        ("\n row\t=\r\n1 ", '"row" = 1'),
    ],
)
def test_a_filter_is_read_as(text: str, same: str) -> None:
    assert read_as(text) == same


def test_a_filter_reads_the_columns_it_names_and_no_others() -> None:
    assert parse_filter(
        "by_seqno > 1 and (name = 'get' or not key is null) and name <> 'set'"
    ).columns == ("name", "key", "by_seqno")
    assert parse_filter("time > '2024-04-06'").columns == ("time_ns",)
    assert parse_filter("true").columns == ()


@each(
    ("text", "caret", "what"),
    [
        ("", 0, "the filter is empty; write a condition, as in vbucket = 5"),
        ("  ", 2, "the filter is empty; write a condition, as in vbucket = 5"),
        ("directoin = 'c2s'", 0, "no column is called directoin; did you mean direction?"),
        (
            "row = 1 or xyzzy = 5",
            11,
            "no column is called xyzzy; 'dcpinspect read --columns' lists them",
        ),
        ("name = xyzzy", 7, "no column is called xyzzy; text is put in single quotes: 'xyzzy'"),
        ("vbucket", 0, "vbucket alone is no condition; write one, as in vbucket = 5"),
        ("(key)", 1, "key alone is no condition; write one, as in key is not null"),
        ("row = 1 and 5", 12, "a value alone is no condition; compare a column with it"),
        ("1 = 1", 0, "both sides are values; compare a column with a value"),
        ("vbucket 5", 8, "a comparison is missing here, such as =, < or in"),
        ("vbucket =", 9, "a column or a value is missing here"),
        ("vbucket = and", 10, "a column or a value is missing here"),
        ("row = 1 row = 2", 8, "join conditions with and or or"),
        ("1 < row < 5", 8, "a comparison has two sides; join two of them with and"),
        ("(row = 1", 8, "a closing parenthesis is missing"),
        ("row = 1)", 7, "this parenthesis was not opened"),
        ("(row = 1) = true", 10, "columns and values are compared, not conditions"),
        ("row = (1)", 6, "a column or a value is missing here"),
        ("vbucket not 5", 12, "behind not, in, between or like is missing"),
        ("vbucket in 5", 11, "in takes a list, as in in (1, 5)"),
        ("vbucket in ()", 12, "a column or a value is missing here"),
        ("vbucket in (1 2)", 14, "a comma or a closing parenthesis is missing"),
        ("vbucket in (1, row)", 15, "a value is expected here, not a column"),
        ("5 in (1, 5)", 0, "in is asked of a column, not of a value"),
        ("vbucket between 1 or 5", 18, "between takes two bounds, as in between 1 and 5"),
        ("vbucket = null", 10, "nothing equals null; write is null or is not null"),
        ("vbucket in (1, null)", 15, "nothing equals null; write is null or is not null"),
        ("key is true", 7, "only is null and is not null can be asked here"),
        ("1 is null", 0, "is null is asked of a column, not of a value"),
        ('"name" = 1', 0, "text is put in single quotes, and names of columns in none"),
        ("`name` = 1", 0, "names of columns are written without quotes"),
        ("messages.name = 'get'", 8, "names of columns are written without a table"),
        ("key = 'abc", 6, "the text has no closing quote"),
        ("key = 'it's'", 10, "a quote within text is doubled, as in 'it''s'"),
        ("lower(name) = 'get'", 0, "a filter has no functions, such as lower"),
        ("name ilike 'DCP%'", 5, "use like; it distinguishes capital and small letters"),
        ("name matches 'dcp'", 5, "use like, as in key like 'user::%'"),
        (
            "name ~ 'dcp'",
            5,
            "a filter has no regular expressions; use like, as in key like 'user::%'",
        ),
        ("row + 1 = 2", 4, "a filter has no arithmetic"),
        ("row = 1; drop table messages", 7, "a filter is one condition, without a semicolon"),
        ("row = 1 -- all", 8, "a filter has no comments"),
        ("row = 1 && row = 2", 8, "write 'and' instead"),
        ("row = 1 || row = 2", 8, "write 'or' instead"),
        ("!row = 1", 0, "write 'not' instead"),
        ("row::text = '1'", 3, "a filter has no casts"),
        (
            "select * from messages",
            0,
            "a filter is one condition; 'dcpinspect sql' takes whole queries",
        ),
        ("row in (select 1)", 8, "a filter is one condition; 'dcpinspect sql' takes whole queries"),
        ("directoin = 0x14", 0, "no column is called directoin; did you mean direction?"),
        ("opaque = 0x1g", 9, "0x1g is no whole number"),
        ("opaque = 0x11111111111111111", 9, "0x11111111111111111 is no whole number"),
        ("row = 1.5", 6, "1.5 is no whole number"),
        ("row = 1e3", 6, "1e3 is no whole number"),
        ("row = " + "9" * 5000, 6, "the number is beyond 64 bits"),
        ("key = x'0'", 6, "bytes are pairs of hexadecimal digits, as in x'00ff'"),
        (
            "key = 'a\0b'",
            6,
            (
                "text is UTF-8 without NUL; other keys are compared as bytes, as in key_bytes = "
                "x'00ff'"
            ),
        ),
        (
            "key = 'caf\udce9'",
            6,
            (
                "text is UTF-8 without NUL; other keys are compared as bytes, as in key_bytes = "
                "x'00ff'"
            ),
        ),
        ("état = 1", 0, "é is not part of the language of filters"),
        ("row = ٣", 6, "٣ is not part of the language of filters"),
        ("row = \x1b[2J", 6, "\\x1b is not part of the language of filters"),
        ("@", 0, "name the saved filter, as in @errors"),
        ("@error", 0, "no filter is saved as @error; did you mean errors?"),
        ("row = @errors", 6, "@errors is a condition, and cannot be compared"),
        ("@errors = true", 8, "columns and values are compared, not conditions"),
    ],
)
def test_what_is_no_filter_is_refused_at_its_place(text: str, caret: int, what: str) -> None:
    error = refusal(text)
    assert (error.at, error.what) == (caret, what)
    assert str(error) == f"--filter: {what}"


def test_an_unknown_saved_filter_is_told_which_there_are() -> None:
    assert refusal("@xyzzy", mine="row = 1").what == (
        "no filter is saved as @xyzzy; there are @changes, @control, @damaged, @deletions, "
        "@durability, @errors, @markers, @mine, "
        "@mutations, @rollbacks, @streams"
    )


def test_a_saved_filter_is_a_condition_among_others() -> None:
    assert read_as("@few and not @few or row = 9", few="row < 3 or row = 5") == (
        '((("row" < 3) or ("row" = 5)) and (not (("row" < 3) or ("row" = 5)))) or ("row" = 9)'
    )


def test_saved_filters_may_be_made_of_each_other() -> None:
    assert read_as("@b", a="row = 1", b="not @a") == 'not ("row" = 1)'


def test_what_the_user_saved_comes_before_what_is_built_in() -> None:
    assert read_as("@errors", errors="row = 1") == '"row" = 1'


def test_a_saved_filter_within_itself_is_refused() -> None:
    error = refusal("@a", a="row = 1 or @b", b="@a")
    assert (str(error), error.text) == ("[filters] b: @a refers to itself", "@a")


def test_a_mistake_in_a_saved_filter_is_shown_there() -> None:
    error = refusal("row = 1 and @a", a="row = 2 and directoin = 1")
    assert str(error) == "[filters] a: no column is called directoin; did you mean direction?"
    assert error.details == ("row = 2 and directoin = 1", " " * 12 + "^")


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("not ", ""), ("not(", ")")])
def test_nesting_has_a_bound(opening: str, closing: str) -> None:
    steps = MAX_DEPTH // (2 if opening == "not(" else 1)
    read_as(opening * steps + "row = 1" + closing * steps)
    assert (
        refusal(opening * (steps + 1) + "row = 1" + closing * (steps + 1)).what
        == "conditions are nested more than 100 deep"
    )
    assert refusal(opening * 10_000).what.startswith("conditions are nested")


def test_saved_filters_count_as_nesting() -> None:
    chain = {f"f{n}": f"@f{n + 1}" for n in range(200)}
    assert (
        refusal("@f0", **chain, f200="row = 1").what == "conditions are nested more than 100 deep"
    )


def test_length_has_a_bound() -> None:
    longest = "row in (" + ", ".join(["1"] * 21_800)
    read_as(f"{longest})")
    assert (
        refusal(f"{longest}, {'1' * MAX_LENGTH})").what
        == "the filter is longer than 65536 characters"
    )


def mistake(text: str) -> PlacedError | None:
    try:
        read_as(text)
    except PlacedError as error:
        return error
    return None


@given(st.text(alphabet=st.sampled_from("()'\"@x=<>!-,;%_ 15") | st.characters(), max_size=60))
def test_any_text_is_a_filter_or_refused_at_a_place_in_it(text: str) -> None:
    error = mistake(text)
    assert error is None or (0 <= error.at <= len(text) and str(error).isprintable())


WORDS = [
    "row",
    "name",
    "key",
    "=",
    "<",
    "5",
    "'get'",
    "and",
    "or",
    "not",
    "in",
    "(",
    ")",
    ",",
    "between",
    "like",
    "is",
    "null",
    "@errors",
]


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_any_words_of_the_language_are_a_filter_or_refused(text: str) -> None:
    error = mistake(text)
    assert error is None or 0 <= error.at <= len(text)


@pytest.mark.parametrize("name", FILTERS)
def test_every_preset_is_a_filter(name: str) -> None:
    assert parse_filter(f"@{name}").columns


def test_no_function_or_setting_of_an_engine_is_in_a_filter() -> None:
    names = (
        duckdb.connect()
        .execute(
            "select distinct function_name from duckdb_functions() union select name from "
            "duckdb_settings()"
        )
        .fetchall()
    )
    assert len(names) > 500
    for name in {
        *(name for (name,) in names),
        "reflect",
        "java_method",
        "try_reflect",
        "input_file_name",
        "from_json",
        "assert_true",
    }:
        for text in (
            f"{name}(key)",
            f"{name}('/etc/passwd') = 'x'",
            f"key = {name}('x')",
            f"set {name} = 1",
            f"exists (from {name}(1))",
        ):
            with pytest.raises(PlacedError):
                parse_filter(text)


def test_saved_filters_that_call_each_other_have_a_bounded_length_together() -> None:
    what = (
        f"the filter, with the saved filters that it calls, is longer than {MAX_LENGTH} characters"
    )
    doubling = {f"f{n}": f"@f{n + 1} or @f{n + 1}" for n in range(60)}
    assert refusal("@f0", **doubling, f60="row = 1").what == what
    assert refusal("@many or @many or @many", many=" or ".join(["row = 1"] * 2000)).what == what
    assert (
        read_as("@many or @many", many=" or ".join(["row = 1"] * 2000)).count('"row" = 1') == 4000
    )
    chain = {f"f{n}": f"@f{n + 1} or @f{n + 1}" for n in range(8)}
    assert read_as("@f0", **chain, f8="row = 1").count('"row" = 1') == 256
