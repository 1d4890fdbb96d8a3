"""What the two sides of each connection have said, fed with every batch. The kernel gets what
changes its work as facts with their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.layouts.stream_commands import STREAM_OPTIONS
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.cluster_map import ClusterMaps
from dcpinspect.streams.followers import Portable
from dcpinspect.streams.record_codes import FACT_WINDOW
from dcpinspect.streams.renumbering import renumbered_rows, without_repeats
from dcpinspect.streams.server_reports import Reports, ServerReport
from dcpinspect.streams.session import (
    FAILOVER_LOGS,
    Fact,
    Session,
    SessionRecord,
    json_object,
    place_of,
    readable,
)
from dcpinspect.streams.session_messages import (
    ALLOWED,
    REQUESTS,
    SessionMessage,
    read_answer,
)
from dcpinspect.tables.messages import MessageBatch

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

_SESSION = np.zeros(256, dtype=np.bool_)
_SESSION[[*REQUESTS]] = True
_ASKS = (Opcode.HELLO, Opcode.DCP_OPEN, Opcode.DCP_CONTROL, Opcode.GET_ALL_VB_SEQNOS)
"""Opcodes that clients are expected to send on their connections."""
_NEWS = (Opcode.HELLO, Opcode.DCP_OPEN, Opcode.DCP_CONTROL)
_OF_DCP = opcodes_with(Trait.DCP)


class Conversation(Portable):
    """The sessions of all connections, fed with every batch."""

    def __init__(self) -> None:
        self.sessions: dict[int, Session] = {}
        self.news: list[SessionRecord] = []
        """News of the latest batch, in row order."""
        self.filters: list[dict[str, Any] | None] = []
        """Parsed values of stream requests, without repeats."""
        self.logs: list[bytes] = []
        """Failover logs as bytes, as they stand in answers, without repeats."""
        self._maps = ClusterMaps()
        self._filter_numbers: dict[bytes, int] = {}
        self._log_numbers: dict[bytes, int] = {}
        self._reports = Reports.zeros(0)  # reports that belong to no session

    @property
    def reports(self) -> Reports:
        """What servers said of vbuckets outside of their streams."""
        reported = {
            number: (session.reports, session.high_seqnos)
            for number, session in self.sessions.items()
            if session.reports
        }
        return Reports.joined([self._reports, Reports.from_sessions(reported, self.log_of)])

    def __getstate__(self) -> dict[str, Any]:
        """Returns raw values of stream requests, since their parsed form may be deeply nested, and
        reports as columns.
        """
        sessions = {number: _without_reports(session) for number, session in self.sessions.items()}
        return {
            "sessions": sessions,
            "filters": list(self._filter_numbers),
            "logs": self.logs,
            "reports": self.reports,
        }

    def __setstate__(self, saved_state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc] # there is nothing yet
        self.sessions, self._reports = saved_state["sessions"], saved_state["reports"]
        for value in saved_state["filters"]:
            self.filter_of(value)
        for log in saved_state["logs"]:
            self.log_of(log)

    @classmethod
    def joined(
        cls, readings: Sequence[Conversation], connections: Sequence[IntArray]
    ) -> tuple[Self, list[IntArray], list[IntArray]]:
        """Joins what was said in readings of different connections.

        ``connections``: for each reading, the new numbers of its connections. Returns the whole,
        and for each reading the new numbers of its ``filters`` and of its ``logs``.
        """
        filters, filter_numbers = without_repeats(
            [list(reading._filter_numbers) for reading in readings]
        )
        reports = [reading.reports for reading in readings]
        logs, log_numbers = without_repeats([reading.logs for reading in readings])
        renumbered_reports = [
            renumbered_rows(report_table, {"logs": numbers})
            for report_table, numbers in zip(reports, log_numbers, strict=True)
        ]
        for report_table, new_numbers in zip(renumbered_reports, connections, strict=True):
            report_table.connection = new_numbers[report_table.connection]
        sessions = {
            int(new_numbers[number]): _without_reports(session)
            for reading, new_numbers in zip(readings, connections, strict=True)
            for number, session in reading.sessions.items()
        }
        conversation = cls()
        conversation.__setstate__(
            {
                "sessions": dict(sorted(sessions.items())),
                "filters": filters,
                "logs": logs,
                "reports": Reports.joined(renumbered_reports),
            }
        )
        return conversation, filter_numbers, log_numbers

    def session_of(self, connection: int) -> Session:
        """Returns the session of a connection, a new one if it has none."""
        session = self.sessions.get(connection)
        if session is None:
            session = self.sessions[connection] = Session()
        return session

    def feed(self, batch: MessageBatch) -> list[Fact]:
        """Takes the messages of a batch, and returns the facts that the kernel needs, in row order.

        These are few, so they are read one by one. Texts and tables that peers could fill without
        end are bounded.
        """
        decoded = batch.decoded
        is_readable = readable(batch)
        is_said = _SESSION[decoded.opcode] & ~decoded.is_server & decoded.has_magic
        # the values of refusals say why, or who has the vbucket
        is_refused = decoded.is_answer & ~np.isin(decoded.specific, ALLOWED)
        is_said |= is_refused & _OF_DCP[decoded.opcode] & (decoded.value.size > 0)
        rows = np.flatnonzero(is_said & is_readable)
        unclear = self._feed_unreadable(batch, np.flatnonzero(is_said & ~is_readable))
        facts: list[Fact] = []
        self.news = [
            SessionRecord(row, int(batch.connection[row]), Opcode.DCP_CONTROL, None, None)
            for row, _, _ in unclear
        ]
        for row in rows.tolist():
            opcode, connection = int(decoded.opcode[row]), int(batch.connection[row])
            session = self.session_of(connection)
            if (
                opcode == Opcode.DCP_CONTROL
                and session.consumer == int(batch.direction[row] ^ decoded.is_response[row]) ^ 1
            ):
                continue  # only consumers set anything
            message = SessionMessage(batch, row, session, self._maps, facts)
            status: int | None = None
            if decoded.is_response[row]:
                status = message.specific
                message.requested = (
                    session.waiting.pop(message.request_row, None)
                    if batch.request_row.value_at(row) is not None
                    else None
                )
                read_answer(message)
            else:
                REQUESTS[opcode](message)
                message.requested = session.waiting.get(message.row)
            if opcode in _NEWS:
                features = (
                    session.features
                    if opcode == Opcode.HELLO and status is not None
                    else message.requested
                )
                self.news.append(SessionRecord(row, connection, opcode, status, features))
        self.news.sort(key=lambda message_event: message_event.index)
        return sorted(facts + unclear)

    def _feed_unreadable(self, batch: MessageBatch, rows: RowNumbers) -> list[Fact]:
        """Notes what cannot be known, as these messages cannot be read. Returns facts as above."""
        decoded, unclear = batch.decoded, list[Fact]()
        for row in rows.tolist():
            opcode, vbucket = int(decoded.opcode[row]), batch.vbucket.value_at(row)
            if opcode == Opcode.DCP_CONTROL and not decoded.is_response[row]:
                unclear.append((row, FACT_WINDOW, -1))  # nobody knows what it sets
            if opcode in _ASKS:
                self.session_of(int(batch.connection[row])).is_cut = True
            is_log = (
                opcode in FAILOVER_LOGS
                and decoded.is_response[row]
                and decoded.specific[row] == Status.SUCCESS
            )
            if is_log and vbucket is not None:
                self.session_of(int(batch.connection[row])).reports.setdefault(
                    int(vbucket), ServerReport()
                ).miss_log(place_of(batch, row))
        return unclear

    def filter_of(self, value: bytes, redactor: Redactor | None = None) -> int:
        """Number among ``filters`` of a stream request's value. ``redactor``: what it replaces is
        not remembered.
        """
        value = value if redactor is None else redactor.field_text(STREAM_OPTIONS, value)
        number = self._filter_numbers.get(value)
        if number is None:
            number = self._filter_numbers[value] = len(self.filters)
            self.filters.append(json_object(value))
        return number

    def log_of(self, value: bytes) -> int:
        """Returns the number of a failover log in ``logs``; -1 if the value is none."""
        if not value or len(value) % 16:
            return -1
        number = self._log_numbers.setdefault(value, len(self.logs))
        if number == len(self.logs):
            self.logs.append(value)
        return number

    def keep(self, filters: RowNumbers, logs: RowNumbers) -> dict[str, BoolArray]:
        """Keeps only the ``filters`` and ``logs`` of these numbers.

        Returns by name a mask of those that stay; they get new numbers in the same order.
        """
        staying = {
            name: np.zeros(len(texts), dtype=np.bool_)
            for name, texts in (("filters", self.filters), ("logs", self.logs))
        }
        for stays, numbers in zip(staying.values(), (filters, logs), strict=True):
            stays[numbers[(numbers >= 0) & (numbers < len(stays))]] = True
        values = [*compress(self._filter_numbers, staying["filters"])]
        kept_logs = [*compress(self.logs, staying["logs"])]
        self.filters = [*compress(self.filters, staying["filters"])]
        self._filter_numbers = {value: number for number, value in enumerate(values)}
        self.logs = kept_logs
        self._log_numbers = {log: number for number, log in enumerate(kept_logs)}
        return staying

    def leave(self, connections: IntArray) -> None:
        """Drops what was said on these connections."""
        for number in connections.tolist():
            self.sessions.pop(number, None)
        self._reports = self._reports[~np.isin(self._reports.connection, connections)]


def _without_reports(session: Session) -> Session:
    """Returns the session without what ``Conversation.reports`` holds as columns."""
    reports = {
        vbucket: ServerReport(not_persisted=not_persisted)
        for vbucket, report in session.reports.items()
        if (not_persisted := report.not_persisted)
    }
    return replace(session, reports=reports, high_seqnos={})
