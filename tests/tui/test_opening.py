from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key, Paste
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from dcpinspect.tui.base_app import Opening
from dcpinspect.tui.history import History, Memory
from dcpinspect.tui.opening import NO_RIGHT, OpenScreen, StartApp
from tests.tui.screens import SAMPLES, until

Scene = Callable[[StartApp, Pilot[Opening | None]], Awaitable[None]]
ROLLBACK = str(SAMPLES / "rollback.pcap")


def remembering(*paths: str) -> Memory:
    memory = Memory(captures=History())
    for path in paths:
        memory.captures.add(path)
    return memory


def shown(app: StartApp) -> list[str]:
    found = app.screen.query_one(OptionList)
    return [str(found.get_option_at_index(at).prompt) for at in range(found.option_count)]


def below(app: StartApp, heading: str) -> list[str]:
    """The lines below a heading, up to the next one."""
    lines = shown(app)
    first = next(place for place, line in enumerate(lines) if line.startswith(heading)) + 1
    last = next(
        (place for place, line in enumerate(lines[first:], first) if not line.startswith(" ")),
        len(lines),
    )
    return lines[first:last]


def test_recent_captures_are_offered_the_newest_first_and_enter_opens_one() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        recent = below(app, "Recent captures")
        assert [line.split()[0] for line in recent] == ["rollback.pcap", "orphans.pcap"], (
            "not one that is gone"
        )
        assert all(line.endswith("sample_captures") for line in recent), "the end of a folder stays"
        marked = [app.screen.query_one(OptionList).render_line(line).text[0] for line in (1, 2)]
        assert marked == ["▌", " "], "not by colour alone"
        await pilot.press("down", "enter")

    memory = remembering("/nowhere/gone.pcap", str(SAMPLES / "orphans.pcap"), ROLLBACK)
    assert opened(scene, memory) == Opening([str(SAMPLES / "orphans.pcap")])


def test_a_pipe_that_might_be_waited_for_is_neither_offered_nor_opened(tmp_path: Path) -> None:
    path = tmp_path / "pipe.pcap"
    os.mkfifo(path)

    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        assert not any("pipe.pcap" in line for line in shown(app))
        app.screen.query_one(Input).value = str(path)
        await pilot.press("enter")
        said = app.screen.query_one("#open-said")
        await until(pilot, lambda: "is no file" in str(said.render()))
        await pilot.press("escape")

    assert opened(scene, remembering(str(path))) is None


def test_what_is_typed_goes_to_the_path_and_narrows_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    os.mkfifo(tmp_path / "pipe.pcap")
    for name in (
        "a.pcap",
        "b.pcapng.gz",
        "notes.txt",
        ".hidden.pcap",
        "below/c.pcap",
        "esc\x1b[31m.pcap",
    ):
        (tmp_path / name).touch()
    (tmp_path / "linked.pcap").symlink_to(tmp_path / "pipe.pcap")
    (tmp_path / "nameless").write_bytes(Path(ROLLBACK).read_bytes()[:24])
    monkeypatch.chdir(tmp_path / "below")

    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        assert app.focused is app.screen.query_one(Input)
        assert [line.split()[0] for line in below(app, "Captures here")] == ["c.pcap"]
        app.screen.query_one(Input).value = f"{tmp_path}/"
        await pilot.pause()
        assert [line.split("  ")[0].strip() for line in below(app, "Files")] == [
            *("a.pcap", "b.pcapng.gz", "below/"),
            *(r"esc\x1b[31m.pcap", "nameless"),
        ]
        await pilot.press("down", "down", "tab")
        assert app.screen.query_one(Input).value == f"{tmp_path}/below/"
        await pilot.press("c", "tab", "enter")

    assert opened(scene, Memory()) == Opening([str(tmp_path / "below" / "c.pcap")])


def test_samples_are_offered_and_a_part_of_a_name_finds_one() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        assert any(line.split()[0] == "orphans.pcap" for line in below(app, "Samples"))
        await pilot.press(*"orph", "enter")

    assert opened(scene, Memory()) == Opening([str(SAMPLES / "orphans.pcap")])


def test_a_capture_is_offered_once() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        for typed in ("", f"{SAMPLES}/orph", "orph"):
            app.screen.query_one(Input).value = typed
            await pilot.pause()
            assert len([line for line in shown(app) if line.startswith(" orphans.pcap")]) == 1
        await pilot.press("escape")

    assert opened(scene, remembering(str(SAMPLES / "orphans.pcap"))) is None


def test_a_question_mark_helps_unless_it_is_part_of_a_path_and_esc_closes_the_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x?.pcap").write_bytes((SAMPLES / "orphans.pcap").read_bytes())
    monkeypatch.chdir(tmp_path)

    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        await pilot.press("question_mark")
        assert "An interface is captured live" in str(app.screen.query_one("#open-said").render())
        await pilot.press("escape")
        assert str(app.screen.query_one("#open-said").render()) == ""
        await pilot.press("x", "question_mark")
        assert app.screen.query_one(Input).value == "x?"
        await pilot.press("question_mark")
        assert app.screen.query_one(Input).value == "x?"
        assert "An interface is captured live" in str(app.screen.query_one("#open-said").render())
        await pilot.press("escape", "escape")

    assert opened(scene, Memory()) is None


def test_tab_completes_what_was_pasted_at_the_same_moment() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        for event in (Paste(f"{SAMPLES}/orph"), Key("tab", None)):
            app.post_message(event)
        await until(pilot, lambda: app.screen.query_one(Input).value == f"{SAMPLES}/orphans.pcap")
        await pilot.press("enter")

    assert opened(scene, Memory()) == Opening([str(SAMPLES / "orphans.pcap")])


def test_enter_opens_nothing_but_what_was_typed_just_before() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        for key in (*"nosuch", "enter", "ctrl+u", *"nowhere"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        said = app.screen.query_one("#open-said")
        await until(pilot, lambda: "nosuch: there is no such file" in str(said.render()))
        await pilot.press("escape")

    assert opened(scene, Memory()) is None


def test_a_file_with_a_name_of_its_own_is_opened_as_it_is_typed(tmp_path: Path) -> None:
    (tmp_path / "dump.txt").touch()

    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        app.screen.query_one(Input).value = str(tmp_path / "dump.txt")
        await pilot.pause()
        assert shown(app) == ["Enter opens what is typed"]
        await pilot.press("enter")

    assert opened(scene, Memory()) == Opening([str(tmp_path / "dump.txt")])


def test_a_path_is_typed_and_one_that_is_none_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.pcap").symlink_to(ROLLBACK)

    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        typed = app.screen.query_one(Input)
        for text, message in (("/nowhere", "/nowhere: there is no such file"), ("~/mine.pcap", "")):
            typed.value = text
            await pilot.press("enter")
            if message:
                assert message in str(app.screen.query_one("#open-said").render())

    assert opened(scene, Memory()) == Opening([str(tmp_path / "mine.pcap")])


def test_interfaces_are_offered() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        await until(pilot, lambda: any(line.startswith(" lo ") for line in shown(app)))
        await pilot.press("l", "o")
        found = app.screen.query_one(OptionList)
        found.highlighted = next(
            at for at, line in enumerate(shown(app)) if line.startswith(" lo ")
        )
        await pilot.press("enter")

    assert opened(scene, Memory()) == Opening(interface="lo")


@pytest.mark.parametrize("is_root", [True, False])
def test_root_can_open_an_interface_and_others_keep_what_they_have(
    is_root: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a live capture root has given up the right to capture, and programs that it starts
    have it.
    """
    monkeypatch.setattr("dcpinspect.capture.interfaces.traffic", lambda *_: {})
    monkeypatch.setattr("os.geteuid", lambda: 0 if is_root else 1000)

    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        await until(pilot, lambda: any(line.startswith(" lo ") for line in shown(app)))
        found = app.screen.query_one(OptionList)
        found.highlighted = next(
            at for at, line in enumerate(shown(app)) if line.startswith(" lo ")
        )
        await pilot.press("enter")
        if not is_root:
            assert NO_RIGHT in str(app.screen.query_one("#open-said").render())
            await pilot.press("escape")

    assert bool(opened(scene, Memory())) == is_root


def test_escape_leaves() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        assert isinstance(app.screen, OpenScreen)
        await pilot.press("escape")

    assert opened(scene, Memory()) is None


def opened(
    scene: Callable[[StartApp, Pilot[Opening | None]], Awaitable[None]],
    memory: Memory,
    size: tuple[int, int] = (120, 36),
    **options: Any,
) -> Opening | None:
    """Plays a scene on the start screen; what is to be opened then."""

    async def play() -> StartApp:
        app = StartApp(memory=memory, **options)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await scene(app, pilot)
            await pilot.pause()
        return app

    return asyncio.run(play()).return_value


def test_it_says_why_something_could_not_be_opened_and_has_the_theme_that_was_chosen() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        del pilot
        assert app.theme == "nord"
        assert "no such thing" in str(app.screen.query_one("#open-said").render())

    memory = Memory(themes=History())
    memory.themes.add("nord")
    assert opened(scene, memory, message="no such thing") is None


def test_ctrl_c_leaves() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        del app
        await pilot.press("ctrl+c")

    assert opened(scene, Memory()) is None
