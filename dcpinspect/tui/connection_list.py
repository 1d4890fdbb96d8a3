"""The list of connections: who talks to whom, how much was sent, and what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.style import Style

from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.protocol.message import Severity
from dcpinspect.text import aligned, cells, clip, escape
from dcpinspect.tui.charts import short
from dcpinspect.tui.line_view import LineView, Piece
from dcpinspect.tui.results import Results

COLUMNS = (
    "con",
    "client → server",
    "name",
    "messages",
    "bucket",
    "bytes",
    "streams",
    "agent",
    "TLS",
)
"""Headings, the most important first."""
TEXTS = ("client → server", "name", "bucket", "agent", "TLS")
"""Columns that have no numbers."""
LEAST_NAME, NAME = 6, 30
"""Width in columns from which a name is cut to fit, as its begin tells clients apart, and the width
that it has at most where other columns want the room.
"""


class Talk(NamedTuple):
    """One connection."""

    number: int
    texts: Sequence[str]
    """What stands in each of ``COLUMNS``; safe for a terminal."""
    messages: int
    severities: Counter[Severity]
    """Number of findings of each severity, without effects; some may be about their effects."""


def talks(results: Results) -> list[Talk]:
    """Returns all connections, by their errors, their warnings, and then their messages."""
    table = results.records.get("connections")
    if table is None:
        return []
    counts = results.charts.by_connection
    encrypted = results.encrypted
    talks = []
    texts_of = table.rows("client", "server", "name", "agent", "bucket", "tls")
    numbers_of = table.rows("connection", "streams", "copy_of", "findings")
    for values, (number, streams, copy_of, severities) in zip(texts_of, numbers_of, strict=True):
        client, server, name, agent, bucket, tls = (escape(text or "") for text in values)
        messages, size = counts[number].tolist() if number < len(counts) else (0, 0)
        texts = [
            str(number),
            f"{client} → {server}",
            name if copy_of is None else f"copy of {copy_of}",
            f"{messages:,}",
            clip(bucket, 20),
            short(size),
            f"{streams if streams and copy_of is None else 0:,}",
            clip(agent, 30),
            tls or "plain" * bool(messages),
        ]
        if number in encrypted:  # nobody knows what else
            texts[3:] = *[""] * 5, "TLS, not decrypted"
        talks.append(Talk(number, texts, messages, +Counter(severities)))
    return sorted(
        talks,
        key=lambda talk: (
            -talk.severities["error"],
            -talk.severities["warning"],
            -talk.messages,
            talk.number,
        ),
    )


class ConnectionList(LineView, can_focus=True, inherit_bindings=False):
    """A heading, and below it a line for each connection, with as many columns as fit."""

    HEAD = 1

    talks: Sequence[Talk] = ()
    _has_all: bool = False
    _texts: Sequence[str] = ("",)
    """The heading, and what stands before the counts of findings in each line."""

    def show(
        self, talks_shown: Sequence[Talk], number: int | None = None, *, has_all: bool = False
    ) -> None:
        """Shows these connections, with the cursor on connection ``here``.

        ``has_all``: the first line stands for all connections; its number is 0.
        """
        number = self.connection if number is None and self.is_moved else number
        self.talks, self._has_all = talks_shown, has_all
        self.at = next(
            (
                index
                for index, talk in enumerate(talks_shown, self._has_all)
                if talk.number == number
            ),
            0,
        )
        self.fit()

    @property
    def connection(self) -> int:
        """Number of the connection under the cursor; 0: that of all, or the list is empty."""
        index = self.at - self._has_all
        return self.talks[index].number if 0 <= index < len(self.talks) else 0

    def fit(self) -> None:
        """Chooses the columns that fit, the most important first."""
        counts = [
            sum(4 + len(str(count)) for count in talk.severities.values()) for talk in self.talks
        ]
        # the last is for a scroll bar
        width_left = self.size.width - 3 - max([len("found"), *counts])
        fitting: dict[str, Sequence[str]] = {}
        columns = zip(*(talk.texts for talk in self.talks), strict=True)
        values_of = dict(zip(COLUMNS, columns, strict=False))
        for heading, values in values_of.items():
            is_name = heading == "name"
            limit = min(NAME, width_left - 2) if is_name and width_left >= LEAST_NAME + 2 else NAME
            texts = [clip(text, limit) if is_name else text for text in (heading, *values)]
            wide = 2 + max(map(cells, texts))
            if any(values) and (wide <= width_left or not fitting):
                fitting[heading] = texts
                width_left -= wide
        if "name" in fitting:  # of what is left names have more than the others left them
            limit = max(map(cells, fitting["name"])) + width_left
            fitting["name"] = [clip(text, limit) for text in ("name", *values_of["name"])]
        lines = aligned(list(zip(*fitting.values(), strict=True)), TEXTS) or [""]
        wide = max(map(cells, lines))
        self._texts = [f"{line}{' ' * (wide - cells(line))}  " for line in lines]
        self.bring()

    @property
    def count(self) -> int:
        """Number of lines."""
        return len(self.talks) + self._has_all if self.talks else 0

    # -- drawing

    @property
    def head(self) -> str:
        """The headings of the columns."""
        return f"  {self._texts[0]}found"

    def empty_line(self, line: int) -> str:
        """Says that there is no connection."""
        return "" if line else "  no connections so far"

    def pieces(self, place: int, part: int, style: Style) -> Iterator[Piece]:
        """Yields the line of a connection."""
        del part
        index = place - self._has_all
        if index < 0:
            yield " all connections", style + Style(bold=True)
        else:
            yield f" {self._texts[index + 1]}", style
            yield from self._severity_counts(self.talks[index], style)

    def _severity_counts(self, talk: Talk, style: Style) -> Iterator[Piece]:
        for severity in SEVERITIES:
            if talk.severities[severity]:
                is_here = talk.number == self.connection
                sign_style = self.sign_style(severity, style, is_here=is_here)
                sign = self._glyphs.of_severity(severity)
                yield sign, style if severity == "note" else sign_style
                yield f" {talk.severities[severity]}  ", style
