"""What lint rules look at on one connection, and what each rule says of it.

Nothing is held against a client that the capture may lack. An absence is only known if everything
was captured in which the message could be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import Literal, get_args

import numpy as np

from dcpinspect.findings.context import ALL, Context, plain
from dcpinspect.findings.finding import MessagePlace, Occurrence, captured
from dcpinspect.protocol.flags import ACTIVE_ONLY, FROM_LATEST, NO_VALUE, PRODUCER, TO_LATEST
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams import words as w
from dcpinspect.streams.flow_control import TOO_SMALL, FlowControl
from dcpinspect.streams.record_codes import HAS_PURGE, UPR_LAYOUT
from dcpinspect.streams.records import LEAST, UNREAD_SEQNO, Snapshot
from dcpinspect.streams.session import Said, Session
from dcpinspect.streams.tcp_facts import TcpConnection, host_of

LONGEST_NAME = 200
"""Greatest size in bytes of a name that servers accept."""
ENOUGH_ACKS = 4
_CLIENT = 0
"""Direction of the side that opened the TCP connection."""

Says = Literal["PASS", "FAIL", "NA"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of a connection."""

    says: Says
    why: str
    """One sentence, without the place."""
    places: tuple[MessagePlace, ...] = ()
    severity: Severity = ""  # type: ignore[assignment] # of the rule
    cause: str | None = None
    rule: str = ""
    """Empty until a check has returned it, as the connection is 0."""
    connection: int = 0

    @property
    def occurrence(self) -> Occurrence:
        """The failure, as a case of its rule."""
        return Occurrence(
            self.rule,
            self.why,
            self.connection,
            self.places,
            cause=self.cause,
            severity=self.severity,
        )


def _verdict(says: Says, why: str, *places: MessagePlace | None) -> Verdict:
    return Verdict(says, why, captured(places))


_passes, _fails, _does_not_apply = (partial(_verdict, says) for says in get_args(Says))
HIDDEN = _does_not_apply("unknown because of capture loss")
EARLIER = _does_not_apply("unknown, because the capture begins inside a connection of this host")
BETWEEN_NODES = _does_not_apply("the connection is between two nodes")
NOTHING = _does_not_apply("there are no streams")
NOT_RECEIVING = _does_not_apply("the client does not receive documents on this connection")
_NEVER = ALL, 0, 0


@dataclass(frozen=True)
class ConsumerFacts:
    """What rules look at besides the connection itself."""

    context: Context
    flow: FlowControl | None

    @cached_property
    def streams(self) -> Mapping[int, list[int]]:
        """Numbers of streams whose request was captured, by connection."""
        streams_of: dict[int, list[int]] = defaultdict(list)
        for number in np.flatnonzero(self.context.streams.request.is_captured != 0).tolist():
            streams_of[self.context.streams[number].connection].append(number)
        return streams_of

    @cached_property
    def losses(self) -> Mapping[int, list[tuple[int, int]]]:
        """By connection, the rows before and after each loss of the client's messages."""
        losses_of: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for loss in self.context.tracker.state.known_tables.losses:
            if loss.direction == _CLIENT:
                losses_of[loss.connection].append((loss.before_row, loss.after_row))
        for link in self.context.links:
            if link.lost_at_end[_CLIENT] is not None:
                last = int(self.context.tracker.state.connections.last_row[_CLIENT][link.number])
                losses_of[link.number].append((last, ALL))
        return losses_of

    def open_place(self, number: int) -> MessagePlace | None:
        """Returns the place of a connection's open."""
        return self.context.said_place(number, self.context.session(number).open_asked)

    def _opened(self, number: int) -> tuple[int, int]:
        """Returns what orders connections by their opens."""
        open_place = self.open_place(number)
        return (0, 0) if open_place is None else (open_place.time_ns, open_place.row)

    def is_captured(self, link: TcpConnection, since: int, until: int = ALL) -> bool:
        """Returns whether everything that a client said between two rows was captured; ``since`` 0:
        from the beginning of the connection.
        """
        if self.context.session(link.number).is_cut or (not since and not link.has_handshake):
            return False
        return not any(
            before < until and after > since for before, after in self.losses.get(link.number, ())
        )

    @cached_property
    def names(self) -> Mapping[tuple[object, str], list[int]]:
        """Connections by server, bucket and DCP name, in order of their opens."""
        connections_of_name: dict[tuple[object, str], list[int]] = defaultdict(list)
        for link in self.context.links:
            session = self.context.session(link.number)
            if session.open_row and session.open_status == Status.SUCCESS and session.name:
                connections_of_name[self.context.logs.origins[link.number], session.name].append(
                    link.number
                )
        for numbers in connections_of_name.values():
            numbers.sort(key=self._opened)
        return connections_of_name

    @cached_property
    def of_client(self) -> Mapping[tuple[object, str], list[int]]:
        """Opened connections of one client to one bucket of one server, in order of their opens."""
        connections_of_client: dict[tuple[object, str], list[int]] = defaultdict(list)
        for (origin, _), numbers in self.names.items():
            for number in numbers:
                connections_of_client[origin, self.context.clients[number]].append(number)
        for numbers in connections_of_client.values():
            numbers.sort(key=self._opened)
        return connections_of_client

    @cached_property
    def previous_of_name(self) -> Mapping[int, int]:
        """By connection, the latest one before that opened with the same name."""
        return {
            number: before
            for numbers in self.names.values()
            for before, number in pairwise(numbers)
        }

    @cached_property
    def held(self) -> Mapping[int, tuple[int, tuple[int, ...]]]:
        """By connection, how many older ones of its client go on when it opens, and the first three
        of them.
        """
        last_ns = self.context.tracker.state.connections.time.array.max(axis=1)
        held_at_open = {}
        for numbers in self.of_client.values():
            going_on: dict[int, None] = {}
            ends: list[tuple[int, int]] = []
            for number in numbers:
                opened_ns, _ = self._opened(number)
                while ends and ends[0][0] <= opened_ns:
                    del going_on[heappop(ends)[1]]
                if opened_ns:
                    held_at_open[number] = len(going_on), tuple(islice(going_on, 3))
                going_on[number] = None
                heappush(ends, (int(last_ns[number]), number))
        return held_at_open

    @cached_property
    def hosts(self) -> Mapping[str, tuple[tuple[int, int, int], Verdict | None]]:
        """By host of the client: (time, row, connection) of the first request for the newest
        seqnos, and what may hide such a request.
        """
        host_answers: dict[str, tuple[tuple[int, int, int], Verdict | None]] = {}
        for link in self.context.links:
            host = host_of(link.client)
            asked_place = self.context.session(link.number).high_seqnos_asked
            first, hidden = host_answers.get(host, (_NEVER, None))
            own_key = (
                _NEVER
                if asked_place is None
                else (asked_place.time_ns, asked_place.row, link.number)
            )
            if not self.is_captured(link, 1) or link.missing[_CLIENT] or link.skipped[_CLIENT]:
                hidden = HIDDEN
            elif not link.has_handshake:
                hidden = hidden or EARLIER
            host_answers[host] = min(first, own_key), hidden
        return host_answers

    @cached_property
    def purges_told(self) -> frozenset[int]:
        """Streams on which a marker told a purge seqno."""
        snapshots = self.context.snapshots
        return frozenset(snapshots.stream[snapshots.seqnos.present & HAS_PURGE > 0].tolist())


class ClientConnection:
    """One connection that its client opened for DCP."""

    def __init__(
        self, facts: ConsumerFacts, link: TcpConnection, session: Session, streams: Sequence[int]
    ) -> None:
        """``streams``: numbers of the connection's streams whose request was captured."""
        self.facts = facts
        self.context = facts.context
        self.link = link
        self.session = session
        self.streams = streams
        self.rows = self.context.streams[list(streams)]
        self.first_row = int(self.rows.opened.row.min(initial=ALL))
        """Row of the first stream request."""
        is_resumed = (
            (self.rows.request.start > LEAST)
            & (self.rows.request.has_range != 0)
            & (self.rows.request.flags & FROM_LATEST == 0)
        )
        self.resumed = [streams[index] for index in np.flatnonzero(is_resumed).tolist()]
        """Streams that were requested with a start above 0."""

    def judge(self, rule: str, check: Callable[[ClientConnection], Verdict]) -> Verdict:
        """Returns what a rule says of the connection."""
        is_consumer = bool((self.session.open_flags or 0) & PRODUCER)
        if self.session.is_replication:
            verdict = BETWEEN_NODES
        elif is_consumer or rule in _OF_ANY:
            verdict = check(self)
        else:
            verdict = NOT_RECEIVING
        return replace(verdict, rule=rule, connection=self.link.number)

    def place_of(self, said: Said | None) -> MessagePlace | None:
        """Returns the place of a message of the session."""
        return self.context.said_place(self.link.number, said)

    @property
    def open_place(self) -> MessagePlace | None:
        """The place of the open."""
        return self.facts.open_place(self.link.number)

    def request_places(self, streams: Sequence[int]) -> list[MessagePlace | None]:
        """Returns the places of the requests of the first of these streams."""
        return [self.context.request(number) for number in streams[:3]]

    def has_collections(self) -> bool | None:
        """Returns whether the connection negotiated collections; None: unknown."""
        if self.session.features is None:
            if self.is_captured(0, self.session.open_row) and self.session.hello_asked is None:
                return False
            return None
        return "Collections" in self.session.features

    def is_captured(self, since: int, until: int = ALL) -> bool:
        """Returns whether everything that the client said between two rows was captured."""
        return self.facts.is_captured(self.link, since, until)

    def setting(
        self, key: str, fits: Callable[[str], bool], should: str, until: int = ALL
    ) -> Verdict:
        """Returns whether a control was set as recommended before a row."""
        session = self.session
        control = session.controls.get(key)
        made = [
            said
            for (name, value), said in session.accepted.items()
            if name == key and fits(value) and said.at.row < until
        ]
        first = min(made, key=lambda said: said.at.row, default=None)
        if control is not None and first is not None and (until < ALL or fits(control.value)):
            return _passes(f"{key} is {control.value}", self.place_of(first))
        if session.waits_for(key) or (control is not None and control.status is None):
            return _does_not_apply(
                f"unknown, the answer to {key} was not captured",
                *([self.place_of(control.request)] if control else ()),
            )
        if not self.is_captured(session.open_row, until):
            return HIDDEN
        if self.context.versions(self.link.number).has(key) is False:
            return _does_not_apply(f"the server is too old for {key}")
        if control is None:
            return _fails(f"{key} is not set{should}", self.open_place)
        evidence = [self.place_of(control.request)]
        if control.status != "success":
            return _fails(
                f"{key} is not set{should}: {control.value} was answered {control.status}",
                *evidence,
            )
        if fits(control.value):
            return _fails(
                f"{key} is {control.value} only after the first stream request",
                *evidence,
                *self.request_places(self.streams[:1]),
            )
        return _fails(f"{key} is {control.value}{should}", *evidence)

    def is_on(self, key: str, until: int = ALL) -> Verdict:
        """Returns whether a control was set to true before a row."""
        return self.setting(key, lambda value: value == "true", "", until)


# -- the connection


def _name(talk: ClientConnection) -> Verdict:
    name, size = talk.session.name or "", talk.session.name_size
    if size > LONGEST_NAME:
        return _fails(f"the name has {size} bytes, more than {LONGEST_NAME}", talk.open_place)
    if not talk.session.is_named_well:
        return _fails(
            f"name {name} is not of the form service:unique" if name else "it has no name",
            talk.open_place,
        )
    earlier = talk.facts.previous_of_name.get(talk.link.number)
    if earlier is not None:
        first = talk.facts.open_place(earlier)
        return _fails(
            f"name {name} was used by connection {earlier} before", talk.open_place, first
        )
    return _passes(f"name {name}", talk.open_place)


def _hello(talk: ClientConnection) -> Verdict:
    session = talk.session
    if session.hello_asked is not None and session.hello_asked.at.row < session.open_row:
        return _passes(
            f"HELLO of {session.agent}" if session.agent else "HELLO",
            talk.place_of(session.hello_asked),
        )
    if not talk.is_captured(0, session.open_row):
        return HIDDEN
    return _fails("no HELLO before the open", talk.open_place)


def _connections(talk: ClientConnection) -> Verdict:
    context, number = talk.context, talk.link.number
    if not context.owners[number].is_named:
        return _does_not_apply("the client of this connection is unknown")
    count, held = talk.facts.held.get(number, (0, ()))
    if count:
        message = (
            f"{count + 1} DCP connections of {context.clients[number]} to "
            f"{talk.link.server} at a time"
        )
        return _fails(message, talk.open_place, *map(talk.facts.open_place, held))
    return _passes(
        f"the only one of {context.clients[number]} to {talk.link.server} at that time",
        talk.open_place,
    )


# -- settings


def _noop(talk: ClientConnection) -> Verdict:
    answer = talk.is_on("enable_noop", talk.first_row)
    return answer if talk.streams or answer.says == "PASS" else NOTHING


def _noop_interval(talk: ClientConnection) -> Verdict:
    if talk.is_on("enable_noop").says != "PASS":
        return _does_not_apply("noops are off, or unknown")
    return talk.setting("set_noop_interval", bool, " although noops are on")


def _flow_control(talk: ClientConnection) -> Verdict:
    answer = talk.setting(
        "connection_buffer_size", lambda value: value.isdecimal() and value.strip("0") != "", ""
    )
    return answer if talk.streams or answer.says == "PASS" else NOTHING


def _ack_pace(talk: ClientConnection) -> Verdict:
    watched = talk.facts.flow.watched.get(talk.link.number) if talk.facts.flow is not None else None
    if watched is None or not watched.window.size:
        return _does_not_apply("flow control is off, or unknown")
    acks = watched.window.acks
    acked = watched.window.acked
    size = watched.window.size
    late = watched.window.past_half
    last = talk.context.report_place(talk.link.number, watched.window.latest_ack, of_consumer=True)
    if acks < ENOUGH_ACKS:
        return _does_not_apply(
            f"fewer than {ENOUGH_ACKS} acknowledgements: {acks}", *([last] if acks else ())
        )
    if TOO_SMALL * acked < acks * size:
        message = (
            f"{acks:,} acknowledgements of {acked // acks:,} bytes on average, less than 1 % "
            f"of the window of {size:,}"
        )
        return replace(_fails(message, last), cause="too-often")
    if late:
        first = talk.context.report_place(
            talk.link.number,
            watched.window.past_half_at,
            of_consumer=True,
        )
        message = (
            f"{late:,} of {acks:,} acknowledgements come when more than half of the window "
            f"of {size:,} is used"
        )
        return replace(_fails(message, first), severity="note", cause="late")
    return _passes(
        f"{acks:,} acknowledgements of {acked // acks:,} bytes on average, of a window of {size:,}",
        last,
    )


def _streaming(key: str) -> Callable[[ClientConnection], Verdict]:
    """Returns a check of a control that every connection with streams should set to true."""
    return lambda talk: talk.is_on(key) if talk.streams else NOTHING


def _cursor_dropping(talk: ClientConnection) -> Verdict:
    """Either name of the setting turns it on."""
    answer = _streaming("supports_cursor_dropping")(talk)
    vulcan_answer = _streaming("supports_cursor_dropping_vulcan")(talk)
    return vulcan_answer if answer.says == "FAIL" and vulcan_answer.says == "PASS" else answer


def _oso_mode(talk: ClientConnection) -> Verdict:
    key = "enable_out_of_order_snapshots"
    control = talk.session.controls.get(key)
    if control is None or control.status != "success" or not control.value.startswith("true"):
        return _does_not_apply("OSO snapshots are off, or unknown")
    return (_fails if control.value == "true" else _passes)(
        f"{key} is {control.value}", talk.place_of(control.request)
    )


def _flatbuffers(talk: ClientConnection) -> Verdict:
    return _without_collections(talk) or _streaming("flatbuffers_system_events")(talk)


def _compression(talk: ClientConnection) -> Verdict:
    session = talk.session
    if not talk.streams:
        return NOTHING
    if (session.open_flags or 0) & NO_VALUE:
        return _does_not_apply("values are left out by the open")
    hello = [talk.place_of(session.hello_asked)]
    if session.features is None:
        if session.hello_asked is not None or not talk.is_captured(0, session.open_row):
            return _does_not_apply("unknown, the answer to HELLO was not captured", *hello)
        return _fails("Snappy is not requested, because there is no HELLO", talk.open_place)
    if "SNAPPY" not in session.features:
        return _fails("Snappy is not granted by HELLO", *hello)
    return talk.is_on("force_value_compression")


def _without_collections(talk: ClientConnection) -> Verdict | None:
    has = talk.has_collections()
    if has:
        return None
    return _does_not_apply(
        "collections are off" if has is False else "unknown, the answer to HELLO was not captured"
    )


# -- streams


def _high_seqnos(talk: ClientConnection) -> Verdict:
    fresh = talk.rows.request.start == LEAST
    asked_place = talk.session.high_seqnos_asked
    if not fresh.any():
        return _does_not_apply("no stream is requested from 0")
    first = int(np.flatnonzero(fresh)[talk.rows.opened.row[fresh].argmin()])
    row = int(talk.rows.opened.row[first])
    if asked_place is not None and asked_place.row < row:
        return _passes(
            "the high seqnos were requested first",
            talk.context.report_place(talk.link.number, asked_place, of_consumer=True),
        )
    (*elsewhere, connection), hidden = talk.facts.hosts[host_of(talk.link.client)]
    if elsewhere < [int(talk.rows.opened.time[first]), row]:
        return _does_not_apply(f"the high seqnos were requested on connection {connection}")
    if hidden is not None:
        return hidden
    return _fails(
        "a stream from 0 is requested before the high seqnos",
        *talk.request_places([talk.streams[first]]),
    )


def _failover_log(talk: ClientConnection) -> Verdict:
    context, hidden, good = talk.context, False, None
    for number in talk.streams:
        before = int(context.of_client.previous[number])
        if before < 0:
            continue
        old, row = context.streams[before], context.streams[number]
        to = plain(old.rollback)
        is_answer = row.opened.time >= old.answered.time
        is_captured = (
            old.answer == w.A_ROLLBACK
            and old.request.is_captured
            and 0 < to < plain(UNREAD_SEQNO)
            and is_answer
        )
        if not is_captured or row.request.flags & FROM_LATEST:
            continue
        evidence = [context.request(number), context.answer(before)]
        if row.request.start > LEAST:
            good = good or _passes("the client resumes above 0 after a rollback", *evidence)
        elif _may_have_asked_between(talk, before):
            hidden = True
        else:
            return _fails(
                f"vbucket {row.vbucket} was rolled back to {to}, and is requested from 0", *evidence
            )
    if hidden:
        return HIDDEN
    return good or _does_not_apply("no rollback to a seqno above 0 that the client followed")


def _may_have_asked_between(talk: ClientConnection, before: int) -> bool:
    old = talk.context.streams[before]
    since_ns = old.answered.time
    return talk.context.conduct.may_have_said(talk.link.number, since_ns, vbucket=old.vbucket)


def _resume_range(talk: ClientConnection) -> Verdict:
    context, good, hidden = talk.context, None, False
    for number in talk.resumed:
        before = int(context.of_client.previous[number])
        snapshot = context.streams[before].snapshot if before >= 0 else -1
        if snapshot < 0:
            continue
        row, marker = context.streams[number], context.snapshots[snapshot]
        start, low, high = int(row.request.start), int(marker.start), int(marker.end)
        if marker.layout <= UPR_LAYOUT or not low < start < high:
            continue  # the snapshot was complete, or the client does not go on from it
        evidence = [context.request(number), context.marker(snapshot)]
        if not row.request.snapshot_start == row.request.snapshot_end == start:
            good = good or _passes(
                "streams are resumed with the range of their snapshot", *evidence
            )
        elif _may_be_complete(talk, before, marker):
            hidden = True
        elif context.streams.position[before] < high:
            range_text = f"{plain(low)}–{plain(high)}"
            message = (
                f"vbucket {row.vbucket} resumes at {plain(start)} inside snapshot "
                f"{range_text}, but sends {plain(start)}–{plain(start)}"
            )
            return _fails(message, *evidence)
    if hidden:
        return HIDDEN
    return good or _does_not_apply("no stream is resumed in the middle of a snapshot")


def _may_be_complete(talk: ClientConnection, before: int, marker: Snapshot) -> bool:
    """Returns whether the capture may lack the rest of a snapshot, or what came after it."""
    old = talk.context.streams[before]
    connection = old.connection
    producer = talk.context.producer(connection)
    is_whole = not talk.context.sight.has_lost(connection, producer, old.losses)
    return bool(marker.is_tainted) or not is_whole or _may_have_asked_between(talk, before)


def _stream_end_on_close(talk: ClientConnection) -> Verdict:
    rows = talk.rows[talk.rows.closed_row >= 0]
    if not len(rows):
        return _does_not_apply("no stream is closed by the client")
    return talk.is_on("send_stream_end_on_client_close_stream", int(rows.closed_row.min()))


def _active_only(talk: ClientConnection) -> Verdict:
    if not talk.streams:
        return NOTHING
    without = [
        number
        for number in talk.streams
        if not talk.context.streams[number].request.flags & (TO_LATEST | ACTIVE_ONLY)
    ]
    if without:
        message = (
            f"{len(without):,} of {len(talk.streams):,} stream requests have neither flag "
            "0x04 (to latest) nor 0x10 (active only)"
        )
        return _fails(message, *talk.request_places(without))
    return _passes(
        "stream requests have flag 0x04 (to latest) or 0x10 (active only)",
        *talk.request_places(talk.streams),
    )


def _resumed_streams(talk: ClientConnection, key: str) -> tuple[list[int], list[int]]:
    """Returns resumed streams (with, without) a member in the value of their request; requests
    without a readable value are left out.
    """
    given_and_left_out: tuple[list[int], list[int]] = [], []
    for number in talk.resumed:
        has_none = talk.context.streams[number].request.filter == -1
        parsed = {} if has_none else talk.context.value(number)
        if parsed is not None:
            given_and_left_out[key not in parsed].append(number)
    return given_and_left_out


def _manifest_uid(talk: ClientConnection) -> Verdict:
    unused = _without_collections(talk)
    if unused is not None:
        return unused
    with_uid, left_out = _resumed_streams(talk, "uid")
    if left_out:
        message = (
            f"{len(left_out):,} of {len(with_uid) + len(left_out):,} resumed streams are "
            "requested without the manifest's uid"
        )
        return _fails(message, *talk.request_places(left_out))
    if with_uid:
        return _passes(
            "streams are resumed with the manifest's uid", *talk.request_places(with_uid)
        )
    return _does_not_apply("no stream is resumed")


def _purge_seqno(talk: ClientConnection) -> Verdict:
    unused = _without_collections(talk)
    if unused is not None or not talk.resumed:
        return unused or _does_not_apply("no stream is resumed")
    answer = talk.setting("max_marker_version", lambda value: value == "2.2", "")
    if answer.says != "PASS":
        return answer
    with_purge, left_out = _resumed_streams(talk, "purge_seqno")
    before = talk.context.of_client.previous
    purge_told = [number for number in left_out if before[number] in talk.facts.purges_told]
    if any(_may_have_asked_between(talk, int(before[number])) for number in purge_told):
        return HIDDEN
    if purge_told:
        return _fails(
            f"{len(purge_told):,} resumed streams are requested without the purge_seqno of an "
            "earlier marker",
            *talk.request_places(purge_told),
        )
    if with_purge:
        return _passes("streams are resumed with the purge_seqno", *talk.request_places(with_purge))
    return answer


CHECKS: Mapping[str, Callable[[ClientConnection], Verdict]] = {
    "lint-name": _name,
    "lint-hello": _hello,
    "lint-noop": _noop,
    "lint-noop-interval": _noop_interval,
    "lint-flow-control": _flow_control,
    "lint-ack-pace": _ack_pace,
    "lint-cursor-dropping": _cursor_dropping,
    "lint-high-seqnos": _high_seqnos,
    "lint-failover-log": _failover_log,
    "lint-resume-range": _resume_range,
    "lint-stream-end-on-close": _stream_end_on_close,
    "lint-active-only": _active_only,
    "lint-expiry": _streaming("enable_expiry_opcode"),
    "lint-flatbuffers": _flatbuffers,
    "lint-purge-seqno": _purge_seqno,
    "lint-oso-mode": _oso_mode,
    "lint-manifest-uid": _manifest_uid,
    "lint-compression": _compression,
    "lint-v7-status": _streaming("v7_dcp_status_codes"),
    "lint-connections": _connections,
}
"""The check of each rule, in the order in which the rules are told."""

_OF_ANY = frozenset({"lint-name", "lint-hello", "lint-connections"})
"""Rules that also speak of connections on which the client does not consume."""
