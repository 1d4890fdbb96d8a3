"""What is wrong, worst first, as a list to walk through: by cause, or by connection."""

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
"""What findings stand under: their severity, or the number of their connection."""
Order = Literal["cause", "connection"]


class _Item(NamedTuple):
    """A heading, or a finding."""

    heading: Heading
    """Of the finding, or the heading itself."""
    finding: int | None = None
    is_effect: bool = False
    """Of the finding above, or of the same one as that."""


class _Line(NamedTuple):
    """One line of an item."""

    item: int
    head: str = ""
    """What stands out: the rule, or the words of a heading."""
    dim: str = ""
    """What stands back: where it happened."""
    text: str = ""


class FindingList(LineView, can_focus=True, inherit_bindings=False):
    """Findings in whole sentences under headings, which fold."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"found--cursor", "found--dim", "found--error", "found--warning", "found--note"}

    class Moved(Message):
        """The cursor came to another line."""

    class Opened(Message):
        """Enter on a finding."""

        def __init__(self, finding: int) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self, glyphs: Glyphs, *, is_brief: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        """``is_brief``: causes only, without headings, two lines each at most."""
        super().__init__(id=id)
        self._glyphs = glyphs
        self._is_brief = is_brief
        self.findings: Sequence[Finding] = ()
        self.order: Order = "cause"
        self.is_final = False
        self.evidence: int | None = None
        """Which of the finding's messages ``]`` and ``[`` came to; None: they were not pressed."""
        self._connections: Mapping[int, str] = {}
        self._folded: set[Heading] = set()
        self._hidden: set[str] = set()
        self._effects: dict[int, list[int]] = {}
        """Numbers of the effects of each cause."""
        self._causes: dict[int, int] = {}
        """By effect, its cause."""
        self._items: list[_Item] = []
        self._lines: list[_Line] = []
        self._first: list[int] = []
        """The first line of each item, and where the last one ends."""
        self._at = 0

    def show(self, findings: Sequence[Finding], connections: Mapping[int, str], *, is_final: bool) -> None:
        """What was found by now; ``connections``: in words, safe for a terminal."""
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
        """By cause, or by connection; the cursor stays on its finding."""
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
        """Columns beside the scrollbar."""
        return self.scrollable_content_region.width

    def _wrap(self) -> None:
        """Lines as wide as the list."""
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
        """Numbers of the findings under a heading: those that are no effects."""
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
        """Rule and place on one line, the sentence below; all on one where it fits."""
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
        """The connection that the cursor is under the heading of; None where there is none."""
        heading = self._items[self._at].heading if self._at < len(self._items) else None
        return heading if isinstance(heading, int) else None

    def select(self, finding: int) -> None:
        """The cursor goes to a finding."""
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
        """Shows what was hidden; whether anything was."""
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
        """The lines of the item come into view, the first of them at least."""
        if self._at < len(self._items):
            first, end = self._first[self._at], self._first[self._at + 1]
            if self._at and self._items[self._at - 1].finding is None:
                first -= 1  # with its heading
            top, height = int(self.scroll_offset.y), max(self.size.height, 1)
            if not top <= first <= end <= top + height:
                self.scroll_to(y=first if first < top or end - first > height else end - height, animate=False, immediate=True)
        self.refresh()

    def action_step(self, lines: int) -> None:
        """Up or down."""
        if self._items:
            self._move(min(max(self._at + lines, 0), len(self._items) - 1))

    @property
    def is_at_edge(self) -> tuple[bool, bool]:
        """Whether the cursor is on the first item, and on the last."""
        return self._at == 0, self._at >= len(self._items) - 1

    def action_page(self, pages: int) -> None:
        """A screen on, or back."""
        if self._items:
            line = self._first[self._at] + pages * max(1, self.size.height - 1)
            self.action_step(self._lines[min(max(line, 0), len(self._lines) - 1)].item - self._at)

    def action_first(self) -> None:
        """To the worst."""
        self.action_step(-len(self._items))

    def action_last(self) -> None:
        """To the last."""
        self.action_step(len(self._items))

    def action_fold(self) -> None:
        """Hides all below this heading."""
        if self._items and not self._is_brief:
            heading = self._items[self._at].heading
            self._folded.add(heading)
            self._arrange()
            self._move(next(place for place, item in enumerate(self._items) if item.heading == heading))

    def action_unfold(self) -> None:
        """Shows all below this heading."""
        if self._items:
            self._folded.discard(self._items[self._at].heading)
            self._arrange()

    def action_toggle_fold(self) -> None:
        """Folds, or unfolds."""
        if self._items and self._items[self._at].heading in self._folded:
            self.action_unfold()
        else:
            self.action_fold()

    def action_open(self) -> None:
        """To the message that shows it."""
        if self.finding is None:
            self.action_toggle_fold()
        else:
            self.post_message(self.Opened(self.finding))

    def bad(self, *, back: bool = False) -> bool:
        """To the next error or warning; whether there is one."""
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
        """The first click selects, the second opens."""
        place = int(self.scroll_offset.y) + event.y
        if place < len(self._lines):
            item = self._lines[place].item
            if item == self._at and (self.has_focus or self._is_brief):
                self.action_open()
            else:
                self._move(item)

    def on_resize(self) -> None:
        """Lines are as wide as the list."""
        self._wrap()
        self.call_after_refresh(self._bring)

    # -- drawing ------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
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
        """Of a sign; under the cursor that of the text, which is seen on its background."""
        if item == self._at and self.has_focus:
            return style + Style(bold=True)
        return style + self.get_component_rich_style(f"found--{severity}", partial=True) + Style(bold=True)

    @property
    def lines(self) -> int:
        """That it takes where there is room."""
        return len(self._lines)

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self.refresh()


_INDENT = 4
"""Columns before the rule, with the cursor and the sign."""


def _key(one: Finding) -> tuple[object, ...]:
    """What it has in common with itself in an earlier look."""
    return one.rule, one.cause, one.connections, one.vbuckets


def where(one: Finding) -> str:
    """Vbuckets by their numbers, and connections: ``vb 30–31, con 5``."""
    connections = f"con {ranges(one.connections)}"
    return f"vb {ranges(one.vbuckets)}, {connections}" if one.vbuckets else connections
