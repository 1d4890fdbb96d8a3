"""Lines of text for Textual, and the base of all widgets that draw lines.

Lines are exactly as wide as their widget, and have no control characters that could steer the
terminal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from dcpinspect.text import cells, one_line, wrap
from dcpinspect.tui import theme
from dcpinspect.tui.theme import Glyphs

Piece = tuple[str, Style]


class CursorEvent(Message):
    """Something that happened to the cursor of a ``LineView``; ``control`` is the widget."""

    def __init__(self, view: LineView) -> None:
        super().__init__()
        self.view = view

    @property
    def control(self) -> LineView:
        """The widget, by which handlers can choose."""
        return self.view


class LineView(ScrollView, can_focus=True, inherit_bindings=False):
    """A widget that draws itself line by line, with a cursor on one of its places: the base of all
    lists, maps and charts.

    A subclass says how many places there are (``count``) and how many share a line (``across``),
    and draws lines.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"line--cursor", "line--cell", "line--dim"}
    HEAD: ClassVar[int] = 0
    """Number of lines at the top that do not scroll."""
    high: int = 1
    """Height of a line of places, in lines of text."""
    at: int = 0
    """Place of the cursor."""
    items: Sized = ()
    """What has a place each."""
    is_moved: bool = False
    """Whether the user has moved the cursor: until then it is on the worst of later results."""

    class Moved(CursorEvent):
        """Sent when the cursor moves, or what is shown changes."""

    class Opened(CursorEvent):
        """Sent at Enter, and at a click on the place of the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._of_drawing: tuple[Style, Region] | None = None
        self._border_text = ""
        self.more: dict[int, list[str]] = {}
        """Further lines of places that have several, by rising place; each place of such a view has
        a line of its own.
        """

    @property
    def _glyphs(self) -> Glyphs:
        return theme.glyphs_of(self.app)

    @property
    def count(self) -> int:
        """Number of places."""
        return len(self.items)

    @property
    def across(self) -> int:
        """Number of places in a line."""
        return 1

    @property
    def lines(self) -> int:
        """Height of all places, in lines."""
        return sum(self.lines_of(self.count - 1)) if self.count else 0

    def lines_of(self, place: int) -> tuple[int, int]:
        """Returns the first line of a place below the head, and the number of its lines."""
        above = sum(len(lines) for other, lines in self.more.items() if other < place)
        first = place // self.across * self.high + above
        return first, self.high + len(self.more.get(place, ()))

    def top_for(self, line: int) -> int:
        """Returns the first line from a line on that may stand at the top."""
        return line

    def place_at(self, x: int, y: int) -> int | None:
        """Returns the place in a column and a line below the head; None if there is none."""
        del x
        for place, lines in self.more.items():
            if y <= place + len(lines):
                y = min(y, place)
                break
            y -= len(lines)
        return y if 0 <= y < self.count else None

    def is_bad(self, place: int) -> bool:
        """Whether there is an error or a warning at a place."""
        del place
        return False

    def in_full(self, place: int, *, is_brief: bool = False) -> list[str]:
        """Returns the further lines that tell a place in full, or only the more important ones."""
        del place, is_brief
        return []

    def height_in_full(
        self, limit: int, *, is_bad_only: bool = False, is_brief: bool = False
    ) -> int:
        """Returns how many of ``limit`` lines all places take if each is told in full, or the
        errors and warnings. ``is_brief``: all but that of the cursor with the more important ones.
        """
        high = 0
        for number in range(self.count):
            if high >= limit:  # what does not fit need not be laid out
                break
            if self.is_bad(number) or not is_bad_only:
                high += 1 + len(self.in_full(number, is_brief=is_brief and number != self.at))
        return min(limit, max(1, high))

    def tell_in_full(self, spare: int = 0) -> None:
        """Tells the place of the cursor in full, and as much of the others as there is room for if
        each place has its line; the last ``spare`` places may be scrolled away by those before.
        """
        self.more = {self.at: self.in_full(self.at)} if self.count else {}
        split = self.count - spare
        lines_left = self.size.height - self.HEAD - sum(map(len, self.more.values())) - split
        for numbers in (range(split), range(split, self.count)):
            for is_brief in (True, False):
                for number in numbers if lines_left > 0 else ():
                    text = self.in_full(number, is_brief=is_brief)
                    further = len(text) - len(self.more.get(number, ()))
                    if number != self.at and further <= lines_left:
                        self.more[number] = text
                        lines_left -= further
            lines_left -= spare
        self.more = dict(sorted(self.more.items()))

    # -- the cursor

    def set_cursor(self, place: int) -> None:
        """Moves the cursor to a place, or to the nearest one."""
        self.at, self.is_moved = max(0, min(place, self.count - 1)), True
        self.bring()
        self.post_message(self.Moved(self))

    def on_resize(self) -> None:
        """Fits what is shown to the new size."""
        self.fit()

    def fit(self) -> None:
        """Lays out what is shown, for the size of now."""
        self.bring()

    def bring(self) -> None:
        """Scrolls the place of the cursor into view, and draws."""
        self.virtual_size = Size(visible_width(self), self.HEAD + self.lines)
        self.scroll_to_cursor()
        self.entitle(self._border_text)
        self.refresh()

    @property
    def below(self) -> int:
        """Number of places that are below what is seen; before the layout, nobody knows."""
        if not self.size.height:
            return 0
        bottom, places = int(self.scroll_offset.y) + self.size.height - self.HEAD, range(self.count)
        return self.count - bisect_right(
            places, bottom, key=lambda place: sum(self.lines_of(place))
        )

    def entitle(self, title: str) -> None:
        """Writes a title above the lines, with the number of places that are below."""
        self._border_text = title
        if title:
            self.border_title = title + (f" · {self.below:,} more below" if self.below else "")

    def scroll_to_cursor(self, *, is_centred: bool = False) -> None:
        """Scrolls the cursor into view. ``is_centred``: to the middle, unless it is in view."""
        first, high = self.lines_of(self.at)
        top, room_ = int(self.scroll_offset.y), max(self.size.height - self.HEAD, 1)
        if not top <= first <= first + high <= top + room_:
            target = first if first < top or high > room_ else first + high - room_
            target = max(0, first - room_ // 2) if is_centred else self.top_for(target)
            self.scroll_to(
                y=target, animate=False, immediate=True, force=True
            )  # a list that has just grown has no scrollbar yet

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Moves the bar also while it is hidden, which Textual does not: else it would stand where
        it was when it is shown again.
        """
        super().watch_scroll_y(old_value, new_value)
        self.vertical_scrollbar.position = new_value
        self.entitle(self._border_text)

    @property
    def is_at_edge(self) -> tuple[bool, bool]:
        """Whether the cursor is in the first line, and whether it is in the last."""
        return self.at < self.across, self.at // self.across >= (self.count - 1) // self.across

    def action_step(self, lines: int) -> None:
        """Moves the cursor down by so many lines, or up."""
        target = self.at + lines * self.across
        if self.count and (self.across == 1 or 0 <= target < self.count):
            self.set_cursor(target)

    def action_fold(self) -> None:
        """Moves the cursor one place to the left."""
        if self.across > 1:
            self.set_cursor(self.at - 1)

    def action_unfold(self) -> None:
        """Moves the cursor one place to the right."""
        if self.across > 1:
            self.set_cursor(self.at + 1)

    def action_page(self, pages: int) -> None:
        """Moves the cursor down by so many screens, or up."""
        height = max(1, self.lines_of(self.at)[1])  # 0 before anything is drawn
        lines = max(1, (self.size.height - self.HEAD - 1) // height)
        column = self.at % self.across
        last = (self.count - 1 - column) // self.across * self.across + column
        if self.count:
            self.set_cursor(min(max(self.at + pages * lines * self.across, column), last))

    def action_first(self) -> None:
        """Moves the cursor to the first place."""
        self.set_cursor(0)

    def action_last(self) -> None:
        """Moves the cursor to the last place."""
        self.set_cursor(self.count - 1)

    def action_open(self) -> None:
        """Opens the place of the cursor."""
        self.post_message(self.Opened(self))

    def next_place(self, is_wanted: Callable[[int], bool], *, back: bool = False) -> int | None:
        """Returns the next place of a kind, or the one before; None for none."""
        lines = range(self.at - 1, -1, -1) if back else range(self.at + 1, self.count)
        return next(filter(is_wanted, lines), None)

    def on_click(self, event: events.Click) -> None:
        """Handles a click in ``clicked``, which subclasses replace: Textual would call the handlers
        of all classes, one after the other.
        """
        self.clicked(event)

    def clicked(self, event: events.Click) -> None:
        """Selects the clicked place; a second click opens it."""
        inside = event.get_content_offset(self)  # a title above the lines is outside
        target = (
            None
            if inside is None or inside.y < self.HEAD
            else self.place_at(inside.x, int(self.scroll_offset.y) + inside.y - self.HEAD)
        )
        if target is None:
            return
        if target == self.at:
            self.action_open()
        else:
            self.set_cursor(target)

    # -- drawing

    @property
    def head(self) -> str:
        """The line at the top that does not scroll, if there is one."""
        return ""

    def empty_line(self, line: int) -> str:
        """Returns a line of what is shown where there are no places."""
        del line
        return ""

    def pieces(self, place: int, part: int, style: Style) -> Iterable[Piece]:
        """Returns a line of a place, behind the sign of the cursor. ``part``: the number of the
        line, of a place that has several. ``style``: has the colour of the cursor where it is.
        """
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """Draws one visible line."""
        base, width = self.rich_style, visible_width(self)
        line = int(self.scroll_offset.y) + y - self.HEAD
        number = self.place_at(0, line)
        if y < self.HEAD or number is None:
            text = "" if self.count else self.empty_line(line)
            head = (self.head, self.dim_style()) if y < self.HEAD else (text, base)
            return strip([head], width, base)
        is_here = number == self.at
        style = base + self.cursor_style() if is_here else base
        cursor = (self._glyphs.cursor if is_here else " ", style)
        return strip(
            [cursor, *self.pieces(number, line - self.lines_of(number)[0], style)], width, style
        )

    def drawn(self, *pieces: Piece) -> Strip:
        """Returns a line of these pieces on the ground of the widget."""
        return strip(pieces, self.size.width, self.rich_style)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draws the lines as Textual does, with style and region worked out once: for each line
        this would take longer than the line.
        """
        self._of_drawing = super().rich_style, super().scrollable_content_region
        try:
            return super().render_lines(crop)
        finally:
            self._of_drawing = None

    @property
    def rich_style(self) -> Style:
        """The style that Textual gives, kept while lines are drawn."""
        return self._of_drawing[0] if self._of_drawing else super().rich_style

    @property
    def scrollable_content_region(self) -> Region:
        """The region that Textual gives, kept while lines are drawn."""
        return self._of_drawing[1] if self._of_drawing else super().scrollable_content_region

    def sign_style(self, severity: str, style: Style, *, is_here: bool) -> Style:
        """Returns the style of the sign of a severity in a line of ``style``. ``is_here``: it is
        the line of the cursor, whose colour would hide that of the sign.
        """
        sign = theme.style_of(self.app, f"severity-{severity}")
        if is_here:
            return theme.sign_on_cursor(sign, self.rich_style)
        return style + sign + Style(bold=True)

    def cursor_style(self) -> Style:
        """Returns what lies over the style of the place of the cursor."""
        return self.get_component_rich_style("line--cursor", partial=True)

    def cell_style(self) -> Style:
        """Returns what lies over the style of the cell of the cursor in a chart."""
        return self.get_component_rich_style("line--cell") + Style(reverse=False)

    def dim_style(self) -> Style:
        """Returns the style of what stands back."""
        return self.rich_style + self.get_component_rich_style("line--dim", partial=True)

    def notify_style_update(self) -> None:
        """Redraws in the colours of another theme."""
        super().notify_style_update()
        self.refresh()


def visible_width(widget: Widget) -> int:
    """Returns the number of columns of a widget that its scrollbar does not cover."""
    return widget.scrollable_content_region.width


def strip(pieces: Iterable[Piece], width: int, style: Style) -> Strip:
    """Joins pieces to a line that is filled to ``width`` columns, or cut with an ellipsis."""
    line = Strip(
        [
            Segment(
                text if text.isascii() and text.isprintable() else one_line_keeping(text),
                piece_style,
            )
            for text, piece_style in pieces
            if text
        ]
    )
    if line.cell_length > width > 0 and line.crop(width).text.strip():
        cropped = line.crop(0, width - 1)
        line = Strip(
            [
                *cropped,
                Segment(
                    " " * (width - 1 - cropped.cell_length) + "…",
                    next(reversed(list(cropped)), Segment("")).style,
                ),
            ]
        )
    return line.apply_style(Style(bgcolor=style.bgcolor)).adjust_cell_length(width, style)


def one_line_keeping(text: str) -> str:
    """Returns the text with invisible characters written out; blanks at both ends stay."""
    inner = text.strip()
    if not inner:
        return " " * len(text)
    before = len(text) - len(text.lstrip())
    after = len(text) - len(text.rstrip())
    return " " * before + one_line(inner) + " " * after


def fitting_phrases(phrases: Sequence[str], width: int, least: int = 1) -> str:
    """Joins as many phrases as fit into a width, and at least the ``least`` first ones."""
    while len(phrases) > least and cells(" · ".join(phrases)) > width:
        phrases = phrases[:-1]
    return " · ".join(phrases)


def flowed(title: Text, entries: Iterable[Text], width: int) -> Text:
    """Puts entries behind each other in lines of ``width`` columns; none is broken."""
    flowed_text, used = title, title.cell_len
    for entry in entries:
        if used and used + 3 + entry.cell_len > width:
            flowed_text.append("\n")
            used = 0
        flowed_text.append("   " if used else "")
        flowed_text.append_text(entry)
        used += entry.cell_len + (3 if used else 0)
    return flowed_text


def labelled(
    label: str, text: str, room: int, width: int, style: str | Style = "", *, indent: int = 0
) -> Text:
    """Returns a text behind a label that takes ``room`` columns, in lines of ``width`` columns.
    ``style``: of the label. ``indent``: of further lines.
    """
    lines = Text()
    for line in wrap(f"{label:<{room}}{text}", width, " " * (room + indent)):
        lines.append(line[:room], style).append(f"{line[room:]}\n")
    return lines
