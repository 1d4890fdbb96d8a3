"""The fields of one message as the table of the specification; inner ones can be folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.style import Style
from textual import events
from textual.message import Message as Event

from dcpinspect.output.render.palette import GLYPHS
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.text import cells, clip
from dcpinspect.tui import theme
from dcpinspect.tui.byte_pane import Parts
from dcpinspect.tui.field_entries import MOST, Entries, Entry
from dcpinspect.tui.field_links import Link
from dcpinspect.tui.line_view import LineView, Piece, visible_width

LABEL = 22
OFFSETS = 9
CROWDED = 56
"""Width in columns below which offsets are left out, so that values have room."""

_PAINTS = {GLYPHS[severity]: f"severity-{severity}" for severity in ("error", "warning")}
"""Colours of problems, by the sign that they begin with."""


class FieldTree(LineView, can_focus=True, inherit_bindings=False):
    """The table of fields of one message."""

    class Followed(Event):
        """Sent when the user presses Enter on a field with a link."""

        def __init__(self, link: Link) -> None:
            super().__init__()
            self.link = link

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.message: Message | None = None
        self.path = ""
        """Path of the line under the cursor; it stays when another message is shown."""
        self.links: dict[str, Link] = {}
        """Links of the fields, by path."""
        self._turned: set[str] = set()
        """Paths of the lines that the user folded or unfolded; each of them is the opposite of how
        it is at first.
        """
        self._most: dict[str, int] = {}
        """How many inner lines are shown, by path, where the user asked for more."""
        self._parts = Parts(None)
        self._maker: Entries | None = None
        self._inside: dict[str, Sequence[Entry]] = {}
        self.items: list[Entry] = []
        self._places: dict[str, int] = {}

    @property
    def entry(self) -> Entry | None:
        """The line under the cursor."""
        line = self._places.get(self.path)
        return self.items[line] if line is not None else None

    def show(self, message: Message | None, links: dict[str, Link]) -> None:
        """Shows another message; the same line stays selected if the message has it."""
        self.message = message
        self.links = links
        self._parts = Parts(message)
        self._most.clear()
        self._remake()
        if self.path not in self._places:
            parent = self.path
            while parent and parent not in self._places:
                parent = parent.rpartition("/")[0]
            self.path = parent or (self.items[0].path if self.items else "")
        self._reveal()
        self.post_message(self.Moved(self))

    def select_named(self, name: str) -> bool:
        """Moves the cursor to the first field of that name, and unfolds the lines around it.
        Returns whether there is one.
        """
        for path, field in self._fields():
            if field.name == name:
                self._open_around(path)
                self.move_to(path)
                return True
        return False

    def select_at(self, offset: int) -> None:
        """Moves the cursor to the innermost field that contains a byte of the message."""
        paths = [
            path
            for path, field in self._fields()
            if not field.inflated and field.offset <= offset < field.offset + field.size
        ]
        if paths:  # inner fields come after those around them
            self._open_around(paths[-1])
            self.move_to(paths[-1])

    def move_to(self, path: str) -> None:
        """Moves the cursor to the line with this path."""
        self.path = path
        self._reveal()
        self.post_message(self.Moved(self))

    def set_cursor(self, place: int) -> None:
        """Moves the cursor to a line."""
        if self.items:
            self.move_to(self.items[min(max(place, 0), len(self.items) - 1)].path)

    def action_unfold(self) -> None:
        """Shows the inner lines of the field."""
        entry = self.entry
        if entry is not None and entry.inner is not None and not self._is_open(entry):
            self._turn(entry)

    def action_fold(self) -> None:
        """Hides the inner lines of the field, or moves the cursor to the line around it."""
        entry = self.entry
        if entry is not None and entry.inner is not None and self._is_open(entry):
            self._turn(entry)
        elif "/" in self.path:
            self.move_to(self.path.rpartition("/")[0])

    def action_toggle_fold(self) -> None:
        """Folds the line under the cursor, or unfolds it."""
        if self.entry is not None and self.entry.inner is not None:
            self._turn(self.entry)

    def action_open(self) -> None:
        """Follows the link of the field, shows more lines, or unfolds the field."""
        entry = self.entry
        if self.path in self.links:
            self.post_message(self.Followed(self.links[self.path]))
        elif entry is not None and entry.kind == "more":
            above = self.path.rpartition("/")[0]
            self._most[above] = self._most.get(above, MOST) + MOST
            self._inside.pop(above, None)
            line = self._places[self.path]
            self._flatten()
            self.move_to(self.items[min(line, len(self.items) - 1)].path)
        else:
            self.action_toggle_fold()

    def clicked(self, event: events.Click) -> None:
        """Selects the clicked line, or folds it at its fold sign; a second click follows it."""
        line = int(self.scroll_offset.y) + event.y
        entry = self.items[line] if line < len(self.items) else None
        if entry is not None and entry.inner is not None and event.x == self._indent(entry):
            self.move_to(entry.path)
            self.action_toggle_fold()
        else:
            super().clicked(event)

    # -- what is shown

    def _fields(self) -> Iterator[tuple[str, FieldValue]]:
        """Yields every field with its path, folded or not."""
        waiting = [entry for entry in reversed(self._top()) if entry.field is not None]
        while waiting:
            entry = waiting.pop()
            assert entry.field is not None
            yield entry.path, entry.field
            if entry.field.fields:
                waiting += [
                    inner for inner in reversed(self._inner(entry)) if inner.kind == "field"
                ]

    def _top(self) -> Sequence[Entry]:
        if "" not in self._inside:
            self._inside[""] = self._maker.top() if self._maker is not None else ()
        return self._inside[""]

    def _inner(self, entry: Entry) -> Sequence[Entry]:
        assert entry.inner is not None
        if entry.path not in self._inside:
            self._inside[entry.path] = entry.inner(self._most.get(entry.path, MOST))
        return self._inside[entry.path]

    def _is_open(self, entry: Entry) -> bool:
        return entry.is_open != (entry.path in self._turned)

    def _turn(self, entry: Entry) -> None:
        self._turned ^= {entry.path}
        self._flatten()
        self._reveal()

    def _open_around(self, path: str) -> None:
        """Unfolds the lines around a line."""
        steps = path.split("/")
        for number in range(1, len(steps)):
            line = self._places.get("/".join(steps[:number]))
            if line is not None and not self._is_open(self.items[line]):
                self._turned ^= {self.items[line].path}
                self._flatten()

    def _remake(self) -> None:
        """Makes the lines again for the message, the width and the form of the values."""
        head = 4 + LABEL + (OFFSETS + 3 if visible_width(self) >= CROWDED else 2)
        self._maker = (
            Entries(self.message, visible_width(self), head) if self.message is not None else None
        )
        self._inside.clear()
        self._flatten()

    def _flatten(self) -> None:
        entries: list[Entry] = []
        waiting = [*reversed(self._top())]
        while waiting:
            entry = waiting.pop()
            entries.append(entry)
            if entry.inner is not None and self._is_open(entry):
                waiting += reversed(self._inner(entry))
        self.items = entries
        self._places = {entry.path: line for line, entry in enumerate(entries)}

    def _reveal(self) -> None:
        self.at = self._places.get(self.path, 0)
        self.bring()

    def fit(self) -> None:
        """Makes the lines for the width."""
        self._remake()
        self._reveal()

    # -- drawing

    def _indent(self, entry: Entry) -> int:
        """Returns the column of the fold sign."""
        return 1 if entry.kind == "field" else 1 + 2 * entry.depth

    def pieces(self, place: int, part: int, style: Style) -> Iterator[Piece]:
        """Yields a field, or another line."""
        del part
        entry = self.items[place]
        fold = (
            " "
            if entry.inner is None
            else self._glyphs.open
            if self._is_open(entry)
            else self._glyphs.folded
        )
        if entry.kind == "field":
            yield from self._field_pieces(entry, fold, style, is_cursor=place == self.at)
        else:
            paint = "kind-upkeep" if entry.kind == "more" else ""
            if entry.kind == "problem":
                paint = _PAINTS.get(entry.text[:1], "")
            text = f"{'  ' * entry.depth}{fold} {entry.text}"
            yield text, style + theme.style_of(self.app, paint)

    def _field_pieces(
        self, entry: Entry, fold: str, style: Style, *, is_cursor: bool
    ) -> list[Piece]:
        assert entry.field is not None
        label = clip("  " * entry.depth + entry.label, LABEL)
        value_style = (
            style
            if is_cursor
            else style + theme.style_of(self.app, f"part-{self._parts.of_field(entry.field)}")
        )
        dim = style if is_cursor else self.dim_style()
        offsets = f" {entry.offsets:<{OFFSETS}}: " if visible_width(self) >= CROWDED else ": "
        link = f" {self._glyphs.link}" if entry.path in self.links else ""
        width = max(0, visible_width(self) - 3 - LABEL - cells(offsets) - cells(link))
        return [
            (f"{fold} ", style),
            (label + " " * (LABEL - cells(label)), value_style),
            (offsets, dim),
            (clip(entry.text, width), style),
            (link, style + theme.style_of(self.app, "chart-bar")),
        ]
