from __future__ import annotations

import sys
from functools import partial
from typing import Any

import pexpect
import pytest
from textual.pilot import Pilot

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.base_app import Opening, _terminal_decoder
from dcpinspect.tui.history import Memory
from dcpinspect.tui.opening import StartApp
from tests.peers.truth import SAMPLES
from tests.tui.screens import Keys, burst, play, press, screen
from tests.tui.test_opening import opened


def test_with_ascii_there_is_nothing_else() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        await pilot.pause(0.2)
        lines = [
            "".join(segment.text for segment in line)
            for line in app.screen._compositor.render_strips()
        ]
        assert "v choose" in "".join(lines)  # an arrow elsewhere
        assert all(line.isascii() for line in lines)

    opened(scene, Memory(), is_ascii=True)


def test_without_colour_nothing_is_a_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        del pilot
        assert (
            app.get_css_variables()["paint-severity-error"]
            == app.get_css_variables()["paint-kind-item"]
        )

    opened(scene, Memory())


def test_typed_bytes_that_are_no_utf8_are_passed_over() -> None:
    """As of a terminal, or of a pasted text, in Latin-1."""
    program = ["-m", "dcpinspect", "tui", str(SAMPLES / "orphans.pcap")]
    child = pexpect.spawn(sys.executable, program, dimensions=(30, 100), timeout=60)
    child.expect(b"vbuckets receive nothing")
    child.send(b"\xe4")
    child.send(b"4")
    child.expect(b"never reopened")
    child.send(b"q")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, b"Traceback" in child.before) == (0, False)


TYPED = (
    ("colon", "5", "5", "enter"),
    ("slash", *"vbucket", "space", "equals_sign", "space", "7", "enter"),
    ("4", "n", "enter", "backspace", "j", "enter"),
    ("ctrl+f", *"rollback", "enter"),
    ("2", "n", "enter"),
    ("question_mark", "escape", "G", "m", "g", "apostrophe", "enter"),
    ("x", "escape", "5", "d", "1", "tab", "j", "c"),
)


@pytest.mark.slow
def test_a_burst_of_keys_does_what_they_do_one_by_one() -> None:
    shown: dict[bool, list[str]] = {True: [], False: []}

    async def scene(app: InspectApp, pilot: Keys, *, at_once: bool) -> None:
        for keys in TYPED:
            await press(app, pilot, "escape", "escape", "1", "home")
            if at_once:
                await burst(app, pilot, *keys)
            else:
                for key in keys:
                    await press(app, pilot, key)
            shown[at_once].append(screen(app))

    for at_once in shown:
        play("rollback.pcap", partial(scene, at_once=at_once))
    assert len(set(shown[False])) == len(TYPED)
    assert shown[True] == shown[False]


@pytest.mark.slow
def test_what_is_typed_behind_a_prompt_goes_into_it() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await burst(app, pilot, "colon", "5", "5", "enter")
        assert app.packets.list.row == 55
        await burst(app, pilot, "slash", *"vbucket", "space", "equals_sign", "space", "9", "enter")
        assert app.packets.filtering.text == "vbucket = 9"

    play("rollback.pcap", scene)


@pytest.mark.parametrize(
    ("answer", "is_light"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\", True),
        (b"\x1b]11;rgb:fd/f6/e3\x07", True),
        (b"\x1b]11;rgba:1e1e/1e1e/2e2e/ffff\x07", False),
    ],
)
@pytest.mark.parametrize("size", [1024, 7, 3])
def test_the_background_is_heard_and_no_key_is_lost(
    answer: bytes, is_light: bool, size: int
) -> None:
    told, typed = list[bool](), b"2\x1b[A" + answer + "jé\x1b]1".encode()
    decode = _terminal_decoder(told.append, "utf-8")().decode
    # an answer may come in several parts, but for its first bytes
    reads = [typed[:7], *(typed[at : at + size] for at in range(7, len(typed), size))]
    heard = "".join(decode(part, final=False) for part in reads) + decode(b"x", final=False)
    assert (heard, told) == ("2\x1b[Ajé\x1b]1x", [is_light])


def test_a_light_terminal_has_a_light_theme_unless_one_was_chosen() -> None:
    def taken(is_light: bool, **options: Any) -> str:
        app = StartApp(**options)
        app._on_background(is_light)
        return app.theme

    assert [taken(True), taken(False)] == ["textual-light", "textual-dark"]
    assert taken(True, theme_name="textual-dark") == "textual-dark"
    assert taken(True, has_few_colors=True) == "ansi-dark"
