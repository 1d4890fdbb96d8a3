from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from dcpinspect.tui.key_bindings import VIEWS
from dcpinspect.tui.screenshot import key_of
from tests.tui.screens import SAMPLES

ROLLBACK = str(SAMPLES / "rollback.pcap")


def test_every_view_has_a_key_that_leads_there() -> None:
    assert {view: tuple(key_of(view)) for view in VIEWS} == {
        view: (str(number),) for number, view in enumerate(VIEWS)
    }


def test_a_view_is_drawn_without_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "findings.svg"
    assert (
        main(
            [
                "tui",
                ROLLBACK,
                "--screenshot",
                "findings",
                "-o",
                str(path),
                "--size",
                "100x30",
                "--theme",
                "textual-light",
            ]
        )
        == 0
    )
    picture = path.read_text("utf-8")
    text = html.unescape(re.sub("<[^>]*>", "", picture)).replace("\xa0", " ")
    assert "4 Findings" in text
    assert "dcpinspect rollback.pcap" in text
    assert "url(" not in picture.replace("url(#", ""), "nothing is loaded from elsewhere"
    assert "#e0e0e0" in picture.lower(), "the ground of the light theme"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--screenshot", "findings"], "--screenshot: name the file, as in -o view.svg"),
        (
            ["--screenshot", "findings", "-o", "x.svg", "--size", "5x5"],
            "--size 5x5: write columns and lines, 20 to 500 of each, as in 120x36",
        ),
        (
            ["--screenshot", "findings", "-o", "x.svg", "--follow"],
            "--screenshot: is of captures that are complete; name one, without --follow",
        ),
        (
            ["--screenshot", "findings", "-o", ROLLBACK],
            "is the capture that is read; name another file",
        ),
        (
            ["--screenshot", "nothing", "-o", "x.svg"],
            "--screenshot nothing: write overview, packets, vbuckets, timeline, findings or stats",
        ),
        (["-o", "x.svg"], "-o: is for --screenshot; name the view, as in --screenshot timeline"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tui", ROLLBACK, *arguments]) == 2
    line = capsys.readouterr().err
    assert said in line
    assert line.count("\n") == 1
