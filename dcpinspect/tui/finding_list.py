"""The list of findings, the worst first, each with its effects below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.style import Style

from dcpinspect.findings.finding import Finding, ranges
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.output.render.verdict import with_their_effects
from dcpinspect.text import cells, counted, one_line, wrap
from dcpinspect.tui.advice import for_keys
from dcpinspect.tui.line_view import LineView, Piece

_INDENT = 5
"""Width of what stands before the further lines of a finding, in columns."""
_NEXT = "Next: "
WIDE = 100
"""Width in columns from which rules, places and sentences stand below each other."""
_WIDEST = 30
"""Greatest width of the column of rules, and of that of places, in columns."""


class FindingList(LineView, can_focus=True, inherit_bindings=False):
    """One line for each finding; where nothing else tells more, the chosen one has its whole
    sentence and what to do, and others have them where there is room.
    """

    def __init__(self, *, is_alone: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        """Makes the list. ``is_alone``: it has causes only, and the chosen one is told in full."""
        super().__init__(id=id)
        self._is_alone = is_alone
        self.findings: Sequence[Finding] = ()
        self.is_final = False
        self.evidence: int | None = None
        """Place of the message in the evidence that ``]`` or ``[`` selected; None: none did."""
        self.items: list[Finding] = []
        self._effects: set[str] = set()
        """Ids of the effects, each of which stands below its cause."""
        self._columns = 0, 0
        """Width of the columns of rules and of places."""

    def show(self, findings: Sequence[Finding], *, is_final: bool) -> None:
        """Shows the findings so far; the cursor stays on its finding, or on the worst."""
        before, is_moved = self.shown_finding, self.is_moved
        self.findings, self.is_final = findings, is_final
        causes, effects_of = with_their_effects(findings)
        effects_of = {} if self._is_alone else effects_of
        self.items = [
            item
            for cause in sorted(causes, key=lambda cause: SEVERITIES.index(cause.severity))
            for item in (cause, *effects_of.get(cause.id, ()))
        ]
        self._effects = {effect.id for effects in effects_of.values() for effect in effects}
        rules, spots = map(self._rule, self.items), map(self._where, self.items)
        self._columns = _widest(rules), _widest(spots)
        self._lay_out()
        likeness = [_likeness(before, item) if before and is_moved else 0 for item in self.items]
        self.set_cursor(likeness.index(max(likeness, default=0)) if likeness else 0)
        self.is_moved = is_moved

    # -- the cursor

    def is_bad(self, place: int) -> bool:
        """Whether the item is an error or a warning that is no effect."""
        item = self.items[place]
        return item.id not in self._effects and item.severity != "note"

    def set_cursor(self, place: int) -> None:
        """Moves the cursor to an item."""
        self.evidence = None
        self.at = max(0, min(place, self.count - 1))
        self._lay_out()
        super().set_cursor(place)

    def _lay_out(self) -> None:
        """Tells findings in full, if they are alone. Notes may be scrolled for the others."""
        if self._is_alone:
            bad = sum(map(self.is_bad, range(self.count)))
            self.tell_in_full(self.count - bad if bad else 0)

    def in_full(self, place: int, *, is_brief: bool = False) -> list[str]:
        """Returns the rest of what a finding says, and what to do, in lines."""
        advice = self.items[place].next
        lines = self._sentence(place)[1:]
        if advice and not is_brief:
            text = f"{' ' * _INDENT}{_NEXT}{one_line(for_keys(advice))}"
            lines += wrap(text, self._text_width, " " * _INDENT)
        return lines

    @property
    def _text_width(self) -> int:
        """Width of the text; before the layout, the list is taken to be as wide as the screen."""
        return max(
            2 * _INDENT, (self.scrollable_content_region.width or self.app.size.width - 1) - 2
        )

    def _sentence(self, place: int) -> list[str]:
        """Returns what a finding says, in lines; the first stands behind its rule and its places."""
        finding = self.items[place]
        before = min(4 + sum(map(cells, self._names(finding))), self._text_width)
        text = f"{'_' * before}  {one_line(finding.what or finding.message)}"
        first, *more = wrap(text, self._text_width, " " * _INDENT)
        return [first[before:], *more]

    @property
    def finding(self) -> int | None:
        """Number of the finding under the cursor."""
        finding = self.shown_finding
        ids = [finding.id for finding in self.findings]
        return None if finding is None else ids.index(finding.id)

    @property
    def shown_finding(self) -> Finding | None:
        """The finding under the cursor."""
        return self.items[self.at] if self.at < len(self.items) else None

    def select(self, finding: int) -> None:
        """Moves the cursor to a finding."""
        rank_of = {item.id: rank for rank, item in enumerate(self.items)}
        self.set_cursor(rank_of.get(self.findings[finding].id, self.at))

    def fit(self) -> None:
        """Wraps the texts to the width."""
        self._lay_out()
        self.call_after_refresh(self.bring)

    @property
    def below(self) -> int:
        """Number of findings below what is seen, without effects, as the title counts them."""
        hidden = self.items[self.count - super().below :]
        return sum(item.id not in self._effects for item in hidden)

    # -- drawing

    def empty_line(self, line: int) -> str:
        """Says that nothing was found."""
        return "" if line else " no findings" if self.is_final else " no findings so far"

    def pieces(self, place: int, part: int, style: Style) -> Iterator[Piece]:
        """Yields the line of a finding, or one of those that tell it in full."""
        if not part:
            yield from self._pieces(place, style)
            return
        before, advice, text = self.more[place][part - 1].partition(f" {_NEXT}")
        if before.strip():  # a sentence that has this word
            before, advice, text = before + advice + text, "", ""
        yield from ((before, style), (advice, style + Style(bold=True)), (text, style))

    def _pieces(self, place: int, style: Style) -> Iterator[Piece]:
        finding, strong = self.items[place], style + Style(bold=True)
        is_effect = finding.id in self._effects
        dim = style if place == self.at else self.dim_style()
        glyph = " " if is_effect else self._glyphs.of_severity(finding.severity)
        sign_style = self.sign_style(finding.severity, style, is_here=place == self.at)
        if is_effect:  # it is not counted, so it has no sign of its own
            style = strong = sign_style = dim
        rule, spots = self._names(finding)
        yield " ", style
        yield glyph, sign_style
        yield rule, strong
        yield spots, dim
        if place in self.more:
            yield self._sentence(place)[0], style
        else:
            yield f"  {one_line(finding.what or finding.message)}", style

    def _names(self, finding: Finding) -> tuple[str, str]:
        """Returns the rule and the places of a finding, as they stand before its sentence."""
        # on a narrow screen, sentences need the room
        rule, spots = self._columns if self.size.width >= WIDE else (0, 0)
        return (
            f" {_padded(self._rule(finding), rule)}",
            f"  {_padded(self._where(finding), spots)}",
        )

    def _rule(self, finding: Finding) -> str:
        effect = f"{self._glyphs.effect} " if finding.id in self._effects else ""
        return f"{effect}{finding.rule}"

    def _where(self, finding: Finding) -> str:
        """Returns the vbuckets and connections of a finding, and how often it was."""
        times = f" ({finding.count:,} cases)" if finding.count > 1 else ""
        return f"{where(finding)}{times}"


def _widest(texts: Iterable[str]) -> int:
    return max((size for size in map(cells, texts) if size <= _WIDEST), default=0)


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - cells(text))


def _likeness(before: Finding, finding: Finding) -> int:
    """Returns 2 for the same finding in other results, 1 for one that may have grown to it; else 0."""
    if (finding.rule, finding.cause) != (before.rule, before.cause):
        return 0
    is_same = (finding.connections, finding.vbuckets) == (before.connections, before.vbuckets)
    return 2 if is_same else int(not {*finding.connections}.isdisjoint(before.connections))


def where(finding: Finding) -> str:
    """Writes the vbuckets and connections of a finding by number: ``vb 30–31, con 5``; only how
    many vbuckets where numbers take too much room.
    """
    vbuckets = f"vb {ranges(finding.vbuckets)}, " if finding.vbuckets else ""
    if cells(vbuckets) > _WIDEST:
        vbuckets = f"{counted(len(finding.vbuckets), 'vbucket')}, "
    return f"{vbuckets}con {ranges(finding.connections)}"
