from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen

pytestmark = pytest.mark.slow


def test_the_next_error_or_warning_is_a_message_where_the_view_has_none_of_its_own() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "5", "n")
        assert (app.view, app.packets.list.row) == ("packets", app.inspection.results.marked.bad[0])

    play("loop.pcap", scene)


@pytest.mark.parametrize("keys", [("2", "n"), ("2", "n", "enter")], ids=["vbuckets", "timeline"])
def test_what_was_found_of_a_vbucket_is_one_key_away(keys: tuple[str, ...]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, *keys)
        vbucket = app.navigation.view.vbucket_here
        await press(app, pilot, "e")
        assert app.view == "findings"
        assert app.navigation.findings.list.shown_finding is not None
        assert vbucket in app.navigation.findings.list.shown_finding.vbuckets

    play("rollback.pcap", scene)


def test_a_vbucket_without_findings_says_so() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "end", "e")
        assert "no finding here" in screen(app)

    play("midstream.pcap", scene)
