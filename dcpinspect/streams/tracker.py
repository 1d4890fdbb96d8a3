"""Follows every vbucket's stream: messages go in, tables come out.

``feed`` takes batches of messages in row order, of any size. ``tables`` returns at any time what is
known so far. The tables of a reading do not depend on how the reading was cut into batches.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.protocol.flags import SKIP_DELETES
from dcpinspect.streams import record_codes as k
from dcpinspect.streams import words as w
from dcpinspect.streams.anomalies import OSO_REPEATED
from dcpinspect.streams.collections import KnownNames
from dcpinspect.streams.connections import (
    clients_of,
    connection_records,
    flow_of,
    replica_streams,
)
from dcpinspect.streams.consumers import Consumers, consumers_apart, networks_apart
from dcpinspect.streams.contents import Contents
from dcpinspect.streams.conversation import Conversation
from dcpinspect.streams.copies import Copies
from dcpinspect.streams.disputes import (
    Comparison,
    Disputes,
    Subscription,
    disputable,
    no_spans,
    spans_of,
    subscription,
)
from dcpinspect.streams.events import RECENT, VBUCKETS, EventQuery, FoundEvents, RecentEvents
from dcpinspect.streams.failover_branches import Branches
from dcpinspect.streams.failover_logs import FailoverLogs
from dcpinspect.streams.flow_control import FlowControl
from dcpinspect.streams.follow import follow_messages
from dcpinspect.streams.followers import Portable
from dcpinspect.streams.gaps import Amounts, ExplainedGaps, StreamFacts, causes
from dcpinspect.streams.gaps_between_streams import resumed_gaps, rollback_gaps
from dcpinspect.streams.histories import ROUNDS as HISTORIES
from dcpinspect.streams.histories import Differ, Histories
from dcpinspect.streams.leaving import (
    MOST_UNUSUAL,
    DroppedRows,
    before_those,
    stale_gaps,
    stale_losses,
    stale_snapshots,
    stale_streams,
)
from dcpinspect.streams.lookup import fill_anomaly, refill_slots
from dcpinspect.streams.message_columns import MessageColumns
from dcpinspect.streams.noops import Noops
from dcpinspect.streams.oso import OutOfOrder
from dcpinspect.streams.records import CUT_VALUE, Gaps, Streams
from dcpinspect.streams.rollbacks import Rollbacks
from dcpinspect.streams.session import COLLECTIONS, Session
from dcpinspect.streams.snapshots import snapshot_records, states
from dcpinspect.streams.state import NOTHING, NewNumbers, ReadingState
from dcpinspect.streams.tables import TableInput, Tables
from dcpinspect.streams.tcp_facts import TcpConnection, command_counting
from dcpinspect.streams.unread_requests import UnreadRequests
from dcpinspect.streams.vbuckets import vbucket_records
from dcpinspect.streams.verdicts import Ends, StreamTexts, is_over, number_streams, stream_records
from dcpinspect.streams.visibility import Visibility, in_doubt, with_unseen_ends
from dcpinspect.streams.waits import Waits
from dcpinspect.streams.whole_reading import OfWhole
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.record_tables import Records
from dcpinspect.text import words_of

ROUNDS = 16
"""The greatest number of times that captures are read again to compare streams."""
MOST_STREAMS = 10_000
"""The default of ``Tracker.most_streams``."""
_CROWD = 4
"""Forgetting is due when new snapshots, gaps or losses are more than ``_most // _CROWD``; ``_most``
limits the events remembered.
"""
_AFTER_ALL = np.iinfo(np.int64).max


GapJudge = Callable[[IntArray, Streams, IntArray], BoolArray]


class Tracker(Portable):
    """State of all streams of one reading. Its memory grows with streams, snapshots and gaps, not
    with messages.
    """

    travels = words_of("state conversation copies flow noops _left _spans")

    def __init__(self, *, remembers: bool = False, limit: int = RECENT) -> None:
        """Starts without any message.

        ``remembers``: keep the latest events, ``limit`` at most, to compare streams with each other.
        Live readings need that: their messages cannot be read again.
        """
        self._recent = RecentEvents(limit) if remembers else None
        self._comparisons: dict[int, Comparison] = {}
        self._most = limit
        self.most_streams = MOST_STREAMS
        """Number of the latest finished streams that stay in the tables of a reading without end.
        """
        self._is_endless = self._is_due = self._is_over = False
        self._left = DroppedRows()
        self._spans: IntArray = np.zeros((0, 2), dtype=np.int64)
        """One row for each stream, once gaps were set apart: the seqnos that enclose all gaps of
        which another stream may tell.
        """
        # counts of snapshots, gaps and losses when some last left the tables.
        self._stayed: Sequence[int] = (0, 0, 0)
        self._compared = 0  # vbuckets below this one were
        self.state = ReadingState()
        self.contents: Contents | None = None
        """Follows the keys of events; None unless somebody asks what is wrong with documents."""
        self.flow: FlowControl | None = None
        self.noops: Noops | None = None
        """``flow`` follows flow control and ``noops`` noops; None unless somebody asks for them."""
        self.histories: Histories | None = None
        """Compares streams of one history; None unless somebody asks for that."""
        self.conversation = Conversation()
        self.copies = Copies()
        self.counts_copies = command_counting.copies
        """Whether tables also tell of connections that show what another one shows. Findings never
        do: two of one packet would be a repetition or a contradiction to rules.
        """
        self.kept: IntArray | None = None
        """What ``counted`` leaves out is missing here; the numbers that the streams had."""
        self._view: tuple[Collection[int], Tracker] | None = None
        self._columns = MessageColumns(self.conversation)
        self._out_of_order = OutOfOrder()
        self._tables: Tables | None = None
        """The tables made last; None as soon as newer messages were taken."""

    @classmethod
    def joined(
        cls, readings: Sequence[Tracker], connections: Sequence[IntArray]
    ) -> tuple[Self, list[NewNumbers]]:
        """Joins the trackers of readings of different connections to the tracker of one reading of
        all connections.

        ``connections``: for each reading, the new numbers of its connections. Returns the whole
        tracker, which must not be fed, and for each reading the new numbers of its streams,
        snapshots and other records.
        """
        tracker = cls()
        tracker.copies = Copies.joined([reading.copies for reading in readings], connections)
        tracker.conversation, filters, logs = Conversation.joined(
            [reading.conversation for reading in readings], connections
        )
        tracker.state, numbers = ReadingState.joined(
            [reading.state for reading in readings], connections, filters, logs
        )
        tracker._left = DroppedRows.joined(
            [reading._left for reading in readings],
            [new_numbers.streams for new_numbers in numbers],
        )
        if any(len(reading._spans) for reading in readings):
            tracker._spans = no_spans(sum(len(new_numbers.streams) for new_numbers in numbers))
            for reading, new_numbers in zip(readings, numbers, strict=True):
                tracker._spans[new_numbers.streams[: len(reading._spans)]] = reading._spans
        flows = [reading.flow for reading in readings if reading.flow is not None]
        noops = [reading.noops for reading in readings if reading.noops is not None]
        tracker.flow = FlowControl.joined(flows, connections) if flows else None
        tracker.noops = Noops.joined(noops, connections) if noops else None
        return tracker, numbers

    def forget_what_is_over(self) -> None:
        """Lets snapshots and gaps leave the tables from now on, once they are over and can be part
        of no finding: the reading has no end.

        Streams and vbuckets still count them. Raises ValueError unless the tracker ``remembers``
        events, by which it knows what is over.
        """
        if self._recent is None:
            raise ValueError("what is over is only known to who remembers events")
        self._is_endless = True
        if self.contents is not None:
            self.contents.most = self._most

    def feed(self, batch: MessageBatch) -> None:
        """Takes the next messages of the reading. The anomalies in ``state`` are those of the
        latest batch only.
        """
        self._tables = self._view = None
        self.copies.feed(batch)
        if self._is_due:
            self._leave(int(batch.row[0]), MOST_UNUSUAL)
        if self._recent is not None:
            self._recent.feed(batch, with_values=self.histories is not None)
        self._meet(batch)
        state = self.state
        state.feed(*self._columns.tables(batch))
        start, count = 0, len(state.messages)
        while start < count:
            if state.make_room():
                refill_slots(state)
            start = follow_messages(start, state)
            state.add_gaps(
                self._out_of_order.feed(state.used(state.oso_seqnos), state.known_tables.snapshots)
            )
            for row, snapshot, seqno in self._out_of_order.repeated:
                self._say_repeated(row, snapshot, seqno)
            state.counts.oso_seqnos = 0
        if self.contents is not None:
            self.contents.feed(batch, state, self.conversation.filters)
        if self._recent is not None and (self._recent.is_full or self._is_crowded):
            self._settle(self._recent)
            self._recent.forget()
            self._is_due = self._is_endless
        if self.flow is not None:
            self.flow.feed(batch, state)
        if self.noops is not None:
            self.noops.feed(batch, state, self.conversation.sessions)

    def _say_repeated(self, row: int, snapshot: int, seqno: int) -> None:
        """Writes the anomaly of an OSO snapshot that had a seqno twice, and ended in this row."""
        state, messages = self.state, self.state.messages
        is_end = (messages.place.row == row) & (messages.kind == k.OSO)
        anomaly = state.anomalies[state.counts.anomalies]
        fill_anomaly(anomaly, OSO_REPEATED, messages[int(np.flatnonzero(is_end)[0])], seqno, 0)
        anomaly.stream, anomaly.snapshot = state.snapshots[snapshot].stream, snapshot
        state.counts.anomalies += 1
        state.make_room_in("anomalies")

    def speaks_dcp(self, connection: int) -> bool:
        """Returns whether anything was said on a connection that belongs to DCP."""
        table, session = self.state.connections, self.conversation.sessions.get(connection)
        is_met = connection < len(table) and (
            table.producer[connection] >= 0 or table.streams[connection] > 0
        )
        return bool(is_met or (session is not None and session.open_row))

    def tables(
        self,
        links: Sequence[TcpConnection],
        files: Sequence[str] = (),
        *,
        of_whole: OfWhole | None = None,
    ) -> Tables:
        """Returns all tables. Only the table of connections has those that show what another one
        shows.

        ``links``: the connections as they are now. ``files``: the captures, if records say in which
        capture they begin. ``of_whole``: facts from a reading of everything, if this tracker read
        only a part. The snapshots and gaps of the part follow these facts.
        """
        if of_whole is not None:
            links = [of_whole.unseen.get(link.number, link) for link in links]
            return self._made(links, of_whole).with_files(files)
        if self._tables is None or self._tables.links != links:
            tracker, counted = self.counted(links)
            tables, copies = tracker._made(counted, None), self.copies.among(links)
            if copies:
                _, every_link = self.counted(links, with_copies=True)
                tables = tables.with_connections(
                    lambda: self._made(every_link, None).connections, links, copies
                )
            tables.links = links
            self._tables = tables
        return self._tables.with_files(files)

    def left_out(self, links: Sequence[TcpConnection]) -> Collection[int]:
        """Returns the connections that do not count, because they show what another one shows."""
        return () if self.counts_copies else self.copies.among(links).keys()

    def unsure(self, links: Sequence[TcpConnection]) -> Collection[int]:
        """Returns the connections that may yet prove to show what another one shows."""
        return () if self._is_over else self.copies.unsure(links)

    def counted(
        self, links: Sequence[TcpConnection], *, with_copies: bool | None = None
    ) -> tuple[Tracker, Sequence[TcpConnection]]:
        """Returns what is known, and the connections as ``networks_apart`` and ``with_unseen_ends``
        have them, without those that show what another one shows; the tracker must not be fed.
        ``with_copies``: whether those stay; by default as ``counts_copies`` says.
        """
        stay = self.counts_copies if with_copies is None else with_copies
        copies = () if stay else self.copies.among(links).keys()
        tracker = self
        if copies:
            if self._view is None or self._view[0] != copies:
                self._view = copies, self._without(set(copies))
            tracker, links = self._view[1], self.copies.counted(links)
        tables, conversation = tracker.state.known_tables, tracker.conversation
        links = networks_apart(links, conversation.sessions, tables, conversation.logs)
        return tracker, with_unseen_ends(links, conversation.sessions, tables.losses)

    def _without(self, connections: set[int]) -> Tracker:
        """Returns what is known without these connections."""
        # which has what ``joined`` needs; nothing in it is there twice
        duplicate = copy.deepcopy(self, {id(self.copies): Copies()})
        duplicate.counts_copies = True
        duplicate._recent = self._recent
        duplicate._comparisons = dict(self._comparisons)
        duplicate._compared = self._compared
        duplicate.histories = copy.copy(self.histories)
        numbers = np.array(sorted(connections), dtype=np.int64)
        stays = ~np.isin(duplicate.state.known_tables.streams.connection, numbers)
        duplicate._drop(stays, numbers)
        duplicate.kept = np.flatnonzero(stays)
        for follower in (duplicate.flow, duplicate.noops):
            if follower is not None:
                follower.leave(connections)
        return duplicate

    def _made(self, links: Sequence[TcpConnection], of_whole: OfWhole | None) -> Tables:
        """Returns the tables of these connections, each of which is made when it is asked for."""
        seen, tables = self._seen(links, of_whole), self.state.known_tables
        streams, snapshots, sessions = tables.streams, tables.snapshots, self.conversation.sessions
        in_order = number_streams(streams)
        logs = cache(lambda: FailoverLogs(streams, seen.sight, self.conversation, links))
        explained = cache(
            lambda: Rollbacks(streams, snapshots, logs(), seen.consumers, self.conversation.reports)
        )
        # once: a later call may come while messages are fed
        reports = cache(lambda: self.conversation.reports)

        def vbuckets(clients: Mapping[int, str]) -> Records:
            return vbucket_records(
                tables, seen.verdicts, seen.amounts, clients, reports(), seen.waits
            )

        made: dict[str, Callable[[], Any]] = {
            "logs": logs,
            "explained": explained,
            "connections": lambda: connection_records(
                links, sessions, tables, seen.flows, seen.verdicts, seen.sight
            ),
            "streams": lambda: seen.streams if in_order is None else seen.streams.take(in_order),
            "snapshots": lambda: snapshot_records(
                snapshots,
                streams,
                seen.snapshot_states,
                seen.sight.may_have_asked[streams.connection],
                seen.gaps.of_cause(w.LOSS),
            ),
            "gaps": seen.gaps.records,
            "rollbacks": lambda: explained().records(tables.connections.producer),
            "vbuckets": lambda: vbuckets(seen.clients),
            "vbuckets_of": lambda: vbuckets,
        }
        return Tables(seen, {name: cache(make) for name, make in made.items()}, links)

    def _seen(self, links: Sequence[TcpConnection], of_whole: OfWhole | None) -> TableInput:
        """Returns what all tables need."""
        by_number = {link.number: link for link in links}
        self._meet_links(by_number)
        conversation, tables = self.conversation, self.state.known_tables
        sessions, connections = conversation.sessions, self.state.connections
        streams, snapshots, logs = tables.streams, tables.snapshots, conversation.logs
        sight = Visibility(tables, by_number)
        flows = {
            number: flow_of(connections[number], link, sessions.get(number) or Session(), sight)
            for number, link in by_number.items()
        }
        own_clients = clients_of(links, sessions, sight)
        owners = consumers_apart(own_clients, by_number, sessions, tables, logs)
        clients = {number: owner.name for number, owner in owners.items()}
        full = {number: flow.is_full for number, flow in flows.items()}
        ends = Ends.from_tables(tables, by_number, full)
        waits = Waits(tables, self._branches(streams), conversation, by_number, clients, sight)
        unread = UnreadRequests(streams, sight, by_number, sessions, clients)
        # what a client had received is doubted as in rules
        doubting_sight = Visibility(tables, {link.number: link for link in in_doubt(links)})
        if of_whole:
            resumed, replicas = of_whole.resumed, of_whole.replicas
        else:
            resumed = resumed_gaps(streams, snapshots, owners, by_number, unread, doubting_sight)
            replicas = replica_streams(streams, connections, sessions, by_number)
        gaps = self._explained(resumed, of_whole)
        amounts = self._amounts(gaps)
        texts = StreamTexts(conversation.filters, logs, _known_names(sessions, by_number))
        is_known = (connections.losses.array.sum(axis=1) == 0) & ~sight.incomplete_consumers
        return TableInput(
            by_number,
            sight,
            Consumers(tables, owners, unread, doubting_sight),
            clients,
            flows,
            unread,
            waits,
            gaps,
            amounts,
            stream_records(streams, snapshots, amounts, texts, ends, waits.are_long),
            replicas,
            states(
                snapshots,
                is_over=is_over(streams, ends),
                is_lost=ends.is_lost,
                is_replica=replicas,
                is_known=is_known[streams.connection],
            ),
        )

    def _meet_links(self, by_number: Mapping[int, TcpConnection]) -> None:
        """Adds connections without messages to the tables."""
        unmet = self.state.unmet(np.array(list(by_number), dtype=np.int64))
        has_handshake = [by_number[number].has_handshake for number in unmet.tolist()]
        self.state.meet(unmet, np.array(has_handshake, dtype=np.int64))

    def _explained(self, resumed: Gaps, of_whole: OfWhole | None) -> ExplainedGaps:
        """Returns all gaps with their causes; ``resumed``: those where resumed streams begin."""
        tables = self.state.known_tables
        facts = self._facts(tables.streams, of_whole)
        gaps = Gaps.joined([tables.gaps, rollback_gaps(tables.streams), resumed])
        cause = causes(gaps, tables.snapshots, facts)
        if of_whole is not None:
            comparisons = of_whole.comparisons_of(gaps)
        else:
            disputes = Disputes(
                gaps, cause, tables, self._branches(tables.streams), vbucket=self._compared
            )
            found_events = (
                self._recent.remembered_events(disputes.event_query())
                if self._recent is not None and disputes.pairs
                else None
            )
            subscriptions = {number: self.subscription_of(number) for number in disputes.streams}
            comparisons = self._with_comparisons(
                disputes.setting_after(found_events, subscriptions)
            )
        return ExplainedGaps(tables, gaps, cause, comparisons, facts, self.conversation.sessions)

    def _amounts(self, gaps: ExplainedGaps) -> tuple[IntArray, Amounts]:
        """Returns each stream's snapshots, and its gaps by cause, with those that have left."""
        tables = self.state.known_tables
        count = len(tables.streams)
        by_cause, gap_seqnos = self._left.gaps(count)
        np.add.at(by_cause, (gaps.table.stream, gaps.cause), 1)
        np.add.at(gap_seqnos, (gaps.table.stream, gaps.cause), gaps.width)
        return self._left.snapshots_of(count) + np.bincount(
            tables.snapshots.stream, minlength=count
        ), (by_cause, gap_seqnos)

    def compare(
        self, look_again: Callable[[EventQuery], FoundEvents], differ: Differ | None = None
    ) -> None:
        """Compares streams by events that are read a second time, each time of as many vbuckets as
        memory allows.

        ``differ``: as in ``Histories.compare``.
        """
        self._compared, self._comparisons, self._tables = 0, {}, None
        for _ in range(ROUNDS):
            found_events = self._keep(look_again, vbucket=self._compared)
            before = self._compared
            self._compared = VBUCKETS if found_events is None else found_events.vbuckets
            if self._compared in (before, VBUCKETS):
                break
        if self.histories is not None:
            self.histories.begin()
            vbucket, before = 0, -1
            for _ in range(HISTORIES):
                streams = self.state.known_tables.streams
                before = vbucket
                vbucket = self.histories.compare(
                    look_again, streams, self.conversation, vbucket=vbucket, differ=differ
                )
                if vbucket in (before, VBUCKETS):
                    break

    def finish(self) -> None:
        """Frees what only further messages would need: there are none."""
        self._is_over = True
        self.contents = None
        self._columns = MessageColumns(self.conversation)
        self.state.feed(*NOTHING)

    def contradictions(self) -> Histories:
        """Returns where streams of one history contradict each other, as far as somebody asked for
        it and the events are known.
        """
        if self._recent is not None and self.histories is not None:
            self.histories.look_back(
                self._recent.remembered_events,
                self.state.known_tables.streams,
                self.conversation,
                self._recent.last_row,
            )
        return self.histories or Histories()

    @property
    def left_counts(self) -> dict[str, int]:
        """How many connections, streams, snapshots and gaps have left the tables, by name."""
        snapshots, gaps = self._left.counts.tolist()
        return {
            "connections": self._left.connections,
            "streams": self._left.streams,
            "snapshots": snapshots,
            "gaps": gaps,
        }

    @property
    def _is_crowded(self) -> bool:
        """Whether new snapshots, gaps or losses are many, compared with the number of events that
        are remembered.
        """
        new = (now - before for now, before in zip(self._bulk, self._stayed, strict=True))
        return self._is_endless and max(new) > self._most // _CROWD

    @property
    def _bulk(self) -> Sequence[int]:
        """Numbers of snapshots, gaps and losses that the tables hold."""
        counts = self.state.counts
        return counts.snapshots, counts.gaps, counts.losses

    def set_apart(self, but: BoolArray | None = None) -> None:
        """Lets snapshots and gaps leave that are over and can be part of no finding.

        Streams and vbuckets still count them, and ``OfWhole`` helps to make their tables. Call this
        once all messages were taken, on a tracker that will be ``joined``. ``but``: streams whose
        snapshots and gaps all stay.
        """
        tables = self.state.known_tables
        self._spans = spans_of(tables.gaps, self._causes(), len(tables.streams))
        self._leave(_AFTER_ALL, _AFTER_ALL, but)

    @property
    def gap_bounds(self) -> IntArray:
        """Stream, seqno before and behind, and cause of every gap: enough to tell disputes."""
        gaps = self.state.known_tables.gaps
        return np.column_stack((gaps.stream, gaps.after, gaps.before, self._causes()))

    def wanting(self, judge: GapJudge) -> BoolArray:
        """Returns a mask of streams that have to be compared with each other because of gaps and
        snapshots that were set apart.

        ``judge``: gets streams that may have gaps in dispute (their numbers, their rows, the branch
        of each), and returns a mask of those that do.
        """
        streams = self.state.known_tables.streams
        branches = self._branches(streams)
        numbers = np.flatnonzero(disputable(self._spans, streams, branches))
        mask = np.zeros(len(streams), dtype=np.bool_)
        if len(numbers):
            asked_streams = streams if len(numbers) == len(streams) else streams[numbers]
            mask[numbers] = judge(numbers, asked_streams, branches[numbers])
        return mask

    def _leave(self, row: int, limit: int, but: BoolArray | None = None) -> None:
        """Lets snapshots, gaps and losses that are over leave the tables.

        ``row``: row of the next message. ``limit``: as in ``leaving``. ``but``: as in ``set_apart``.
        """
        recent, state = self._recent, self.state
        before_row = recent.first_row if recent else row
        _, streams, snapshots, gaps, losses = state.known_tables
        stays = np.zeros(len(streams), dtype=np.bool_) if but is None else but
        cause = self._causes()
        for number, comparison in self._comparisons.items():
            if comparison.cause >= 0:
                cause[number] = comparison.cause
        go = stale_gaps(gaps, cause, before_row, limit) & ~stays[gaps.stream]
        gone = stale_snapshots(snapshots, streams, gaps[~go], before_row, limit)
        gone &= ~stays[snapshots.stream]
        self._left.count(len(streams), snapshots[gone], gaps[go], cause[go])
        self._take_leave({"gaps": ~go, "snapshots": ~gone, "losses": ~stale_losses(losses, limit)})
        self._stayed = self._bulk
        self._is_due = False

    def _causes(self) -> IntArray:
        """Returns the cause of each gap that its own stream shows; no other stream is asked."""
        tables = self.state.known_tables
        return causes(tables.gaps, tables.snapshots, self._facts(tables.streams))

    def let_go(
        self, connections: set[int], hosts: Mapping[int, str], closed: Collection[int]
    ) -> Collection[tuple[int, int | None]]:
        """Lets connections leave the tables with all that was on them; streams that are over leave
        too, but for the newest ``most_streams``.

        ``hosts``: host of the client, by connection. ``closed``: connections that were closed. When
        a stream leaves, so do streams that the same host opened before for the same vbucket:
        otherwise one of them would count as the stream just before the next. Returns pairs of
        connection and vbucket for streams that left while their connection stayed, and (connection,
        None) for each of these connections. Call this between two batches.
        """
        state = self.state
        tables, numbers = state.known_tables, np.array(sorted(connections), dtype=np.int64)
        is_of = np.isin(tables.streams.connection, numbers)
        over = stale_streams(tables.streams, state.used(state.keys), self.most_streams)
        leaving = is_of | over
        streams = ~(
            leaving
            | before_those(leaving, tables.streams, hosts, np.array(sorted(closed), dtype=np.int64))
        )
        logs = np.concatenate((tables.streams.log[streams], state.early_answers.log))
        self._drop(
            streams, numbers, self.conversation.keep(tables.streams.request.filter[streams], logs)
        )
        self._left.connections += len(connections)
        self.copies.leave(connections)
        for follower in (self.flow, self.noops, self._recent):
            if follower is not None:
                follower.leave(connections)
        other_streams = tables.streams[~streams & ~is_of]
        connections_of, vbuckets = other_streams.connection.tolist(), other_streams.vbucket.tolist()
        return {
            *zip(connections_of, vbuckets, strict=True),
            *((number, None) for number in connections_of),
        }

    def _drop(
        self,
        streams: BoolArray,
        connections: IntArray,
        other_masks: Mapping[str, BoolArray] = MappingProxyType({}),
    ) -> None:
        """Drops connections, and keeps of all streams only some, with all that was on them.

        ``streams``: a mask of those that stay. ``other_masks``: masks of other things, by name.
        """
        state, tables = self.state, self.state.known_tables
        self._left.forget(streams)
        state.unmeet(connections)
        staying = {
            "streams": streams,
            "snapshots": streams[tables.snapshots.stream],
            "gaps": streams[tables.gaps.stream],
            "losses": ~np.isin(tables.losses.connection, connections),
            "keys": ~np.isin(state.used(state.keys).connection, connections),
            "questions": streams[state.used(state.questions).stream],
            **other_masks,
        }
        self._take_leave(staying)
        refill_slots(state)
        self.conversation.leave(connections)

    def _take_leave(self, staying: dict[str, BoolArray]) -> None:
        """Keeps only some rows of the kernel's tables; ``staying``: masks by table."""
        self._tables = None
        numbers = self.state.leave(staying)
        gaps, streams = numbers["gaps"], numbers.get("streams")
        self._comparisons = {
            int(gaps[gap]): comparison
            if streams is None
            else replace(comparison, stream=int(streams[comparison.stream]))
            for gap, comparison in self._comparisons.items()
            if gaps[gap] >= 0 and (streams is None or streams[comparison.stream] >= 0)
        }
        self._out_of_order.renumber(numbers["snapshots"])
        if self.contents is not None:
            self.contents.renumber(streams, numbers["snapshots"])
        if streams is not None and self.histories is not None:
            self.histories.renumber(streams)

    def _settle(self, recent: RecentEvents) -> None:
        """Keeps what events tell of gaps and histories before these events are forgotten."""
        self._keep(recent.remembered_events, first_row=recent.first_row)
        self.contradictions()

    def _keep(
        self, look: Callable[[EventQuery], FoundEvents], *, first_row: int = 0, vbucket: int = 0
    ) -> FoundEvents | None:
        """Keeps what other streams tell of gaps from ``first_row`` and ``vbucket`` on. Returns the
        events used; None where none tell anything.
        """
        tables, streams = self.state.known_tables, self.state.known_tables.streams
        disputes = Disputes(
            tables.gaps,
            self._causes(),
            tables,
            self._branches(streams),
            first_row=first_row,
            vbucket=vbucket,
        )
        if not disputes.pairs:
            return None
        found_events = look(disputes.event_query())
        subscriptions = {number: self.subscription_of(number) for number in disputes.streams}
        comparisons = disputes.setting_after(found_events, subscriptions)
        self._comparisons = self._with_comparisons(
            {
                gap: comparison
                for gap, comparison in comparisons.items()
                if comparison.event is not None
            }
        )
        return found_events

    def _with_comparisons(self, comparisons: dict[int, Comparison]) -> dict[int, Comparison]:
        """Returns ``comparisons`` together with what was told of gaps before."""
        return {
            **comparisons,
            **{
                gap: comparisons[gap].or_rather(comparison) if gap in comparisons else comparison
                for gap, comparison in self._comparisons.items()
            },
        }

    def _branches(self, streams: Streams) -> IntArray:
        """Returns the newest uuid that the server named for each stream; 0 where it named none."""
        return Branches.from_logs(self.conversation.logs).newest[streams.log]

    def subscription_of(self, stream: int) -> Subscription:
        """Returns what a stream asks for."""
        row, conversation = self.state.known_tables.streams[stream], self.conversation
        request = row.request
        return subscription(
            conversation.sessions.get(row.connection) or Session(),
            conversation.filters[request.filter] if request.filter >= 0 else None,
            is_asked=bool(request.is_captured != 0 and request.filter != CUT_VALUE),
            is_whole=self.state.is_whole(row.connection),
        )

    def _meet(self, batch: MessageBatch) -> None:
        numbers = self.state.unmet(batch.connection)
        if len(numbers):
            self.state.meet(
                numbers,
                np.frombuffer(bytes(batch.endpoints.has_handshake), np.uint8)[numbers - 1].astype(
                    np.int64
                ),
            )

    def _facts(self, streams: Streams, of_whole: OfWhole | None = None) -> StreamFacts:
        filters = [
            value is not None and ("collections" in value or "scope" in value)
            for value in self.conversation.filters
        ]
        has_filter = np.array([*filters, False], dtype=np.bool_)[
            np.maximum(streams.request.filter, -1)
        ]  # no value finds the last one
        is_asked = (streams.request.is_captured != 0) & (streams.request.filter != CUT_VALUE)
        skips, is_opened, bare = (
            np.zeros(len(self.state.connections), dtype=np.bool_) for _ in range(3)
        )
        for number, session in self.conversation.sessions.items():
            skips[number] = bool((session.open_flags or 0) & SKIP_DELETES)
            is_opened[number] = session.open_flags is not None
            bare[number] = session.features is not None and COLLECTIONS not in session.features
        owner = streams.connection
        lacks_history = of_whole.lacks_history if of_whole else self.lacks_history()[owner]
        return StreamFacts(
            is_asked | bare[owner],
            is_opened[owner] | bare[owner],
            has_filter,
            skips[owner],
            lacks_history,
        )

    def lacks_history(self) -> BoolArray:
        """Returns a mask by number of the connection: connections to a bucket of which some known
        collection keeps no history.
        """
        mask = np.zeros(len(self.state.connections), dtype=np.bool_)
        sessions = self.conversation.sessions
        buckets = {
            session.bucket for session in sessions.values() if session.manifest.lacks_history
        } - {None}
        for number, session in sessions.items():
            mask[number] = session.manifest.lacks_history or session.bucket in buckets
        return mask


def _known_names(sessions: Mapping[int, Session], links: Mapping[int, TcpConnection]) -> KnownNames:
    """Returns the names that connections told, shared by those of one bucket of a server."""
    buckets = {
        number: (links[number].server, session.bucket)
        for number, session in sessions.items()
        if number in links and session.bucket
    }
    return KnownNames({number: session.manifest for number, session in sessions.items()}, buckets)
