"""Writes the packets around findings for Wireshark; comments say what each packet shows.

The captures are read again, because only now it is known what is wrong. Data from a pipe was kept
in the meantime, and is read from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dcpinspect.arrays import unique
from dcpinspect.capture.pcapng_writer import Sink
from dcpinspect.findings.finding import Finding, MessagePlace
from dcpinspect.output.export.packet_subset import KeptPackets, PacketWishes, Subset
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import escape

AROUND = 5
"""Number of messages before and after each message that shows a finding."""
MOST_WHOLE = 100_000
"""Greatest number of packets of the connections that are written whole."""

EvidenceKey = tuple[int, int | None]
"""A connection and its vbucket; None: the whole connection."""


class EvidenceCapture:
    """Writes the packets of messages that show findings, and of those around them; ``position`` is
    the progress.
    """

    def __init__(
        self,
        findings: Sequence[Finding],
        *,
        around: int = AROUND,
        whole: Sequence[int] = (),
        wishes: PacketWishes | None = None,
    ) -> None:
        """``around``: number of messages before and after each one, of the same vbucket if the
        finding has one, else of the connection. ``whole``: connections of which everything is
        written.

        The handshakes of connections are always written, whatever ``wishes`` says.
        """
        self._wishes = replace(wishes or PacketWishes(), with_handshakes=True)
        self._findings = findings
        self._around = around
        self._whole = list(whole)
        self._places: dict[EvidenceKey, list[int]] = {}
        for finding in findings:
            vbucket = finding.vbuckets[0] if len(finding.vbuckets) == 1 else None
            for message in finding.places:
                if message.row:
                    self._places.setdefault((message.connection, vbucket), []).append(message.row)
        self._rows = {
            key: unique(np.array(rows, dtype=np.int64)) for key, rows in self._places.items()
        }
        self._before: dict[EvidenceKey, list[KeptPackets]] = {}
        self._owed: dict[EvidenceKey, int] = {}
        self._subset: Subset | None = None

    @property
    def position(self) -> int:
        """Number of bytes that were read again so far."""
        return self._subset.position if self._subset is not None else 0

    def write(self, sink: Sink, captures: Sequence[str], **options: Any) -> int:
        """Writes a pcapng file, and returns its number of packets.

        ``captures`` and ``options``: the same as for ``Reading``.
        """
        last = max((int(rows[-1]) for rows in self._rows.values()), default=0)
        with Subset(self._wishes) as subset, Reading(captures, keeper=subset, **options) as reading:
            self._subset = subset
            subset.follow(reading)
            moments = [moment for finding in self._findings for moment in _moments(finding)]
            for batch in reading if last or moments or self._whole else ():
                self._choose(subset, batch)
                is_done = int(batch.row[-1]) >= last and not any(self._owed.values())
                if is_done and not moments and not self._whole:
                    break
            subset.add_connections(self._whole)
            for finding in self._findings:
                for message, text in comments(finding):
                    subset.comment(message, text)
            for connection, time_ns, text in moments:
                subset.add_moment(connection, time_ns, text)
            return subset.write(sink)

    def _choose(self, subset: Subset, batch: MessageBatch) -> None:
        first, last = int(batch.row[0]), int(batch.row[-1])
        selected = [np.flatnonzero(np.isin(batch.connection, self._whole))]
        for key, rows in self._rows.items():
            shown_rows = rows[(rows >= first) & (rows <= last)]
            is_ahead = bool(len(rows) and rows[-1] > last)
            owed = self._owed.get(key, 0)
            if not (len(shown_rows) or is_ahead or owed):
                continue
            key_messages = np.union1d(_messages(batch, key), shown_rows - first)
            is_selected = np.zeros(len(key_messages), dtype=np.bool_)
            is_selected[:owed] = True
            self._owed[key] = max(0, owed - len(key_messages))
            for index in np.searchsorted(key_messages, shown_rows - first).tolist():
                is_selected[max(0, index - self._around) : index + self._around + 1] = True
                self._owed[key] = max(self._owed[key], index + self._around + 1 - len(key_messages))
                for earlier in (
                    self._before.get(key, [])[index - self._around :]
                    if index < self._around
                    else ()
                ):
                    subset.add(earlier)
            selected.append(key_messages[is_selected])
            if is_ahead:
                latest = [
                    subset.locate(batch, key_messages[index : index + 1])
                    for index in range(max(0, len(key_messages) - self._around), len(key_messages))
                ]
                self._before[key] = (
                    [*self._before.get(key, []), *latest][-self._around :] if self._around else []
                )
        subset.choose(batch, unique(np.concatenate(selected)))


def whole_connections(findings: Sequence[Finding], reading: Reading) -> list[int]:
    """Returns the connections that are written whole, so that the file shows the same faults:
    between chosen packets are holes, which cast doubt on most. ``reading``: the one that found them.

    These are all connections, or else those with errors and warnings and all that share a vbucket
    with them, if they have few enough packets: what a client has had of a vbucket on another
    connection may excuse it.
    """
    streams = reading.tracker.state.known_tables.streams
    faulty = [
        connection
        for finding in findings
        if finding.severity != "note"
        for connection in (
            *finding.connections,
            *(message.connection for message in finding.places),
        )
    ]
    of_faulty = np.isin(streams.connection, faulty)
    shared = streams.connection[np.isin(streams.vbucket, streams.vbucket[of_faulty])]
    every = [link.number for link in reading.links]
    for numbers in (every, [*faulty, *shared.tolist()]):
        connections = sorted(set(numbers)) if findings else []
        accounts = (
            reading.engine.transport.account(connection, side)
            for connection in connections
            for side in (0, 1)
        )
        if sum(account.packets for account in accounts) <= MOST_WHOLE:
            return connections
    return []


def _messages(batch: MessageBatch, key: EvidenceKey) -> RowNumbers:
    """Returns the messages of a connection, or of a vbucket on it."""
    connection, vbucket = key
    is_of_key = batch.connection == connection
    if vbucket is not None:
        is_of_key &= (batch.vbucket.values == vbucket) & batch.vbucket.is_known
    return np.flatnonzero(is_of_key)


def _moments(finding: Finding) -> Iterator[tuple[int, int, str]]:
    """Yields when cases of a finding began and ended, where no message shows it, as with a TCP
    window of 0: connection, time, comment.
    """
    for case in finding.case_of_each:
        message_times = {place.time_ns for place in case.places if place.row}
        times = {case.first_time_ns, case.last_time_ns} - message_times
        for connection in case.connections if len(case.connections) == 1 else ():
            yield from ((connection, time_ns, _comment(finding)) for time_ns in times if time_ns)


def _comment(finding: Finding, row: int | None = None, advice: str = "") -> str:
    place = "" if row is None else f" (row {row})"
    return escape(
        f"{finding.severity} {finding.rule}, {finding.where}: {finding.message}{place}.{advice}"
    )


def comments(finding: Finding) -> Iterator[tuple[MessagePlace, str]]:
    """Yields, for each message that shows a finding, the text of the comment on its last packet."""
    for number, message in enumerate(place for place in finding.places if place.row):
        advice = f" Next: {finding.next}" if finding.next and not number else ""
        yield message, _comment(finding, message.row if message.has_message else None, advice)
