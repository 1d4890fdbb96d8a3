from __future__ import annotations

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.store.store import Store
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.row_index import RowIndex
from dcpinspect.tui.search import matcher, search
from tests.tui.screens import Keys, play, screen, settled


def whole(store: Store) -> RowIndex:
    index = RowIndex()
    index.grow(1, store.rows)
    return index


@pytest.mark.parametrize(("text", "after", "row"), [("ROLLBACK", 0, 100), ("rollback", 100, 104), ("/no such/", 0, None), ("x:8150", 0, 8)])
def test_the_first_row_after_one_that_matches(store: Store, text: str, after: int, row: int | None) -> None:
    assert search(store, whole(store), after, text, lambda _: True) == row


def test_it_ends_when_it_is_told_to(store: Store) -> None:
    with pytest.raises(InterruptedError):
        search(store, whole(store), 0, "rollback", lambda _: False)


@pytest.mark.parametrize("text", ["x:8", "x:zz", "/(/"])
def test_what_cannot_be_looked_for_is_said(text: str) -> None:
    with pytest.raises(UsageError):
        matcher(text)


@pytest.mark.parametrize(("typed", "row"), [("to 50", 100), ("/from (60|61)/", 99), ("x:80 50", 7)])
def test_finding_text_patterns_and_bytes(typed: str, row: int) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.search.begin(typed)
        await settled(app, pilot)
        assert app.packets.list.row == row

    play("rollback.pcap", scene)


def test_what_is_not_found_is_said() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.search.begin("no such thing")
        await settled(app, pilot)
        assert "no no such thing after row 1" in screen(app)

    play("rollback.pcap", scene)
