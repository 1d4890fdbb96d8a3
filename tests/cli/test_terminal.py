from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from dcpinspect.cli.terminal import (
    columns_asked,
    complain,
    folded,
    painter,
    wants_color,
    width,
    write_stdout,
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output is a terminal 72 columns wide."""
    stdout = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(
        "dcpinspect.cli.terminal.sys", SimpleNamespace(stdout=stdout)
    )  # pytest exchanges sys.stdout itself
    monkeypatch.setenv("COLUMNS", "72")


@pytest.mark.parametrize(
    ("text", "columns"), [("0", None), ("000", None), ("-1", None), ("", None), ("90", 90)]
)
def test_a_width_of_zero_is_not_known(
    text: str, columns: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", text)
    assert columns_asked() == columns


def test_complaints_are_one_safe_line(capsys: pytest.CaptureFixture[str]) -> None:
    complain("a.pcap: cut\x1b[2J\nread on")
    assert capsys.readouterr() == ("", "dcpinspect: a.pcap: cut\\x1b[2J read on\n")


def test_details_stand_below_a_complaint(capsys: pytest.CaptureFixture[str]) -> None:
    complain("--filter: no", ("row = x", "      ^"))
    assert capsys.readouterr().err == "dcpinspect: --filter: no\n  row = x\n        ^\n"


def test_a_long_line_is_folded_between_words_below_its_last_cell() -> None:
    assert folded("caught-up  the stream has all seqnos", 24) == [
        "caught-up  the stream",
        "           has all",
        "           seqnos",
    ]
    assert folded("rows: 12 connections, 4 streams", 22) == ["rows: 12 connections,", "  4 streams"]
    assert folded("rows: 12 connections, 4 streams", None) == ["rows: 12 connections, 4 streams"]


def test_output_that_is_no_terminal_is_plain_and_unclipped() -> None:
    assert (wants_color(), width(), painter()("text", "bold")) == (False, None, "text")


@pytest.mark.usefixtures("terminal")
def test_a_terminal_has_colour_and_width() -> None:
    assert (wants_color(), width(), painter()("text", "bold")) == (True, 72, "\x1b[1mtext\x1b[0m")
    assert painter()("text", "") == "text"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert (wants_color(), painter()("text", "bold")) == (False, "text")


def test_output_is_utf8_whatever_the_locale(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_stdout("1–1000")
    write_stdout(b"\xff")
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b"1\xe2\x80\x931000\xff"
