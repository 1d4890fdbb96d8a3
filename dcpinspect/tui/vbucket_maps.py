"""Several maps of vbuckets side by side: one for each client, or, of a single client, one for each node. One cursor in all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message

from dcpinspect.escape import escape
from dcpinspect.tables.records import Records
from dcpinspect.tui.results import Results
from dcpinspect.tui.small_map import SmallMap
from dcpinspect.tui.theme import Glyphs

MOST = 8
"""Maps at most: those with most vbuckets."""
_LEAST = 38
"""Columns of a map at least: a label, and 32 cells."""


def several(results: Results) -> list[tuple[str, Records]]:
    """The table of vbuckets of each client, or of each node; names are safe for a terminal. One, where there is nothing to compare."""
    table = results.records.get("vbuckets")
    if table is None or not len(table):
        return []
    groups: dict[str, list[int]] = {}
    for row, client in enumerate(table.values("client")):
        groups.setdefault(client or "", []).append(row)
    if len(groups) == 1:
        links = results.records["connections"]
        server_of = dict(zip(links.values("connection"), links.values("server"), strict=True))
        groups = {}
        for row, connections in enumerate(table.values("connections")):
            for server in sorted({server_of.get(number) or "" for number in connections}):
                groups.setdefault(server, []).append(row)
    largest = sorted(groups, key=lambda name: -len(groups[name]))[:MOST]
    return [(escape(name) or "unknown", table.take(np.array(groups[name], np.int64))) for name in sorted(largest)]


class VbucketMaps(Container):
    """As many maps as there are clients, or nodes; as large as fit."""

    class Moved(Message):
        """The cursor came to another vbucket."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._maps = [SmallMap(glyphs, is_paired=True) for _ in range(MOST)]
        self.shown: Sequence[SmallMap] = ()
        self._names: Sequence[str] = ()
        self.vbucket = 0

    def compose(self) -> ComposeResult:
        """Those that are not needed are not shown."""
        yield from self._maps

    def show(self, results: Results) -> None:
        """What is known by now."""
        found = several(results)
        self.shown, self._names = self._maps[: len(found)], [name for name, _ in found]
        for place, one in enumerate(self._maps):
            one.display = place < len(found)
        for one, (name, records) in zip(self.shown, found, strict=True):
            one.show(records)
            one.border_title = name
            counts = one.cells.verdicts()
            one.border_subtitle = "  ".join(f"{count:,} {verdict.replace('-', ' ')}" for verdict, count in counts.most_common())
        self._fit()
        self.move_to(self.vbucket)

    def on_resize(self) -> None:
        """More maps beside each other, or fewer."""
        self._fit()

    def _fit(self) -> None:
        count = max(1, len(self.shown))
        across = max(1, min(count, self.size.width // _LEAST))
        across = -(-count // -(-count // across))  # lines of the same length
        self.styles.grid_size_columns, self.styles.grid_size_rows = across, -(-count // across)

    @property
    def keyboard(self) -> SmallMap:
        """The map that has the cursor; without it the first that has its vbucket, or the first."""
        known = [one for one in self.shown if self.vbucket in one.cells.by_number]
        return next((one for one in self.shown if one.has_focus), [*known, *self.shown, *self._maps][0])

    def move_to(self, vbucket: int) -> None:
        """The cursor goes to a vbucket, in all maps."""
        self.vbucket = vbucket
        for one in self.shown:
            one.move_to(vbucket)
        self.post_message(self.Moved())

    @on(SmallMap.Walked)
    def _together(self, event: SmallMap.Walked) -> None:
        """The others follow the one with the keyboard."""
        event.stop()
        self.vbucket = event.vbucket
        for one in self.shown:
            if not one.has_focus:
                one.move_to(event.vbucket)
        self.post_message(self.Moved())

    @on(SmallMap.Left)
    def _across(self, event: SmallMap.Left) -> None:
        """Beyond the border of a map is the next one."""
        event.stop()
        place = self.shown.index(self.keyboard) + event.steps
        if 0 <= place < len(self.shown):
            self.shown[place].focus()

    def bad(self, *, back: bool = False) -> bool:
        """To the next cell that is not well, of the map with the cursor; whether there is one."""
        return self.keyboard.bad(back=back)

    def about(self) -> Text:
        """What each of them has of the vbucket under the cursor, a line each."""
        out = Text()
        wide = max((len(name) for name in self._names), default=0)
        for name, one in zip(self._names, self.shown, strict=True):
            rows = one.cells.by_number.get(self.vbucket, ())
            out.append(f"{name:<{wide}}  ", "bold" if one.has_focus else "")
            if not rows:
                out.append(f"vb {self.vbucket} not requested\n", "dim")
            for row in rows:
                seqnos = "" if row["last_seqno"] is None else f", seqnos {row['first_seqno']}–{row['last_seqno']}"
                rolled = f", {row['rollbacks']} rolled back" if row["rollbacks"] else ""
                out.append(f"vb {self.vbucket} {row['verdict'].replace('-', ' ')}: {row['items']:,} items{seqnos}{rolled}\n")
        out.rstrip()
        return out
