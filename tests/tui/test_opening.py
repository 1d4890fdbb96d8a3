from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DirectoryTree, Input, OptionList

from dcpinspect.tui.history import History, Memory
from dcpinspect.tui.opening import Opening, OpenScreen
from dcpinspect.tui.start import StartApp
from tests.tui.screens import SAMPLES, until
from tests.tui.test_start import opened

Scene = Callable[[StartApp, Pilot[Opening | None]], Awaitable[None]]
ROLLBACK = str(SAMPLES / "rollback.pcap")


def remembering(*paths: str) -> Memory:
    memory = Memory(captures=History())
    for path in paths:
        memory.captures.add(path)
    return memory


def shown(app: StartApp, name: str) -> list[str]:
    found = app.screen.query_one(name, OptionList)
    return [str(found.get_option_at_index(at).prompt) for at in range(found.option_count)]


def test_recent_captures_are_offered_the_newest_first_and_enter_opens_one() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        assert [line.split()[0] for line in shown(app, "#open-recent")] == ["rollback.pcap", "orphans.pcap"], "not one that is gone"
        assert all(line.endswith("sample_captures") for line in shown(app, "#open-recent")), "the end of a folder stays"
        marked = [app.screen.query_one("#open-recent", OptionList).render_line(line).text[0] for line in (0, 1)]
        assert marked == ["▌", " "], "not by colour alone"
        await pilot.press("down", "enter")

    memory = remembering("/nowhere/gone.pcap", str(SAMPLES / "orphans.pcap"), ROLLBACK)
    assert opened(scene, memory) == Opening([str(SAMPLES / "orphans.pcap")])


def test_files_are_captures_and_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    os.mkfifo(tmp_path / "pipe.pcap")
    for name in ("a.pcap", "b.pcapng.gz", "notes.txt", ".hidden.pcap", "below/c.pcap", "esc\x1b[31m.pcap"):
        (tmp_path / name).touch()
    (tmp_path / "linked.pcap").symlink_to(tmp_path / "pipe.pcap")
    (tmp_path / "nameless").write_bytes(Path(ROLLBACK).read_bytes()[:24])
    monkeypatch.chdir(tmp_path / "below")

    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        tree = app.screen.query_one(DirectoryTree)
        assert app.focused is tree
        await pilot.press("backspace")
        await until(pilot, lambda: len(tree.root.children) == 5)
        names = [str(tree.render_label(node, tree.rich_style, tree.rich_style)).strip() for node in tree.root.children]
        assert names == ["▸ below", "a.pcap", "b.pcapng.gz", r"esc\x1b[31m.pcap", "nameless"]
        await pilot.press("down", "down", "enter")

    assert opened(scene, Memory()) == Opening([str(tmp_path / "a.pcap")])


def test_a_path_is_typed_and_one_that_is_none_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.pcap").symlink_to(ROLLBACK)

    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        typed = app.screen.query_one(Input)
        typed.focus()
        for text, said in (("/nowhere", "/nowhere: there is no such file"), ("~/mine.pcap", "")):
            typed.value = text
            await pilot.press("enter")
            if said:
                assert said in str(app.screen.query_one("#open-said").render())

    assert opened(scene, Memory()) == Opening([str(tmp_path / "mine.pcap")])


def test_interfaces_are_offered() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        await until(pilot, lambda: any(line.startswith(" lo ") for line in shown(app, "#open-interfaces")))
        found = app.screen.query_one("#open-interfaces", OptionList)
        found.focus()
        assert found.highlighted == 0, "Enter opens the first at once"
        await until(pilot, lambda: "packets/s" in "".join(shown(app, "#open-interfaces")) or os.geteuid() != 0)
        found.highlighted = next(at for at, line in enumerate(shown(app, "#open-interfaces")) if line.startswith(" lo "))
        await pilot.press("enter")

    assert opened(scene, Memory()) == Opening(interface="lo")


@pytest.mark.parametrize("is_root", [True, False])
def test_without_rates_root_can_open_an_interface_still_and_others_keep_what_they_have(
    is_root: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a live capture: root has given up the right to capture, and programs that it starts have it."""
    monkeypatch.setattr("dcpinspect.capture.interfaces.traffic", lambda *_: {})
    monkeypatch.setattr("os.geteuid", lambda: 0 if is_root else 1000)

    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        note, word = app.screen.query(".open-note"), app.screen.query_one("#open-said")
        said = "Enter opens one" if is_root else "no right to capture; start again with sudo"
        await until(pilot, lambda: any(said in str(one.render()) for one in note if one.display))
        app.screen.query_one("#open-interfaces", OptionList).focus()
        await pilot.press("enter")
        if not is_root:
            assert said in str(word.render())
            await pilot.press("escape")

    assert bool(opened(scene, Memory())) == is_root


def test_escape_leaves() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        assert isinstance(app.screen, OpenScreen)
        await pilot.press("escape")

    assert opened(scene, Memory()) is None
