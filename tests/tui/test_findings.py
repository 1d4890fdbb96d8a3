from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.findings import about
from dcpinspect.tui.theme import UNICODE
from tests.tui.screens import Keys, play, press


def test_evidence_is_walked_and_opened() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "n")
        one = app.finding_list.shown
        assert one is not None
        await press(app, pilot, "right_square_bracket", "enter")
        assert app.packets.list.row == one.places[1].row

    play("rollback.pcap", scene)


def test_all_there_is_to_say_is_said() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        for one in app.finding_list.findings:
            text = about(one, UNICODE, 0).plain
            assert one.rule in text
            assert one.where in text
            assert all(f"row {place.row}, frame {place.frame}" in text for place in one.places)

    play("rollback.pcap", scene)
