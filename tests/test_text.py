from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.text import (
    aligned,
    cells,
    clip,
    did_you_mean,
    did_you_mean_file,
    entries,
    escape,
    escape_rest,
    one_line,
    sections,
    short_names,
    to_ascii,
    wrap,
)
from tests.catalogue import each

# hypothesis leaves surrogates out unless asked
any_text = st.text(st.characters(codec=None, exclude_categories=()))
any_bytes = st.binary() | any_text.map(lambda text: text.encode("utf-8", "surrogatepass"))


def unescape(text: str) -> str:
    """The inverse, in the terms of surrogateescape."""

    def character(match: re.Match[str]) -> str:
        if match[0] == r"\\":
            return "\\"
        code = int(match[0][2:], 16)
        return chr(code + 0xDC00 if match[0][1] == "x" and code >= 0x80 else code)

    return re.sub(r"\\\\|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}", character, text)


@each(
    ("data", "text"),
    [
        ("airline_10", "airline_10"),
        ("", ""),
        ("Zürich 東京", "Zürich 東京"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\tb\n", r"a\x09b\x0a"),
        ("\x7f", r"\x7f"),
        ("\x9b2J", r"\u009b2J"),
        (b"\x9b2J", r"\x9b2J"),
        (b"\xc2\x9b2J", r"\u009b2J"),
        (b"caf\xc3", r"caf\xc3"),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
        ("gpj\u202egnp", r"gpj\u202egnp"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("a\u2028b\u2029", r"a\u2028b\u2029"),
        ("a\u00a0b", r"a\u00a0b"),
        ("\u3164\ufe0f\u115f", r"\u3164\ufe0f\u115f"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
        ("\udcff", r"\xff"),
        (r"C:\x1b", r"C:\\x1b"),
        ("[red]", "[red]"),
    ],
)
def test_what_cannot_be_seen_is_written_out(data: str | bytes, text: str) -> None:
    assert escape(data) == text


@given(any_text)
def test_escaped_text_is_printable(text: str) -> None:
    assert escape(text).isprintable()


@given(any_bytes)
def test_escaped_bytes_are_printable(data: bytes) -> None:
    assert escape(data).isprintable()


@given(any_text)
def test_escaping_is_reversible_for_text(text: str) -> None:
    assert unescape(escape(text)) == text


@given(any_bytes)
def test_escaping_is_reversible_for_bytes(data: bytes) -> None:
    assert unescape(escape(data)).encode("utf-8", "surrogateescape") == data


@given(any_text)
def test_one_line_is_printable(text: str) -> None:
    assert one_line(text).isprintable()


def test_one_line_joins_lines_and_keeps_backslashes() -> None:
    assert (
        one_line("Choose from:\n\ttext,\n\tjson\x07 C:\\x\n")
        == "Choose from: text, json\\x07 C:\\x"
    )


def test_cells_counts_terminal_columns() -> None:
    assert [cells(text) for text in ("abc", "東京", "e\u0301", "")] == [3, 4, 1, 0]


@pytest.mark.parametrize(
    ("text", "width", "clipped"),
    [
        ("airline", 7, "airline"),
        ("airline", 6, "airli…"),
        ("airline", 1, "…"),
        ("airline", 0, ""),
        ("", 0, ""),
        ("東京", 4, "東京"),
        ("東京", 3, "東…"),
        ("東京", 2, "…"),
        ("ne\u0301e", 2, "n…"),
    ],
)
def test_clip_keeps_within_the_width(text: str, width: int, clipped: str) -> None:
    assert clip(text, width) == clipped


@given(any_text.map(escape), st.integers(0, 40))
def test_clipped_text_fits_and_begins_the_same(text: str, width: int) -> None:
    clipped = clip(text, width)
    assert cells(clipped) <= width
    assert clipped == text or text.startswith(clipped.removesuffix("…"))


def test_every_character_that_draws_nothing_is_escaped() -> None:
    """Unicode's Default_Ignorable_Code_Point, as far as its categories tell: format characters and
    the listed exceptions.
    """
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp"):
            assert escape(chr(code)).startswith("\\")


def test_escapes_that_are_there_already_stay() -> None:
    assert escape_rest("foo\\xff\x1b\n") == "foo\\xff\\x1b\\x0a"
    assert escape_rest("\\\\") == "\\\\"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("plain", "plain"),
        ("a → b", "a > b"),
        ("0–40 …", "0-40 ~"),
        ("é日\U0001f600", "\\u00e9\\u65e5\\U0001f600"),
        ("▁█", "_#"),
        ("✖ !·", "X !."),
    ],
)
def test_other_characters_than_ascii_are_replaced(text: str, plain: str) -> None:
    assert to_ascii(text) == plain


@given(st.text("ab 漢\u0301", max_size=60), st.integers(4, 30))
def test_wrapping_keeps_every_word_and_no_line_is_too_wide(text: str, width: int) -> None:
    lines = wrap(text, width, "  ")
    assert all(cells(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_columns_of_rows_are_aligned_by_terminal_columns() -> None:
    rows = [("command", "messages", ""), ("日本", "7", "ok"), ("x", "1,024", "")]
    assert aligned(rows, ("command", "")) == [
        "command  messages",
        "日本            7  ok",
        "x           1,024",
    ]


def test_wrapping_divides_between_words_and_indents() -> None:
    assert wrap("one two  three four", 9, "  ") == ["one two", "  three", "  four"]
    assert wrap("one two", None) == ["one two"]
    assert wrap("k" * 10, 6, " ") == ["k" * 6, " kkkk"]
    assert wrap('{"port":1,"id":11210}', 18) == ['{"port":1,', '"id":11210}'], "no number is cut"


def test_close_names_are_asked_about() -> None:
    assert (
        did_you_mean("mutaton", ["dcp_deletion", "dcp_mutation"]) == "; did you mean dcp_mutation?"
    )
    assert (
        did_you_mean("vbukket", {"vbucket": 1, "vbuckets": 2})
        == "; did you mean vbucket or vbuckets?"
    )


def test_nothing_is_said_where_nothing_is_close() -> None:
    assert did_you_mean("xyzzy", ["dcp_mutation"]) == ""
    assert did_you_mean("nope", ["opaque"]) == ""
    assert did_you_mean("", []) == ""


def test_names_of_files_are_compared_without_their_endings() -> None:
    assert did_you_mean_file("nosuch.pcap", ["lossy.pcap", "loop.pcap"]) == ""
    assert did_you_mean_file(
        "rolback.pcap", ["lossy.pcap", "rollback.ndjson", "rollback.pcap"]
    ) == ("; did you mean rollback.pcap or rollback.ndjson?")


def test_headings_of_lists_suggest_their_columns() -> None:
    assert did_you_mean("vb", ["row", "vbucket"]) == "; did you mean vbucket?"
    assert did_you_mean("Seqno", ["start_seqno", "by_seqno"]) == "; did you mean by_seqno?"


def test_entries_are_found_below_their_headings_and_shared_by_a_word() -> None:
    text = """
    both
        a: 1
    FIRST
        use: both
        b: 2: 3
    SECOND one
        use: both
        use: both
    THIRD
    """
    assert sections(text) == [
        ("FIRST", [("a", "1"), ("b", "2: 3")]),
        ("SECOND one", [("a", "1"), ("a", "1")]),
        ("THIRD", []),
    ]


def test_entries_go_on_in_lines_that_are_indented_further() -> None:
    text = """
    heading
        word: a meaning: one
            that goes on
        next: short
    """
    assert entries(text) == [
        ("heading", ""),
        ("word", "a meaning: one that goes on"),
        ("next", "short"),
    ]


def test_files_are_named_by_as_much_as_tells_them_apart() -> None:
    assert short_names(["x/a.pcap", "y/b.pcap"]) == ["a.pcap", "b.pcap"]
    assert short_names(["x/n1/a.pcap", "x/n2/a.pcap"]) == ["n1/a.pcap", "n2/a.pcap"]
    assert short_names(["a.pcap", "x/a.pcap"]) == ["a.pcap", "x/a.pcap"]
    assert short_names(["a", "a"]) == ["a", "a"]
    assert short_names([]) == []
    assert short_names(["x/\x1b.pcap"]) == ["\\x1b.pcap"]
