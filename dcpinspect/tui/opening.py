"""The screen that opens a capture: recent captures, files, and interfaces with their current traffic."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import DirectoryTree, Input, OptionList, Static
from textual.widgets.directory_tree import DirEntry
from textual.widgets.tree import TreeNode

from dcpinspect.capture.folders import is_capture
from dcpinspect.escape import cells, escape
from dcpinspect.records import dataclass
from dcpinspect.transport.connections import DEFAULT_PORTS
from dcpinspect.tui.theme import Glyphs

LOOK_S = 1.0
"""Seconds for which packets of interfaces are counted."""
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class Opening:
    """What to open."""

    captures: Sequence[str] = ()
    """Files, or directories of files."""
    interface: str = ""
    """Name of an interface, in place of files."""
    keylog: str = ""
    """Path of a key log with TLS secrets for the files."""


class CaptureTree(DirectoryTree):
    """Folders, and the captures in them."""

    BINDINGS: ClassVar[list[Any]] = [Binding("backspace,left", "up", "Folder above"), Binding("right", "select_cursor", "Open")]

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        """Returns folders and captures only, without hidden ones, and without pipes, sockets and devices, which might be waited for."""
        shown = (path for path in paths if not path.name.startswith("."))
        return [path for path in shown if _is_folder(path) or (os.path.isfile(path) and is_capture(str(path)))]

    def __init__(self, path: Path, glyphs: Glyphs) -> None:
        super().__init__(path, id="open-tree")
        self._glyphs = glyphs

    def render_label(self, node: TreeNode[DirEntry], base_style: Style, style: Style) -> Text:
        """Returns a label that is safe for a terminal."""
        glyph = " " if not node.allow_expand else self._glyphs.open if node.is_expanded else self._glyphs.folded
        cursor = self._glyphs.cursor if node is self.cursor_node else " "
        return Text.assemble((f"{cursor}{glyph} ", base_style), (escape(str(node.label)), style))

    def action_up(self) -> None:
        """Shows the folder above."""
        self.path = Path(self.path).resolve().parent


class OfferedList(OptionList):
    """A list in which the chosen line has a sign, not only a colour."""

    def __init__(self, glyphs: Glyphs, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, compact=True)
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """Draws a line as Textual does, and adds the sign; an option is one line."""
        line = super().render_line(y)
        if self.scroll_offset.y + y != self.highlighted:
            return line
        style = next((segment.style for segment in line), None)
        return Strip.join([Strip([Segment(self._glyphs.cursor, style)]), line.crop(1)])


class OpenScreen(ModalScreen[Opening | None]):
    """Asks what to open next; Esc returns None."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape,ctrl+o", "dismiss(None)", "Leave"),
        Binding("j", "down"),
        Binding("k", "up"),
        Binding("q", "quit"),
    ]

    def __init__(self, recent: Sequence[str], glyphs: Glyphs, *, said: str = "") -> None:
        """Makes the screen. ``recent``: paths, the newest first. ``said``: why an earlier choice could not be opened."""
        super().__init__()
        self._recent = [one for one in recent if os.path.exists(one)]
        self._interfaces: list[str] = []
        self._has_no_right = False
        self._said = said
        self._ending = threading.Event()
        self._path = Input(placeholder="path of a capture, or of a directory of captures", compact=True, id="open-path")
        self._recent_list = OfferedList(glyphs, "open-recent")
        self._recent_list.add_options(_described(one, 0) for one in self._recent)
        self._interface_list = OfferedList(glyphs, "open-interfaces")
        self._tree = CaptureTree(Path.cwd(), glyphs)
        self._word = Static(Text(said), id="open-said")
        self._permission = Static(Text("looking for interfaces"), classes="open-note")

    def compose(self) -> ComposeResult:
        """Yields the widgets of the screen."""
        with Vertical(id="open-box"):
            yield Static(Text("dcpinspect: open a capture"), classes="open-title")
            yield self._path
            with Horizontal(id="open-panes"):
                with Vertical(id="open-left"):
                    yield Static(Text("Recent captures"), classes="open-heading")
                    if self._recent:
                        yield self._recent_list
                    else:
                        yield Static(Text("none so far"), classes="open-note")
                    yield Static(Text("Live interfaces"), classes="open-heading")
                    yield self._permission
                    yield self._interface_list
                with Vertical(id="open-right"):
                    yield Static(Text("Files"), classes="open-heading")
                    yield self._tree
            yield self._word
            yield Static(Text("Enter opens   Tab next pane   Backspace folder above   Esc leaves"), classes="open-note")

    def on_mount(self) -> None:
        """Gives the focus to the most likely list, and starts to watch the interfaces."""
        self._recent_list.highlighted = 0 if self._recent else None
        (self._recent_list if self._recent else self._tree).focus()
        self._word.set_class(bool(self._said), "error")
        threading.Thread(target=self._watch, name="rates", daemon=True).start()  # a daemon, because nobody waits for its end

    def on_resize(self) -> None:
        """Fits the descriptions to the new width."""
        self.call_after_refresh(self._describe)

    def _describe(self) -> None:
        for place, path in enumerate(self._recent):
            described = _described(path, self._recent_list.scrollable_content_region.width)
            self._recent_list.replace_option_prompt_at_index(place, described)

    def on_unmount(self) -> None:
        """Stops watching the interfaces."""
        self._ending.set()

    def action_quit(self) -> None:
        """Leaves the screen."""
        self.dismiss(None)

    def action_down(self) -> None:
        """Moves the cursor to the next line."""
        self._step("cursor_down")

    def action_up(self) -> None:
        """Moves the cursor to the line before."""
        self._step("cursor_up")

    def _step(self, how: str) -> None:
        if isinstance(self.focused, OptionList | DirectoryTree):
            getattr(self.focused, f"action_{how}")()

    # -- what was chosen ----------------------------------------------------------------------------------

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        event.stop()
        path = os.path.expanduser(event.value.strip())
        if os.path.exists(path):
            self.dismiss(Opening([path]))
        elif path:
            self._say(f"{escape(path)}: there is no such file")

    @on(OptionList.OptionSelected, "#open-recent")
    def _recent_chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(Opening([self._recent[event.option_index]]))

    @on(OptionList.OptionSelected, "#open-interfaces")
    def _interface_chosen(self, event: OptionList.OptionSelected) -> None:
        name = self._interfaces[event.option_index]
        if self._has_no_right:  # the shown capture is not closed for an interface that cannot be opened
            self._say(f"{escape(name)}: {why_no_rates(os.geteuid())}")
        else:
            self.dismiss(Opening(interface=name))

    @on(DirectoryTree.FileSelected)
    def _file_chosen(self, event: DirectoryTree.FileSelected) -> None:
        self.dismiss(Opening([str(event.path)]))

    def _say(self, text: str) -> None:
        self._word.update(Text(text))
        self._word.add_class("error")

    # -- interfaces ---------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Lists the interfaces, and then counts their packets again and again. Runs in a thread of its own."""
        from dcpinspect.capture.interfaces import interfaces, traffic  # deferred: Scapy takes half a second

        found = [one for one in interfaces() if one.is_up]
        self._from_thread({one.name: ", ".join(one.addresses) for one in found}, None)
        while not self._ending.is_set():
            counts = traffic([one.name for one in found], sorted(DEFAULT_PORTS), LOOK_S)
            self._from_thread({one.name: ", ".join(one.addresses) for one in found}, counts)
            if not counts:
                return  # the user may not capture

    def _from_thread(self, addresses: dict[str, str], counts: dict[str, int] | None) -> None:
        if not self._ending.is_set():
            with suppress(RuntimeError):  # the application may have ended meanwhile
                self.app.call_from_thread(self._show, addresses, counts)

    def _show(self, addresses: dict[str, str], counted: dict[str, int] | None) -> None:
        """Shows the interfaces. ``counted``: packets by interface; empty: the user may not capture; None: not counted yet."""
        counts = counted or {}
        self._permission.display = counted == {}
        self._has_no_right = counted == {} and os.geteuid() != 0
        self._permission.update(Text(why_no_rates(os.geteuid())))
        lines = []
        for name, where in addresses.items():
            said = f"{counts[name] / LOOK_S:,.0f} packets/s of the ports" if name in counts else where
            lines.append(Text(f" {escape(name):<12} {said}", no_wrap=True))
        if self._interfaces != list(addresses):
            self._interfaces = list(addresses)
            self._interface_list.clear_options().add_options(lines)
            self._interface_list.highlighted = 0 if lines else None
        for place, line in enumerate(lines):
            self._interface_list.replace_option_prompt_at_index(place, line)


def why_no_rates(user: int) -> str:
    """Returns why the traffic of interfaces is unknown, and whether one can be opened all the same. ``user``: number of the user.

    Root gives up its rights after a live capture has begun. Programs that it starts have them again, so the recorder can still capture.
    """
    return "rates are not known after a live capture began; Enter opens one" if user == 0 else "no right to capture; start again with sudo"


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _described(path: str, width: int) -> Text:
    """Returns a line about a capture: name, size, age and folder. A folder that does not fit keeps its end."""
    folder, name = os.path.split(path)
    about = ""
    with suppress(OSError):
        found = os.stat(path)
        about = f"{_size(found.st_size)}, {_age(time.time() - found.st_mtime)}"
    home = os.path.expanduser("~")
    folder = f"~{folder[len(home) :]}" if folder == home or folder.startswith(f"{home}{os.sep}") else folder
    name, folder = escape(name), escape(folder)
    room = max(1, width - cells(f" {name}  {about}  "))
    folder = folder if cells(folder) <= room else f"…{folder[len(folder) - room + 1 :]}"
    return Text.assemble(" ", (name, "bold"), f"  {about}  ", (folder, "dim"), no_wrap=True, overflow="ellipsis")


def _size(count: float) -> str:
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            return f"{count:,.0f} {unit}"
        count /= 1024
    return ""


def _age(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            number = int(seconds // length)
            return f"{number:,} {unit}{'' if number == 1 else 's'} old"
    return "new"
