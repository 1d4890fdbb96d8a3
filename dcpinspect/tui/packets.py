"""The first view: the list of messages, the fields of one, its bytes."""

from __future__ import annotations

from typing import Literal

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.timer import Timer
from textual.widgets import Static

from dcpinspect.errors import DcpInspectError
from dcpinspect.escape import clip
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.tui.byte_pane import BytePane
from dcpinspect.tui.field_tree import FieldTree
from dcpinspect.tui.filter_bar import FilterBar
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.jumps import Spot
from dcpinspect.tui.links import links_of
from dcpinspect.tui.packet_list import PacketList
from dcpinspect.tui.theme import Glyphs

Layout = Literal["below", "beside"]
REST = 0.04
"""Seconds that the cursor rests on a row before it is taken apart."""


class PacketsView(Vertical):
    """List above, fields and bytes below."""

    def __init__(self, inspection: Inspection, glyphs: Glyphs, bar: FilterBar) -> None:
        super().__init__(id="packets")
        self._inspection = inspection
        self._glyphs = glyphs
        self.bar = bar
        self.list = PacketList(inspection, glyphs, id="packet-list")
        self.fields = FieldTree(glyphs, id="field-tree")
        self.bytes = BytePane(id="byte-pane")
        self.split, self.details = Container(id="split"), Horizontal(id="details")
        self._heading, self._title = Static(id="list-heading"), Static(id="message-title")
        self._rest: Timer | None = None
        self.wanted_field = ""
        """Name of the field to select in the next message that is shown."""

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.bar
        with self.split:
            with Vertical(id="upper"):
                yield self._heading
                yield self.list
            with Vertical(id="lower"):
                yield self._title
                with self.details:
                    yield self.fields
                    yield self.bytes

    def on_mount(self) -> None:
        """The keyboard begins in the list."""
        self.list.focus()

    def on_resize(self) -> None:
        """The heading is as wide as the list."""
        self.call_after_refresh(self.head)

    def head(self) -> None:
        """The heading, and how many rows there are."""
        total = self._inspection.store.rows
        shown = len(self.list.index)
        place = f"{self.list.index.place(self.list.row) + 1:,} of " if self.list.row and shown else ""
        count = f"{place}{shown:,}" + (f" ({total:,})" if shown != total else "")
        width = self.list.size.width
        heading = clip(self.list.heading, max(0, width - len(count) - 2))
        self._heading.update(Text(f"{heading:<{max(0, width - len(count) - 1)}}{count}"))

    # -- the message under the cursor ---------------------------------------------------------------------

    @on(PacketList.Moved)
    def _moved(self) -> None:
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(REST, self.take_apart)
        self.head()

    @property
    def is_waiting(self) -> bool:
        """Whether the row under the cursor is still to be taken apart."""
        return self._rest is not None

    def take_apart(self) -> None:
        """Shows the fields and bytes of the row under the cursor."""
        self._rest = None
        row = self.list.row
        message: Message | None = None
        links: dict[str, str] = {}
        title = ""
        try:
            batch = self._inspection.store.messages([row])
            message, links = batch.annotate(0), links_of(batch)
            frame = int(batch.last_frame[0])
        except (DcpInspectError, IndexError, OSError) as error:
            title = str(error)
        self.fields.show(message, links)
        self.bytes.show(message)
        if message is not None:
            title = f"{self.fields.title} · {message.size:,} bytes · row {row:,} · frame {frame:,}"
            if self.list.guest == row:
                title += " · outside the filter"
        if self.wanted_field:
            self.fields.select_named(self.wanted_field)
            self.wanted_field = ""
        self.bytes.light(self.fields.field)
        self._title.update(Text(f"── {title} "))

    @on(FieldTree.Selected)
    def _selected(self, event: FieldTree.Selected) -> None:
        self.bytes.light(event.field)

    @on(BytePane.Picked)
    def _picked(self, event: BytePane.Picked) -> None:
        field = self.fields.field_at(event.offset)
        if field is not None:
            self.fields.select(field)

    @on(PacketList.Opened)
    def _opened(self) -> None:
        self.fields.focus()

    @property
    def field(self) -> FieldValue | None:
        """The one under the cursor of the tree."""
        return self.fields.field

    # -- where the user is --------------------------------------------------------------------------------

    def spot(self, filter_text: str) -> Spot:
        """What brings this view back."""
        return Spot("packets", self.list.row, self.fields.path, filter_text, int(self.list.scroll_offset.y))

    def go(self, row: int, field: str = "") -> None:
        """To a row, and to a field of it by name."""
        self.wanted_field = field
        if row == self.list.row:
            self.take_apart()
        self.list.jump_to(row)
        if not self.fields.has_focus:
            self.list.focus()

    def restore(self, spot: Spot) -> None:
        """As it was."""
        self.fields.path = spot.field
        self.list.scroll_to(y=spot.top, animate=False, immediate=True)
        if spot.row:
            self.list.jump_to(spot.row)
        self.list.focus()
