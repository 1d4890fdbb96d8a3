from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.stream_table import COLUMNS
from dcpinspect.tui.vbuckets_view import FORMS
from tests.streams.told import capture, opened
from tests.tui.screens import NARROW, Keys, burst, lanes_of, play, press, screen, settled

pytestmark = pytest.mark.slow


def shown(app: InspectApp, name: str) -> list[Any]:
    return list(app.navigation.vbuckets.table.in_order.values(name))


async def to_table(app: InspectApp, pilot: Keys) -> None:
    """Through the other layouts, of which there are more where there are several clients."""
    await press(app, pilot, "2")
    for _ in FORMS:
        if app.navigation.vbuckets.form != "table":
            await press(app, pilot, "vertical_line")
    await press(app, pilot, "home")


async def to_column(app: InspectApp, pilot: Keys, name: str) -> None:
    await burst(app, pilot, *["left"] * len(COLUMNS))
    await burst(
        app,
        pilot,
        *["right"] * [column.name for column in app.navigation.vbuckets.table.columns].index(name),
    )
    assert app.navigation.vbuckets.table.column.name == name


def test_streams_are_sorted_by_any_column_both_ways_and_not_at_all() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_table(app, pilot)
        as_opened = shown(app, "open_row")
        for column in app.navigation.vbuckets.table.columns:
            before = shown(app, column.name)
            await to_column(app, pilot, column.name)
            key = app.navigation.vbuckets.table.key
            rising = sorted(
                before,
                key=lambda value: (
                    value is not None,
                    str(value) if isinstance(value, str) else value or 0,
                ),
            )
            await press(app, pilot, "d")
            assert shown(app, column.name) == rising, column.name
            assert f"{column.title}↑"[: column.width] in screen(app)
            await press(app, pilot, "d")
            assert shown(app, column.name) == rising[::-1], column.name
            await press(app, pilot, "d")
            assert shown(app, "open_row") == as_opened
            assert app.navigation.vbuckets.table.key == key

    play("rollback.pcap", scene)


def test_a_click_on_a_heading_sorts_and_on_a_stream_selects_then_opens() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_table(app, pilot)
        await pilot.click("#streams", offset=(3 + 5 + 1, 0))
        await pilot.click("#streams", offset=(3 + 5 + 1, 0))
        await settled(app, pilot)
        assert shown(app, "vbucket") == sorted(shown(app, "vbucket"), reverse=True)
        await pilot.click("#streams", offset=(20, 3))
        await settled(app, pilot)
        key = app.navigation.vbuckets.table.key
        assert key is not None
        await pilot.click("#streams", offset=(20, 3))
        await settled(app, pilot)
        assert app.view == "timeline"
        story = lanes_of(app).story
        assert story is not None
        assert (story.key, lanes_of(app).vbucket) == (
            (key[0], key[2], key[3]),
            key[1],
        )

    play("rollback.pcap", scene)


def test_its_messages_are_one_key_away_and_the_way_back_leads_to_the_same_stream() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_table(app, pilot)
        await press(app, pilot, "down", "down")
        key = app.navigation.vbuckets.table.key
        assert key is not None
        await press(app, pilot, "equals_sign")
        assert app.packets.filtering.text == f"connection = {key[0]} and vbucket = {key[1]}"
        await press(app, pilot, "backspace")
        assert (app.navigation.vbuckets.form == "table", app.navigation.vbuckets.table.key) == (
            True,
            key,
        )
        await press(app, pilot, "vertical_line")
        assert (app.navigation.vbuckets.form == "table", app.navigation.vbuckets.map.vbucket) == (
            False,
            key[1],
        )

    play("rollback.pcap", scene)


def test_those_of_bad_vbuckets_are_walked() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_table(app, pilot)
        table = app.navigation.vbuckets.table
        pairs: list[tuple[Any, Any]] = list(
            zip(shown(app, "connection"), shown(app, "vbucket"), strict=True)
        )
        bad = [pair for pair in pairs if table.severity(*pair)]
        assert bad
        seen = []
        for _ in bad:
            await press(app, pilot, "n")
            seen.append(table.key)
        assert len(set(seen)) == len(bad)
        await press(app, pilot, "n")
        assert table.key == seen[0]
        await press(app, pilot, "e")
        assert app.view == "findings"

    play("loop.pcap", scene)


def test_names_of_the_wire_steer_nothing_and_every_line_is_as_wide_as_the_table(
    tmp_path: Path,
) -> None:
    talk = opened("a\x1b]0;title\x07")
    stream = talk.stream(7)
    stream.snapshot(0, 2**64 - 1, "memory")
    stream.mutation(5, "k\x1b[31m")
    path = tmp_path / "hostile.pcap"
    path.write_bytes(capture(talk))

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_table(app, pilot)
        for width in (1, 4, 20, 60, 80, 99, 100, 120, 300):
            await pilot.resize_terminal(width, 20)
            await settled(app, pilot)
            for line in range(app.navigation.vbuckets.table.size.height):
                made = app.navigation.vbuckets.table.render_line(line)
                assert made.cell_length == app.navigation.vbuckets.table.size.width
                assert made.text.isprintable()

    play(path, scene)


@pytest.mark.parametrize("sample", ["tour.pcapng", "any.pcap"])
def test_the_stream_of_the_cursor_is_told_in_words(sample: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_table(app, pilot)
        for row in shown(app, "open_row"):
            assert f"row {row}: " in screen(app)
            await press(app, pilot, "right_square_bracket")

    play(sample, scene, NARROW)


def test_where_there_is_little_room_the_column_of_the_cursor_comes_into_view() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_table(app, pilot)
        assert "ended" not in screen(app).splitlines()[1]
        await to_column(app, pilot, "end_reason")
        heading, first = screen(app).splitlines()[1:3]
        assert heading.split()[:2] == ["con", "vb"]
        assert "ended" in heading
        assert "connection-closed" in first

    play("rollback.pcap", scene, (60, 15))
