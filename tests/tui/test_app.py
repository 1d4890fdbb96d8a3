from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.color_triplet import ColorTriplet
from rich.style import Style

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.base_app import Opening
from dcpinspect.tui.opening import OpenScreen
from tests.captures import field
from tests.conftest import GOLDEN
from tests.encode import encode
from tests.tls.forged import Forged
from tests.tls.peers import Tls
from tests.tui.screens import NARROW, SAMPLES, WIDE, Keys, play, press, screen

Golden = Callable[[str, str], None]

VIEWS = {
    "overview": ("0",),
    "packets": ("n",),
    "vbuckets": ("2", "n"),
    "timeline": ("2", "n", "enter", "right_square_bracket"),
    "timeline-time": ("2", "n", "enter", "d", "right_square_bracket"),
    "vbuckets-time": ("2", "right", "right"),
    "findings": ("4", "n"),
    "connections": ("C",),
    "stats": ("5",),
    "go": ("colon",),
    "find": ("ctrl+f",),
    "filter": ("slash", "v", "b", "u", "down"),
    "export": ("4", "x"),
}
DIALOGS = ("connections", "go", "find", "filter", "export")


async def walk(app: InspectApp, pilot: Keys, look: Callable[[str], None]) -> None:
    for view, keys in VIEWS.items():
        await press(app, pilot, "1", "home", keys[0])
        await press(app, pilot, *keys[1:])  # in a view that has its room
        look(view)
        if view in DIALOGS:
            await press(app, pilot, "escape", "escape")


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=lambda size: f"{size[0]}x{size[1]}")
def test_views_look_like_this(size: tuple[int, int], golden: Golden) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await walk(
            app, pilot, lambda view: golden(f"tui/{view}-{size[0]}x{size[1]}.txt", screen(app))
        )

    play("rollback.pcap", scene, size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "size", [(20, 5), (60, 15), (300, 51)], ids=lambda size: f"{size[0]}x{size[1]}"
)
def test_views_are_drawn_at_any_size(size: tuple[int, int]) -> None:
    def look(view: str, app: InspectApp) -> None:
        lines = screen(app).splitlines()
        assert len(lines) == size[1], view
        assert all(len(line) <= size[0] for line in lines), view

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await walk(app, pilot, lambda view: look(view, app))

    play("rollback.pcap", scene, size)


def test_without_colour_all_of_it_is_there(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "n")
        golden("tui/packets-120x36.txt", screen(app))
        shades = {
            colour
            for row in app.screen._compositor.render_strips()
            for one in row
            if one.style
            for colour in _colours(one.style)
        }
        assert all(len(set(colour)) == 1 for colour in shades), "greys"
        await press(app, pilot, "4", "n")
        golden("tui/findings-120x36.txt", screen(app))

    play("rollback.pcap", scene)


def _colours(style: Style) -> list[ColorTriplet]:
    return [
        one.get_truecolor()
        for one in (style.color, style.bgcolor)
        if one is not None and not one.is_default
    ]


def test_the_smallest_screen_looks_like_this(golden: Golden) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        for view in ("packets", "findings"):
            await press(app, pilot, "1", "home", *VIEWS[view])
            golden(f"tui/{view}-60x15.txt", screen(app))

    play("rollback.pcap", scene, (60, 15))


@pytest.mark.slow
def test_with_ascii_there_is_nothing_else(golden: Golden) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await walk(app, pilot, lambda view: golden(f"tui/ascii/{view}.txt", screen(app)))
        assert all(
            path.read_text("utf-8").isascii() for path in (GOLDEN / "tui" / "ascii").iterdir()
        )

    play("rollback.pcap", scene, is_ascii=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "capture",
    ["tour.pcapng", "upr.pcap", "lossy.pcap", "capture-loss.pcap", "midstream.pcap", "any.pcap"],
)
def test_every_sample_can_be_walked_through(capture: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(
            app,
            pilot,
            "end",
            "v",
            "1",
            "home",
            "n",
            "e",
            "4",
            "end",
            "enter",
            "2",
            "n",
            "enter",
            "5",
            "end",
        )

    play(capture, scene)


def test_another_capture_is_opened_in_place_of_this_one() -> None:
    left = []

    async def scene(app: InspectApp, pilot: Keys) -> None:
        left.append(app)
        await press(app, pilot, "ctrl+o")
        assert isinstance(app.screen, OpenScreen)
        await press(app, pilot, *str(SAMPLES / "orphans.pcap"), "enter")

    play("rollback.pcap", scene)
    assert left[0].return_value == Opening([str(SAMPLES / "orphans.pcap")])


def test_a_key_log_is_asked_for_where_there_is_something_to_open(tmp_path: Path) -> None:
    forged = Forged(tmp_path, Tls("1.3", "TLS_AES_256_GCM_SHA384"))
    forged.send(0, encode("dcp_open", key=b"reader"))
    recorded = forged.finish()
    left = []

    async def scene(app: InspectApp, pilot: Keys) -> None:
        left.append(app)
        assert "give the client's key log (K)" in " ".join(screen(app).split())
        assert "K takes one" not in screen(app), "it is said above"
        await press(app, pilot, "K", *"/nowhere", "enter")
        assert "/nowhere: there is no such file" in screen(app)
        await press(app, pilot, "K", *str(recorded.keylog), "enter")

    play(recorded.path, scene)
    assert left[0].return_value == Opening([str(recorded.path)], keylog=str(recorded.keylog))


def test_no_key_log_is_offered_where_the_port_is_wrong() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0")
        shown = screen(app)
        assert "✖ no DCP message in 28 packets of the ports looked at; they carry TLS" in shown
        assert shown.count("connect to the TLS port of this node") == 1, "that is what to do next"
        assert "key log" not in shown

    play(field("q05-tls-to-plain-port"), scene)


def test_what_comes_only_once_is_not_read_again() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "K")
        assert "cannot be read again; start with --keylog FILE" in screen(app)

    play("rollback.pcap", scene, can_read_again=False)
