from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.byte_pane import Parts
from tests.encode import encode
from tests.tui.screens import Keys, play, press, screen, settled

pytestmark = pytest.mark.slow


def test_every_byte_is_shown() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(109)
        await settled(app, pilot)
        data, pane = app.inspection.store.messages([109]).bytes_of(0), app.packets.bytes
        text = "".join(pane.render_line(line).text for line in range(pane.size.height))
        for start in range(0, len(data), pane.across):
            assert data[start : start + pane.across].hex(" ") in text

    play("rollback.pcap", scene, (160, 60))


def test_what_a_hole_took_is_dots() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        rows = [
            row
            for row in range(1, app.inspection.store.rows + 1)
            if len(app.inspection.store.messages([row]).missing.row)
        ]
        app.navigation.to_row(rows[0])
        await settled(app, pilot)
        start = app.inspection.store.messages([rows[0]]).annotate(0).missing[0][0]
        app.packets.bytes.scroll_to(y=start // 4, animate=False, immediate=True)
        await settled(app, pilot)
        assert "··" in screen(app)

    play("capture-loss.pcap", scene)


def test_bytes_are_sixteen_a_line_where_there_is_room() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        assert app.packets.bytes.across == 16
        await pilot.click("#byte-pane", offset=(8 + 3 * 12, 0))
        await settled(app, pilot)
        assert app.packets.field is not None
        assert app.packets.field.name == "opaque"

    play("rollback.pcap", scene, (140, 40))


def test_keys_go_from_byte_to_byte_and_the_field_follows() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(109)
        await settled(app, pilot)
        app.packets.bytes.focus()
        await press(app, pilot, "down", "right")
        assert app.packets.field is not None
        assert (
            app.packets.field.offset
            <= app.packets.bytes.across + 1
            < app.packets.field.offset + app.packets.field.size
        )
        assert app.packets.bytes.has_focus

    play("rollback.pcap", scene)


def test_each_byte_has_the_part_that_it_is_in() -> None:
    message = annotate(
        encode("dcp_mutation", key="key", by_seqno=1, rev_seqno=1, value=b"{}", vbucket=1)
    )
    parts = Parts(message)
    own = {
        name: [
            at for at in range(message.size) if parts.at_offset(at).removesuffix("-next") == name
        ]
        for name in ("header", "extras", "key", "value")
    }
    assert own["header"] == [*range(24)]
    assert own["extras"] == [*range(24, 55)]
    assert own["key"] == [55, 56, 57]
    assert own["value"] == [58, 59]


def test_fields_behind_each_other_differ() -> None:
    parts = Parts(annotate(encode("dcp_noop", opaque=1)))
    assert parts.at_offset(0) != parts.at_offset(1)
    assert parts.at_offset(2) == parts.at_offset(3)


def test_names_of_fields_have_one_colour_for_each_part() -> None:
    message = annotate(encode("dcp_noop", opaque=1))
    parts = Parts(message)
    assert {parts.of_field(field) for field in message.fields} == {"header"}


def test_without_a_message_all_is_header() -> None:
    assert Parts(None).at_offset(7) == "header"
