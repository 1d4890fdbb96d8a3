"""The page of the records is what their declarations say."""

from __future__ import annotations

from pathlib import Path

from dcpinspect.streams.records import Stream
from tests.pages.state import state_page

PAGE = Path(__file__).parent.parent.parent / "docs" / "state.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == state_page(), "run python -m tests.pages"


def test_every_field_of_a_stream_has_its_line() -> None:
    page = state_page().split("## Stream\n")[1].split("\n## ")[0]
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")] == list(
        Stream.fields
    )
