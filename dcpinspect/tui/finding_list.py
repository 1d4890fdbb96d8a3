"""The list of findings, the worst first, each with its effects below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

from dcpinspect.findings.finding import Finding, ranges
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.text import cells, one_line, wrap
from dcpinspect.tui.advice import for_keys
from dcpinspect.tui.line_view import LineView, Piece, strip, visible_width
from dcpinspect.tui.theme import Glyphs

_INDENT = 4
"""Width of what stands before the sentence of the chosen finding, in columns."""
WIDE = 100
"""Width in columns from which rules, places and sentences stand below each other."""
_WIDEST = 30
"""Greatest width of the column of rules, and of that of places, in columns."""


class _Item(NamedTuple):
    """A line of the list."""

    finding: int
    is_effect: bool = False
    """Whether the finding is an effect of the nearest finding above that is a cause."""


class FindingList(LineView, can_focus=True, inherit_bindings=False):
    """One line for each finding; where nothing else tells more, the chosen one has its whole
    sentence and what to do.
    """

    def __init__(self, glyphs: Glyphs, *, is_alone: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        """Makes the list. ``is_alone``: it has causes only, and the chosen one is told in full."""
        super().__init__(glyphs, id=id)
        self._is_alone = is_alone
        self.findings: Sequence[Finding] = ()
        self.is_final = False
        self.evidence: int | None = None
        """Place of the message in the evidence that ``]`` and ``[`` selected; None if these keys
        were not pressed.
        """
        self._items: list[_Item] = []
        self._columns = 0, 0
        """Width of the columns of rules and of places."""

    def show(self, findings: Sequence[Finding], *, is_final: bool) -> None:
        """Shows the findings so far; the cursor stays on its finding."""
        before = self.shown_finding
        self.findings, self.is_final = findings, is_final
        causes = {finding.id for finding in findings if finding.effect_of is None}
        effects: dict[str, list[_Item]] = {}
        for number, finding in enumerate(findings if not self._is_alone else ()):
            if finding.effect_of in causes:
                effects.setdefault(finding.effect_of, []).append(_Item(number, is_effect=True))
        self._items = [
            item
            for severity in SEVERITIES
            for number, finding in enumerate(findings)
            if finding.severity == severity and finding.effect_of not in causes
            for item in (_Item(number), *effects.get(finding.id, ()))
        ]
        rules, spots = map(self._rule, self._items), map(self._where, self._items)
        self._columns = _widest(rules), _widest(spots)
        self._lay_out()
        keys = [_key_of(findings[item.finding]) for item in self._items]
        key = None if before is None else _key_of(before)
        self.set_cursor(keys.index(key) if key in keys else self.at)

    # -- the cursor
    # ---------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of findings."""
        return len(self._items)

    @property
    def lines(self) -> int:
        """Height of the whole list, in lines."""
        return max(1, super().lines)

    def is_bad(self, place: int) -> bool:
        """Whether the item is an error or a warning that is no effect."""
        item = self._items[place]
        return not item.is_effect and self.findings[item.finding].severity != "note"

    def set_cursor(self, place: int) -> None:
        """Moves the cursor to an item."""
        self.evidence = None
        self.at = max(0, min(place, self.count - 1))
        self._lay_out()
        super().set_cursor(place)

    def needed(self, limit: int) -> int:
        """Returns how many of ``limit`` lines all findings take if each is told in full."""
        lines = self.count
        for item in range(self.count):
            if lines >= limit:
                return limit
            lines += len(self._lines_in_full(item))
        return min(limit, max(1, lines))

    def _lay_out(self) -> None:
        """Makes the lines that tell findings in full: the chosen one, and from the top on as many
        as there is room for.
        """
        self.more = {}
        if self._is_alone and self.count:
            chosen_lines = self._lines_in_full(self.at)
            free = self.size.height - self.count - len(chosen_lines)
            for item in range(self.count if free > 0 else 0):
                text = self._lines_in_full(item) if item != self.at else []
                if len(text) > free:
                    break
                self.more[item] = text
                free -= len(text)
            self.more = dict(sorted({**self.more, self.at: chosen_lines}.items()))
        self.virtual_size = Size(self.size.width, self.lines)

    def _lines_in_full(self, place: int) -> list[str]:
        """Returns what a finding says and what to do, in lines."""
        finding = self.findings[self._items[place].finding]
        width = self.scrollable_content_region.width - _INDENT - 2
        if width < 1:
            return []
        lines = wrap(one_line(finding.what or finding.message), width)
        return (
            [*lines, *wrap(f"Next: {one_line(for_keys(finding.next))}", width)]
            if finding.next
            else lines
        )

    @property
    def finding(self) -> int | None:
        """Number of the finding under the cursor."""
        return self._items[self.at].finding if self.at < len(self._items) else None

    @property
    def vbucket(self) -> int | None:
        """The first vbucket of the finding under the cursor."""
        return (
            None if self.shown_finding is None else min(self.shown_finding.vbuckets, default=None)
        )

    @property
    def shown_finding(self) -> Finding | None:
        """The finding under the cursor."""
        return self.findings[self.finding] if self.finding is not None else None

    def select(self, finding: int) -> None:
        """Moves the cursor to a finding."""
        numbers = [item.finding for item in self._items]
        self.set_cursor(numbers.index(finding) if finding in numbers else self.at)

    def on_resize(self) -> None:
        """Wraps the texts to the new width."""
        self._lay_out()
        self.call_after_refresh(self.bring)

    # -- drawing
    # ------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draws one visible line."""
        line, base, width = int(self.scroll_offset.y) + y, self.rich_style, visible_width(self)
        if not self._items and line == 0:
            return strip(
                [(" no findings" if self.is_final else " no findings so far", base)], width, base
            )
        number = self.place_at(0, line)
        if number is None:
            return Strip.blank(width, base)
        style = base + self.cursor_style() if number == self.at else base
        if (below := line - self.lines_of(number)[0]) > 0:
            text = self.more[number][below - 1]
            cursor = (self._glyphs.cursor if number == self.at else " ", style)
            head, colon, action = text.partition("Next: ")
            pieces = (
                [(f"{' ' * _INDENT}", style), ("Next: ", style + Style(bold=True)), (action, style)]
                if colon and not head
                else None
            )
            return strip([cursor, *(pieces or [(f"{' ' * _INDENT}{text}", style)])], width, style)
        return strip(
            [
                (self._glyphs.cursor if number == self.at else " ", style),
                *self._pieces(number, style),
            ],
            width,
            style,
        )

    def _pieces(self, place: int, style: Style) -> Iterator[Piece]:
        item = self._items[place]
        finding, strong = self.findings[item.finding], style + Style(bold=True)
        dim = style if place == self.at else self.dim_style()
        glyph = " " if item.is_effect else self._glyphs.of_severity(finding.severity)
        sign_style = self.sign_style(finding.severity, style, is_here=place == self.at)
        if item.is_effect:  # it is not counted, so it has no sign of its own
            style = strong = sign_style = dim
        # on a narrow screen, sentences need the room
        rule, where_ = self._columns if self.size.width >= WIDE else (0, 0)
        yield " ", style
        yield glyph, sign_style
        yield f" {_padded(self._rule(item), rule)}", strong
        yield f"  {_padded(self._where(item), where_)}", dim
        if not self.more.get(place):
            yield f"  {one_line(finding.what or finding.message)}", style

    def _rule(self, item: _Item) -> str:
        rule = self.findings[item.finding].rule
        return f"{self._glyphs.effect} {rule}" if item.is_effect else rule

    def _where(self, item: _Item) -> str:
        """Returns the vbuckets and connections of a finding, and how often it was."""
        finding = self.findings[item.finding]
        times = f", {finding.count:,} times" if finding.count > 1 else ""
        return f"{where(finding)}{times}"


def _widest(texts: Iterable[str]) -> int:
    return min(max(map(cells, texts), default=0), _WIDEST)


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - cells(text))


def _key_of(finding: Finding) -> tuple[object, ...]:
    """Returns what identifies a finding, so that it is found again in later results."""
    return finding.rule, finding.cause, finding.connections, finding.vbuckets


def where(finding: Finding) -> str:
    """Writes the vbuckets and connections of a finding by number: ``vb 30–31, con 5``."""
    connections = f"con {ranges(finding.connections)}"
    return f"vb {ranges(finding.vbuckets)}, {connections}" if finding.vbuckets else connections
