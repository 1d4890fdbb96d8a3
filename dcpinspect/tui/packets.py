"""The first view: the list of messages, the fields of one, its bytes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.timer import Timer

from dcpinspect.errors import DcpInspectError
from dcpinspect.escape import cells, clip, escape
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.render.field_table import message_title
from dcpinspect.render.lines import TimeFormat
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.tui.copying import FORMS, conversation, copied
from dcpinspect.tui.dialogs import Choose, Prompt
from dcpinspect.tui.divider import Divider
from dcpinspect.tui.field_tree import FieldTree
from dcpinspect.tui.filter_bar import FilterBar, by_field
from dcpinspect.tui.filtering import Filtering
from dcpinspect.tui.frame import Line
from dcpinspect.tui.jumps import Spot
from dcpinspect.tui.links import WORDS, Link, links_of, target
from dcpinspect.tui.message_panes import MessagePanes
from dcpinspect.tui.packet_list import PacketList
from dcpinspect.tui.results import Results
from dcpinspect.tui.search import Search
from dcpinspect.tui.strips import room
from dcpinspect.tui.theme import Glyphs
from dcpinspect.tui.view import Host, View

REST = 0.04
"""Seconds that the cursor rests on a row before it is taken apart."""
ALONE = ("only-list", "only-fields", "only-bytes")
"""Classes of the view while one pane is as large as it."""
TIMES: Mapping[TimeFormat, str] = {
    "relative": "since the first packet",
    "delta": "since the row before that is shown",
    "day": "of day, UTC",
    "request": "of a response, since its request",
}
"""Forms of the time column."""
LARGE = 1 << 18
"""Bytes from which a message is taken apart behind what is shown."""
COLUMNS = 64
"""Columns in which the list has everything but summaries."""
FOLLOWED = 0.5
"""Seconds between two rows that are taken apart while the cursor follows what comes."""


class PacketsView(View):
    """List above, fields and bytes below."""

    def __init__(self, host: Host, glyphs: Glyphs, bar: FilterBar) -> None:
        super().__init__(id="packets")
        self.host = host
        self._inspection = host.inspection
        self.bar = bar
        self.list = PacketList(self._inspection, glyphs, id="packet-list")
        self.filtering = Filtering(self.list, bar, host)
        self.search = Search(self.list, host)
        self.panes = MessagePanes(self._inspection, glyphs)
        self.fields, self.bytes = self.panes.fields, self.panes.bytes
        self.split, self._upper = Container(id="split"), Vertical(id="upper")
        self._heading, self._beside = Line(id="list-heading"), Divider(id="list-divider")
        self._share: float | None = None
        """The part of the room that the list has, once somebody has asked for another."""
        self._count = ""
        self._talk = self._before = ""
        """The filter of the conversation that was followed last, and the filter before it."""
        self._rest: Timer | None = None
        self._taken_apart = 0.0
        self.wanted_fields: Sequence[str] = ()
        """Names of fields, of which the first there is is selected in the next message that is shown."""

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.bar
        yield self.bar.completions
        with self.split:
            with self._upper:
                yield self._heading
                yield self.list
            yield self._beside
            yield self.panes

    def on_mount(self) -> None:
        """The keyboard begins in the list."""
        self.list.focus()

    @property
    def keyboard(self) -> PacketList:
        """The list."""
        return self.list

    def take_up(self, results: Results) -> None:
        """What was found."""
        del results
        store = self._inspection.store
        met = self._inspection.notes.meet(store.rows, lambda rows: store.take(rows, ["time_ns"]).column(0).to_pylist())
        if met:
            self.host.say(f"{met:,} messages have marks or notes from before; M shows them")
        self.list.refresh()
        self.panes.tell(self.list.row)

    def on_resize(self) -> None:
        """The heading is as wide as the list."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        self.panes.fit(is_beside=self.split.has_class("beside"))
        self.head()

    def head(self) -> None:
        """The heading, and how many rows there are."""
        total = self._inspection.store.rows
        shown = len(self.list.index)
        place = f"{self.list.index.place(self.list.row) + 1:,} of " if self.list.row and shown else ""
        self._count = f"{place}{shown:,}" + (f" ({total:,})" if shown != total else "")
        count = "" if self.list.columns else self._count  # which have names there
        width = room(self.list)
        if cells(self.list.heading) > width - len(count) - 2:
            count = ""  # rather than the names of columns
        heading = clip(self.list.heading, max(0, width - len(count) - 2))
        self._heading.update(Text(f"{heading:<{max(0, width - len(count) - 1)}}{count}"))

    # -- the message under the cursor ---------------------------------------------------------------------

    @on(PacketList.Moved)
    def _moved(self) -> None:
        if self._rest is not None:
            self._rest.stop()
        due = self._taken_apart + FOLLOWED - time.monotonic() if self.list.follow else 0
        self._rest = self.set_timer(max(REST, due), self.take_apart)
        self.head()

    @property
    def is_waiting(self) -> bool:
        """Whether the row under the cursor is still to be taken apart."""
        return self._rest is not None

    def take_apart(self) -> None:
        """Shows the fields and bytes of the row under the cursor; of a large message when they are known."""
        self._rest, self._taken_apart = None, time.monotonic()
        row = self.list.row
        try:
            batch = self._inspection.store.messages([row])
            if int(batch.length[0]) > LARGE:
                self.panes.show(row, None, {}, f"{int(batch.length[0]):,} bytes, being read … · row {row:,}")
                self._read_behind(row, batch)
            else:
                self._show_read(row, batch, batch.annotate(0))
        except (DcpInspectError, IndexError, OSError) as error:
            self.panes.show(row, None, {}, str(error))

    @work(thread=True, group="read", exclusive=True)
    def _read_behind(self, row: int, batch: MessageBatch) -> None:
        message = batch.annotate(0)
        self.host.from_thread(self._show_read, row, batch, message)

    def _show_read(self, row: int, batch: MessageBatch, message: Message) -> None:
        if row != self.list.row:
            return
        title = f"{message_title(message)} · {message.size:,} bytes · row {row:,} · frame {int(batch.last_frame[0]):,}"
        if self.list.columns:
            title += f" · {self._count}"
        if self.list.guest == row:
            title += " · outside the filter"
        self.panes.show(row, message, links_of(batch), title)
        any(self.fields.select_named(name) for name in self.wanted_fields)
        self.wanted_fields = ()

    def tell(self, row: int) -> None:
        """What is said of a message, which may be another now."""
        if row == self.list.row:
            self.panes.tell(row)

    @on(PacketList.Opened)
    def _opened(self) -> None:
        self._show_all()
        self.fields.focus()

    @property
    def field(self) -> FieldValue | None:
        """The one under the cursor of the tree."""
        return self.fields.field

    # -- where the user is --------------------------------------------------------------------------------

    def spot(self) -> Spot:
        """Row, field, filter and how far it is scrolled."""
        return Spot("packets", self.list.row, self.fields.path, self.filtering.text, int(self.list.scroll_offset.y))

    def restore(self, spot: Spot) -> None:
        """As it was."""
        if spot.filter != self.filtering.text:
            self.bar.apply(spot.filter)
        self.fields.path = spot.field
        self.list.scroll_to(y=spot.top, animate=False, immediate=True, force=True)
        if spot.row:
            self.list.jump_to(spot.row)
        self._to_list()

    def go(self, row: int, *fields: str) -> None:
        """To a row, and to the first of these fields that it has."""
        self.wanted_fields = fields
        if row == self.list.row:
            self.take_apart()
        self.list.jump_to(row)
        if not self.fields.has_focus:
            self._to_list()

    def stop(self) -> bool:
        """Ends a search, or a filter that has not shown its rows yet."""
        if self.filtering.stop():
            return True
        is_stopped = self.search.stop()
        if is_stopped:
            self.host.say(f"the search was stopped; {len(self.search):,} found by then")
        return is_stopped

    def leave(self) -> bool:
        """Out of what the keyboard is in, then out of the filter; whether there was anything to leave."""
        is_inside = self.bar.is_typing or self.fields.has_focus or self.bytes.has_focus
        if self.bar.is_typing:
            self.bar.reset(self.filtering.text)
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
        """Of the message under the cursor."""
        return self._inspection.store.messages([self.list.row]).vbucket_of(0) if self.list.row else None

    # -- filter and search --------------------------------------------------------------------------------

    @on(FilterBar.Changed)
    def _filter_changed(self, event: FilterBar.Changed) -> None:
        talks = bool(self._talk) and event.text == self._talk
        if talks != self.list.talks:
            self.list.talks = talks
            self.list.remake()
        self.filtering.set(event.text, event.filter)
        self._to_list()

    @on(PacketList.Changed)
    def _rows_changed(self) -> None:
        self.head()
        self.filtering.release()

    def action_filter(self) -> None:
        """Into the filter."""
        self.bar.input.focus()

    def action_by_this(self, how: str = "") -> None:
        """By the field under the cursor."""
        field, name = self.field, self._column
        condition = by_field(name, field.value, list(BY_NAME)) if field is not None else None
        if condition is None:
            self.host.say("a filter cannot use this field")
            return
        if how == "not":
            condition = f"not {condition}"
        self.bar.apply(f"({self.filtering.text}) and {condition}" if how and self.filtering.text else condition)

    @property
    def _column(self) -> str:
        """The column of the messages table that the field under the cursor is in; empty: none."""
        name = self.field.name if self.field is not None else ""
        name = {"logical_key": "key"}.get(name, name)
        return name if name in BY_NAME else ""

    def action_column(self) -> None:
        """The field under the cursor as a column of the list, or not any more."""
        if self._column:
            self.list.toggle_column(self._column)
            self.head()
            self.take_apart()
            self.host.say(f"{self._column} is {'a column now' if self._column in self.list.columns else 'column removed'}")
        else:
            self.host.say("this field cannot be a column")

    def action_numbers(self) -> None:
        """Commands and statuses as numbers, or by name."""
        self.list.has_names = not self.list.has_names
        self.list.remake()

    def action_time(self) -> None:
        """The next form of the time column."""
        forms = list(TIMES)
        self.list.time_form = forms[(forms.index(self.list.time_form) + 1) % len(forms)]
        self.list.remake()
        self.host.say(f"time: {TIMES[self.list.time_form]}")

    def action_resize(self, steps: int) -> None:
        """More room for the list, or for what is below or beside it."""
        self._share = min(max((self._share or 0.5) + steps / 10, 0.1), 0.9)
        self._split()

    @on(Divider.Dragged)
    def _dragged(self, event: Divider.Dragged) -> None:
        """The panes on both sides change."""
        self._share = event.share(self.split, is_across=self.split.has_class("beside"))
        self._split()

    def _split(self) -> None:
        """Lays the panes out; beside the fields, the list has room for all columns but the summary, unless somebody asked for another."""
        is_beside = self.split.has_class("beside")
        share = self._share or max(0.5, min(COLUMNS / max(self.size.width, 1), 0.55) if is_beside else 0)
        for pane, part in ((self._upper, share), (self.panes, 1 - share)):
            pane.styles.width = f"{part}fr" if is_beside else "1fr"
            pane.styles.height = "1fr" if is_beside else f"{part}fr"
        self.call_after_refresh(self._fit)

    def action_find(self) -> None:
        """Something that is typed."""
        prompt = Prompt("find text, /regex/ or x:hex in the rows that are shown", self.search.text)
        self.app.push_screen(prompt, lambda text: self.search.begin(text) if text else None)

    def action_find_next(self, back: bool = False) -> None:
        """The next one, or the one before."""
        if self.search.text:
            self.search.begin(self.search.text, back=back)
        else:
            self.action_find()

    # -- ways from a message ------------------------------------------------------------------------------

    @on(FieldTree.Followed)
    def _followed(self, event: FieldTree.Followed) -> None:
        self.host.say(f"looking for {WORDS[event.link]}")
        self._follow(self.list.row, event.link)

    @work(thread=True, group="link", exclusive=True)
    def _follow(self, row: int, link: Link) -> None:
        host = self.host
        try:
            found = target(self._inspection.store, row, link)
        except DcpInspectError as error:
            host.from_thread(host.say, str(error))
            return
        host.from_thread(host.say, "" if found is not None else f"{WORDS[link]} is not in this capture")
        if found is not None:
            host.from_thread(host.to_row, found)

    def action_near(self, steps: int) -> None:
        """The next message, from any pane."""
        self.list.step(steps)

    def action_finding(self) -> None:
        """What is found of the message."""
        numbers = self._inspection.results.marked.of(self.list.row)
        if numbers:
            self.host.to_finding(numbers[0], numbers, row=self.list.row)
        else:
            self.host.say("no finding here; n goes to the next error or warning")

    def action_vbucket(self) -> None:
        """The timeline of the message's vbucket, at the message."""
        if self.list.row:
            vbucket = self.vbucket_here
            if vbucket is None:
                self.host.say("this message is not about a vbucket")
            else:
                self.host.to_vbucket(vbucket, row=self.list.row)

    # -- how it looks, and out of it ----------------------------------------------------------------------

    def action_display(self) -> None:
        """Bytes as hex or as the specification's grid; where there is room for one pane only, first fields or bytes."""
        self.panes.change_form(is_narrow=self.screen.has_class("-narrow") and not self.has_class(ALONE[-1]))

    def action_value(self) -> None:
        """Values as text, with JSON taken apart, or as bytes."""
        self.fields.show_as(as_bytes=not self.fields.as_bytes)
        self.host.say("values as bytes, unpacked" if self.fields.as_bytes else "values as text")

    def action_maximize(self) -> None:
        """The pane with the keyboard as large as the view, or all of them again."""
        if not self._show_all():
            self.add_class("only-fields" if self.fields.has_focus else "only-bytes" if self.bytes.has_focus else "only-list")

    def _show_all(self) -> bool:
        """All panes again; whether one was alone."""
        was_alone = any(self.has_class(one) for one in ALONE)
        self.remove_class(*ALONE)
        return was_alone

    def _to_list(self) -> None:
        """The keyboard goes to the list, which is there for it."""
        if not self.has_class("only-list"):
            self._show_all()
        self.list.focus()

    def action_layout(self) -> None:
        """Panes beside each other, or below."""
        self.split.toggle_class("beside")
        self._split()

    def action_mark(self) -> None:
        """Marks the row, or not any more."""
        if self.list.row:
            self.host.mark(self.list.row)

    def action_note(self) -> None:
        """A note on the row."""
        if self.list.row:
            self.host.note(self.list.row)

    def action_copy_as(self, form: str = "") -> None:
        """The message in a form; one is asked for where none is given."""
        row = self.list.row
        if not row:
            return
        if not form:
            self.app.push_screen(Choose(f"copy row {row:,} as", FORMS), lambda form: self.action_copy_as(form) if form else None)
            return
        batch = self._inspection.store.messages([row])
        self.host.copy(copied(form, batch, self.list.text_of(row).strip()))

    def action_follow(self) -> None:
        """The conversation of the message, or all messages again."""
        if self.list.talks:
            self.bar.apply(self._before)
        elif self.list.row:
            self._before = self.filtering.text
            self._talk = conversation(self._inspection.store.messages([self.list.row]))
            self.bar.apply(self._talk)

    def action_copy(self) -> None:
        """The value, its bytes, or the line, by the pane with the keyboard."""
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
