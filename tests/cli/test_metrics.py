"""``--metrics``: where its options can be given."""

from __future__ import annotations

import pytest

from dcpinspect.cli.main import main
from tests.peers.truth import SAMPLES

ROLLBACK = str(SAMPLES / "rollback.pcap")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--metrics", ":0"], "--metrics: is for what goes on; add --follow"),
    ],
)
def test_what_does_not_fit_is_said(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", ROLLBACK, *arguments]) == 2
    assert capsys.readouterr() == ("", f"dcpinspect: {line}\n")
