"""The summary of a comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from dcpinspect.diff.difference_columns import KINDS
from dcpinspect.output.render import difference_text
from dcpinspect.output.render.difference_text import summary
from tests.captures import real_server
from tests.diff.pairs import compared, streaming, told
from tests.peers.truth import SAMPLES

FIELD = Path(__file__).parents[2] / "captures" / "field"


def plain(text: str, _: str) -> str:
    return text


def test_a_summary_fits_a_screen_and_says_whether_the_sides_differ() -> None:
    found = compared(SAMPLES / "tour.pcapng", SAMPLES / "midstream.pcap")
    lines = list(summary(found, (), ("tour.pcapng", "midstream.pcap"), plain))
    assert len(lines) <= 24
    assert (
        "A and B do not differ, as far as both captures tell." in lines
        or "A and B differ." in lines
    )
    assert "Ahead:" in lines
    assert any(
        line.startswith("The capture of B does not tell the history of 4 vbuckets")
        for line in lines
    )


def test_what_could_not_be_compared_is_not_told_as_alike() -> None:
    found = compared(SAMPLES / "lossy.pcap", SAMPLES / "capture-loss.pcap")
    lines = list(summary(found, (), ("a", "b"), plain))
    assert lines[4] == (
        "What both sides have is the same; 103 events on one side only could not be compared."
    )
    apart = sum(count for (kind, _), (count, _) in found.counts.items() if kind != "snapshot")
    assert (apart, found.common + apart) == (103, found.events["a"])


def test_no_time_is_less_than_zero_by_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(FIELD / "t00-base.pcap"), str(FIELD / "f22-nflog.pcap")]) == 0
    assert "0.000 ms" in (shown := capsys.readouterr().out)
    assert "-0.000" not in shown


def test_one_tap_has_no_times_between_taps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(real_server("resume")), str(real_server("resume-lost"))]) == 0
    shown = capsys.readouterr().out
    assert "nothing is between the two captures" in shown
    assert "to the client: 131 bytes of capture loss in B" in shown
    assert "between the taps" not in shown
    assert "network" not in shown


def test_every_kind_has_words() -> None:
    assert set(difference_text._SAYS) == set(KINDS)


def test_names_of_captures_are_escaped(tmp_path: Path) -> None:
    talk, stream = streaming()
    stream.snapshot(0, 1, "memory")
    stream.mutation(1, "a")
    lines = list(summary(told(tmp_path, talk, talk), (), ("\x1b[31mred", "b"), plain))
    assert not any("\x1b" in line for line in lines)
    assert lines[2] == "1 event on both sides"
