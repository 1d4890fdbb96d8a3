"""``dcpinspect mcp``: what it refuses before it serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nowhere"], "nowhere: is no directory; name those whose captures may be read"),
        (
            ["--show-data", "--redact-salt", "x"],
            "--show-data: shows data, and --redact-salt hides them; leave one of them out",
        ),
    ],
)
def test_what_cannot_be_served_is_an_error(
    arguments: list[str],
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["mcp", *arguments]) == 2
    assert capsys.readouterr().err == f"dcpinspect: {why}\n"
