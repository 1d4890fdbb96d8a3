from __future__ import annotations

import pytest

from dcpinspect.tables.schema import BY_NAME
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.filter_bar import by_field, completion
from tests.tui.screens import Keys, play, press, screen


@pytest.mark.parametrize(
    ("typed", "rest"),
    [
        ("vbu", "cket"),
        ("vbucket = 5 and by_s", "eqno"),
        ("name = 'dcp_mu", "tation'"),
        ("status_name in ('success', 'rollb", "ack'"),
        ("@roll", "backs"),
        ("key = 'vbu", None),
        ("vbucket = ", None),
        ("nothing_like_it", None),
    ],
)
def test_what_is_being_typed_is_completed(typed: str, rest: str | None) -> None:
    assert completion(typed) == rest


@pytest.mark.parametrize(
    ("name", "value", "condition"),
    [
        ("vbucket", 5, "vbucket = 5"),
        ("key", "it's", "key = 'it''s'"),
        ("key", b"\xff", None),
        ("key", "\x1b", None),
        ("magic word", 5, None),
        ("vbucket", None, None),
    ],
)
def test_a_field_makes_a_condition(name: str, value: object, condition: str | None) -> None:
    assert by_field(name, value, list(BY_NAME)) == condition


def test_a_mistake_is_told_while_it_is_typed_and_not_taken() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash", *"vbuckt", "space", "equals_sign", "space", "7")
        assert "vbucket" in screen(app).splitlines()[1]
        assert "✖" in screen(app).splitlines()[1]
        await press(app, pilot, "enter")
        assert app.packets.filtering.text == ""
        assert len(app.packets.list.index) == 161

    play("rollback.pcap", scene)


def test_filters_that_were_used_come_back() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.bar.apply("vbucket = 7")
        app.bar.apply("vbucket = 8")
        await press(app, pilot, "slash", "up", "up")
        assert app.bar.input.value == "vbucket = 7"
        await press(app, pilot, "down", "down")
        assert app.bar.input.value == ""

    play("rollback.pcap", scene)
