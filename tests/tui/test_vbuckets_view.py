from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import NARROW, Keys, play, press, screen

pytestmark = pytest.mark.slow


def test_the_messages_of_a_vbucket_are_one_key_away() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "n")
        vbucket = app.navigation.vbuckets.map.vbucket
        await press(app, pilot, "equals_sign")
        assert (app.view, app.packets.filtering.text) == ("packets", f"vbucket = {vbucket}")

    play("rollback.pcap", scene)


def test_the_last_bad_vbucket_is_the_last() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "end", "n")
        assert "no other vbucket has an error or a warning" in screen(app)
        await press(app, pilot, "N")
        assert app.navigation.vbuckets.map.vbucket < app.navigation.vbuckets.map.cells.numbers[-1]

    play("loop.pcap", scene)


def test_brackets_walk_the_vbuckets_that_have_streams() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "home")
        known = list(app.inspection.results.vbuckets)
        seen = [app.navigation.vbuckets.map.vbucket]
        for _ in known[1:]:
            await press(app, pilot, "right_square_bracket")
            seen.append(app.navigation.vbuckets.map.vbucket)
        assert seen == known
        await press(app, pilot, "left_square_bracket")
        assert app.navigation.vbuckets.map.vbucket == known[-2]

    play("rollback.pcap", scene)


def test_few_vbuckets_have_all_their_facts_below_them() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        lines = screen(app).splitlines()
        assert lines[1].split() == ["■", "7", "ended", "■", "8", "ended", *lines[1].split()[6:]]
        assert not any("4 ended" in line for line in lines), "each says its own state"
        assert any(line.split() == ["snapshots", "3"] for line in lines)
        assert any(line.startswith(" · rollback: asked for seqno 60") for line in lines)

    play("rollback.pcap", scene, NARROW)
