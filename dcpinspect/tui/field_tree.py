"""The fields of one message as the specification's table, of which nested ones fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message as Event
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dcpinspect.escape import clip, escape
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.render.field_table import message_title, offsets_text, problem_lines, value_text
from dcpinspect.tui.links import Link
from dcpinspect.tui.strips import room, strip
from dcpinspect.tui.theme import Glyphs

LABEL = 22
OFFSETS = 9


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the table; ``field`` is None where it says what is wrong with the message."""

    path: str
    field: FieldValue | None
    depth: int
    text: str = ""


class FieldTree(ScrollView, can_focus=True, inherit_bindings=False):
    """The field table of a message."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"fields--cursor", "fields--problem", "fields--link", "fields--dim"}

    class Selected(Event):
        """The cursor came to a field; None: to a line that is none."""

        def __init__(self, field: FieldValue | None) -> None:
            super().__init__()
            self.field = field

    class Followed(Event):
        """Enter on a field that leads somewhere."""

        def __init__(self, link: Link) -> None:
            super().__init__()
            self.link = link

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self.message: Message | None = None
        self.path = ""
        """Of the field under the cursor; stays when another message is shown."""
        self.links: dict[str, Link] = {}
        """What the fields lead to, by path."""
        self._opened: set[str] = set()
        self._entries: list[Entry] = []
        self._places: dict[str, int] = {}

    @property
    def title(self) -> str:
        """Of the message."""
        return message_title(self.message) if self.message is not None else ""

    @property
    def field(self) -> FieldValue | None:
        """The one under the cursor."""
        entry = self._entry
        return entry.field if entry is not None else None

    @property
    def _entry(self) -> Entry | None:
        place = self._places.get(self.path)
        return self._entries[place] if place is not None else None

    def show(self, message: Message | None, links: dict[str, Link]) -> None:
        """Another message; the same field stays selected if it has one."""
        self.message = message
        self.links = links
        self._flatten()
        if self.path not in self._places:
            parent = self.path
            while parent and parent not in self._places:
                parent = parent.rpartition("/")[0]
            self.path = parent or (self._entries[0].path if self._entries else "")
        self._reveal()
        self.post_message(self.Selected(self.field))

    def select(self, field: FieldValue) -> None:
        """The cursor goes to a field, whatever is folded around it."""
        for entry in self._all():
            if entry.field is field:
                parts = entry.path.split("/")
                self._opened.update("/".join(parts[:number]) for number in range(1, len(parts)))
                self._flatten()
                self.move_to(entry.path)
                return

    def select_named(self, name: str) -> bool:
        """The cursor goes to the first field of that name; whether there is one."""
        for entry in self._all():
            if entry.field is not None and entry.field.name == name:
                self.select(entry.field)
                return True
        return False

    def field_at(self, offset: int) -> FieldValue | None:
        """The innermost field that holds a byte of the message."""
        best: FieldValue | None = None
        for entry in self._all():
            field = entry.field
            if field is not None and not field.inflated and field.offset <= offset < field.offset + field.size:
                best = field
        return best

    def move_to(self, path: str) -> None:
        """The cursor goes to a line."""
        self.path = path
        self._reveal()
        self.post_message(self.Selected(self.field))

    def step(self, lines: int) -> None:
        """The cursor moves by so many lines."""
        if self._entries:
            place = min(max(self._places.get(self.path, 0) + lines, 0), len(self._entries) - 1)
            self.move_to(self._entries[place].path)

    def action_step(self, lines: int) -> None:
        """As ``step``, for keys."""
        self.step(lines)

    def action_page(self, pages: int) -> None:
        """A screen on, or back."""
        self.step(pages * max(1, self.size.height - 1))

    def action_first(self) -> None:
        """To the first field."""
        self.step(-len(self._entries))

    def action_last(self) -> None:
        """To the last one."""
        self.step(len(self._entries))

    def action_unfold(self) -> None:
        """Shows what is inside the field."""
        if self.field is not None and self.field.fields:
            self._opened.add(self.path)
            self._flatten()
            self._reveal()

    def action_fold(self) -> None:
        """Hides what is inside, or goes to what the field is inside of."""
        if self.path in self._opened:
            self._opened.discard(self.path)
            self._flatten()
            self._reveal()
        elif "/" in self.path:
            self.move_to(self.path.rpartition("/")[0])

    def action_toggle_fold(self) -> None:
        """Folds, or unfolds."""
        if self.path in self._opened:
            self.action_fold()
        else:
            self.action_unfold()

    def action_open(self) -> None:
        """Follows the link of the field, or unfolds it."""
        if self.path in self.links:
            self.post_message(self.Followed(self.links[self.path]))
        else:
            self.action_toggle_fold()

    def on_click(self, event: events.Click) -> None:
        """The first click selects, the second follows."""
        place = int(self.scroll_offset.y) + event.y
        if place < len(self._entries):
            path = self._entries[place].path
            if path == self.path:
                self.action_open()
            else:
                self.move_to(path)

    # -- drawing ------------------------------------------------------------------------------------------

    def _all(self) -> list[Entry]:
        found: list[Entry] = []
        if self.message is not None:
            for number, field in enumerate(self.message.fields):
                _walk(field, _step(field, number, self.message.fields), found)
        return found

    def _flatten(self) -> None:
        shown = [
            entry
            for entry in self._all()
            if all("/".join(entry.path.split("/")[:number]) in self._opened for number in range(1, entry.path.count("/") + 1))
        ]
        if self.message is not None:
            shown += [Entry(f"!{number}", None, 0, text) for number, text in enumerate(problem_lines(self.message))]
        self._entries = shown
        self._places = {entry.path: place for place, entry in enumerate(shown)}
        self.virtual_size = Size(room(self), len(shown))
        self.refresh()

    def _reveal(self) -> None:
        place, top, height = self._places.get(self.path, 0), int(self.scroll_offset.y), max(self.size.height, 1)
        if not top <= place < top + height:
            self.scroll_to(y=max(0, place if place < top else place - height + 1), animate=False, immediate=True)
        self.refresh()

    def on_resize(self) -> None:
        """Lines are made for the width."""
        self.virtual_size = Size(room(self), len(self._entries))
        self._reveal()

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
        place = int(self.scroll_offset.y) + y
        base = self.rich_style
        if place >= len(self._entries):
            return Strip.blank(room(self), base)
        entry = self._entries[place]
        is_cursor = entry.path == self.path
        style = base + self.get_component_rich_style("fields--cursor", partial=True) if is_cursor else base
        cursor = self._glyphs.cursor if is_cursor else " "
        if entry.field is None:
            problem = style + Style(color=self.get_component_rich_style("fields--problem", partial=True).color)
            return strip([(cursor, style), (" " + entry.text, problem)], room(self), style)
        field = entry.field
        fold = (self._glyphs.open if entry.path in self._opened else self._glyphs.folded) if field.fields else " "
        label = "  " * entry.depth + escape(field.label if field.label != "xattr" else field.name)
        offsets = ("~" if field.inflated else "") + offsets_text(field.offset, field.size)
        link = f" {self._glyphs.link}" if entry.path in self.links else ""
        head = f"{fold} {clip(label, LABEL):<{LABEL}} {offsets:<{OFFSETS}}: "
        dim = style + self.get_component_rich_style("fields--dim", partial=True) if not is_cursor else style
        left = max(0, room(self) - len(head) - 1 - len(link))
        pieces = [
            (cursor, style),
            (head[: 2 + LABEL + 1], style),
            (head[2 + LABEL + 1 :], dim),
            (clip(value_text(field, 4 * room(self)), left), style),
            (link, style + self.get_component_rich_style("fields--link", partial=True)),
        ]
        return strip(pieces, room(self), style)

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self.refresh()


def _step(field: FieldValue, number: int, siblings: list[FieldValue] | tuple[FieldValue, ...]) -> str:
    """A field's name in a path; with its number where siblings are called the same."""
    name = field.name.replace("/", "\\")
    same = sum(one.name == field.name for one in siblings[:number])
    return f"{name}#{same}" if same else name


def _walk(field: FieldValue, path: str, found: list[Entry]) -> None:
    found.append(Entry(path, field, field.depth))
    for number, inner in enumerate(field.fields):
        _walk(inner, f"{path}/{_step(inner, number, field.fields)}", found)
