"""Which messages show a finding, where errors and warnings stand in time, and which vbuckets bear
them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.findings.finding import Finding, MessagePlace
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers
from dcpinspect.protocol.message import Severity
from dcpinspect.reading.store.store import Store
from dcpinspect.streams.words import NEVER_OPEN
from dcpinspect.tables.record_tables import Records

Bearing = Callable[[Finding], Collection[int]]
"""Returns the vbuckets that bear a case of a finding."""


def lives(streams: Records) -> IntArray:
    """Returns connection, vbucket, first row and last row of each stream in the table of streams
    that was ever open.
    """
    rows = streams.rows("connection", "vbucket", "open_row", "end_row", "verdict")
    ends = [
        (*ids, begun or 0, end or sys.maxsize)
        for *ids, begun, end, verdict in rows
        if verdict not in NEVER_OPEN
    ]
    return np.array(ends, np.int64).reshape(-1, 4)


def bearing(stream_lives: Callable[[], IntArray], connection: int | None = None) -> Bearing:
    """Returns what finds the vbuckets whose events tell a case: those that it names, and of an error
    or a warning that names none, those of streams that were open on its connections when it began.
    ``stream_lives``: returns what ``lives`` does. ``connection``: only cases on it have any.
    """
    open_on = cache(lambda: _open_on(stream_lives()))

    def vbuckets_of(case: Finding) -> Collection[int]:
        if connection is not None and connection not in case.connections:
            return ()
        return case.vbuckets or (open_on()(case) if case.severity != "note" else ())

    return vbuckets_of


def bearers_of(findings: Sequence[Finding], bear: Bearing) -> list[Collection[int]]:
    """Returns the vbuckets that bear each finding."""
    return [
        {vbucket for case in finding.case_of_each for vbucket in bear(case)} for finding in findings
    ]


def _open_on(stream_lives: IntArray) -> Callable[[Finding], set[int]]:
    """Returns what finds the vbuckets of which a stream, on a connection of a case, was open when
    that case began, as ``event_lines`` finds it for one vbucket.
    """
    by_connection = stream_lives[np.argsort(stream_lives[:, 0], kind="stable")]

    def vbuckets_of(case: Finding) -> set[int]:
        began = _began_with(case)
        open_vbuckets = set[int]()
        for message_place in case.places:
            row = (began or message_place).row
            if not row:
                continue  # a packet before all messages
            low, high = np.searchsorted(
                by_connection[:, 0], [message_place.connection, message_place.connection + 1]
            )
            _, vbucket, begun, over = by_connection[low:high].T
            open_vbuckets.update(vbucket[(begun <= row) & (row <= over)].tolist())
        return open_vbuckets

    return vbuckets_of


def _began_with(case: Finding) -> MessagePlace | None:
    """Returns the message that a case began with, if its evidence has it."""
    return next((message for message in case.places if message.time_ns == case.first_time_ns), None)


def rows_of(finding: Finding) -> RowNumbers:
    """Returns all rows that show a finding, rising: its evidence, and similar messages."""
    evidence = np.array(
        [row for case in finding.case_of_each for row in case.evidence_rows], np.int64
    )
    return np.unique(np.concatenate((evidence, finding.rows)))


def rows_marked(finding: Finding, store: Store) -> RowNumbers:
    """Returns the rows that show a finding. Evidence on vbuckets that it does not name is not among
    them: such a message is well, and only tells that others went on.
    """
    rows = rows_of(finding)
    evidence = np.setdiff1d(rows, finding.rows)
    evidence = evidence[evidence >= store.first_row]
    if not finding.vbuckets or not len(evidence):
        return rows
    (vbucket,) = store.numbers(evidence, ("vbucket",))
    batch = store.messages(evidence[~np.isin(vbucket.values, finding.vbuckets)])
    return np.setdiff1d(rows, batch.row[batch.vbuckets_of(np.arange(len(batch))).is_known])


def places_of(store: Store, rows: RowNumbers, case: Finding) -> Sequence[MessagePlace]:
    """Returns the messages that show a case; of a case of many vbuckets, one of the vbucket that has
    ``rows`` stands first.
    """
    own_rows = np.intersect1d(rows_of(case), rows)[:1] if len(case.vbuckets) > 1 else NO_ROWS
    if not len(own_rows) or case.places[0].row in rows:
        return case.places
    values = store.numbers(own_rows, ("connection", "time_ns"))
    connection, time_ns = (int(column.values[0]) for column in values)
    message = replace(case.places[0], row=int(own_rows[0]), connection=connection, time_ns=time_ns)
    return message, *case.places


class FindingMarks(NamedTuple):
    """Where errors and warnings that are no effects stand in time, as columns: each message that
    shows one, and each case when it began, on every vbucket that bears it.
    """

    row: IntArray = NO_ROWS
    """Row of the message; 0: a case began."""
    time_ns: IntArray = NO_ROWS
    connection: IntArray = NO_ROWS
    vbucket: IntArray = NO_ROWS
    """-1: it is about no vbucket."""
    sid: IntArray = NO_ROWS
    """-1 for none."""
    is_error: IntArray = NO_ROWS
    """1 of an error, 0 of a warning."""

    @staticmethod
    def of(findings: Sequence[Finding], bear: Bearing, store: Store) -> FindingMarks:
        """Returns the marks; of messages that a live capture has dropped only where cases began."""
        bad = [
            finding
            for finding in findings
            if finding.severity != "note" and finding.effect_of is None
        ]
        begun = []
        for finding in bad:
            for case in finding.case_of_each:
                began = _began_with(case)
                connection = (began.connection if began else case.connection) or 0
                begun += [
                    (0, case.first_time_ns, connection, vbucket, -1, finding.severity == "error")
                    for vbucket in (bear(case) or (-1,) if case.first_time_ns else ())
                ]
        tables = [np.array(begun, np.int64).reshape(-1, 6)]
        for finding in bad:
            # of one that came again and again, the evidence may be all that is known
            repeats = [
                place.row
                for case in finding.case_of_each
                if len(finding.rows) < finding.count and case.count == len(case.places)
                for place in case.places
                if place.has_message
            ]
            rows = np.union1d(finding.rows, np.array(repeats, np.int64))
            rows = rows[rows >= store.first_row]
            time_ns, connections, vbucket, sid = store.numbers(
                rows, ("time_ns", "connection", "vbucket", "sid")
            )
            is_named = np.isin(vbucket.values, finding.vbuckets) & vbucket.is_known
            vbuckets, sids = (
                np.where(is_named, vbucket.values, -1),
                np.where(sid.is_known, sid.values, -1),
            )
            is_error = np.full(len(rows), finding.severity == "error")
            tables.append(
                np.column_stack(
                    (rows, time_ns.values, connections.values, vbuckets, sids, is_error)
                )
            )
        return FindingMarks(*np.vstack(tables).T)

    @property
    def by_severity(self) -> dict[Severity, FindingMarks]:
        """The part of warnings, and that of errors, which cover them; none if it is empty."""
        words: tuple[Severity, ...] = ("warning", "error")
        masks = {word: self.is_error == number for number, word in enumerate(words)}
        return {word: self.where(mask) for word, mask in masks.items() if mask.any()}

    def where(self, mask: BoolArray) -> FindingMarks:
        """Returns a part of it."""
        return FindingMarks(*(column[mask] for column in self))
