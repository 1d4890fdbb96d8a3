"""The conversation on one connection: what each side sent in turn. A run of many messages of one
kind is one line.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dcpinspect.arrays import unique
from dcpinspect.findings.finding import ranges
from dcpinspect.output.render.message_lines import seconds_text, seqno_text, summary, title
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import clip, escape

FEW = 3
"""Number of consecutive messages of one kind up to which each has its own line."""
_ROOM = "        "
"""Indents messages of the server to the right of those of the client."""


class Conversation:
    """Makes the lines; a run can continue in the next batch."""

    def __init__(self, *, width: int | None, folds: bool) -> None:
        """``folds``: shows many messages of one kind as one line."""
        self._width = width
        self._folds = folds
        self._held: list[str] = []  # lines of the latest run, while it may stay short
        self._kind: tuple[int, int, bool] | None = None
        self._head = ""
        self._count = self._bytes = 0
        self._vbuckets: set[int] = set()
        self._seqnos: list[int] = []

    def lines(self, batch: MessageBatch, rows: RowNumbers) -> Iterator[str]:
        """Yields the lines that are complete after these messages."""
        if not len(rows):
            return
        decoded = batch.decoded
        kinds = np.stack(
            (batch.direction[rows], decoded.opcode[rows], decoded.is_response[rows]), axis=1
        )
        starts = np.flatnonzero(np.concatenate(([True], (kinds[1:] != kinds[:-1]).any(axis=1))))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
            kind = tuple(kinds[start].tolist())
            if kind != self._kind or not self._folds:
                yield from self.end()
                self._kind = (int(kind[0]), int(kind[1]), bool(kind[2]))
            yield from self._lines_of_run(batch, rows[start:end])

    def _lines_of_run(self, batch: MessageBatch, run: RowNumbers) -> Iterator[str]:
        if not self._folds:
            yield from (self._line(batch, index) for index in run.tolist())
            return
        if not self._count:
            self._head = f"{_time(batch, int(run[0]))}  {_side(batch, int(run[0]))}"
            self._title = title(batch, int(run[0]))
        self._held += [
            self._line(batch, index) for index in run[: max(0, FEW - len(self._held))].tolist()
        ]
        self._count += len(run)
        self._bytes += int(batch.length[run].sum())
        vbuckets = batch.vbuckets_of(run)
        self._vbuckets.update(unique(vbuckets.values[vbuckets.is_known]).tolist())
        seqnos = batch.shown("by_seqno")
        if seqnos is not None:
            run_seqnos = seqnos.take(run)
            values = run_seqnos.values[run_seqnos.is_known]
            self._seqnos += [int(values.min()), int(values.max())] if len(values) else []

    def end(self) -> Iterator[str]:
        """Yields the lines of the run that has ended."""
        if 0 < self._count <= FEW:
            yield from self._held
        elif self._count:
            where = f"  vb {ranges(sorted(self._vbuckets))}" if self._vbuckets else ""
            seqnos = f", seqnos {min(self._seqnos)}–{max(self._seqnos)}" if self._seqnos else ""
            yield self._clipped(
                f"{self._head}{self._count:,} × {self._title}{where}{seqnos}, {self._bytes:,} bytes"
            )
        self._held, self._kind, self._count, self._bytes = [], None, 0, 0
        self._vbuckets, self._seqnos = set(), []

    def _line(self, batch: MessageBatch, index: int) -> str:
        vbucket = batch.vbucket_of(index)
        vbucket_text = "" if vbucket is None else f"  vb {vbucket}"
        if seqnos := seqno_text(batch, index):
            vbucket_text += f"  seqno{'s' if '–' in seqnos else ''} {seqnos}"
        summary_text = summary(batch, index)
        return self._clipped(
            f"{_time(batch, index)}  "
            f"{_side(batch, index)}{title(batch, index)}{vbucket_text}{'  ' if summary_text else ''}{summary_text}"
        )

    def _clipped(self, line: str) -> str:
        return line if self._width is None else clip(line, self._width)


def close_line(link: TcpConnection, first_ns: int) -> str:
    """Returns the line of the close of a connection. ``first_ns``: time of the first packet."""
    side = "server" if link.closed_by else "client"
    time = f"{seconds_text(link.closed_ns - first_ns):>13}"
    text = f"{link.how_closed} by the {side}; frame {link.closed_frame}"
    return f"{time}  {_arrow(link.closed_by)}{text}"


def _time(batch: MessageBatch, index: int) -> str:
    return f"{seconds_text(int(batch.time_ns[index]) - batch.origin_ns):>13}"


def _side(batch: MessageBatch, index: int) -> str:
    return _arrow(int(batch.direction[index]))


def _arrow(direction: int) -> str:
    return "→ " if direction == 0 else f"{_ROOM}← "


def heading(client: str, server: str, facts: dict[str, str | None]) -> str:
    """Returns the heading: both addresses, and further facts, each by its name."""
    facts_text = "".join(f"  {name} {escape(value)}" for name, value in facts.items() if value)
    return f"client {escape(client)} → server {escape(server)}{facts_text}"
