"""Statistics as text: a table a section, aligned, clipped, safe."""

from __future__ import annotations

from dcpinspect.output.render.stats_text import share_text, stats_text

NUMBERS = {"least": 1_000, "p50": 2_000, "p95": 3_000, "p99": 4_000_000, "greatest": 5_000_000}


def test_sections_follow_one_another_under_their_headings() -> None:
    rows = [
        {"section": "capture", "name": "packets used", "count": 1_234},
        {"section": "capture", "name": "late", "bytes": 0},
        {"section": "capture", "name": "missing", "bytes": 0},
        {"section": "answers", "name": "dcp_noop", "count": 7, "unit": "ns", **NUMBERS},
        {"section": "flow", "name": "window", "connection": 3, "bytes": 1_000},
        {
            "section": "flow",
            "name": "most outstanding",
            "connection": 3,
            "bytes": 250,
            "share": 0.25,
        },
    ]
    assert list(stats_text(rows, width=None)) == [
        ("command   answers  least ms  p50 ms  p95 ms  p99 ms  greatest ms", "bold"),
        ("dcp_noop        7     0.001   0.002   0.003   4.000        5.000", ""),
        ("", ""),
        ("connection  window bytes  most outstanding bytes   share", "bold"),
        ("3                  1,000                     250  25.0 %", ""),
        ("", ""),
        ("capture", "bold"),
        ("  packets used   1,234", ""),
        ("  missing bytes      0", ""),
    ]


def test_with_little_room_the_least_is_left_out_before_what_is_usual_and_what_is_much() -> None:
    rows = [{"section": "answers", "name": "dcp_noop", "count": 7, "unit": "ns", **NUMBERS}]
    heading, _, hidden = (text for text, _ in stats_text(rows, width=60))
    assert heading == "command   answers  p50 ms  p95 ms  p99 ms  greatest ms"
    assert hidden == "not shown at this width: least ms"
    heading, _, hidden, *_ = (text for text, _ in stats_text(rows, width=40))
    assert heading == "command   answers  p50 ms  p95 ms"
    assert hidden.startswith("not shown at this width: least ms, p99")


def test_many_spans_are_one_line_of_blocks() -> None:
    rows = [
        {
            "section": "throughput",
            "time": place,
            "seconds": 0.5,
            "count": place,
            "bytes": 10 * place,
        }
        for place in range(100)
    ]
    heading, messages, size = (text for text, _ in stats_text(rows, width=None))
    assert heading == "throughput  a block is 1 s, from 1970-01-01 00:00:00.000 UTC"
    assert messages.endswith("█  at most 197 a block")
    assert size.endswith("at most 1,970 a block")
    assert len(messages.split("at most")[0]) <= 2 + 8 + 2 + 64 + 2


def test_lines_are_clipped_and_names_escaped() -> None:
    rows = [{"section": "statuses", "name": "\x1b[31m" + "x" * 90, "count": 1, "share": 1.0}]
    lines = [text for text, _ in stats_text(rows, width=40)]
    assert all(len(line) <= 40 for line in lines)
    assert "\x1b" not in "".join(lines)


def test_a_small_share_is_not_written_as_none() -> None:
    assert [share_text(share) for share in (0.0, 1 / 42_995, 0.0005, 1.0)] == [
        "0.0 %",
        "<0.1 %",
        "0.1 %",
        "100.0 %",
    ]
