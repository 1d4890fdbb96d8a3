"""The application of the terminal UI: views, keys, and the work in the background."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from dcpinspect.arrays import give_back
from dcpinspect.errors import DcpInspectError
from dcpinspect.tables.color_rules import ColorRules
from dcpinspect.tables.filter_tree import FilterSource
from dcpinspect.text import clip, counted, escape, wrap
from dcpinspect.tui import frame
from dcpinspect.tui.base_app import TYPING, Opening, ThemedApp
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.key_bindings import KEYS, commands
from dcpinspect.tui.navigation import Navigation
from dcpinspect.tui.notes import Notes
from dcpinspect.tui.place_syntax import FORMS
from dcpinspect.tui.results import Results
from dcpinspect.tui.task import GoesOn, Task

if TYPE_CHECKING:
    from dcpinspect.tui.export_choices import Choice
    from dcpinspect.tui.packets_view import PacketsView

BEAT = 0.1
"""Seconds between two checks whether reading has brought anything new."""


class InspectApp(ThemedApp):
    """The terminal UI of one inspection."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 - Textual's way
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-short"), (30, "-tall")]  # noqa: RUF012
    BINDINGS = [  # noqa: RUF012
        Binding(key.keys, key.action, key.text, show=False)
        for key in KEYS
        if not key.action.startswith("app.")
    ]

    def __init__(
        self,
        inspection: Inspection,
        *,
        saved: Mapping[str, FilterSource] | None = None,
        colors: ColorRules | None = None,
        filter_text: str = "",
        can_read_again: bool = True,
        **options: Any,
    ) -> None:
        """Makes the application. ``saved``: the user's filters by name, added to the built-in ones.
        ``colors``: the user's own rules. ``can_read_again``: whether the capture is in complete
        files. ``options``: those of ``ThemedApp``.
        """
        super().__init__(**options)
        self.inspection = inspection
        self._can_read_again = can_read_again
        if self.memory.notes is not None:
            inspection.notes = Notes.beside(inspection.files, self.memory.notes)
        self._first_filter = filter_text
        self._saved, self._colors = dict(saved or {}), colors
        self.navigation = Navigation(
            inspection, self._new_packets, self.show_status, self.draw_frame
        )
        self._exporting = Task(self.navigation)
        self._export_path = ""
        self._tabs, self._progress, self._keys = (
            frame.Line(id="tabs"),
            frame.Line(id="progress"),
            frame.Line(id="keys"),
        )
        self._loader = threading.Thread(target=inspection.load, name="load", daemon=True)
        self._shown_rows = 0
        self._shown_results: Results | None = None
        self._shown: tuple[object, ...] = ()
        """What the screen was drawn of, in brief."""
        self._has_freed_memory = False
        self._said = ""
        self._notices = 0

    def _new_packets(self) -> PacketsView:
        from dcpinspect.tui.filter_bar import FilterBar
        from dcpinspect.tui.filter_completion import frequent_values
        from dcpinspect.tui.packets_view import PacketsView

        inspection = self.inspection
        frequent = partial(frequent_values, inspection.store)
        bar = FilterBar(self._saved, self.memory.filters, frequent)
        view = PacketsView(self.navigation, bar)
        view.list.color_rules = self._colors
        return view

    @property
    def packets(self) -> PacketsView:
        """The view of packets."""
        return self.navigation.packets

    def compose(self) -> ComposeResult:
        """Yields the lines around the views, and the views."""
        yield self._tabs
        yield self.navigation
        yield self._progress
        yield self._keys

    def on_mount(self) -> None:
        """Starts reading, and the workers and timers."""
        self.call_after_refresh(self._begin)
        self.set_interval(BEAT, self.beat)
        self.draw_frame()

    def _begin(self) -> None:
        """Shows the first view: the overview, unless messages were asked for or come live. Starts
        reading after the first screen is drawn, because reading takes processor time from drawing.
        """
        if self._first_filter:
            self.navigation.switch("packets", lambda: self.packets.bar.apply(self._first_filter))
        else:
            self.navigation.switch("packets" if self.inspection.is_live else "overview")
        self._loader.start()

    async def can_type(self) -> None:
        """Waits until there is a view, which takes keys."""
        await self.navigation.has_view.wait()

    def exit(self, *arguments: Any, **options: Any) -> None:
        """Ends the application as Textual does, and also stops the work in the background."""
        if self._exporting.stop():
            self.cut_export = self._export_path
        self._stop_search()
        super().exit(*arguments, **options)

    def _stop_search(self) -> None:
        if self.navigation.has("packets"):
            self.packets.search.stop()

    def close(self) -> None:
        """Stops reading and waits for its threads. Call it after the application has ended."""
        self._stop_search()
        self.inspection.stop()
        if self._loader.ident is not None:  # it was started
            self._loader.join()
        self.inspection.close()

    # -- what is read

    @property
    def is_up_to_date(self) -> bool:
        """Whether the screen shows all that was read and worked out."""
        return self._shown == self._news

    @property
    def _news(self) -> tuple[object, ...]:
        """All that the screen depends on; only what the user does changes it, too."""
        inspection = self.inspection
        return (
            inspection.store.rows,
            id(inspection.results),
            inspection.state,
            len(inspection.notices),
            self.navigation.has_view.is_set(),
        )

    @property
    def is_at_rest(self) -> bool:
        """Whether no work in the background will change the screen any more."""
        is_idle = self.type_ahead.is_empty and not (
            self.navigation.has("packets") and self.packets.is_waiting
        )
        return (
            self.is_up_to_date
            and self.navigation.is_at_rest
            and is_idle
            # workers that wait for keys never end by themselves
            and all(worker.is_finished for worker in self.workers if worker.group != TYPING)
        )

    def is_shown(self) -> bool:
        """Whether the view that was asked for is there, with the first rows of a file."""
        inspection = self.inspection
        has_rows = self._shown_rows or inspection.is_live
        is_empty = inspection.state != "reading" and not inspection.store.rows
        # keys move in what is laid out, if there is a line for it
        is_laid_out = self.size.height < 4 or self.navigation.view.size.height > 0
        return self.navigation.is_at_rest and is_laid_out and bool(has_rows or is_empty)

    def beat(self) -> None:
        """Shows what reading has brought since the last call."""
        inspection, news = self.inspection, self._news
        if inspection.state != "reading" and news == self._shown:
            if not self._has_freed_memory:
                self._has_freed_memory = True
                gc.collect()  # only here is the last reference to the older results gone
                give_back()
            return
        self._shown = news
        rows = self.inspection.store.rows
        if rows != self._shown_rows:
            self._shown_rows = rows
            if self.navigation.has("packets"):
                self.packets.filtering.catch_up()
        if self._shown_results is not self.inspection.results:
            self._shown_results = self.inspection.results
            self.navigation.take_up()
        if len(self.inspection.notices) > self._notices:
            self._notices = len(self.inspection.notices)
            self.show_status(self.inspection.notices[-1])
        self.draw_frame()

    # -- the lines around the view

    @property
    def view(self) -> str:
        """Name of the view that is shown."""
        return self.navigation.current or "overview"

    def draw_frame(self) -> None:
        """Draws the tabs, the progress line and the line of keys."""
        self._tabs.update(frame.tabs(self.inspection, self.view, self.glyphs, self.size.width))
        self._draw_keys()
        self._draw_progress()

    def on_resize(self) -> None:
        """Fits the lines to the new width, once it is known."""
        self.call_later(self.draw_frame)

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _draw_keys(self) -> None:
        """Draws the line of keys: while the filter has the focus, its keys."""
        is_typing = self.navigation.has("packets") and self.packets.bar.is_typing
        name = frame.capture_name(self.inspection)
        self._keys.update(frame.keys(self.view, self.size.width, name, is_typing=is_typing))

    def _draw_progress(self) -> None:
        is_following = self.navigation.has("packets") and self.packets.list.follow
        text = self._said or frame.progress(self.inspection, is_following=is_following)
        self._progress.set_class(bool(text), "on")
        width = max(1, self.size.width - 1)
        # what changes while it is read keeps to one line; what is said in the end is whole
        is_last = self.inspection.state != "reading" and not self._said
        lines = wrap(text, width, " ") if is_last else [clip(text, width)]
        self._progress.styles.height = max(1, len(lines))
        self._progress.update(Text("\n".join(lines)))

    def show_status(self, text: str) -> None:
        """Shows a short text in the line above the keys, until the next key."""
        self._said = f" {text}" if text else ""
        self._draw_progress()

    def on_key(self) -> None:
        """Removes the short text of ``show_status``: a new key makes it outdated."""
        if self._said:
            self.show_status("")

    # -- keys and clicks

    async def run_action(
        self, action: Any, default_namespace: DOMNode | None = None, *arguments: Any, **options: Any
    ) -> bool:
        """Runs an action as Textual does, but on the shown view if that has the action, else on the
        holder of the views if it has. Says so if none has it.

        Shows the error if a changed capture makes it fail.
        """
        if default_namespace in (None, self) and isinstance(action, str) and "." not in action:
            method = f"action_{action.partition('(')[0]}"
            holders = (self.navigation.view, self.navigation, self)
            default_namespace = next(
                (holder for holder in holders if hasattr(holder, method)), None
            )
            if default_namespace is None:
                self.show_status("this key does nothing here; ? lists those of this view")
                return False
        try:
            return await super().run_action(action, default_namespace, *arguments, **options)
        except DcpInspectError as error:
            self.show_status(str(error))
        except KeyError:  # Textual pages in the list of the palette before that has lines
            if not str(action).startswith("command_list"):
                raise
        return False

    def action_press(self, key: str) -> None:
        """Acts as if the key was pressed."""
        self.type_ahead.add(events.Key(key, None))

    def action_open(self) -> None:
        """Opens what is under the cursor of the focused pane."""
        self.action_pane("open")

    def action_pane(self, what: str, *arguments: int) -> None:
        """Calls the focused pane's own version of an action, if it has one; else it scrolls."""
        action, pane = getattr(self.focused, f"action_{what}", None), self.focused
        if action is not None:
            action(*arguments)
        elif what in ("step", "page") and pane is not None:
            lines = arguments[0] * (max(1, pane.size.height - 1) if what == "page" else 1)
            pane.scroll_relative(y=lines, animate=False, immediate=True)
        elif what in ("first", "last") and pane is not None:
            scroll = pane.scroll_home if what == "first" else pane.scroll_end
            scroll(animate=False, immediate=True)

    def action_leave(self) -> None:
        """Does what applies first: stops an export or search, leaves the filter, stops reading."""
        if self._exporting.stop():
            self.show_status("stopped: nothing was written")
        elif self.navigation.view.stop() or (self.packets.bar.is_typing and self.packets.leave()):
            pass
        elif self.inspection.state == "reading":
            self.inspection.stop()
            self.show_status("stopping")
        elif not self.navigation.view.leave():
            self.navigation.choose(None)

    def action_go(self) -> None:
        """Asks for a place, and goes there."""
        from dcpinspect.tui.dialogs import Prompt

        self.push_screen(
            Prompt("go to", hint=FORMS),
            lambda text: self.navigation.go_to(text) if text and text.strip() else None,
        )

    def action_connections(self) -> None:
        """Lists all connections, so that the user can choose one to show alone, or all."""
        from dcpinspect.tui.connection_list import talks
        from dcpinspect.tui.dialogs import ConnectionDialog

        dialog = ConnectionDialog(
            talks(self.inspection.everything), self.inspection.connection or 0
        )
        self.push_screen(
            dialog,
            lambda number: None if number is None else self.navigation.choose(number or None),
        )

    def action_export(self) -> None:
        """Asks what to export (what is under the cursor, marked, shown, or all), and to where."""
        from dcpinspect.tui.dialogs import ExportDialog
        from dcpinspect.tui.export_choices import messages, report

        index, store = self.packets.list.index, self.inspection.store
        marks = np.array(self.inspection.notes.rows, np.int64)
        shown_rows = index.rows(0, len(index) if index.is_filtered else 0)
        first, end = store.first_row, store.rows + 1
        choices = [*self.navigation.view.exports()]
        for count, words, rows in (
            (len(marks), f"the {counted(len(marks), 'marked message')}", lambda: marks),
            (
                len(shown_rows),
                f"the {len(shown_rows):,} messages that the filter shows",
                lambda: shown_rows,
            ),
            (end - first, f"all {end - first:,} messages", partial(np.arange, first, end)),
        ):
            if count:
                choices.append(messages(words, self.inspection, rows))
        if end > first:
            choices.append(report(self.inspection))
        if choices:
            self.push_screen(ExportDialog(choices, self.export))
        else:
            self.show_status("there is nothing to export")

    def export(self, path: str, choice: Choice) -> None:
        """Starts writing the choice to a file; shows its progress, and leaves no file where it is
        stopped. Raises UsageError if the file cannot be used.
        """
        from dcpinspect.tui.export_choices import refuse

        path = os.path.expanduser(path.strip())
        refuse(path, choice.names, self.inspection)

        def write(goes_on: GoesOn) -> str:
            def report_share(share: float) -> None:
                if not goes_on(share):
                    raise InterruptedError

            written = choice.write(path, report_share)
            if not goes_on(1):
                os.unlink(path)
                raise InterruptedError
            return f"{written} are in {escape(path)}"

        show = self.show_status
        self._export_path = path
        self._exporting.begin(
            write, show, say=lambda words: show(f"exporting {words} · {escape(path)}")
        )

    async def action_quit(self) -> None:
        """Quits the program."""
        self._leave()

    def action_help(self) -> None:
        """Shows the help: keys and glyphs."""
        from dcpinspect.tui.dialogs import Help

        glyphs = self.glyphs
        signs = (
            f"{glyphs.error} error  {glyphs.warning} warning  {glyphs.note} note  "
            f"{glyphs.mark} marked  {glyphs.remark} with a remark  {glyphs.link} Enter follows\n"
            f"{glyphs.effect} explained by another finding"
        )
        legend = "\n".join(filter(None, [signs, *self.navigation.view.legend()]))
        self.push_screen(Help(self.view, legend))

    def get_system_commands(self, screen: Screen[Any]) -> Iterator[SystemCommand]:
        """Yields the entries of the palette, each with its key."""
        del screen
        yield from commands(partial(self.call_later, self.do))

    async def do(self, action: str, views: Sequence[str]) -> None:
        """Runs an action of the palette, in one of the views that it belongs to."""
        if self.view not in views:
            self.navigation.action_view(views[0])
        await self.run_action(action)

    def action_another(self) -> None:
        """Lets the user open another capture in place of this one. Asks first if messages would be
        lost that are in no file.
        """
        from dcpinspect.tui.opening import OpenScreen

        screen = OpenScreen(self.memory.captures.texts[::-1])
        self.push_screen(
            screen, lambda opening: self._leave(opening) if opening is not None else None
        )

    def action_keylog(self) -> None:
        """Asks for a key log, and reads the capture again with its TLS secrets."""
        from dcpinspect.tui.dialogs import Prompt

        if not self._can_read_again:
            self.show_status("what comes only once cannot be read again; start with --keylog FILE")
            return
        self.push_screen(
            Prompt(
                "read the capture again, with the TLS secrets of this key log",
                hint="path of the key log",
            ),
            self._unlock,
        )

    def _unlock(self, name: str | None) -> None:
        path = os.path.expanduser(name or "")
        if os.path.isfile(path):
            self._leave(Opening(self.inspection.files, keylog=path))
        elif path:
            self.show_status(f"{escape(path)}: there is no such file")

    def _leave(self, opening: Opening | None = None) -> None:
        """Ends with what to open next; asks first if messages would be lost."""
        from dcpinspect.tui.dialogs import Leaving

        if self.inspection.is_saved or not self.inspection.store.rows:
            self.exit(opening)
        elif not isinstance(self.screen, Leaving):
            messages = counted(self.inspection.store.rows, "message")
            self.push_screen(
                Leaving(f"{messages} in no file will be lost when you leave"),
                lambda answer: self.exit(opening) if answer else None,
            )

    def action_theme(self, name: str) -> None:
        """Changes the theme, and remembers it for the next start."""
        self.theme = name
        self.memory.themes.add(name)
