from __future__ import annotations

import re

import numpy as np
import pytest

from dcpinspect.errors import UsageError
from dcpinspect.output.render.message_lines import Lines
from dcpinspect.reading.store.store import Store
from dcpinspect.tui import row_search as module
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.row_search import Matcher, matching
from tests.tui.screens import Keys, play, press, screen, settled

pytestmark = pytest.mark.slow


def found(store: Store, text: str) -> list[int]:
    rows: list[int] = matching(store, Matcher(text, Lines()), np.arange(1, store.rows + 1)).tolist()
    return rows


@pytest.mark.parametrize("page_bytes", [module.PAGE_BYTES, 100])
@pytest.mark.parametrize("text", ["ROLLBACK", "to 50", "key.1", "→", "no such"])
def test_text_is_found_in_the_lines_that_have_it(
    store: Store, text: str, page_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_BYTES", page_bytes)
    lines, batch = Lines(), store.messages(np.arange(1, store.rows + 1))
    assert found(store, text) == [
        row + 1 for row in range(len(batch)) if text.casefold() in lines.line(batch, row).casefold()
    ]


@pytest.mark.parametrize("pattern", ["from (60|61)", r"^ +100 ", r"\d+$", "rollback|ROLL"])
def test_a_pattern_is_found_in_the_lines_that_it_fits(store: Store, pattern: str) -> None:
    lines, batch = Lines(), store.messages(np.arange(1, store.rows + 1))
    assert found(store, f"/{pattern}/") == [
        row + 1 for row in range(len(batch)) if re.search(pattern, lines.line(batch, row))
    ]


def test_bytes_are_found_in_the_messages_that_have_them(store: Store) -> None:
    assert found(store, "x:80 53") == [
        row for row in range(1, store.rows + 1) if b"\x80\x53" in store.messages([row]).bytes_of(0)
    ]


@pytest.mark.parametrize("text", ["x:8", "x:zz", "x:", "/(/", "/(?=a)/"])
def test_what_cannot_be_looked_for_is_said(text: str) -> None:
    with pytest.raises(UsageError, match=rf"^{re.escape(text)}: "):
        Matcher(text, Lines())


@pytest.mark.parametrize(("typed", "row"), [("to 50", 100), ("/from (60|61)/", 99), ("x:80 50", 7)])
def test_finding_text_patterns_and_bytes(typed: str, row: int) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.search.begin(typed)
        await settled(app, pilot)
        assert app.packets.list.row == row

    play("rollback.pcap", scene)


def test_the_next_and_the_one_before_are_found_and_after_the_last_the_first() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        rows = found(app.inspection.store, "rollback")
        assert len(rows) == 3
        app.packets.list.jump_to(rows[0] + 1)
        app.packets.search.begin("rollback")
        await settled(app, pilot)
        seen = []
        for key in ("f3", "f3", "f3", "shift+f3", "shift+f3"):
            await press(app, pilot, key)
            seen.append((app.packets.list.row, app._said.strip()))
        assert seen == [
            (rows[2], f"rollback is in row {rows[2]}"),
            (rows[0], f"rollback is in row {rows[0]} · from the first row again"),
            (rows[1], f"rollback is in row {rows[1]}"),
            (rows[0], f"rollback is in row {rows[0]}"),
            (rows[2], f"rollback is in row {rows[2]} · from the last row again"),
        ]

    play("rollback.pcap", scene)


def test_only_rows_that_are_shown_are_found() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.bar.apply("vbucket = 7")
        await settled(app, pilot)
        app.packets.search.begin("mutation")
        await settled(app, pilot)
        assert app.packets.list.index.has(app.packets.list.row)
        seen = [app.packets.list.row]
        while not seen[1:] or seen[-1] != seen[0]:
            await press(app, pilot, "f3")
            seen.append(app.packets.list.row)
        everywhere = found(app.inspection.store, "mutation")
        here = app.packets.list.index.rows(0, 1000)
        assert seen[:-1] == np.intersect1d(everywhere, here).tolist() != everywhere

    play("rollback.pcap", scene)


def test_what_is_not_found_is_said() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.search.begin("no such thing")
        await settled(app, pilot)
        assert (
            f"no no such thing in the {app.inspection.store.rows:,} rows that are shown"
            in screen(app)
        )

    play("rollback.pcap", scene)


def test_escape_stops_a_search() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.search.begin("rollback")
        app.action_leave()
        await settled(app, pilot)
        assert "the search was stopped" in screen(app)
        assert app.packets.list.row == 1
        await press(app, pilot, "f3")
        assert app.packets.list.row == 100

    play("rollback.pcap", scene)
