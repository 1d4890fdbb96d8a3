from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, settled

pytestmark = pytest.mark.slow


def test_every_line_of_the_tree_lights_its_own_bytes() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(110)
        await press(app, pilot, "enter")
        fields = app.packets.fields
        assert fields.message is not None
        for field in fields.message.fields:
            assert fields.select_named(field.name)
            assert app.packets.field is field
            if field.size and not field.fields:
                fields.select_at(field.offset)
                assert app.packets.field is field

    play("rollback.pcap", scene)


def test_what_is_inside_a_field_folds() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(109)
        await settled(app, pilot)
        fields = app.packets.fields
        fields.select_named("key")
        fields.focus()
        await press(app, pilot, "right", "down")
        assert fields.path == "key/collection_id"
        await press(app, pilot, "left")
        assert fields.path == "key"
        await press(app, pilot, "left", "down")
        assert not fields.path.startswith("key/")

    play("rollback.pcap", scene)


def test_the_field_stays_selected_from_row_to_row() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(108)
        await settled(app, pilot)
        app.packets.fields.select_named("by_seqno")
        app.packets.fields.focus()
        await press(app, pilot, "right_square_bracket")
        assert app.packets.list.row == 109
        assert app.packets.field is not None
        assert app.packets.field.name == "by_seqno"

    play("rollback.pcap", scene)
