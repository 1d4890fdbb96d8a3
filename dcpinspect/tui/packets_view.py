"""The first view: the list of messages, and the fields and bytes of one message."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text
from textual import on
from textual.containers import Container, Vertical
from textual.timer import Timer

from dcpinspect.errors import DcpInspectError
from dcpinspect.output.render.field_table import message_title
from dcpinspect.output.render.message_lines import TimeFormat
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.text import cells, clip, escape
from dcpinspect.tui.copying import FORMS, conversation, copied
from dcpinspect.tui.dialogs import Prompt
from dcpinspect.tui.field_links import WORDS, Link, links_of, target
from dcpinspect.tui.field_tree import FieldTree
from dcpinspect.tui.filter_bar import FilterBar, condition_for_value
from dcpinspect.tui.filtering import Filtering
from dcpinspect.tui.frame import Line
from dcpinspect.tui.line_view import visible_width
from dcpinspect.tui.message_panes import MessagePanes
from dcpinspect.tui.packet_list import PacketList
from dcpinspect.tui.row_search import Search
from dcpinspect.tui.task import Task
from dcpinspect.tui.view import Spot, View

if TYPE_CHECKING:
    from dcpinspect.tui.export_choices import Choice
    from dcpinspect.tui.navigation import Navigation

REST = 0.04
"""Seconds that the cursor rests on a row before its fields are shown."""
ALONE = ("only-list", "only-fields", "only-bytes")
"""Classes of the view while one pane fills it."""
TIMES: Mapping[TimeFormat, str] = {
    "relative": "since the first packet",
    "delta": "since the row before that is shown",
    "day": "of day, UTC",
    "request": "of a response, since its request",
}
"""Forms of the time column, and their names."""
LARGE = 1 << 18
"""Size in bytes from which the fields of a message are decoded in the background."""
FOLLOWED = 0.5
"""Least number of seconds between two decoded messages while the cursor follows new messages."""


class PacketsView(View):
    """The list above, fields and bytes below or beside it."""

    def __init__(self, host: Navigation, bar: FilterBar) -> None:
        self._inspection = host.inspection
        self.bar = bar
        self.list = PacketList(self._inspection, id="packet-list")
        self.panes = MessagePanes(self._inspection)
        self.fields, self.bytes = self.panes.fields, self.panes.bytes
        self._heading, beside = Line(id="list-heading"), Line(id="list-divider")
        upper = Vertical(self._heading, self.list, id="upper")
        self.split = Container(upper, beside, self.panes, id="split")
        super().__init__(host, "packets", bar, bar.completions, bar.pointer, self.split)
        self.filtering = Filtering(self.list, bar, host)
        self.search = Search(self.list, host)
        self._reading, self._link = Task(host), Task(host)
        self._talk = self._before = ""
        """The filter of the last conversation that was followed, and the filter before it."""
        self.is_visited = False
        """Whether the user came from another view to type a filter."""
        self._rest: Timer | None = None
        self._fields_shown_at = 0.0
        self.wanted_fields: Sequence[str] = ()
        """Names of fields, and rules, which stand for the fields that break them; the next message
        that is shown has the cursor on the first of them that it has.
        """

    @property
    def keyboard(self) -> PacketList:
        """The list, which gets the focus."""
        return self.list

    def take_up(self) -> None:
        """Shows new findings."""
        self.list.refresh()
        self.panes.show_finding(self.list.row)

    def fit(self) -> None:
        """Fits the heading and the panes to the width."""
        self.panes.fit(is_beside=self.split.has_class("beside"))
        self.head()

    def head(self) -> None:
        """Draws the heading, and the number of rows."""
        total = self._inspection.store.rows
        row_count = len(self.list.index)
        position = (
            f"{self.list.index.place_of(self.list.row) + 1:,} of "
            if self.list.row and row_count
            else ""
        )
        count = f"{position}{row_count:,}" + (f" ({total:,})" if row_count != total else "")
        width = visible_width(self.list)
        if cells(self.list.heading) > width - len(count) - 2:
            count = ""  # the names of columns are more important than the count
        heading = clip(self.list.heading, max(0, width - len(count) - 2 * bool(count)))
        self._heading.update(Text(f"{heading:<{max(0, width - len(count) - 1)}}{count}"))

    # -- the message under the cursor

    @on(PacketList.Moved)
    def _moved(self) -> None:
        if self._rest is not None:
            self._rest.stop()
        due = self._fields_shown_at + FOLLOWED - time.monotonic() if self.list.follow else 0
        self._rest = self.set_timer(max(REST, due), self.take_apart)
        self.head()

    @property
    def is_waiting(self) -> bool:
        """Whether the fields of the row under the cursor are not shown yet."""
        return self._rest is not None

    def take_apart(self) -> None:
        """Shows fields and bytes of the row under the cursor; large ones are decoded behind."""
        self._rest, self._fields_shown_at = None, time.monotonic()
        row = self.list.row
        try:
            batch = self._inspection.store.messages([row])
            if int(batch.length[0]) > LARGE:
                self.panes.show(
                    row, None, {}, f"{int(batch.length[0]):,} bytes, being read … · row {row}"
                )
                show = partial(self._show_read, row, batch)
                self._reading.begin(lambda _: batch.annotate(0), show)
            else:
                self._show_read(row, batch, batch.annotate(0))
        except (DcpInspectError, IndexError, OSError) as error:
            self.panes.show(row, None, {}, str(error))

    def _show_read(self, row: int, batch: MessageBatch, message: Message) -> None:
        if row != self.list.row:
            return
        title = (
            f"{message_title(message)} · {message.size:,} bytes · row {row} · frame "
            f"{int(batch.last_frame[0])}"
        )
        self.panes.show(row, message, links_of(batch), title)
        faulty = [
            problem.field.rpartition(".")[2]
            for problem in message.problems
            if problem.rule in self.wanted_fields
        ]
        any(self.fields.select_named(name) for name in (*faulty, *self.wanted_fields))
        self.wanted_fields = ()

    def redraw_row(self, row: int) -> None:
        """Shows findings and note of a message again, because they may have changed."""
        if row == self.list.row:
            self.panes.show_finding(row)

    @on(PacketList.Opened)
    def _open_place(self) -> None:
        self._show_all()
        self.fields.focus()

    @property
    def field(self) -> FieldValue | None:
        """The field under the cursor; for an inner line, the field that it is part of."""
        return self.fields.entry.field if self.fields.entry is not None else None

    # -- where the user is

    def spot(self) -> Spot:
        """Returns row, field, filter and scroll position."""
        return Spot(
            "packets",
            self.list.row,
            self.fields.path,
            self.filtering.text,
            int(self.list.scroll_offset.y),
        )

    def restore(self, spot: Spot) -> None:
        """Restores what ``spot`` has saved."""
        if spot.filter != self.filtering.text:
            self.bar.apply(spot.filter)
        self.fields.path = spot.field
        self.list.scroll_to(y=spot.top, animate=False, immediate=True, force=True)
        if spot.row:
            self.list.jump_to(spot.row)
        self._to_list()

    def show_row(self, row: int, *fields: str) -> None:
        """Moves to a row, and to the first of ``fields`` that it has."""
        self.wanted_fields = fields
        if row == self.list.row:
            self.take_apart()
        self.list.jump_to(row)
        if not self.fields.has_focus:
            self._to_list()

    def stop(self) -> bool:
        """Stops a search, or a filter that has no rows yet. Returns whether there was one."""
        if self.filtering.stop():
            return True
        is_stopped = self.search.stop()
        if is_stopped:
            self.host.show_status("the search was stopped")
        return is_stopped

    def leave(self) -> bool:
        """Leaves the focused part, or clears the filter. Returns whether there was any."""
        is_inside = self.bar.is_typing or self.fields.has_focus or self.bytes.has_focus
        if self.bar.is_typing:
            self.bar.reset(self.filtering.text)
            if self.is_visited:
                self.host.action_return()
                return True
        elif self._show_all():
            return True
        if is_inside:
            self._to_list()
        elif self.filtering.text:
            self.bar.apply("")
        else:
            return False
        return True

    @property
    def vbucket_here(self) -> int | None:
        """Number of the vbucket of the message under the cursor."""
        return (
            self._inspection.store.messages([self.list.row]).vbucket_of(0)
            if self.list.row
            else None
        )

    @property
    def row_here(self) -> int:
        """Row of the message under the cursor."""
        return self.list.row

    # -- filter and search

    @on(FilterBar.Changed)
    def _filter_changed(self, event: FilterBar.Changed) -> None:
        self.filtering.set(event.text, event.filter)
        self._to_list()

    @on(PacketList.Changed)
    def _rows_changed(self) -> None:
        self.head()
        self.filtering.release()

    def action_by_this(self, how: str = "") -> None:
        """Filters by the field under the cursor."""
        field, name = self.field, self._column
        condition = condition_for_value(name, field.value) if field is not None else None
        if condition is None:
            self.host.show_status("a filter cannot use this field")
            return
        if how == "not":
            condition = f"not {condition}"
        self.bar.apply(
            f"({self.filtering.text}) and {condition}" if how and self.filtering.text else condition
        )

    @property
    def _column(self) -> str:
        """Column of the messages table with the field under the cursor; empty if there is none."""
        name = self.field.name if self.field is not None else ""
        name = {"logical_key": "key"}.get(name, name)
        return name if name in BY_NAME else ""

    def action_column(self) -> None:
        """Adds the field under the cursor as a column of the list, or removes that column."""
        if self._column:
            self.list.toggle_column(self._column)
            self.head()
            self.take_apart()
            self.host.show_status(
                f"{self._column} is "
                f"{'a column now' if self._column in self.list.columns else 'column removed'}"
            )
        else:
            self.host.show_status("this field cannot be a column")

    def action_time(self) -> None:
        """Shows the next form of the time column."""
        forms = list(TIMES)
        self.list.time_form = forms[(forms.index(self.list.time_form) + 1) % len(forms)]
        self.list.remake()
        self.host.show_status(f"time: {TIMES[self.list.time_form]}")

    def action_find(self) -> None:
        """Asks for a text, and searches for it."""
        prompt = Prompt("find text, /regex/ or x:hex in the rows that are shown", self.search.text)
        self.app.push_screen(prompt, lambda text: self.search.begin(text) if text else None)

    def action_find_next(self, back: bool = False) -> None:
        """Moves to the next row with the searched text, or to the one before."""
        if self.search.text:
            self.search.begin(self.search.text, back=back)
        else:
            self.action_find()

    # -- ways from a message

    @on(FieldTree.Followed)
    def _followed(self, event: FieldTree.Followed) -> None:
        self.host.show_status(f"looking for {WORDS[event.link]}")
        self._link.begin(
            lambda _: target(self._inspection.store, self.list.row, event.link),
            partial(self._arrived, event.link),
        )

    def _arrived(self, link: Link, row: int | None) -> None:
        self.host.show_status("" if row is not None else f"{WORDS[link]} is not in this capture")
        if row is not None:
            self.host.to_row(row)

    def exports(self) -> Sequence[Choice]:
        """Returns no choice besides messages that are shown or marked, or all."""
        return ()

    def action_near(self, steps: int) -> None:
        """Moves to the next message, or to the one before; works from any pane."""
        self.list.action_step(steps)

    def action_finding(self) -> None:
        """Goes to the worst finding about the message."""
        numbers = self._inspection.results.marked.finding_numbers(self.list.row)
        if numbers:
            self.host.to_finding(numbers[0], numbers, row=self.list.row)
        else:
            self.host.show_status("no finding here; n goes to the next error or warning")

    # -- how it looks, and out of it

    def action_display(self) -> None:
        """Switches between fields and bytes, where only one of them fits."""
        if self.screen.has_class("-narrow"):
            self.panes.details.toggle_class("bytes")
        else:
            self.host.show_status("fields and bytes are both shown")

    def action_maximize(self) -> None:
        """Lets the focused pane fill the view, or shows all panes again."""
        if not self._show_all():
            self.add_class(
                "only-fields"
                if self.fields.has_focus
                else "only-bytes"
                if self.bytes.has_focus
                else "only-list"
            )

    def _show_all(self) -> bool:
        """Shows all panes again. Returns whether one filled the view."""
        was_alone = any(map(self.has_class, ALONE))
        self.remove_class(*ALONE)
        if was_alone:
            self.call_after_refresh(self.fit)  # panes that were hidden had no size
        return was_alone

    def _to_list(self) -> None:
        """Gives the focus to the list, and shows the list if another pane fills the view."""
        if not self.has_class("only-list"):
            self._show_all()
        self.list.focus()

    def action_layout(self) -> None:
        """Puts the panes side by side, or one below the other."""
        self.split.toggle_class("beside")
        self.call_after_refresh(self.fit)

    def action_note(self) -> None:
        """Asks for a note on the row."""
        if self.list.row:
            self.host.note(self.list.row)

    def action_copy_as(self, form: str = "") -> None:
        """Copies the message in a form; asks for the form if none is given."""
        row = self.list.row
        if row and not form:
            choices = [(words, partial(self.action_copy_as, name)) for name, words in FORMS.items()]
            self.app.search_commands(choices, f"copy row {row} as")
        elif row:
            self.host.copy(copied(form, self._inspection.store.messages([row])))

    def action_follow(self) -> None:
        """Shows only the conversation of the message, or all messages again."""
        if self._talk and self.filtering.text == self._talk:
            self.bar.apply(self._before)
        elif self.list.row:
            self._before = self.filtering.text
            self._talk = conversation(self._inspection.store.messages([self.list.row]))
            self.bar.apply(self._talk)

    def action_copy(self) -> None:
        """Copies the value, its bytes or the line of the message, as the focused pane shows."""
        field = self.field
        entry = self.fields.entry
        if self.fields.has_focus and entry is not None and entry.source is not None:
            self.host.copy(entry.source())
        elif self.fields.has_focus and field is not None:
            is_text = field.value is not None and not isinstance(field.value, bytes)
            self.host.copy(escape(str(field.value)) if is_text else field.raw.hex())
        elif self.bytes.has_focus and field is not None and not field.hidden:
            self.host.copy(field.raw.hex())
        elif self.list.row:
            self.host.copy(self.list.text_of(self.list.row).strip())
