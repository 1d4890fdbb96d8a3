from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.tui.app import InspectApp
from tests.streams.told import capture, opened
from tests.tui.screens import Keys, lanes_of, play, press, screen, settled

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
def test_the_picture_fills_the_width_and_says_in_words_what_stretches_are(
    size: tuple[int, int],
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        lines = screen(app).splitlines()
        assert (
            max(len(line.rstrip()) for line in lines if line.startswith("  items")) >= size[0] - 3
        )
        words = " · starts at the request · complete" if size[0] >= 120 else ""
        assert f"░ 0–40 memory{words} ░" in screen(app)
        assert (
            " rollback " in "".join(line for line in lines if line.startswith("  gaps"))
            or size[0] < 200
        )
        numbers = [int(number) for number in lines[2].split()]
        assert (
            numbers == list(range(0, 61, numbers[1]))[: len(numbers)]
        )  # the last may have no room
        assert len(numbers) >= 5
        assert lanes_of(app).size.height <= size[1] // 2, (
            "what happened has the other half of the screen"
        )
        assert "d: time" in lines[1]

    play("rollback.pcap", scene, size=size)


def test_streams_of_several_connections_stand_under_their_names_and_those_with_an_id_have_it() -> (
    None
):
    async def several(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        assert "connection 1  10.11.0.1:50000 → 10.11.0.2:11210  mirror:1" in screen(app)
        assert "connection 2  10.11.0.1:50001 → 10.11.0.3:11210  mirror:1" in screen(app)

    async def with_ids(app: InspectApp, pilot: Keys) -> None:
        sids = app.inspection.results.records["streams"].values("sid")
        vbucket = next(
            number
            for number, sid in zip(
                app.inspection.results.records["streams"].values("vbucket"), sids, strict=True
            )
            if sid is not None
        )
        app.navigation.to_vbucket(vbucket)
        await settled(app, pilot)
        for sid in {track.story.stream["sid"] for track in lanes_of(app).tracks} - {None}:
            assert f"sid {sid}" in screen(app)

    play("rollback.pcap", several)
    play("tour.pcapng", with_ids)


def test_names_that_are_hostile_steer_nothing_and_every_line_is_as_wide_as_the_view(
    tmp_path: Path,
) -> None:
    talk = opened("a\x1b]0;title\x07[red]\u202e漢")
    stream = talk.stream(7)
    stream.snapshot(0, 2**64 - 1, "memory")
    stream.mutation(5, "ключ\x1b[31m")
    path = tmp_path / "hostile.pcap"
    path.write_bytes(capture(talk))

    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        for width in (1, 5, 13, 30, 59, 60, 79, 80, 120, 200, 300):
            await pilot.resize_terminal(width, 20)
            await settled(app, pilot)
            for key in ("d", "down"):
                for line in range(lanes_of(app).size.height):
                    made = lanes_of(app).render_line(line)
                    assert made.cell_length == lanes_of(app).size.width
                    assert made.text.isprintable()
                assert all(character.isprintable() for character in lanes_of(app).spoken())
                await press(app, pilot, key)

    play(path, scene)


def test_a_screen_of_another_size_shows_the_same_part_of_the_axis() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3", "plus", "plus", "right")
        lanes = lanes_of(app)
        before = lanes.scale, lanes.at
        for size in ((60, 20), (120, 36)):
            await pilot.resize_terminal(*size)
            await settled(app, pilot)
        assert (lanes.scale, lanes.at) == before

    play("rollback.pcap", scene, size=(120, 36))
