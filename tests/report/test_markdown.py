"""A report for a ticket: short, and nothing of a capture is Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.report.markdown import MOST_LINES, markdown, plain
from tests.peers.truth import SAMPLES
from tests.report.gathered import gathered, hostile


@pytest.mark.parametrize("sample", ["rollback.pcap", "orphans.pcap", "tour.pcapng", "capture-loss.pcap", "loop.pcap"])
def test_it_has_the_verdict_and_the_worst_findings_in_sixty_lines(sample: str) -> None:
    told = gathered(SAMPLES / sample)
    lines = markdown(told).splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[2] == f"**{plain(told.verdict)}**"
    severe = [one for one in told.causes if one.severity != "note"]
    assert [line for line in lines if line.startswith(("- ✖", "- !"))][: len(severe)] != [] or not severe


def test_notes_have_next_steps_and_rollbacks_the_request_that_works() -> None:
    told = gathered(SAMPLES / "rollback.pcap")
    text = markdown(told)
    assert all(f"  next: {plain(one.next)}" in text for one in told.causes)
    assert "| 50 | 0xb8b8000000000007 | the consumer is ahead of the branch point 50, so resume there with that branch's uuid |" in text


def test_nothing_of_a_capture_is_markup(tmp_path: Path) -> None:
    text = markdown(gathered(hostile(tmp_path / "a.pcap")))
    assert "<" not in text.replace("&lt;", "")
    assert len(text.splitlines()) <= MOST_LINES


def test_texts_are_escaped() -> None:
    assert plain("*a* [b](c) `d` <e> |") == r"\*a\* \[b\](c) \`d\` &lt;e> \|"
