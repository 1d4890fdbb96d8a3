"""What is wrong, worst first, as a list to walk through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dcpinspect.escape import clip, one_line
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.protocol.message import Severity
from dcpinspect.tui.strips import strip
from dcpinspect.tui.theme import Glyphs


@dataclass(frozen=True, slots=True)
class _Line:
    """A heading, or the number of a finding."""

    severity: Severity
    """Of the heading that it stands under."""
    finding: int | None = None
    is_effect: bool = False
    """Of the finding above, or of the same one as that."""


_WIDE = 110
"""Columns from which everything has one of its own."""


def _short(one: Finding) -> str:
    if len(one.vbuckets) == 1:
        return f"vb {one.vbuckets[0]}:"
    connections = len(one.connections)
    return f"{len(one.vbuckets)} vbs:" if one.vbuckets else f"con {one.connections[0]}:" if connections == 1 else f"{connections} cons:"


class FindingList(ScrollView, can_focus=True, inherit_bindings=False):
    """Findings under the headings of their severities, which fold."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"found--cursor", "found--error", "found--warning", "found--note"}

    class Moved(Message):
        """The cursor came to another line."""

    class Opened(Message):
        """Enter on a finding."""

        def __init__(self, finding: int) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self.findings: Sequence[Finding] = ()
        self.is_final = False
        self.evidence = 0
        """Which of the finding's messages ``]`` and ``[`` came to."""
        self._folded: set[Severity] = set()
        self._hidden: set[str] = set()
        self._effects: dict[int, list[int]] = {}
        """Numbers of the effects of each cause."""
        self._causes: dict[int, int] = {}
        """By effect, its cause."""
        self._lines: list[_Line] = []
        self._at = 0

    def show(self, findings: Sequence[Finding], *, is_final: bool) -> None:
        """What was found by now."""
        before = self.finding
        kept = self.findings[before] if before is not None else None
        self.findings, self.is_final = findings, is_final
        numbers = {one.id: number for number, one in enumerate(findings) if one.effect_of is None}
        self._causes = {number: numbers[one.effect_of] for number, one in enumerate(findings) if one.effect_of in numbers}
        self._effects = {}
        for effect, cause in self._causes.items():
            self._effects.setdefault(cause, []).append(effect)
        self._arrange()
        if kept is not None:
            key = (kept.rule, kept.cause, kept.connections, kept.vbuckets)
            for number, one in enumerate(findings):
                if (one.rule, one.cause, one.connections, one.vbuckets) == key:
                    self.select(number)
                    return
        self._move(min(self._at, max(0, len(self._lines) - 1)) if kept else (1 if len(self._lines) > 1 else 0))

    def _arrange(self) -> None:
        self._lines = []
        for severity in SEVERITIES:
            own = [number for number in self._standing(severity) if self.findings[number].rule not in self._hidden]
            if own:
                self._lines.append(_Line(severity))
            for number in own if severity not in self._folded else ():
                self._lines.append(_Line(severity, number))
                mine = [one for one in self._effects.get(number, ()) if self.findings[one].rule not in self._hidden]
                self._lines += [_Line(severity, one, is_effect=True) for one in mine]
        self.virtual_size = Size(self.size.width, len(self._lines))
        self.refresh()

    def _standing(self, severity: Severity) -> list[int]:
        """Numbers of the findings under a heading: those that are no effects."""
        return [number for number, one in enumerate(self.findings) if one.severity == severity and number not in self._causes]

    @property
    def finding(self) -> int | None:
        """Number of the finding under the cursor."""
        return self._lines[self._at].finding if self._at < len(self._lines) else None

    @property
    def shown(self) -> Finding | None:
        """The finding under the cursor."""
        return self.findings[self.finding] if self.finding is not None else None

    def select(self, finding: int) -> None:
        """The cursor goes to a finding."""
        cause = self._causes.get(finding, finding)
        self._folded.discard(self.findings[cause].severity)
        self._hidden -= {self.findings[finding].rule, self.findings[cause].rule}
        self._arrange()
        self._move(next(place for place, line in enumerate(self._lines) if line.finding == finding))

    def hide(self, rule: str) -> None:
        """Hides all findings of a rule."""
        self._hidden.add(rule)
        self._arrange()
        self._move(min(self._at, max(0, len(self._lines) - 1)))

    def show_hidden(self) -> bool:
        """Shows what was hidden; whether anything was."""
        was_hidden = bool(self._hidden)
        self._hidden.clear()
        self._arrange()
        return was_hidden

    def _move(self, place: int) -> None:
        self._at = place
        self.evidence = 0
        top, height = int(self.scroll_offset.y), max(self.size.height, 1)
        if not top <= place < top + height:
            self.scroll_to(y=max(0, place if place < top else place - height + 1), animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved())

    def action_step(self, lines: int) -> None:
        """Up or down."""
        if self._lines:
            self._move(min(max(self._at + lines, 0), len(self._lines) - 1))

    def action_page(self, pages: int) -> None:
        """A screen on, or back."""
        self.action_step(pages * max(1, self.size.height - 1))

    def action_first(self) -> None:
        """To the worst."""
        self.action_step(-len(self._lines))

    def action_last(self) -> None:
        """To the last."""
        self.action_step(len(self._lines))

    def action_fold(self) -> None:
        """Hides all of this severity."""
        if self._lines:
            severity = self._lines[self._at].severity
            self._folded.add(severity)
            self._arrange()
            self._move(next(place for place, line in enumerate(self._lines) if line.severity == severity))

    def action_unfold(self) -> None:
        """Shows all of this severity."""
        if self._lines:
            self._folded.discard(self._lines[self._at].severity)
            self._arrange()

    def action_toggle_fold(self) -> None:
        """Folds, or unfolds."""
        if self._lines and self._lines[self._at].severity in self._folded:
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
        bad = [line.finding is not None and not line.is_effect and line.severity != "note" for line in self._lines]
        places = [place for place, is_bad in enumerate(bad) if is_bad]
        others = [place for place in places if (place < self._at if back else place > self._at)]
        if others:
            self._move(others[-1] if back else others[0])
        return bool(others)

    def on_click(self, event: events.Click) -> None:
        """The first click selects, the second opens."""
        place = int(self.scroll_offset.y) + event.y
        if place < len(self._lines):
            if place == self._at:
                self.action_open()
            else:
                self._move(place)

    def on_resize(self) -> None:
        """Lines are as wide as the list."""
        self._arrange()

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
        place = int(self.scroll_offset.y) + y
        base = self.rich_style
        if self._hidden and place == len(self._lines):
            hidden = sum(one.rule in self._hidden for one in self.findings)
            words = f" {hidden:,} findings of {', '.join(sorted(self._hidden))} are hidden (Esc shows them)"
            return strip([(words, base)], self.size.width, base)
        if not self._lines and y == 0:
            words = "no findings" if self.is_final else "no findings so far"
            return strip([(f" {words}", base)], self.size.width, base)
        if place >= len(self._lines):
            return Strip.blank(self.size.width, base)
        line = self._lines[place]
        style = base + self.get_component_rich_style("found--cursor", partial=True) if place == self._at else base
        cursor = self._glyphs.cursor if place == self._at else " "
        severity = line.severity if line.finding is None else self.findings[line.finding].severity
        sign = self._glyphs.of(severity)
        colour = style + Style(color=self.get_component_rich_style(f"found--{severity}", partial=True).color, bold=True)
        if line.finding is None:
            count = len(self._standing(line.severity))
            fold = self._glyphs.folded if line.severity in self._folded else self._glyphs.open
            words = f"{line.severity}{'' if count == 1 else 's'}"
            return strip(
                [(cursor, style), (f"{fold} {sign} ", colour), (f"{count:,} {words}", style + Style(bold=True))], self.size.width, style
            )
        one, indent = self.findings[line.finding], "  " if line.is_effect else ""
        if self.size.width >= _WIDE:
            text = f"{clip(one.rule, 28):<28} {clip(one.where, 24):<24} {one.count:>6,}  {one_line(one.message)}"
        else:
            text = f"{clip(one.rule, 22):<22} {_short(one)} {one_line(one.message)}"
        return strip(
            [(cursor, style), (f"  {indent}{sign} ", colour), (clip(text, max(0, self.size.width - 5 - len(indent))), style)],
            self.size.width,
            style,
        )

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self.refresh()
