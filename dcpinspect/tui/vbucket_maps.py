"""Several maps of vbuckets side by side: one per client, or, if there is only one client, one per node. All share one cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message

from dcpinspect.escape import escape
from dcpinspect.protocol.columns import Numbers
from dcpinspect.render.lines import counted
from dcpinspect.streams.words import CAUSES
from dcpinspect.tables.records import Records, Values
from dcpinspect.tui import theme
from dcpinspect.tui.charts import short
from dcpinspect.tui.results import Results
from dcpinspect.tui.small_map import SmallMap
from dcpinspect.tui.theme import Glyphs
from dcpinspect.tui.vbucket_cells import LEVELS, MEASURES, edges, whole

MOST = 8
"""Greatest number of maps; those with most vbuckets are shown."""
_LEAST = 38
"""Least width of a map in columns: a label and 32 cells."""


class Part(NamedTuple):
    """The data of one map."""

    name: str
    """Name of the client or node, safe for a terminal."""
    vbuckets: Records
    snapshots: Records
    has_bytes: bool = True
    """Whether the number of bytes is known."""


def several(results: Results) -> list[Part]:
    """Returns the data of a map per client, or per node if there is one client. Only one map: there is nothing to compare."""
    table = results.records.get("vbuckets")
    if table is None or not len(table):
        return []
    groups: dict[str, list[int]] = {}
    for row, client in enumerate(table.values("client")):
        groups.setdefault(client or "", []).append(row)
    if len(groups) == 1:
        return _of_nodes(results, table)
    parts = []
    for name, rows in groups.items():
        own, snapshots = table.take(np.array(rows, np.int64)), results.records["snapshots"]
        numbers = sorted({number for connections in own.values("connections") for number in connections})
        parts.append(Part(escape(name) or "unknown", own, snapshots.take(_among(snapshots, numbers))))
    return _largest(parts)


def _largest(parts: Sequence[Part]) -> list[Part]:
    return sorted(sorted(parts, key=lambda one: -len(one.vbuckets))[:MOST], key=lambda one: one.name)


def _of_nodes(results: Results, table: Records) -> list[Part]:
    """Returns per node what its own connections received. A vbucket that has moved has a part of its history on each node."""
    links = results.records["connections"]
    server_of = dict(zip(links.values("connection"), links.values("server"), strict=True))
    servers: dict[str, list[int]] = {}
    for number, server in server_of.items():
        servers.setdefault(server or "", []).append(number)
    asked = table.values("connections")
    parts = []
    for server, numbers in servers.items():
        rows = [row for row, own in enumerate(asked) if not set(own).isdisjoint(numbers)]
        if rows:
            of = {name: one.take(_among(one, numbers)) for name, one in results.records.items() if name in _PARTS}
            own = _narrowed(table.take(np.array(rows, np.int64)), of)
            parts.append(Part(escape(server) or "unknown", own, of["snapshots"], has_bytes=len(servers) == 1))
    return _largest(parts)


_PARTS = ("streams", "gaps", "rollbacks", "snapshots")
"""Tables in which each row is about one connection."""


def _among(table: Records, connections: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.flatnonzero(np.isin(whole(table, "connection"), connections))


def _narrowed(table: Records, of: Mapping[str, Records]) -> Records:
    """Returns the table of vbuckets with the counts of these streams, gaps and rollbacks. ``bytes`` stays that of all nodes together."""
    vbucket = whole(table, "vbucket")

    def total(name: str, amounts: npt.NDArray[np.int64] | None = None, rows: npt.NDArray[np.int64] | None = None) -> Numbers:
        part = whole(of[name], "vbucket")
        rows = np.arange(len(part)) if rows is None else rows
        sums = np.bincount(part[rows], None if amounts is None else amounts[rows], minlength=int(vbucket.max()) + 1)
        return Numbers(sums[vbucket].astype(np.int64))

    streams = of["streams"]
    by_cause = {cause: total("gaps", rows=of["gaps"].rows_with("cause", cause)).values.tolist() for cause in CAUSES}
    gaps = [{cause: counts[place] for cause, counts in by_cause.items() if counts[place]} for place in range(len(table))]
    last: dict[int, dict[str, Any]] = {}
    names = ("vbucket", "verdict", "first_seqno", "last_seqno", "first_time", "last_time")
    for told in sorted(zip(*(streams.values(name) for name in names), strict=True), key=lambda one: one[4]):
        new, old = dict(zip(names, told, strict=True)), last.get(told[0])
        if old is not None:
            new["first_seqno"] = old["first_seqno"] if old["first_seqno"] is not None else new["first_seqno"]
            new["last_seqno"] = new["last_seqno"] if new["last_seqno"] is not None else old["last_seqno"]
        last[told[0]] = new
    # the verdict of the whole vbucket belongs to the node with its newest stream
    for number, verdict, until in zip(vbucket.tolist(), table.values("verdict"), table.values("last_time"), strict=True):
        if last[number]["last_time"] == until:
            last[number]["verdict"] = verdict
    columns: Sequence[tuple[str, Values]] = (
        ("items", total("streams", whole(streams, "items"))),
        ("snapshots", total("streams", whole(streams, "snapshots"))),
        ("streams", total("streams")),
        ("rollbacks", total("rollbacks")),
        ("gaps", gaps),
        *((name, [last[number][name] for number in vbucket.tolist()]) for name in ("verdict", "first_seqno", "last_seqno", "last_time")),
    )
    for name, values in columns:
        table = table.with_column(name, values)
    return table


class VbucketMaps(Container):
    """The maps of all clients or nodes, as large as fit."""

    class Moved(Message):
        """Sent when the cursor moves to another vbucket."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._maps = [SmallMap(glyphs, is_paired=True)]
        """All maps that were ever needed. One is made only when needed: it takes 1 ms, and most captures have nothing to compare."""
        self.shown: Sequence[SmallMap] = ()
        self._names: Sequence[str] = ()
        self.vbucket = 0
        self.measure = "verdict"
        self._measures = list(MEASURES)
        self._edges: list[int] = []
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        """Yields the first map; the others are added when they are needed."""
        yield from self._maps

    def show(self, results: Results) -> None:
        """Shows the results so far."""
        found = several(results)
        more = [SmallMap(self._glyphs, is_paired=True) for _ in range(len(found) - len(self._maps))]
        self._maps += more
        self.mount_all(more)
        self.shown, self._names = self._maps[: len(found)], [one.name for one in found]
        self._measures = [name for name in MEASURES if name != "bytes" or all(one.has_bytes for one in found)]
        for place, one in enumerate(self._maps):
            one.display = place < len(found)
        for one, part in zip(self.shown, found, strict=True):
            one.show(part.vbuckets, part.snapshots)
            one.border_title = part.name
        self._measure(self.measure if self.measure in self._measures else self._measures[0])
        self._fit()
        self.move_to(self.vbucket)

    def next_measure(self) -> None:
        """Shows the next measure in all maps."""
        self._measure(self._measures[(self._measures.index(self.measure) + 1) % len(self._measures)])
        self.post_message(self.Moved())

    def _measure(self, name: str) -> None:
        """Shows a measure on the same scale in all maps, so that they can be compared."""
        self.measure = name
        values = [one.cells.values(name)[sorted(one.cells.by_number)] for one in self.shown]
        self._edges = edges(np.concatenate([*values, np.zeros(0, np.int64)]), name)
        most_items = max((int(one.cells.values("items").max()) for one in self.shown), default=0)
        for one, own in zip(self.shown, values, strict=True):
            one.measure_by(name, self._edges, most_items)
            counts = one.cells.verdicts()
            most = f"at most {int(own.max(initial=0)):,} {MEASURES[name]}"
            verdicts = "  ".join(f"{count:,} {verdict.replace('-', ' ')}" for verdict, count in counts.most_common())
            one.border_subtitle = verdicts if name == "verdict" else most

    def next_hot(self) -> bool:
        """Moves the cursor to the vbucket with the greatest measure in any map, and from there to the next.

        Returns whether there is one.
        """
        order = [
            (-int(value), place, number)
            for place, one in enumerate(self.shown)
            for number, value in enumerate(one.cells.values(self.measure).tolist())
            if value
        ]
        order.sort()
        known = [(place, number) for _, place, number in order]
        if known:
            here = self.shown.index(self.keyboard), self.vbucket
            place, number = known[(known.index(here) + 1) % len(known) if here in known else 0]
            self.shown[place].focus()
            self.move_to(number)
        return bool(known)

    def on_resize(self) -> None:
        """Changes how many maps stand side by side."""
        self._fit()

    def _fit(self) -> None:
        count = max(1, len(self.shown))
        across = max(1, min(count, self.size.width // _LEAST))
        across = -(-count // -(-count // across))  # fills all lines of maps evenly
        self.styles.grid_size_columns, self.styles.grid_size_rows = across, -(-count // across)

    @property
    def keyboard(self) -> SmallMap:
        """The map with the focus; else the first map that has the cursor's vbucket, or the first map."""
        known = [one for one in self.shown if self.vbucket in one.cells.by_number]
        return next((one for one in self.shown if one.has_focus), [*known, *self.shown, *self._maps][0])

    def move_to(self, vbucket: int) -> None:
        """Moves the cursor to a vbucket, in all maps."""
        self.vbucket = vbucket
        for one in self.shown:
            one.move_to(vbucket)
        self.post_message(self.Moved())

    @on(SmallMap.Walked)
    def _together(self, event: SmallMap.Walked) -> None:
        """Moves the cursor of the other maps to the vbucket of the focused map."""
        event.stop()
        self.vbucket = event.vbucket
        for one in self.shown:
            if not one.has_focus:
                one.move_to(event.vbucket)
        self.post_message(self.Moved())

    @on(SmallMap.Left)
    def _across(self, event: SmallMap.Left) -> None:
        """Gives the focus to the next map, when the cursor moves beyond the border of a map."""
        event.stop()
        place = self.shown.index(self.keyboard) + event.steps
        if 0 <= place < len(self.shown):
            self.shown[place].focus()

    def bad(self, *, back: bool = False) -> bool:
        """Moves the cursor to the next bad cell of the map with the focus, or to the one before. Returns whether there is one."""
        return self.keyboard.bad(back=back)

    def about(self) -> Text:
        """Describes the vbucket under the cursor, in one line per map."""
        out = Text()
        if self.measure != "verdict":
            unit = MEASURES[self.measure]
            out.append(f"{self.measure}{'' if unit == self.measure else f', {unit}'}:", "bold")
            for place, edge in enumerate(self._edges, LEVELS - len(self._edges)):
                out.append(f"  {self._glyphs.blocks[place]}", theme.style_of(self.app, f"scale-{place + 1}"))
                out.append(f" {short(edge)}+")
            out.append(f"  {self._glyphs.silent} none\n")
        wide = max((len(name) for name in self._names), default=0)
        for name, one in zip(self._names, self.shown, strict=True):
            rows = one.cells.by_number.get(self.vbucket, ())
            out.append(f"{name:<{wide}}  ", "bold" if one.has_focus else "")
            if not rows:
                out.append(f"vb {self.vbucket} not requested\n", "dim")
            for row in rows:
                seqnos = "" if row["last_seqno"] is None else f", seqnos {row['first_seqno']}–{row['last_seqno']}"
                rolled = f", {row['rollbacks']} rolled back" if row["rollbacks"] else ""
                out.append(f"vb {self.vbucket} {row['verdict'].replace('-', ' ')}: {counted(row['items'], 'item')}{seqnos}{rolled}")
                is_told = self.measure in ("verdict", "items", "rollbacks")
                amount = int(one.cells.values(self.measure)[self.vbucket])
                out.append("\n" if is_told else f" · {self.measure}: {amount:,} {MEASURES[self.measure]}\n")
        out.rstrip()
        return out
