from __future__ import annotations

from typing import Any

from dcpinspect.output.render.pipeline_text import info_lines, summary_lines

ROWS = {"messages": 1200, "bad": 1}


def summary(**changes: Any) -> list[str]:
    known: dict[str, Any] = {
        **{
            "out": "o\x1b",
            "batch": 2,
            "captures": 3,
            "known": 0,
            "copies": 0,
            "expired": 0,
            "bytes": 5_000_000,
            "packets": 9000,
            "messages": 1200,
        },
        **{
            "quarantined": 0,
            "damaged": 0,
            "rows": ROWS,
            "problems": [],
            "seconds": {"whole": 4.0, "start": 1.0},
        },
    }
    return list(summary_lines({**known, **changes}))


def test_a_run_says_what_was_read_and_how_fast() -> None:
    assert summary() == [
        "read 3 captures, 5.0 MB, 9,000 packets",
        "1,200 messages in 4.0 s, of which Spark took 1.0 s to start",
        "rows of tables: messages 1,200, bad 1",
        "tables in o\\x1b, run 2",
    ]
    read = "read 3 captures, 5.0 MB, 9,000 packets; left out"
    assert summary(known=1)[0] == f"{read} 1 that an earlier run has read"
    assert summary(known=1, copies=1)[0] == f"{read} 1 copy"
    assert summary(known=5, copies=2)[0] == f"{read} 3 that an earlier run has read and 2 copies"
    assert (
        summary(quarantined=1, damaged=2)[2]
        == "1 capture could not be read, 2 captures are damaged"
    )


def test_a_run_tells_the_notes_that_the_table_counts() -> None:
    damaged = {"severity": "warning", "file": "b.pcap", "offset": 7, "what": "is damaged"}
    note = {"severity": "note", "file": "a.pcap", "offset": None, "what": "is beside another"}
    assert summary(problems=[damaged, note])[3:-1] == ["note: a.pcap: is beside another"]
    assert summary(problems=[note] * 12)[-2] == "2 more problems; the table bad has all"


def test_a_run_that_found_nothing_says_so() -> None:
    assert summary(captures=0)[0] == "nothing has changed"
    assert summary(captures=0, expired=2)[0] == "2 captures taken out because of their age"
    assert summary(captures=0, known=1)[0] == "nothing new; left out 1 that an earlier run has read"


def test_many_points_and_problems_are_counted() -> None:
    point = {
        "point": "a",
        "captures": 1,
        "bytes": 12,
        "packets": 3,
        "first_time": "2024-04-06T12:01:00.577208606Z",
        "last_time": "2024-04-06T12:03:00.577208606Z",
    }
    problem = {"severity": "error", "file": "x", "offset": 7, "what": "is bad"}
    consumer = {
        "client": "10.0.0.9 \x1b",
        "vbuckets": 1,
        "connections": [1, 4],
        "servers": ["a", "b", "c", "d", "e"],
    }
    finding = {"severity": "error", "rule": "x", "cause": "y", "findings": 2, "count": 9}
    looping = {**finding, "rule": "rollback-loop", "connections": 4, "vbuckets": 3}
    lines = list(
        info_lines(
            {
                **{
                    "runs": 2,
                    "program": "1",
                    "captures": {"ok": 12, "bad": 0},
                    "points": [point] * 12,
                },
                **{
                    "tables": ROWS,
                    "problems": [problem] * 11,
                    "consumers": [consumer] * 11,
                    "findings": [looping, *[finding] * 11],
                },
            }
        )
    )
    assert lines[:3] == [
        "2 runs, the newest by dcpinspect 1",
        "captures: 12 ok",
        "  a: 1 capture, 12 B, 3 packets, 2024-04-06 12:01:00 to 12:03:00 UTC",
    ]
    assert "  and 2 more points; the table captures has all" in lines
    assert "  10.0.0.9 \\x1b: 1 vbucket over 2 connections to a, b, c, d, …" in lines
    assert "  and 1 more; the table vbuckets has all" in lines
    assert "  error x (y): 2 findings, seen 9 times" in lines
    assert "  error rollback-loop (y): 2 findings, on 3 vbuckets" in lines
    assert "  and 2 more kinds; 'dcpinspect pipeline check' has all" in lines
    assert lines[-2:] == [
        (
            "error: x, offset 7: is bad; it is left out: take it away, or put a pcap or pcapng "
            "file in its place"
        ),
        "1 more problem; the table bad has all",
    ]
