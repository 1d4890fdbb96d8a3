"""The list of findings, the worst first, ordered by cause or by connection."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

from dcpinspect.findings.finding import Finding, ranges
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.text import one_line
from dcpinspect.tui import theme
from dcpinspect.tui.advice import for_keys
from dcpinspect.tui.strips import LineView, Piece, strip, visible_width, wrapped
from dcpinspect.tui.theme import Glyphs

Order = Literal["cause", "connection"]
_INDENT = 4
"""Width of what stands before the sentence of the chosen finding, in columns."""


class _Item(NamedTuple):
    """A connection as a heading, or a finding."""

    connection: int | None = None
    """The connection that the finding stands below, or that the heading names; None in order by
    cause.
    """
    finding: int | None = None
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
        self.order: Order = "cause"
        self.is_final = False
        self.evidence: int | None = None
        """Place of the message in the evidence that ``]`` and ``[`` selected; None if these keys
        were not pressed.
        """
        self._connections: Mapping[int, str] = {}
        self._hidden: set[str] = set()
        self._effects: dict[int, list[int]] = {}
        """Numbers of the effects, by number of their cause."""
        self._causes: dict[int, int] = {}
        """Number of the cause, by number of the effect."""
        self._items: list[_Item] = []
        self._more: list[list[str]] = []
        """Further lines of each item: what happened, and what to do."""
        self._first: list[int] = [0]
        """First line of each item, and the end of the last one."""

    def show(
        self, findings: Sequence[Finding], connections: Mapping[int, str], *, is_final: bool
    ) -> None:
        """Shows the findings so far. ``connections``: descriptions of the connections by number,
        safe for a terminal.
        """
        before, finding_before = (
            self._items[self.at] if self.at < len(self._items) else _Item(),
            self.shown_finding,
        )
        self.findings, self.is_final, self._connections = findings, is_final, connections
        numbers = {
            finding.id: number
            for number, finding in enumerate(findings)
            if finding.effect_of is None
        }
        self._causes = {
            number: numbers[finding.effect_of]
            for number, finding in enumerate(findings)
            if finding.effect_of in numbers
        }
        self._effects = {}
        for effect, cause in self._causes.items():
            self._effects.setdefault(cause, []).append(effect)
        self._arrange()
        same = [
            place
            for place, item in enumerate(self._items)
            if finding_before is not None and _key(findings, item) == _key_of(finding_before)
        ]
        same_connection = [
            place for place in same if self._items[place].connection == before.connection
        ]
        self.set_cursor(
            next(
                iter([*same_connection, *same]),
                self.at if finding_before else self._first_finding(),
            )
        )

    def next_order(self) -> None:
        """Switches between order by cause and order by connection; the cursor stays on its
        finding.
        """
        here_ = self.finding
        self.order = "connection" if self.order == "cause" else "cause"
        self._arrange()
        self.set_cursor(self._first_finding())
        if here_ is not None:
            self.select(here_)

    def _first_finding(self) -> int:
        return next(
            (number for number, item in enumerate(self._items) if item.finding is not None), 0
        )

    def _arrange(self) -> None:
        self._items = list(self._by_cause() if self.order == "cause" else self._by_connection())
        self._lay_out()

    def _by_cause(self) -> Iterator[_Item]:
        for severity in SEVERITIES:
            for number, finding in enumerate(self.findings):
                if (
                    finding.severity == severity
                    and number not in self._causes
                    and finding.rule not in self._hidden
                ):
                    yield _Item(None, number)
                    for effect in () if self._is_alone else self._effects.get(number, ()):
                        if self.findings[effect].rule not in self._hidden:
                            yield _Item(None, effect, is_effect=True)

    def _by_connection(self) -> Iterator[_Item]:
        numbers_of: dict[int, list[int]] = {}
        for number, finding in enumerate(self.findings):
            for connection in finding.connections if finding.rule not in self._hidden else ():
                numbers_of.setdefault(connection, []).append(number)
        for connection, finding_numbers in sorted(numbers_of.items()):
            yield _Item(connection)
            for number in finding_numbers:
                if self._causes.get(number) not in finding_numbers:
                    yield _Item(connection, number)
                    yield from (
                        _Item(connection, effect, is_effect=True)
                        for effect in self._effects.get(number, ())
                        if effect in finding_numbers
                    )

    # -- the cursor
    # ---------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of headings and findings."""
        return len(self._items)

    @property
    def lines(self) -> int:
        """Height of the whole list, in lines."""
        return max(self._first[-1], not self._hidden) + bool(self._hidden)

    def lines_of(self, place: int) -> tuple[int, int]:
        """Returns the first line of an item, and how many it has."""
        return (
            (self._first[place], self._first[place + 1] - self._first[place])
            if place < self.count
            else (0, 1)
        )

    def place_at(self, x: int, y: int) -> int | None:
        """Returns the item at a line."""
        del x
        return bisect_right(self._first, y) - 1 if 0 <= y < self._first[-1] else None

    def is_bad(self, place: int) -> bool:
        """Whether the item is an error or a warning that is no effect."""
        item = self._items[place]
        return (
            item.finding is not None
            and not item.is_effect
            and self.findings[item.finding].severity != "note"
        )

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
        self._more = [[] for _ in self._items]
        if self._is_alone and self.count:
            self._more[self.at] = self._lines_in_full(self.at)
            free = self.size.height - self.count - len(self._more[self.at])
            for item in range(self.count if free > 0 else 0):
                text = self._lines_in_full(item) if item != self.at else []
                if len(text) > free:
                    break
                self._more[item] = self._more[item] or text
                free -= len(text)
        self._first = [0, *accumulate(1 + len(more) for more in self._more)]
        self.virtual_size = Size(self.size.width, self.lines)

    def _lines_in_full(self, place: int) -> list[str]:
        """Returns what a finding says and what to do, in lines."""
        number, width = (
            self._items[place].finding,
            self.scrollable_content_region.width - _INDENT - 2,
        )
        if number is None or width < 1:
            return []
        finding = self.findings[number]
        lines = wrapped(one_line(finding.what or finding.message), width)
        return (
            [*lines, *wrapped(f"Next: {one_line(for_keys(finding.next))}", width)]
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

    @property
    def connection(self) -> int | None:
        """Number of the connection whose heading the cursor is under; None if there is no such
        heading.
        """
        return self._items[self.at].connection if self.at < len(self._items) else None

    def select(self, finding: int) -> None:
        """Moves the cursor to a finding."""
        self._hidden -= {
            self.findings[finding].rule,
            self.findings[self._causes.get(finding, finding)].rule,
        }
        self._arrange()
        self.set_cursor(
            next(
                (number for number, item in enumerate(self._items) if item.finding == finding),
                self.at,
            )
        )

    def hide(self, rule: str) -> None:
        """Hides all findings of a rule."""
        self._hidden.add(rule)
        self._arrange()
        self.set_cursor(self.at)

    def show_hidden(self) -> bool:
        """Shows hidden findings again. Returns whether there were any."""
        was_hidden = bool(self._hidden)
        self._hidden.clear()
        self._arrange()
        self.refresh()
        return was_hidden

    def on_resize(self) -> None:
        """Wraps the texts to the new width."""
        self._lay_out()
        self.call_after_refresh(self.bring)

    # -- drawing
    # ------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draws one visible line."""
        line, base, width = int(self.scroll_offset.y) + y, self.rich_style, visible_width(self)
        if self._hidden and line == self.lines - 1:
            hidden = sum(finding.rule in self._hidden for finding in self.findings)
            return strip(
                [
                    (
                        (
                            f" {hidden:,} findings of {', '.join(sorted(self._hidden))} are hidden "
                            "(Esc shows them)"
                        ),
                        base,
                    )
                ],
                width,
                base,
            )
        if not self._items and line == 0 and not self._hidden:
            return strip(
                [(" no findings" if self.is_final else " no findings so far", base)], width, base
            )
        number = self.place_at(0, line)
        if number is None or line >= self.lines:
            return Strip.blank(width, base)
        style = base + self.cursor_style() if number == self.at else base
        if line > self._first[number]:
            text = self._more[number][line - self._first[number] - 1]
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
        item, strong = self._items[place], style + Style(bold=True)
        dim = style if place == self.at else self.dim_style()
        if item.is_effect:  # the count of its severity is without it
            style = strong = dim
        if item.finding is None:
            counts = Counter(
                finding.severity
                for finding in self.findings
                if item.connection in finding.connections
            )
            found = "  ".join(
                f"{self._glyphs.of_severity(severity)} {counts[severity]}"
                for severity in SEVERITIES
                if counts[severity]
            )
            yield f"connection {item.connection}  {found}", strong
            yield f"  {self._connections.get(item.connection or 0, '')}", dim
            return
        finding = self.findings[item.finding]
        sign = theme.style_of(self.app, f"severity-{finding.severity}")
        if item.is_effect:
            sign_style = style
        elif place == self.at:
            sign_style = theme.sign_on_cursor(sign, self.rich_style)
        else:
            sign_style = strong + sign
        yield f" {'  ' * (item.is_effect + (item.connection is not None))}", style
        yield (
            self._glyphs.of_severity(finding.severity),
            sign_style,
        )
        yield f" {finding.rule}", strong
        yield f"  {self._where(finding, item)}", dim
        if not self._more[place]:
            yield f"  {self._sentence(finding, item)}", style

    def _where(self, finding: Finding, item: _Item) -> str:
        """Returns the vbuckets and connections of a finding, or of its cases on one connection, and
        how often it was.
        """
        spot, count = where(finding), finding.count
        if item.connection is not None:
            own_cases = [
                case for case in finding.case_of_each if item.connection in case.connections
            ]
            vbuckets = sorted({vbucket for case in own_cases for vbucket in case.vbuckets})
            spot, count = (
                f"vb {ranges(vbuckets)}" if vbuckets else "the connection",
                sum(case.count for case in own_cases),
            )
        return f"{spot}, {count:,} times" if count > 1 else spot

    def _sentence(self, finding: Finding, item: _Item) -> str:
        own_cases = (
            [case for case in finding.case_of_each if item.connection in case.connections]
            if item.connection is not None
            else []
        )
        return one_line(
            own_cases[0].message if len(own_cases) == 1 else finding.what or finding.message
        )


def _key_of(finding: Finding) -> tuple[object, ...]:
    """Returns what identifies a finding, so that it is found again in later results."""
    return finding.rule, finding.cause, finding.connections, finding.vbuckets


def _key(findings: Sequence[Finding], item: _Item) -> tuple[object, ...]:
    return () if item.finding is None else _key_of(findings[item.finding])


def where(finding: Finding) -> str:
    """Writes the vbuckets and connections of a finding by number: ``vb 30–31, con 5``."""
    connections = f"con {ranges(finding.connections)}"
    return f"vb {ranges(finding.vbuckets)}, {connections}" if finding.vbuckets else connections
