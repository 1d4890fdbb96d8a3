"""The screen that opens a capture: recent captures, files, samples and interfaces; and the application
that shows only this screen, if the program starts without a capture.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from rich.filesize import decimal
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from dcpinspect.capture.folders import is_capture
from dcpinspect.text import cells, counted, escape
from dcpinspect.tui.base_app import Opening, ThemedApp
from dcpinspect.tui.dialogs import Dialog, PickList

NO_RIGHT = "no right to capture; start again with sudo"
MOST = 100
"""Number of lines of a section of the list."""
SAMPLES = Path(__file__).parents[2] / "sample_captures"
"""Folder of the samples, where the package is beside them."""
HINT = "Enter opens   ↑ ↓ choose   Tab completes the path   ? help   Esc leaves"
HELP = (
    "A path opens a file, or a folder of captures; a part of a name chooses one that is offered. "
    "An interface is captured live. 'dcpinspect --help' tells everything else."
)


class Offer(Option):
    """A line of the list: a heading, or something that can be opened."""

    def __init__(self, line: Text, target: Opening | str = "") -> None:
        super().__init__(line, disabled=not target)
        self.target = target
        """What to open, or a folder to look into, which Enter writes into the path; empty: heading."""


class OpenScreen(Dialog[Opening]):
    """Asks what to open next; Esc returns None. Keys go to the path, ↑ and ↓ to the list."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape", "leave", "Leave", priority=True),
        Binding("ctrl+o,ctrl+c", "dismiss(None)", "Leave", priority=True),
        # without priority: what is typed comes first
        Binding("up", "move('up')"),
        Binding("down", "move('down')"),
        Binding("tab", "complete"),
    ]

    def __init__(self, recent: Sequence[str], *, message: str = "") -> None:
        """Makes the screen. ``recent``: paths, the newest first. ``message``: why an earlier choice
        could not be opened.
        """
        super().__init__()
        self._recent = [path for path in recent if _can_be_opened(path)]
        self._interfaces: dict[str, str] = {}
        """Addresses of each interface."""
        self._note = "looking for interfaces"
        self._path = Input(
            placeholder="path of a capture, or of a folder of captures",
            compact=True,
            id="open-path",
        )
        self._list = PickList(can_focus=False, id="open-list")
        self._word = Static(Text(message), id="open-said", classes="error" if message else "")

    def compose(self) -> ComposeResult:
        """Yields the widgets of the screen."""
        with Vertical(id="open-box"):
            yield Static(Text("dcpinspect: open a capture"), classes="open-title")
            yield self._path
            yield self._list
            yield self._word
            yield Static(Text(HINT), classes="open-note")

    def on_mount(self) -> None:
        """Gives the focus to the path, and looks for interfaces."""
        self._path.focus()
        self._offer()
        threading.Thread(
            target=self._look, name="interfaces", daemon=True
        ).start()  # a daemon, because nobody waits for its end

    def on_resize(self) -> None:
        """Fits the descriptions to the new width."""
        self.call_after_refresh(self._offer)

    # -- what is offered

    @on(Input.Changed)
    def _offer(self) -> None:
        """Fills the list with what the typed text may mean; the cursor stays on its line."""
        if self._path.value.endswith("?") and not any(self._made()):  # it is no path
            self._path.value = self._path.value[:-1]
            self._show_hint(HELP, is_error=False)
        typed = self._path.value.strip()
        before, offers = self._target, [*self._made()]
        if not offers:
            is_path = _can_be_opened(os.path.expanduser(typed))
            words = "Enter opens what is typed" if is_path else "nothing here matches what is typed"
            offers = [Offer(Text(words, "dim"))]
        self._list.clear_options().add_options(offers)
        targets = [number for number, offer in enumerate(offers) if offer.target]
        same = [number for number in targets if offers[number].target == before]
        self._list.highlighted = next(iter([*same, *targets]), None)

    @property
    def _target(self) -> Opening | str:
        """What the cursor of the list is on; empty for nothing."""
        offer = self._list.highlighted_option
        return offer.target if isinstance(offer, Offer) else ""

    def _made(self) -> Iterator[Offer]:
        typed, width = self._path.value.strip(), max(40, self._list.size.width - 1)
        samples = (
            [
                str(path)
                for path in sorted(SAMPLES.rglob("*"), key=lambda path: (len(path.parts), path))
                if is_capture(str(path))
            ]
            if SAMPLES.is_dir()
            else []
        )
        sections = [("Recent captures", self._recent), ("Samples", samples)]
        offered = set[str]()
        if typed:
            for offer in _files(os.path.expanduser(typed), width):
                if isinstance(offer.target, Opening):
                    offered.update(map(os.path.abspath, offer.target.captures))
                yield offer
        else:
            names = sorted(
                str(path) for path in Path.cwd().iterdir() if _is_shown(path) and not path.is_dir()
            )
            sections.insert(1, ("Captures here", names))
        for title, paths in sections:
            matching_paths = [
                path
                for path in paths
                if typed.lower() in path.lower() and os.path.abspath(path) not in offered
            ]
            offered.update(map(os.path.abspath, matching_paths))
            if matching_paths:
                yield Offer(Text(title, "bold"))
                yield from (
                    Offer(line, Opening([path]))
                    for path, line in _described(matching_paths[:MOST], width)
                )
        named = [name for name in self._interfaces if typed.lower() in name.lower()]
        if named or not typed:
            yield Offer(Text.assemble(("Live interfaces", "bold"), (f"  {self._note}", "dim")))
            for name in named:
                yield Offer(
                    Text(f" {escape(name):<12} {self._interfaces[name]}", no_wrap=True),
                    Opening(interface=name),
                )

    # -- what was chosen

    def action_leave(self) -> None:
        """Closes the help, or leaves."""
        if str(self._word.content) == HELP:
            self._show_hint("")
        else:
            self.dismiss(None)

    def action_complete(self) -> None:
        """Writes the chosen file or folder into the path."""
        self._offer()  # the list may not have what was typed last
        target = self._target
        text = target if isinstance(target, str) else "".join(target.captures[:1])
        if text:
            self._path.value = text
            self._path.cursor_position = len(text)

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        event.stop()
        path = os.path.expanduser(event.value.strip())
        if _can_be_opened(path):
            self.dismiss(Opening([path]))
        elif os.path.exists(path):
            self._show_hint(f"{escape(path)}: is no file; name it on the command line")
        else:
            self._open_chosen(path)

    @on(OptionList.OptionSelected)
    def _clicked(self) -> None:
        self._open_chosen("")

    def _open_chosen(self, path: str) -> None:
        """Opens the chosen line. ``path``: what was typed."""
        target = self._target
        if not target:
            self._show_hint(
                f"{escape(path)}: there is no such file"
                if path
                else "there is nothing to open here; type a path"
            )
        elif isinstance(target, str):
            self.action_complete()
        elif target.interface and self._note == NO_RIGHT:
            # the shown capture is not closed for an interface that cannot be opened
            self._show_hint(f"{escape(target.interface)}: {NO_RIGHT}")
        else:
            self.dismiss(target)

    def _show_hint(self, text: str, *, is_error: bool = True) -> None:
        self._word.update(Text(text))
        self._word.set_class(is_error, "error")

    # -- interfaces

    def _look(self) -> None:
        """Lists the interfaces. Runs in a thread of its own."""
        from dcpinspect.capture.interfaces import (  # deferred: Scapy takes half a second
            interfaces,
            traffic,
        )

        where = {
            interface.name: ", ".join(interface.addresses)
            for interface in interfaces()
            if interface.is_up
        }
        # root gives up its rights once a live capture begins, but programs that it starts have them
        may_capture = os.geteuid() == 0 or bool(traffic([*where], [], 0))
        with suppress(RuntimeError):  # the application may have ended meanwhile
            self.app.call_from_thread(self._show, where, "" if may_capture else NO_RIGHT)

    def _show(self, interfaces: dict[str, str], note: str) -> None:
        self._note, self._interfaces = note, interfaces
        if self.is_mounted:
            self._offer()


def _can_be_opened(path: str) -> bool:
    """Whether it is a file or a folder: a pipe or a device may be waited for, for ever."""
    return os.path.isfile(path) or os.path.isdir(path)


def _files(typed: str, width: int) -> Iterator[Offer]:
    """Yields the folders and captures whose paths begin with what was typed."""
    folder, name = os.path.split(typed)
    with suppress(OSError):
        files = sorted(
            path
            for path in Path(folder or ".").iterdir()
            if path.name.startswith(name) and _is_shown(path)
        )
        if files:
            yield Offer(Text("Files", "bold"))
        named = {os.path.join(folder, path.name): path for path in files[:MOST]}
        captures = [where for where, path in named.items() if not path.is_dir()]
        lines = dict(_described(captures, width))
        for where, path in named.items():
            if where in lines:
                yield Offer(lines[where], Opening([where]))
            else:
                yield Offer(Text(f" {escape(path.name)}/", no_wrap=True), f"{where}/")


def _is_shown(path: Path) -> bool:
    """Whether it is a folder or a capture; hidden ones, and pipes, sockets and devices, which might
    be waited for, are not shown.
    """
    with suppress(OSError):
        return not path.name.startswith(".") and (
            path.is_dir() or (path.is_file() and is_capture(str(path)))
        )
    return False


def _described(paths: Sequence[str], width: int) -> Iterator[tuple[str, Text]]:
    """Yields each path with a line about the capture: name, size, age and folder in columns. A
    folder that does not fit keeps its end.
    """
    names = [escape(os.path.basename(path)) for path in paths]
    wide = min(width // 2, max(map(cells, names), default=0))
    home = os.path.expanduser("~")
    for path, name in zip(paths, names, strict=True):
        folder, about = os.path.dirname(path), ""
        with suppress(OSError):
            status = os.stat(path)
            age = _age(time.time() - status.st_mtime)
            about = f"{decimal(status.st_size):>8}  {age:<14}"
        if folder == home or folder.startswith(f"{home}{os.sep}"):
            folder = f"~{folder[len(home) :]}"
        folder, begin = escape(folder), f" {name}{' ' * (wide - cells(name))}  {about}  "
        width_left = max(1, width - cells(begin))
        if cells(folder) > width_left:
            folder = f"…{folder[len(folder) - width_left + 1 :]}"
        line = Text.assemble(begin, (folder, "dim"), no_wrap=True, overflow="ellipsis")
        line.stylize("bold", 0, 1 + len(name))
        yield path, line


def _age(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} old"
    return "new"


class StartApp(ThemedApp):
    """Asks what to open and returns it; None to leave."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, *, message: str = "", **options: Any) -> None:
        """Makes the application. ``message``: why an earlier choice could not be opened.
        ``options``: those of ``ThemedApp``.
        """
        super().__init__(**options)
        self._why = message

    def on_mount(self) -> None:
        """Shows the screen that opens captures, which is the only one."""
        self.push_screen(OpenScreen(self.memory.captures.texts[::-1], message=self._why), self.exit)
