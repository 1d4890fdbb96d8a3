from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.heat_map import HeatForm, forms
from tests.captures import field
from tests.tui.screens import WIDE, Keys, lanes_of, play, press, screen, settled

pytestmark = pytest.mark.slow


async def to_heat(app: InspectApp, pilot: Keys) -> None:
    await press(app, pilot, "2")
    while app.navigation.vbuckets.form != "heat":
        await press(app, pilot, "vertical_line")


@pytest.mark.parametrize(
    ("count", "lines", "expected"),
    [
        (4, 30, [HeatForm(1, 7)]),
        (30, 30, [HeatForm(1, 1)]),
        (40, 30, [HeatForm(2), HeatForm(1)]),
        (1024, 30, [HeatForm(together) for together in (48, 24, 16, 12, 8, 6, 4, 3, 2, 1)]),
    ],
)
def test_all_vbuckets_fit_and_zoom_leads_to_one_a_line(
    count: int, lines: int, expected: list[HeatForm]
) -> None:
    assert forms(count, lines) == expected


def test_enter_leads_to_the_timeline_of_the_vbucket_at_this_time_and_back_to_the_cell() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        await press(app, pilot, "o")
        heat = app.navigation.vbuckets.heat
        vbucket, span, place = heat.vbucket, heat.span, (heat.row, heat.column)
        assert heat.amounts[place] == heat.amounts.max()
        await press(app, pilot, "enter")
        assert (
            app.view,
            lanes_of(app).vbucket,
            lanes_of(app).axis,
        ) == ("timeline", vbucket, "time")
        assert span[0] <= lanes_of(app).at <= span[1]
        assert lanes_of(app).scale.first <= span[0] < span[1] <= lanes_of(app).scale.last
        assert lanes_of(app).scale.last - lanes_of(app).scale.first <= 12 * (span[1] - span[0])
        assert "items, seqnos" in lanes_of(app).spoken()
        await press(app, pilot, "1", "backspace", "backspace")
        assert (app.view, app.navigation.vbuckets.form, (heat.row, heat.column)) == (
            "vbuckets",
            "heat",
            place,
        )

    play("rollback.pcap", scene)


def test_what_is_at_the_cursor_is_spelt_out_and_signs_are_walked() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        told = []
        for _ in range(40):
            before = app.navigation.vbuckets.heat.column
            await press(app, pilot, "right_square_bracket")
            if app.navigation.vbuckets.heat.column == before:
                break
            told.append(app.navigation.vbuckets.heat.spoken())
        assert "nothing else happens in this row" in screen(app)
        for word in ("request", "rollback", "stream end", "connection closed"):
            assert any(line.endswith(f" · {word}") for line in told), word
        assert all(line.startswith("vb 7 · 0.0") for line in told)
        assert app.navigation.vbuckets.heat.heading().startswith("items of 4 vbuckets over time")

    play("rollback.pcap", scene)


def test_many_vbuckets_share_lines_and_zoom_shows_each_on_its_own() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat = app.navigation.vbuckets.heat
        assert heat.form.together > 1
        first, last = heat.groups[heat.row]
        whole = int(heat.amounts.sum())
        await press(app, pilot, "o")
        vbucket = heat.vbucket
        await press(app, pilot, *["plus"] * 12)
        assert (heat.form, heat.vbucket) == (HeatForm(1, 1), vbucket)
        assert int(heat.amounts.sum()) == whole
        assert str(vbucket) in screen(app)
        await press(app, pilot, "a")
        assert heat.groups[0] == (first, last)

    play("large.pcapng.gz", scene, size=(80, 24))


@pytest.mark.parametrize("is_ascii", [False, True])
def test_every_line_is_as_wide_as_the_view(is_ascii: bool) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        for size in (WIDE, (1, 5), (30, 9), (300, 80)):
            await pilot.resize_terminal(*size)
            await settled(app, pilot)
            for line in range(app.navigation.vbuckets.heat.size.height):
                assert (
                    app.navigation.vbuckets.heat.render_line(line).cell_length
                    == app.navigation.vbuckets.heat.size.width
                )

    play("loop.pcap", scene, is_ascii=is_ascii)


def test_the_time_ends_with_the_last_packet_not_with_the_last_message() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat, ends = app.navigation.vbuckets.heat, app.inspection.ends
        columns = np.flatnonzero(heat.amounts.sum(axis=0))
        assert columns[-1] <= heat.across // 50, "what came in 0.8 s of 66 s stands at the left"
        await press(app, pilot, "end")
        assert heat.span[0] <= ends[1] - ends[0] <= heat.span[1]

    play(field("p06-zero-window"), scene)
