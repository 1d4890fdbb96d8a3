from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen, settled


def test_neighbours_are_those_that_have_streams() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        await press(app, pilot, "full_stop")
        assert app.lanes.vbucket == 8
        await press(app, pilot, "comma", "comma")
        assert app.lanes.vbucket == 7

    play("rollback.pcap", scene)


def test_enter_goes_to_the_message_with_the_seqno() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(12, 21)
        await settled(app, pilot)
        await press(app, pilot, "enter")
        batch = app.inspection.store.messages([app.packets.list.row])
        assert batch.vbucket.at(0) == 12
        assert (batch.number("by_seqno", 0) or 0) >= 21

    play("snapshots.pcap", scene)


def test_the_picture_of_another_vbucket_is_gone_at_once() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        assert app.lanes.row[0]
        app.navigation.to_vbucket(8)
        assert (app.lanes.vbucket, app.lanes.row) == (8, (0, ""))
        assert app.lanes.spoken() == "vb 8: reading"
        await settled(app, pilot)
        app.lanes.action_open()
        await settled(app, pilot)
        assert app.inspection.store.messages([app.packets.list.row]).vbucket.at(0) == 8

    play("rollback.pcap", scene)


def test_of_two_vbuckets_asked_for_at_once_the_latter_is_shown() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        app.navigation.to_vbucket(8, 3)
        await settled(app, pilot)
        assert (app.lanes.vbucket, app.lanes.at, len(app.lanes.tracks)) == (8, 3, 2)

    play("rollback.pcap", scene)


def test_what_is_learnt_while_a_vbucket_is_read_does_not_move_its_cursor() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(8, 3)
        app.timeline.take_up(app.inspection.results)
        await settled(app, pilot)
        assert (app.lanes.vbucket, app.lanes.at) == (8, 3)

    play("rollback.pcap", scene)


def test_reading_of_a_vbucket_can_be_stopped_and_asked_for_again() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(8)
        app.action_leave()
        await settled(app, pilot)
        assert (app.lanes.vbucket, app.lanes.tracks) == (8, ())
        assert "vb 8 · reading was stopped; Enter reads it" in screen(app)
        await press(app, pilot, "enter")
        assert len(app.lanes.tracks) == 2
        assert app.view == "timeline"

    play("rollback.pcap", scene)
