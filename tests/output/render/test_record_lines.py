"""Which columns of records people see, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from dcpinspect.diff.difference_columns import VERDICT_OF
from dcpinspect.output.render.record_lines import QUIET, paints_of, record_lines
from dcpinspect.output.render.table import MEASURED
from dcpinspect.text import cells

TABLE = pa.table(
    {
        "connection": [1, 2],
        "requested_end": pa.array([2**64 - 1, 60], pa.uint64()),
        "uuid": ["0xb8b8000000000007", None],
        "cause": ["purge", "unknown-uuid"],
        "explanation": [
            "tombstones up to the purge seqno are gone; the server has this branch up to 90",
            "no history in common",
        ],
    }
)


def shown(
    first: Sequence[str] = (),
    *,
    width: int | None = None,
    is_folded: bool = False,
    table: Any = TABLE,
) -> list[str]:
    return [
        line
        for line, _ in record_lines(
            table, first, width=width, below=["end_reason"], is_folded=is_folded
        )
    ]


def test_without_a_width_every_column_is_in_the_line() -> None:
    assert shown()[0].split() == TABLE.schema.names


def test_what_matters_most_is_shown_and_what_is_left_out_is_counted() -> None:
    assert shown(
        ["cause", "requested_end"], width=30, table=TABLE.drop_columns(["explanation"])
    ) == [
        "requested",
        "      end  cause",
        "   no end  purge",
        "       60  unknown-uuid",
        "2 more columns: -v",
    ]


def test_a_sentence_that_does_not_fit_stands_whole_below_its_row() -> None:
    assert shown(["cause", "explanation"], width=50) == [
        "            requested",
        "connection        end  cause",
        "         1     no end  purge",
        "    tombstones up to the purge seqno are gone; the",
        "    server has this branch up to 90",
        "         2         60  unknown-uuid",
        "    no history in common",
        "1 more column: -v",
    ]


def test_the_rest_stands_below_each_row_if_asked_for() -> None:
    assert shown(["cause"], width=50, is_folded=True) == [
        "            requested",
        "connection        end  cause",
        "         1     no end  purge",
        "    tombstones up to the purge seqno are gone; the",
        "    server has this branch up to 90",
        "    uuid 0xb8b8000000000007",
        "         2         60  unknown-uuid",
        "    no history in common",
    ]


def test_a_word_that_says_why_stands_below_its_row_where_it_does_not_fit() -> None:
    table = pa.table(
        {
            "vbucket": [7, 8, 9],
            "items": [10**12, 1, 2],
            "end_reason": ["backfill-failed", "closed", None],
        }
    )
    _, *lines = shown(["vbucket", "items"], width=25, table=table)
    assert [line.strip() for line in lines] == [
        "7  1000000000000",
        "end_reason",
        "backfill-failed",
        "8              1",
        "9              2",
    ]
    folded = shown(["vbucket", "items"], width=30, table=table, is_folded=True)
    assert "".join(folded).count("end_reason") == 2
    assert "    end_reason backfill-failed" in shown(["vbucket", "items"], width=30, table=table)


def test_a_stream_has_a_sentence_once_where_its_rows_repeat_it() -> None:
    table = pa.table(
        {
            "connection": [1, 1, 1, 1, 1],
            "vbucket": [7, 8, 7, 7, 7],
            "stream": [1, 1, 1, 1, 1],
            "width": [1, 2, 3, 4, 5],
            "evidence": ["in the marker 0–40"] * 4 + ["in the marker 41–60"],
        }
    )
    heading, *lines = shown(["width"], width=42, table=table)
    assert heading.split() == ["connection", "vbucket", "stream", "width"]
    assert [line.strip() for line in lines if line.startswith("    in")] == [
        *["in the marker 0–40"] * 2,
        "in the marker 41–60",
    ]
    assert lines[5].split() == ["1", "7", "1", "4"], "the marker is that of the stream's first row"
    assert lines[-1] == "a row without evidence has that of its stream's row above; -v repeats it"
    assert (
        sum("0–40" in line for line in shown(["width"], width=42, table=table, is_folded=True)) == 4
    )


def test_a_sentence_that_is_not_the_last_column_stands_below_its_row_too() -> None:
    table = pa.table({"a": [1], "explanation": ["said in so many words"], "file": ["x.pcap"]})
    assert shown(["a", "file"], width=20, table=table) == [
        "a  file",
        "1  x.pcap",
        "    said in so many",
        "    words",
    ]


def test_times_are_never_cut() -> None:
    def times_of(*seconds: int) -> list[str]:
        times = pa.array(seconds, pa.timestamp("s", "UTC")).cast(pa.timestamp("ns", "UTC"))
        table = pa.table({"time": times, "event": ["a", "b"], "text": ["x" * 50, "y"]})
        return [line.split()[0] for line in shown(["time"], width=60, table=table)]

    assert times_of(0, 86_400)[1:] == [
        "1970-01-01T00:00:00.000000000Z",
        "1970-01-02T00:00:00.000000000Z",
    ]
    assert times_of(0, 86_399) == [
        "1970-01-01,",
        "time",
        "00:00:00.000000000",
        "23:59:59.000000000",
    ]


def test_a_long_text_leaves_room_for_other_columns() -> None:
    table = pa.table({"kind": ["lacks"], "key": ["k" * 500], "a_row": [7]})
    assert shown(["kind", "key", "a_row"], width=60, table=table) == [
        f"{'':57}  a",
        f"kind   {'key':<48}  row",
        f"lacks  {'k' * 47}…    7",
    ]


def test_words_have_the_colours_of_their_meaning_and_zeros_stand_back() -> None:
    table = pa.table(
        {
            "verdict": ["behind", "ended", "behind"],
            "findings": ["✖ 1 · 2", "", "· 1"],
            "rollbacks": [3, 0, 1],
        }
    )
    lines = [
        line
        for line, _ in record_lines(
            table, [], width=80, paint=lambda text, style: f"<{style}>{text}" if style else text
        )
    ]
    assert lines[1] == "<bright_red>behind   <bright_red>✖ 1 · 2           3"
    assert lines[2] == "<dim>ended              <dim>        0"
    assert lines[3] == "<yellow>behind   <bright_black>· 1               1"
    names = ("vbucket", "last_seqno", "rollbacks")
    assert [*paints_of(names, ["0"] * 3)] == ["", "", "quiet"]


def test_a_complete_snapshot_that_lacks_seqnos_does_not_stand_back() -> None:
    names = ("state", "lost_seqnos")
    assert [*paints_of(names, ["complete", ""])] == ["quiet", ""]
    assert [*paints_of(names, ["complete", "2"])] == ["", ""]


@pytest.mark.parametrize(
    ("findings", "paint"),
    [("✖ 1", "severity-error"), ("! 1", "severity-warning"), ("· 1", "verdict-refused")],
)
def test_a_refusal_has_one_colour_in_its_row(findings: str, paint: str) -> None:
    paints = paints_of(("answer", "verdict", "findings"), ["refused", "refused", findings])
    assert [*paints][:2] == [paint] * 2


@pytest.mark.parametrize("width", range(20, 120, 7))
def test_no_line_is_wider_than_the_width_where_words_can_be_parted(width: int) -> None:
    for is_folded in (False, True):
        assert max(
            cells(line) for line in shown(["cause"], width=width, is_folded=is_folded)
        ) <= max(width, 27)


def test_every_value_is_in_the_lines_or_below_them() -> None:
    for width in (30, 40, 60, 200):
        text = " ".join(" ".join(shown(["cause"], width=width, is_folded=True)).split())
        assert all(
            value in text
            for value in ("0xb8b8000000000007", "no end", "unknown-uuid", "no history in common")
        ), width


def test_an_empty_table_is_its_heading() -> None:
    assert shown(["cause"], width=200, table=TABLE.slice(0, 0)) == [
        "connection  requested_end  uuid  cause  explanation"
    ]


def test_nothing_steers_the_terminal_below_a_row_either() -> None:
    table = pa.table({"a": ["x" * 30], "b": ["\x1b[2J\n"]})
    assert all(line.isprintable() for line in shown(width=30, is_folded=True, table=table))


def test_how_tls_is_read_is_not_cut_but_stands_below() -> None:
    tls = "TLS 1.2, not decrypted; client random 2996a76a3caa9702689fd671415384a4"
    table = pa.table({"connection": [1], "tls": [tls]})
    lines = [line for line, _ in record_lines(table, ["connection"], width=72, below=["tls"])]
    assert " ".join(" ".join(lines[2:]).split()) == f"tls {tls}"


def test_a_sentence_far_below_is_not_cut_where_the_first_rows_have_shorter_ones() -> None:
    reasons = ["why"] * MEASURED + ["why, in some more words"]
    table = pa.table({"connection": [1] * len(reasons), "reason": reasons})
    assert any(line.endswith("more words") for line in shown(width=30, table=table))
    assert any(line.endswith("more words") for line in shown(width=80, table=table))


def test_severities_and_kinds_of_differences_have_their_colours() -> None:
    assert list(paints_of(["severity", "rule"], ["error  ", "rollback"])) == ["severity-error", ""]
    expected = {"different": "severity-warning", "alike": QUIET, "not-compared": ""}
    for kind, verdict in VERDICT_OF.items():
        assert list(paints_of(["kind"], [kind])) == [expected[verdict]]


def test_a_long_sentence_moves_no_column_behind_it_and_fault_is_said_in_words() -> None:
    table = pa.table({"message": ["m" * 120, "short"], "whose": ["normal", "client"]})
    heading, *rows = (line for line, _ in record_lines(table, (), width=None))
    assert {
        heading.index("whose"),
        *(row.index(w) for row, w in zip(rows, ("nobody", "client"), strict=True)),
    } == {122}


def test_a_sentence_of_a_stream_stands_once_though_streams_take_turns() -> None:
    table = pa.table(
        {
            "connection": [1, 2, 1, 2],
            "vbucket": [7, 7, 7, 7],
            "stream": [1, 1, 1, 1],
            "evidence": ["filtered " * 4, "purged " * 5] * 2,
        }
    )
    lines = [line for line, _ in record_lines(table, (), width=40)]
    assert sum("filtered" in line for line in lines) == sum("purged" in line for line in lines) == 1
