"""The time in a CAS: one that is ahead of its capture, one that no clock shows, and clocks of
captures that may be wrong.
"""

from __future__ import annotations

import pytest

from dcpinspect.findings.finding import Finding
from tests.builders import START_NS
from tests.findings.checked import findings
from tests.streams.told import Told, opened

YEAR_NS = 31_556_952_000_000_000
HOUR_NS = 3_600_000_000_000


def found(*talks: Told) -> list[Finding]:
    whole = findings(*talks, rules=["cas-ahead"])
    assert findings(*talks, rules=["cas-ahead"], sizes=[1] * 200) == whole
    return whole


def told(*after_ns: int, recent: int = 5, vbucket: int = 55, port: int = 50_000) -> Told:
    """Changes whose CAS is some time after the capture, behind some with a CAS of now."""
    talk = opened("xdcr:1", port=port)
    stream = talk.stream(vbucket)
    stream.snapshot(0, 99, "memory")
    for seqno, after in enumerate((*[-1_000_000] * recent, *after_ns), 1):
        stream.send(
            "dcp_mutation",
            by_seqno=seqno,
            rev_seqno=1,
            key=f"k{seqno}",
            collection=0,
            cas=(START_NS + after) & ~0xFFFF & (1 << 64) - 1,
        )
    return talk


def test_a_change_from_the_future_is_told_with_how_far_it_is_ahead() -> None:
    (one,) = found(told(40 * YEAR_NS))
    assert (one.severity, one.cause, one.whose, one.vbuckets, one.seqnos) == (
        "warning",
        "ahead",
        "server",
        (55,),
        (6,),
    )
    assert one.message.endswith(" of seqno 6 is 40 years ahead of the capture's clock")


@pytest.mark.parametrize(
    ("after_ns", "span"),
    [(2 * HOUR_NS, "120 min"), (60 * HOUR_NS, "2 days"), (400 * 24 * HOUR_NS, "400 days")],
)
def test_how_far_is_in_days_and_years(after_ns: int, span: str) -> None:
    (one,) = found(told(after_ns))
    assert f"is {span} ahead" in one.message


def test_a_time_that_no_clock_shows_is_told_apart() -> None:
    ahead, impossible = found(
        told(40 * YEAR_NS, (1 << 63) - (1 << 16) - START_NS, (1 << 64) - (1 << 16) - START_NS)
    )
    assert impossible.whose == "unknown", "a program set it, and no clock"
    assert (ahead.cause, impossible.cause, impossible.seqnos, impossible.count) == (
        "ahead",
        "impossible",
        (7,),
        2,
    )
    assert (
        impossible.message
        == "CAS 0x7fffffffffff0000 of seqno 7 has an impossible time, in the year 2262"
    )


@pytest.mark.parametrize("after_ns", [-(30 * YEAR_NS), 0, HOUR_NS, -START_NS])
def test_clocks_may_differ_by_an_hour_and_old_changes_are_no_news(after_ns: int) -> None:
    assert found(told(after_ns)) == []


def test_the_clock_of_a_capture_may_be_wrong() -> None:
    """What is written meanwhile is then ahead by the same time, and old documents are not."""
    assert found(told(*[60 * HOUR_NS] * 6, *[-YEAR_NS] * 30, recent=0)) == []
    assert found(told(*[60 * HOUR_NS] * 6, recent=5)) == []


def test_no_clock_is_wrong_by_a_hundred_years() -> None:
    (one,) = found(told(200 * YEAR_NS, recent=0))
    assert one.cause == "impossible"


def test_changes_of_another_connection_show_the_clock_of_their_server() -> None:
    (one,) = found(told(40 * YEAR_NS, recent=0), told(recent=3, vbucket=7, port=50_001))
    assert one.vbuckets == (55,)
    elsewhere = told(recent=3, vbucket=7, port=50_001)
    elsewhere.server = "node2"
    assert found(told(40 * YEAR_NS, recent=0), elsewhere) == []
