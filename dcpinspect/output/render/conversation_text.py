"""The conversation on one connection: what each side sent in turn. A run of many messages of one
kind is one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dcpinspect.arrays import IntArray, unique
from dcpinspect.findings.cases import duration
from dcpinspect.findings.finding import ranges
from dcpinspect.findings.transport_rules import unopened_text
from dcpinspect.output.render.message_lines import (
    body_text,
    seconds_text,
    seqno_text,
    summary,
    title,
)
from dcpinspect.output.render.palette import text_style
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.streams.tcp_facts import TcpConnection, client_text
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import escape, range_text, wrap

FEW = 3
"""Number of consecutive messages of one kind up to which each has its own line."""
_SEQNOS = {"by_seqno": "seqnos", "start_seqno": "from", "rollback_seqno": "to"}
"""Seqnos of which a run has the least and the greatest, and the word before them."""
_ROOM = "        "
"""Indents messages of the server to the right of those of the client."""


class Conversation:
    """Makes the lines; a run can continue in the next batch."""

    def __init__(
        self,
        *,
        width: int | None,
        folds: bool,
        paint: Callable[[str, str], str] | None = None,
    ) -> None:
        """``folds``: shows many messages of one kind as one line. ``paint``: colours lines as lists of
        messages have them.
        """
        self._width = width
        self._folds = folds
        self._paint = paint
        self._held: list[str] = []  # lines of the latest run, while it may stay short
        self._kind: tuple[int, ...] | None = None
        self._head = self._title = self._reason = self._style = ""
        self._count = self._bytes = 0
        self._vbuckets: set[int] = set()
        self._seqnos: dict[str, list[int]] = {}

    def lines(self, batch: MessageBatch, rows: RowNumbers) -> Iterator[str]:
        """Yields the lines that are complete after these messages."""
        if not len(rows):
            return
        kinds = _kinds(batch, rows)
        starts = np.flatnonzero(np.concatenate(([True], (kinds[1:] != kinds[:-1]).any(axis=1))))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
            kind = tuple(kinds[start].tolist())
            if kind != self._kind or not self._folds:
                yield from self.end()
                self._kind = kind
            yield from self._lines_of_run(batch, rows[start:end])

    def _lines_of_run(self, batch: MessageBatch, run: RowNumbers) -> Iterator[str]:
        if not self._folds:
            for index in run.tolist():
                yield from self._lines_of(batch, index)
            return
        if not self._count:
            self._head = _head(batch, int(run[0]))
            self._title = title(batch, int(run[0]))
            self._reason = _reason(batch, int(run[0]))
            self._style = self._style_of(batch, int(run[0]))
        for index in run[: max(0, FEW - self._count)].tolist():
            self._held += self._lines_of(batch, index)
        self._count += len(run)
        self._bytes += int(batch.length[run].sum())
        vbuckets = batch.vbuckets_of(run)
        self._vbuckets.update(unique(vbuckets.values[vbuckets.is_known]).tolist())
        for name in _SEQNOS:
            seqnos = batch.shown(name)
            of_run = None if seqnos is None else seqnos.take(run)
            if of_run is not None and of_run.is_known.any():
                values = of_run.values[of_run.is_known]
                self._seqnos.setdefault(name, []).extend((int(values.min()), int(values.max())))

    def end(self) -> Iterator[str]:
        """Yields the lines of the run that has ended."""
        if 0 < self._count <= FEW:
            yield from self._held
        elif self._count:
            where = f"  vb {ranges(sorted(self._vbuckets))}" if self._vbuckets else ""
            seqnos = "".join(
                f", {_SEQNOS[name]} {range_text(min(values), max(values))}"
                for name, values in self._seqnos.items()
            )
            reason = f"  {self._reason}" if self._reason else ""
            yield from self._wrapped(
                self._head,
                f"{self._count:,} × {self._title}{where}{seqnos}{reason}, {self._bytes:,} bytes",
                self._style,
            )
        self._held, self._kind, self._count, self._bytes = [], None, 0, 0
        self._vbuckets, self._seqnos = set(), {}

    def _lines_of(self, batch: MessageBatch, index: int) -> list[str]:
        vbucket = batch.vbucket_of(index)
        vbucket_text = "" if vbucket is None else f"  vb {vbucket}"
        if seqnos := seqno_text(batch, index):
            vbucket_text += f"  seqno{'s' if '–' in seqnos else ''} {seqnos}"
        summary_text = summary(batch, index)
        text = f"{title(batch, index)}{vbucket_text}{'  ' if summary_text else ''}{summary_text}"
        return self._wrapped(_head(batch, index), text, self._style_of(batch, index))

    def _wrapped(self, head: str, text: str, style: str) -> list[str]:
        indent = " " * min(len(head) + 2, (self._width or 0) // 2)
        lines = wrap(head + text, self._width, indent)
        return lines if self._paint is None else [self._paint(line, style) for line in lines]

    def _style_of(self, batch: MessageBatch, index: int) -> str:
        return "" if self._paint is None else text_style(batch, index)


def end_lines(link: TcpConnection, first_ns: int) -> Iterator[str]:
    """Yields lines about how a connection ended below DCP: that nobody answered its SYN, who takes
    no bytes any more, and who closed it. ``first_ns``: time of the first packet.
    """
    if unopened := unopened_text(link):
        yield f"{seconds_text(link.first_ns - first_ns):>13}  {_arrow(0)}SYN: {unopened}"
    for side, shut in enumerate(link.shut):
        if shut is not None and not shut.is_over:
            latest = shut.spells[-1]
            yield (
                f"{seconds_text(latest.since_ns - first_ns):>13}  {_arrow(side)}TCP window 0: takes "
                f"no bytes for {duration(latest.time_ns)}, to the end; frame {latest.frame}"
            )
    if link.closed_by >= 0:
        side_name = "server" if link.closed_by else "client"
        yield (
            f"{seconds_text(link.closed_ns - first_ns):>13}  {_arrow(link.closed_by)}"
            f"{link.how_closed} by the {side_name}; frame {link.closed_frame}"
        )


def _kinds(batch: MessageBatch, rows: RowNumbers) -> IntArray:
    """Returns a row for each message: its direction, command, whether it is a response, and the
    status of it or the reason of an end, so that a run never says of all what is so of its first.
    """
    decoded = batch.decoded
    is_response = decoded.is_response[rows]
    outcome = np.where(is_response, decoded.specific[rows], -1).astype(np.int64)
    if (reasons := batch.shown("end_reason")) is not None:
        reason = reasons.take(rows)
        outcome[reason.is_known] = reason.values[reason.is_known]
    return np.stack((batch.direction[rows], decoded.opcode[rows], is_response, outcome), axis=1)


def _reason(batch: MessageBatch, index: int) -> str:
    return "" if batch.shown_number("end_reason", index) is None else body_text(batch, index)


def _head(batch: MessageBatch, index: int) -> str:
    """Returns what stands before a message: its time, and who sent it."""
    time = f"{seconds_text(int(batch.time_ns[index]) - batch.origin_ns):>13}"
    return f"{time}  {_arrow(int(batch.direction[index]))}"


def _arrow(direction: int) -> str:
    return "→ " if direction == 0 else f"{_ROOM}← "


def heading(
    client: str, server: str, proxied: str | None, facts: dict[str, str | None]
) -> tuple[str, str]:
    """Returns the heading: both addresses, and further facts, each by its name; and a line about
    the PROXY header, empty without one. ``proxied``: the client that it names, None without one.
    """
    facts_text = "".join(f"  {name} {escape(value)}" for name, value in facts.items() if value)
    shown_client = escape(client_text(client, proxied))
    names = f"the client is {proxied}" if proxied else "names no client"
    line = "" if proxied is None else f"{'':>13}  {_arrow(0)}PROXY header: {names}"
    return f"client {shown_client} → server {escape(server)}{facts_text}", line
