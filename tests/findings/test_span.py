"""Which findings go on in a span of time."""

from __future__ import annotations

from dataclasses import replace

from dcpinspect.findings.span import Span
from tests.output.render.test_finding_text import finding

TIME = Span((100, 200), {1: (50, 120), 2: (10, 20)})


def test_a_case_goes_on_from_its_first_message_to_its_last() -> None:
    one = finding(vbuckets=(7,))
    spans = {
        (50, 99): False,
        (50, 100): True,
        (150, 160): True,
        (199, 300): True,
        (200, 300): False,
    }
    assert {
        span: TIME.has(replace(one, first_time_ns=span[0], last_time_ns=span[1])) for span in spans
    } == spans


def test_to_the_end_if_it_is_still_open() -> None:
    one = finding(vbuckets=(7,), over="open")
    assert TIME.has(replace(one, first_time_ns=50, last_time_ns=60))
    assert not TIME.has(replace(one, first_time_ns=200, last_time_ns=210))


def test_and_as_long_as_its_connection_if_no_message_shows_it() -> None:
    one = replace(finding(), first_time_ns=0, last_time_ns=0)
    assert [TIME.has(replace(one, connections=(number,))) for number in (1, 2)] == [True, False]
