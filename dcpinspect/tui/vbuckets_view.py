"""The second view: the map of all vbuckets with details of one, or all of them over time, where few
vbuckets have a line each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rich.text import Text
from textual import on
from textual.containers import VerticalScroll
from textual.widgets import Static

from dcpinspect.findings.finding import ranges
from dcpinspect.output.render.timeline_text import gaps_in_words
from dcpinspect.output.render.verdict import items_text, stood_words, with_their_effects
from dcpinspect.text import counted, escape, one_line
from dcpinspect.tui import theme
from dcpinspect.tui.heat_map import ALSO_OF_SIGNS, HeatMap
from dcpinspect.tui.line_view import LineView, flowed, labelled
from dcpinspect.tui.results import Results
from dcpinspect.tui.vbucket_map import VbucketMap
from dcpinspect.tui.view import Spot, View

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation

_CARD = 16
"""Lines that the facts and findings of a vbucket take below the others, if there is room."""
_LEAST_CARD = 7
"""Lines that they take at least."""
_LINES, _HIGHEST = 2, 5
"""Least height in lines of a vbucket over time with signs below its items, and the greatest."""


class VbucketsView(View):
    """One of the forms, what its signs mean, and words about what is under the cursor."""

    def __init__(self, host: Navigation) -> None:
        self._legend, self._about = Static(id="vbuckets-legend"), Static(id="vbuckets-about")
        self._side = VerticalScroll(self._legend, self._about, id="vbuckets-side", can_focus=False)
        self.map, self.heat = VbucketMap(id="map"), HeatMap(id="heat")
        super().__init__(host, "vbuckets", self.map, self.heat, self._side)
        self._is_over_time = False
        """Whether the user wants to see many vbuckets over time."""
        self._shown: Results | None = None

    @property
    def form(self) -> Literal["map", "heat"]:
        """The form that is shown: few vbuckets have a line each over time, many are a map."""
        return "heat" if self._is_over_time or self.map.cells.has_words else "map"

    @property
    def keyboard(self) -> LineView:
        """The widget that is shown, which gets the focus."""
        return self.map if self.form == "map" else self.heat

    def arrive(self) -> None:
        """Shows the latest results, and the details of what is under the cursor."""
        if self._shown is not self.host.inspection.results and self.is_mounted:
            self._fill()
        self._describe()

    def _fill(self) -> None:
        """Gives the latest results to the shown form, and to the map, which the others ask."""
        inspection, before = self.host.inspection, self.keyboard
        if self._shown is not inspection.results:
            self._shown = inspection.results
            self.map.show(self._shown)
        is_map = self.form == "map"
        self.map.display, self.heat.display = is_map, not is_map
        self.set_class(not is_map, "-heat")
        self.set_class(not is_map and self.map.cells.has_few, "-few")
        if not is_map:
            self.heat.show(self._shown, self.map.cells, *inspection.reading.ends)
        if self.keyboard is not before and before.has_focus:
            self.keyboard.focus()

    def action_layout(self) -> None:
        """Shows many vbuckets on the other of the two maps. The cursor stays on its vbucket."""
        vbucket, self._is_over_time = self.vbucket_here, not self._is_over_time
        if self.map.cells.has_words:
            self.host.show_status("few vbuckets are shown over time; there is no map of them")
        self._show_form(vbucket)

    def show_map(self, vbucket: int) -> None:
        """Shows a vbucket among all."""
        self._is_over_time = False
        self._show_form(vbucket)

    def move_to(self, vbucket: int, since_ns: int | None = None) -> None:
        """Moves the cursors to a vbucket, and to a time."""
        self.map.move_to(vbucket)
        if self.form == "heat":
            self.heat.move_to(vbucket, since_ns)

    def _show_form(self, vbucket: int | None, since_ns: int | None = None) -> None:
        self._fill()
        if vbucket is not None:
            self.move_to(vbucket, since_ns)
        self._describe()
        self.keyboard.focus()

    @on(LineView.Moved)
    def _describe(self) -> None:
        """Shows what signs mean, and the details of what is under the cursor."""
        is_map = self.form == "map"
        taken, height, head = 0, self.size.height, self.heat.HEAD
        if not is_map and self.map.cells.has_few:
            count = len(self.map.cells.requested)
            lines_each = (height - head - _LEAST_CARD) // count
            high = max(1, min(lines_each, _LINES), min((height - head - _CARD) // count, _HIGHEST))
            taken = max(1, min(head + count * high, height - _LEAST_CARD))
        self.heat.styles.height = taken or None
        width = max(10, self._side.scrollable_content_region.width or self.app.size.width - 2)
        # before one vbucket, words say what its sign means
        legend = self._signs(width, has_map=is_map or not self.map.cells.has_few)
        self._legend.update(legend)
        self._legend.display = bool(legend)
        number, text = self.vbucket_here, Text()
        if number is not None:
            text.append(f"{self.heat.spoken()}\n" if self._since_ns is not None else "")
            text.append_text(self._card(number, width))
        self._about.update(text)

    def _card(self, number: int, width: int) -> Text:
        """Returns how a vbucket stands for each of its clients, its errors and warnings, what else is
        known of it, and its notes.
        """
        text_lines, results = Text().append(f"vb {number}", "bold"), self.host.inspection.results
        rows = self.map.cells.by_number.get(number, ())
        if not rows:
            return text_lines.append("  not requested in this capture")
        for row in rows:
            end_reason = self.map.cells.end_reason(row)
            reason = f": {end_reason}" if end_reason else ""
            own_connections = f" · con {ranges(row['connections'])}" if len(rows) > 1 else ""
            client = escape(row["client"] or "")
            text_lines.append(f"  {client}{own_connections} · {stood_words(row)}{reason}\n")
        notes = Text()
        causes, effects = with_their_effects(
            [*map(results.findings.__getitem__, results.findings_of(number))]
        )
        for cause in causes:
            among = notes if cause.severity == "note" else text_lines
            for finding in (cause, *effects.get(cause.id, ())):
                paint = f"severity-{finding.severity}" if finding.effect_of is None else ""
                style, sign = theme.style_of(self.app, paint), self._glyphs.of_finding(finding)
                is_of_several = len(rows) > 1 or not finding.vbuckets
                whose = f", con {ranges(finding.connections)}" if is_of_several else ""
                text = f"{finding.rule}{whose}: {one_line(finding.message)}"
                among.append_text(labelled(sign, text, 2, width, style))
        streams = results.records["streams"]
        streams = streams.take(streams.rows_with("vbucket", number))
        for row in rows:
            last_seqnos = [
                last
                for connection, last in streams.rows("connection", "last_seqno")
                if connection in row["connections"]
            ]
            # the bars have all items, from all connections
            stream_items = sum(facts["items"] + (facts["cached_items"] or 0) for facts in rows)
            heat_items = int(results.heat.counts[number : number + 1].sum())
            extra_items = (
                heat_items - stream_items if row is rows[-1] and results.connection is None else 0
            )
            facts = _facts(row, max(filter(None, last_seqnos), default=0), extra_items)
            phrases = (Text(f"{name} {text}") for name, text in facts if text != "none")
            text_lines.append_text(flowed(Text(), phrases, width)).append("\n")
        text_lines.append_text(notes).rstrip()
        return text_lines

    def spot(self) -> Spot:
        """Returns which vbucket is under the cursor, and when on the heat map."""
        return Spot("vbuckets", vbucket=self.vbucket_here, since_ns=self._since_ns)

    @property
    def _since_ns(self) -> int | None:
        return self.heat.since_ns if self.form == "heat" else None

    def restore(self, spot: Spot) -> None:
        """Restores what ``spot`` has saved."""
        self._is_over_time |= spot.since_ns is not None
        self._show_form(spot.vbucket, spot.since_ns)

    def _signs(self, width: int, *, has_map: bool = True, is_help: bool = False) -> Text:
        """Returns what the signs of the map mean, and those of the shown form."""
        is_few_over_time = self.form == "heat" and self.map.cells.has_few
        more_signs = ALSO_OF_SIGNS if is_few_over_time else ()
        legends = [self.map.legend(width, is_help=is_help, without=more_signs)] * has_map
        legends += [self.heat.legend(width, is_help=is_help)] * (self.form == "heat")
        return Text("\n").join(filter(None, legends))

    def legend(self) -> Sequence[str]:
        """Returns what all signs mean."""
        return (self._signs(70, is_help=True).plain,)

    @property
    def vbucket_here(self) -> int | None:
        """Number of the vbucket under the cursor; None if none was requested."""
        number = self.heat.vbucket if self.form == "heat" else self.map.vbucket
        return number if self.map.cells.by_number else None

    @on(LineView.Opened)
    def _open_place(self) -> None:
        number = self.vbucket_here
        if number is not None and number in self.map.cells.by_number:
            since_ns = self.heat.sign_ns if self.form == "heat" else None
            self.host.to_vbucket(number, since_ns=since_ns)
        else:
            no_vbucket = self.host.inspection.results.no_vbucket
            self.host.show_status(no_vbucket or f"vbucket {number} was not requested")

    def action_bad(self, back: bool = False) -> None:
        """Moves to the next vbucket with an error or a warning, or to the one before."""
        if reason := self.host.inspection.results.no_vbucket:
            self.host.show_status(reason)
            return
        if self.form == "heat" and self.heat.vbucket is not None:
            self.map.move_to(self.heat.vbucket)
        is_found = self.to_next(self.map, "vbucket with an error or a warning", back=back)
        if is_found and self.form == "heat":
            self.heat.move_to(self.map.vbucket)


def _facts(row: Mapping[str, Any], greatest: int, more: int) -> Iterator[tuple[str, str]]:
    several = "s" if len(row["connections"]) != 1 else ""
    yield f"connection{several}", ranges(row["connections"])
    first, last = row["first_seqno"], row["last_seqno"]
    earlier = f" (up to {greatest} earlier)" if last is not None and greatest > last else ""
    yield "seqnos", "none" if last is None else f"{first}–{last}{earlier}"
    if row["high_seqno"] is not None:
        yield "server said", f"{row['high_seqno']:,}"
    yield "items", items_text(row) + (f", {more:,} more that no stream took" if more > 0 else "")
    yield "messages", f"{row['bytes']:,} bytes"
    rollbacks = f", {counted(row['rollbacks'], 'rollback')}" if row["rollbacks"] else ""
    yield "streams", f"{row['streams']}{rollbacks}"
    yield "snapshots", f"{row['snapshots']:,}"
    gaps, seqnos = row["gaps"] or {}, row["gap_seqnos"] or {}
    yield (
        "gaps",
        gaps_in_words({cause: (count, seqnos.get(cause, 0)) for cause, count in gaps.items()}),
    )
