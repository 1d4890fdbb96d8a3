"""How a report is kept small."""

from __future__ import annotations

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.output.report import written as module
from dcpinspect.output.report.written import format_of, written
from tests.output.report.gathered import source
from tests.peers.truth import SAMPLES


def test_a_page_that_is_too_large_has_less_of_everything_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with source(SAMPLES / "orphans.pcap") as found:
        whole = written("html", found)
        monkeypatch.setattr(module, "MOST_BYTES", len(whole.encode()) * 4 // 5)
        text = written("html", found)
    assert len(text.encode()) <= module.MOST_BYTES
    assert "so that this page is smaller than" in text


@pytest.mark.parametrize(
    ("name", "format_"), [("a.html", "html"), ("a.HTM", "html"), ("a.md", "markdown")]
)
def test_the_name_chooses_the_format(name: str, format_: str) -> None:
    assert format_of(name) == format_


def test_another_name_is_refused() -> None:
    with pytest.raises(UsageError, match=r"ends in \.html or \.md"):
        format_of("a.pdf")
