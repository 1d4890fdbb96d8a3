"""The list of findings, the worst first, ordered by cause or by connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from dcpinspect.escape import clip, one_line
from dcpinspect.findings.finding import Finding, ranges
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.protocol.message import Severity
from dcpinspect.tui.strips import LineView, Piece, strip, wrapped
from dcpinspect.tui.theme import Glyphs

Heading = Severity | int
"""What findings are grouped under: their severity, or the number of their connection."""
Order = Literal["cause", "connection"]


class _Item(NamedTuple):
    """A heading, or a finding."""

    heading: Heading
    """The heading above the finding, or the heading itself."""
    finding: int | None = None
    is_effect: bool = False
    """Whether the finding is an effect of the nearest finding above that is a cause."""


class _Line(NamedTuple):
    """One screen line of an item."""

    item: int
    head: str = ""
    """The emphasized part: the rule, or the words of a heading."""
    dim: str = ""
    """The dimmed part: where it happened."""
    text: str = ""


class FindingList(LineView, can_focus=True, inherit_bindings=False):
    """Findings in whole sentences under headings that can be folded."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"found--cursor", "found--dim", "found--error", "found--warning", "found--note"}

    class Moved(Message):
        """Sent when the cursor moves to another line."""

    class Opened(Message):
        """Sent when the user presses Enter on a finding."""

        def __init__(self, finding: int) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self, glyphs: Glyphs, *, is_brief: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        """Makes the list. ``is_brief``: shows only causes, without headings, at most two lines each."""
        super().__init__(id=id)
        self._glyphs = glyphs
        self._is_brief = is_brief
        self.findings: Sequence[Finding] = ()
        self.order: Order = "cause"
        self.is_final = False
        self.evidence: int | None = None
        """Place of the message in the evidence that ``]`` and ``[`` selected; None if these keys were not pressed."""
        self._connections: Mapping[int, str] = {}
        self._folded: set[Heading] = set()
        self._hidden: set[str] = set()
        self._effects: dict[int, list[int]] = {}
        """Numbers of the effects, by number of their cause."""
        self._causes: dict[int, int] = {}
        """Number of the cause, by number of the effect."""
        self._items: list[_Item] = []
        self._lines: list[_Line] = []
        self._first: list[int] = []
        """First screen line of each item, and the end of the last item."""
        self._at = 0

    def show(self, findings: Sequence[Finding], connections: Mapping[int, str], *, is_final: bool) -> None:
        """Shows the findings so far. ``connections``: descriptions of the connections by number, safe for a terminal."""
        before = self._items[self._at] if self._at < len(self._items) else None
        kept = self.shown
        self.findings, self.is_final, self._connections = findings, is_final, connections
        numbers = {one.id: number for number, one in enumerate(findings) if one.effect_of is None}
        self._causes = {number: numbers[one.effect_of] for number, one in enumerate(findings) if one.effect_of in numbers}
        self._effects = {}
        for effect, cause in self._causes.items():
            self._effects.setdefault(cause, []).append(effect)
        self._arrange()
        if kept is not None and before is not None:
            key = _key(kept)
            same = [place for place, item in enumerate(self._items) if item.finding is not None and _key(findings[item.finding]) == key]
            if same:
                self._move(next((place for place in same if self._items[place].heading == before.heading), same[0]))
                return
        self._move(min(self._at, max(0, len(self._items) - 1)) if kept else self._first_finding())

    def next_order(self) -> None:
        """Switches between order by cause and order by connection; the cursor stays on its finding."""
        here = self.finding
        self.order = "connection" if self.order == "cause" else "cause"
        self._folded.clear()
        self._arrange()
        self._move(self._first_finding())
        if here is not None:
            self.select(here)

    def _first_finding(self) -> int:
        return next((place for place, item in enumerate(self._items) if item.finding is not None), 0)

    def _arrange(self) -> None:
        self._items = list(self._by_cause() if self.order == "cause" else self._by_connection())
        self._wrap()

    @property
    def _room(self) -> int:
        """Width of the list without the scrollbar."""
        return self.scrollable_content_region.width

    def _wrap(self) -> None:
        """Wraps the texts to the width of the list."""
        self._lines, self._first = [], []
        for number, item in enumerate(self._items):
            self._first.append(len(self._lines))
            self._lines += self._heading(number, item) if item.finding is None else self._sentence(number, item)
        self._first.append(len(self._lines))
        self.virtual_size = Size(self.size.width, len(self._lines) + bool(self._hidden))
        self.refresh()

    def _by_cause(self) -> Iterator[_Item]:
        for severity in SEVERITIES:
            own = [number for number in self._standing(severity) if self._is_shown(number)]
            if own and not self._is_brief:
                yield _Item(severity)
            for number in own if severity not in self._folded else ():
                yield _Item(severity, number)
                if not self._is_brief:
                    yield from (_Item(severity, one, is_effect=True) for one in self._effects.get(number, ()) if self._is_shown(one))

    def _by_connection(self) -> Iterator[_Item]:
        found: dict[int, list[int]] = {}
        for number, one in enumerate(self.findings):
            for connection in one.connections if self._is_shown(number) else ():
                found.setdefault(connection, []).append(number)
        for connection in sorted(found):
            yield _Item(connection)
            own = found[connection] if connection not in self._folded else ()
            for number in own:
                if self._causes.get(number) not in own:
                    yield _Item(connection, number)
                    yield from (_Item(connection, one, is_effect=True) for one in self._effects.get(number, ()) if one in own)

    def _is_shown(self, number: int) -> bool:
        return self.findings[number].rule not in self._hidden

    def _standing(self, severity: Severity) -> list[int]:
        """Returns the numbers of the findings with this severity that are not effects of others."""
        return [number for number, one in enumerate(self.findings) if one.severity == severity and number not in self._causes]

    # -- in words -----------------------------------------------------------------------------------------

    def _heading(self, number: int, item: _Item) -> Iterator[_Line]:
        heading = item.heading
        if isinstance(heading, int):
            counts = Counter(one.severity for one in self.findings if heading in one.connections)
            found = "  ".join(f"{self._glyphs.of(severity)} {counts[severity]}" for severity in SEVERITIES if counts[severity])
            yield _Line(number, f"con {heading}  {found}", f"  {self._connections.get(heading, '')}")
        else:
            count = len(self._standing(heading))
            yield _Line(number, f"{self._glyphs.of(heading)} {count:,} {heading}{'' if count == 1 else 's'}")

    def _sentence(self, number: int, item: _Item) -> Iterator[_Line]:
        """Yields rule and place on one line and the sentence below, or all on one line if it fits."""
        assert item.finding is not None
        one = self.findings[item.finding]
        text, place, count = one_line(one.what or one.message), where(one), one.count
        if self.order == "connection":
            own = [case for case in one.each if item.heading in case.connections]
            text = one_line(own[0].message) if len(own) == 1 else text
            vbuckets = sorted({vbucket for case in own for vbucket in case.vbuckets})
            place, count = f"vb {ranges(vbuckets)}" if vbuckets else "the connection", sum(case.count for case in own)
        if count > 1:
            place += f", {count:,} times"
        room = self._room - _INDENT - 2 * item.is_effect
        if len(one.rule) + len(place) + len(text) + 4 <= room:
            yield _Line(number, one.rule, f"  {place}: ", text)
            return
        yield _Line(number, one.rule, f"  {clip(place, max(1, room - len(one.rule) - 2))}")
        lines = wrapped(text, room - 2)
        if self._is_brief and len(lines) > 1:
            lines = [clip(text, room - 2)]
        yield from (_Line(number, text=line) for line in lines)

    # -- the cursor ---------------------------------------------------------------------------------------

    @property
    def finding(self) -> int | None:
        """Number of the finding under the cursor."""
        return self._items[self._at].finding if self._at < len(self._items) else None

    @property
    def shown(self) -> Finding | None:
        """The finding under the cursor."""
        return self.findings[self.finding] if self.finding is not None else None

    @property
    def connection(self) -> int | None:
        """Number of the connection whose heading the cursor is under; None if there is no such heading."""
        heading = self._items[self._at].heading if self._at < len(self._items) else None
        return heading if isinstance(heading, int) else None

    def select(self, finding: int) -> None:
        """Moves the cursor to a finding."""
        cause = self._causes.get(finding, finding)
        self._hidden -= {self.findings[finding].rule, self.findings[cause].rule}
        if self.order == "cause":
            self._folded.discard(self.findings[cause].severity)
        else:
            self._folded -= set(self.findings[finding].connections)
        self._arrange()
        self._move(next(place for place, item in enumerate(self._items) if item.finding == finding))

    def hide(self, rule: str) -> None:
        """Hides all findings of a rule."""
        self._hidden.add(rule)
        self._arrange()
        self._move(min(self._at, max(0, len(self._items) - 1)))

    def show_hidden(self) -> bool:
        """Shows hidden findings again. Returns whether there were any."""
        was_hidden = bool(self._hidden)
        self._hidden.clear()
        self._arrange()
        return was_hidden

    def _move(self, place: int) -> None:
        self._at = place
        self.evidence = None
        self._bring()
        self.post_message(self.Moved())

    def _bring(self) -> None:
        """Scrolls the item into view, at least its first line."""
        if self._at < len(self._items):
            first, end = self._first[self._at], self._first[self._at + 1]
            if self._at and self._items[self._at - 1].finding is None:
                first -= 1  # the heading is to be in view, too
            top, height = int(self.scroll_offset.y), max(self.size.height, 1)
            if not top <= first <= end <= top + height:
                self.scroll_to(y=first if first < top or end - first > height else end - height, animate=False, immediate=True)
        self.refresh()

    def action_step(self, lines: int) -> None:
        """Moves the cursor down by so many items, or up."""
        if self._items:
            self._move(min(max(self._at + lines, 0), len(self._items) - 1))

    @property
    def is_at_edge(self) -> tuple[bool, bool]:
        """Whether the cursor is on the first item, and whether it is on the last."""
        return self._at == 0, self._at >= len(self._items) - 1

    def action_page(self, pages: int) -> None:
        """Moves the cursor down by so many screens, or up."""
        if self._items:
            line = self._first[self._at] + pages * max(1, self.size.height - 1)
            self.action_step(self._lines[min(max(line, 0), len(self._lines) - 1)].item - self._at)

    def action_first(self) -> None:
        """Moves the cursor to the worst finding, which is the first."""
        self.action_step(-len(self._items))

    def action_last(self) -> None:
        """Moves the cursor to the last finding."""
        self.action_step(len(self._items))

    def action_fold(self) -> None:
        """Hides all findings under this heading."""
        if self._items and not self._is_brief:
            heading = self._items[self._at].heading
            self._folded.add(heading)
            self._arrange()
            self._move(next(place for place, item in enumerate(self._items) if item.heading == heading))

    def action_unfold(self) -> None:
        """Shows all findings under this heading."""
        if self._items:
            self._folded.discard(self._items[self._at].heading)
            self._arrange()

    def action_toggle_fold(self) -> None:
        """Folds the heading, or unfolds it."""
        if self._items and self._items[self._at].heading in self._folded:
            self.action_unfold()
        else:
            self.action_fold()

    def action_open(self) -> None:
        """Goes to the message that shows the finding; folds or unfolds a heading."""
        if self.finding is None:
            self.action_toggle_fold()
        else:
            self.post_message(self.Opened(self.finding))

    def bad(self, *, back: bool = False) -> bool:
        """Moves the cursor to the next error or warning, or to the one before. Returns whether there is one."""
        places = [
            place
            for place, item in enumerate(self._items)
            if item.finding is not None and not item.is_effect and self.findings[item.finding].severity != "note"
        ]
        others = [place for place in places if (place < self._at if back else place > self._at)]
        if others:
            self._move(others[-1] if back else others[0])
        return bool(others)

    def on_click(self, event: events.Click) -> None:
        """Selects the clicked item; a second click opens it."""
        place = int(self.scroll_offset.y) + event.y
        if place < len(self._lines):
            item = self._lines[place].item
            if item == self._at and (self.has_focus or self._is_brief):
                self.action_open()
            else:
                self._move(item)

    def on_resize(self) -> None:
        """Wraps the texts to the new width."""
        self._wrap()
        self.call_after_refresh(self._bring)

    # -- drawing ------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draws one visible line."""
        place, base = int(self.scroll_offset.y) + y, self.rich_style
        if self._hidden and place == len(self._lines):
            hidden = sum(one.rule in self._hidden for one in self.findings)
            words = f" {hidden:,} findings of {', '.join(sorted(self._hidden))} are hidden (Esc shows them)"
            return strip([(words, base)], self.size.width, base)
        if not self._lines and y == 0:
            words = "no findings" if self.is_final else "no findings so far"
            return strip([(f" {words}", base)], self.size.width, base)
        if place >= len(self._lines):
            return Strip.blank(self.size.width, base)
        return strip(self._pieces(self._lines[place], base), self.size.width, self._background(self._lines[place].item, base))

    def _background(self, item: int, base: Style) -> Style:
        return base + self.get_component_rich_style("found--cursor", partial=True) if item == self._at else base

    def _pieces(self, line: _Line, base: Style) -> Iterator[Piece]:
        item, style = self._items[line.item], self._background(line.item, base)
        dim = style if line.item == self._at else style + self.get_component_rich_style("found--dim", partial=True)
        strong = style + Style(bold=True)
        yield self._glyphs.cursor if line.item == self._at else " ", style
        if item.finding is None:
            sign = self._glyphs.folded if item.heading in self._folded else self._glyphs.open
            colour = strong if isinstance(item.heading, int) else self._colour(item.heading, line.item, style)
            yield f"{sign} ", colour
            yield line.head, colour
            yield clip(line.dim, max(0, self._room - len(line.head) - 3)), dim
            return
        severity, indent = self.findings[item.finding].severity, "  " if item.is_effect else ""
        if not line.head:
            yield f"{indent}{' ' * (_INDENT + 1)}{line.text}", style
            return
        yield f" {indent}", style
        yield self._glyphs.of(severity), self._colour(severity, line.item, style)
        yield " ", style
        yield line.head, strong
        yield line.dim, dim
        yield line.text, style

    def _colour(self, severity: Severity, item: int, style: Style) -> Style:
        """Returns the style of a severity's sign. Under the cursor it has the colour of the text, which is readable on that background."""
        if item == self._at and self.has_focus:
            return style + Style(bold=True)
        return style + self.get_component_rich_style(f"found--{severity}", partial=True) + Style(bold=True)

    @property
    def lines(self) -> int:
        """Height of the whole list, in lines."""
        return len(self._lines)

    def notify_style_update(self) -> None:
        """Redraws in the colours of another theme."""
        super().notify_style_update()
        self.refresh()


_INDENT = 4
"""Width of what stands before the rule, the cursor and the sign, in columns."""


def _key(one: Finding) -> tuple[object, ...]:
    """Returns what identifies a finding, so that it is found again in later results."""
    return one.rule, one.cause, one.connections, one.vbuckets


def where(one: Finding) -> str:
    """Writes the vbuckets and connections of a finding by number: ``vb 30–31, con 5``."""
    connections = f"con {ranges(one.connections)}"
    return f"vb {ranges(one.vbuckets)}, {connections}" if one.vbuckets else connections
