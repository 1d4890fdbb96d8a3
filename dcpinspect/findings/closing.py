"""Connections that are closed while they have streams, and earlier faults for which servers close a
connection.

kv_engine tells what a server closes a connection for. daemon/connection_libevent.cc closes it where
a header has no legal magic, where its lengths do not fit together, and above the greatest size of a
packet. engines/ep/src/dcp/connhandler.cc closes it where a command is not for the role of the
connection. engines/ep/src/dcp/producer.cc closes it where a noop is answered with another opaque,
and where nothing comes while noops are on. The server answers everything else with a status.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.context import Context, place_at
from dcpinspect.findings.finding import Finding, FindingKey, MessagePlace, Occurrence, captured
from dcpinspect.findings.rule import SIDES, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.opcodes import Opcode, opcode_name
from dcpinspect.streams import words as w
from dcpinspect.streams.noops import Noops
from dcpinspect.streams.records import GREATEST
from dcpinspect.streams.tcp_facts import TcpConnection, host_of
from dcpinspect.streams.verdicts import PATIENCE_NS
from dcpinspect.tables.messages import DIRECTIONS
from dcpinspect.text import counted

RULES = rules(
    """
    connection-closed session note
        fires: a connection is closed while streams are open; if the server closes it because of
            another finding, that rule is named; if a client had it delete the bucket or shut down,
            that row is named; if the client closes it within 2 s after a rollback, and asked for no
            stream in between, that row is named; the row is the last message of its streams, the
            first frame the packet that shows the end: FIN, RST, or the acknowledgement of a FIN
            that was not captured. It is a warning if a producer closes it, and the consumer goes on
            with others for 60 s, but has the vbuckets on no node, and asks for none. It stays a
            note if the consumer connects to the node again, or shares vbuckets with others, or a
            node of the cluster map is not in the capture
        next: look in the logs of both sides for why it was closed; a client has to connect again,
            and to resume its streams where they were
        causes: by-client by-server reset not-taken-up
        whose: server for by-server
        cost: by-server: connection, was closed by the server with streams open, were closed by the
            server with streams open, usual; reset: connection, was reset with streams open, were
            reset with streams open, usual; not-taken-up: vbucket,
            was not asked for again, were not asked for again
    """
)

AT_ONCE, UNANSWERED, SILENT = range(3)
CLOSES: Mapping[str, int] = {
    "bad-magic": AT_ONCE,
    "oversized-body": AT_ONCE,
    "length-mismatch": AT_ONCE,
    "role-violation": AT_ONCE,
    "noop-opaque": UNANSWERED,
    "noop-unanswered": SILENT,
}
"""Rules whose faults make a server close the connection, and when. AT_ONCE: at once. UNANSWERED:
while it still waits for the right answer to a noop. SILENT: once it has waited for an answer for as
long as noops are apart, and the client said nothing else.
"""

SERVER = 1
"""The direction of the server."""

_BACK_NS = 60_000_000_000
"""How long a client may take to connect again; a node that starts again takes most of it."""
NOT_TAKEN_UP = "not-taken-up"
"""The cause of a close after which nobody asks for its vbuckets, though the client goes on."""
_NEXT = {
    NOT_TAKEN_UP: (
        "look whether the node is back; if so, restart the client, because until then these vbuckets "
        "deliver nothing; it has to connect again, and to resume its streams where they were"
    ),
    "by-client": (
        "nothing, if the client was stopped, or is connected again; else its log says why it "
        "closed, and it has to resume its streams where they were"
    ),
    "by-server": (
        "the server's memcached.log says why it closed; a client has to connect again, "
        "and to resume its streams where they were"
    ),
    "reset": "look whether the process of the {side} ended, or a device between cut the "
    "connection; a client has to connect again, and to"
    " resume its streams where they were",
}
"""What to do about a close, by its cause."""
_ORDERED = (
    "nothing, if this was meant; a client has to stop, or to connect again with growing pauses once "
    "bucket and node are there again"
)
_time_of = attrgetter("time_ns")
_Fault = tuple[FindingKey, Finding]
_Orders = dict[tuple[str, str], list[MessagePlace]]
"""Where each server and bucket, as in ``Session.ordered_away``, was ordered away, by time."""


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, once all messages were taken."""
    if not finished.is_whole:
        return
    context, noops = finished.context, finished.context.tracker.noops
    faults: dict[int, list[_Fault]] = {}
    for fault in finished.so_far.occurrences_of(CLOSES):
        faults.setdefault(fault[1].connections[0], []).append(fault)
    explained = finished.so_far.explained
    orders = _orders(context)
    for link in context.links:
        link_faults, cause_key = faults.get(link.number, ()), explained.get(link.number)
        yield from _closed(context, link, link_faults, noops, cause_key, orders)


def _closed(
    context: Context,
    link: TcpConnection,
    faults: Iterable[_Fault],
    noops: Noops | None,
    cause_key: FindingKey | None,
    orders: _Orders,
) -> Iterator[Occurrence]:
    """Yields the close of a connection that has streams. ``cause_key``: what another rule says that
    it was closed for. ``orders``: those of all connections.
    """
    if link.closed not in ("fin", "rst"):
        return
    runs = context.open_on(link.number)
    if not len(runs):
        return
    side = SIDES[link.closed_by] if link.closed_by >= 0 else ""
    cause = "reset" if link.closed == "rst" else f"by-{side}" if side else None
    by = f" by the {side}" if side else ""
    open_streams, is_sure = _open_streams(context, runs)
    message, led_to = f"{link.how_closed}{by} with {open_streams} open", None
    evidence = _closing_packet(context, link, runs)
    if link.closed == "fin" and link.closed_by == link.unseen >= 0:
        cause, message = None, f"{message}: the other side acknowledged a FIN"
    explanation = _closing_fault(context, link, faults, noops)
    if cause_key is not None:
        message += f", after {cause_key[0]}"
    elif explanation is not None:
        (cause_key, fault), fault_place = explanation
        message += f", after {fault.rule}" + (
            f" (row {fault_place.row})" if fault_place is not None else ""
        )
        evidence += [fault_place] if fault_place is not None else []
    elif (led_to := _led_to(context, link, orders)) is not None:
        after = duration(link.closed_ns - led_to.place.time_ns)
        message += f", {after} after {led_to.name} in row {led_to.place.row}"
        evidence.append(led_to.place)
    is_ordered = led_to is not None and led_to.is_order
    lasts_ns = 0 if cause_key is not None or is_ordered else _left_ns(context, link, runs)
    if lasts_ns:
        cause, message = NOT_TAKEN_UP, f"{message}; never taken up again in {duration(lasts_ns)}"
    next_ = _NEXT[cause].format(side=side or "side that sent it") if cause else None
    yield Occurrence(
        "connection-closed",
        message,
        link.number,
        captured(evidence),
        cause=cause,
        next=_ORDERED if is_ordered else next_,
        shared=None if is_sure else message.replace(open_streams, "perhaps some streams", 1),
        whose="normal" if is_ordered else "unknown",
        effect_of=cause_key,
        time_ns=link.closed_ns,
        vbuckets=tuple(context.streams.vbucket[runs].tolist()) if lasts_ns else (),
        is_over=False if lasts_ns else None,
        severity="warning" if lasts_ns else "note",
    )


def _open_streams(context: Context, runs: RowNumbers) -> tuple[str, bool]:
    """Returns how many of these streams were open at the close, and whether that is sure: a hole
    may hide that some had ended.
    """
    known, most = int(context.tables.seen.broke_off[runs].sum()), counted(len(runs), "stream")
    if known == len(runs):
        return most, True
    return f"{known:,} to {most}" if known else f"up to {most}", False


def _left_ns(context: Context, link: TcpConnection, runs: RowNumbers) -> int:
    """Returns how long a client goes on with others after a producer closed a connection, in ns.

    It is 0 if somebody takes up its streams, or may do so where nothing shows it.
    """
    streams, conduct = context.streams, context.conduct
    client, since_ns = context.clients[link.number], link.closed_ns
    session = context.session(link.number)
    lasts_ns = conduct.said_until_ns(client) - since_ns
    if link.closed_by != context.producer(link.number) or lasts_ns < _BACK_NS:
        return 0
    is_back = conduct.latest_attempts[host_of(link.client), link.server].first_ns > since_ns
    is_endless = (streams.request.end[runs] == GREATEST).all()
    if (
        is_back
        or not is_endless
        or not conduct.is_whole(link.number, since_ns + lasts_ns)
        or conduct.are_taken_up(runs, link.number, since_ns)
        or context.members.has_only_some(client)
        or session.group != session.service
    ):
        return 0
    return lasts_ns if context.moves.sees_all_nodes(client) else 0


def _closing_packet(context: Context, link: TcpConnection, runs: RowNumbers) -> list[MessagePlace]:
    """Returns the packet that closed a connection, and the last message of its streams before it.
    ``runs``: the numbers of these.
    """
    streams = context.streams
    last = streams[runs[np.argmax(streams.latest.row[runs])]]
    latest = context.stream_place(last, last.latest)
    if latest is None:
        return []
    return [latest.packet(link.closed_file, link.closed_frame, link.closed_ns), latest]


class _LedTo(NamedTuple):
    """A message shortly before a close that is no fault."""

    name: str
    place: MessagePlace
    is_order: bool


def _orders(context: Context) -> _Orders:
    orders: _Orders = {}
    for link in context.links:
        for bucket, position in context.session(link.number).ordered_away.items():
            order_place = place_at(link.number, 1 - SERVER, position)
            orders.setdefault((link.server, bucket), []).append(order_place)
    for order_places in orders.values():
        order_places.sort(key=_time_of)
    return orders


def _led_to(context: Context, link: TcpConnection, orders: _Orders) -> _LedTo | None:
    """Returns what a client asked for that made the server close a connection: to delete its
    bucket, or to shut the node down; or the rollback after which a consumer closed it.
    """
    rollback = _rolled_back(context, link)
    if rollback is not None:
        return _LedTo("the rollback", rollback, is_order=False)
    if link.closed_by != SERVER:
        return None
    order = None
    for bucket in ("", context.session(link.number).bucket or ""):
        order_places = orders.get((link.server, bucket), [])
        orders_before = bisect_right(order_places, link.closed_ns, key=_time_of)
        if orders_before and (
            order is None or order.place.time_ns < order_places[orders_before - 1].time_ns
        ):
            opcode = Opcode.DELETE_BUCKET if bucket else Opcode.SHUTDOWN
            order = _LedTo(opcode_name(opcode), order_places[orders_before - 1], is_order=True)
    is_soon = order is not None and link.closed_ns - order.place.time_ns <= PATIENCE_NS
    return order if is_soon else None


def _rolled_back(context: Context, link: TcpConnection) -> MessagePlace | None:
    """Returns the rollback after which the consumer asked for no stream any more, and closed the
    connection with all others.
    """
    streams, own_streams = context.streams, context.streams_of(link.number)
    rolled_back = own_streams[streams.answer[own_streams] == w.A_ROLLBACK]
    if link.closed_by != 1 - context.producer(link.number) or not len(rolled_back):
        return None
    latest = context.answer(int(rolled_back[np.argmax(streams.answered.row[rolled_back])]))
    if latest is None or not 0 <= link.closed_ns - latest.time_ns <= PATIENCE_NS:
        return None
    return latest if streams.opened.row[own_streams].max() < latest.row else None


def _closing_fault(
    context: Context, link: TcpConnection, faults: Iterable[_Fault], noops: Noops | None
) -> tuple[_Fault, MessagePlace | None] | None:
    """Returns the latest fault for which one side closed a connection, and the message that shows
    it, if there is one.
    """
    if link.closed_by not in (SERVER, context.producer(link.number)):
        return None
    explanations = []
    for key, fault in faults:
        faulty_direction = DIRECTIONS[
            link.closed_by if CLOSES[fault.rule] == SILENT else 1 - link.closed_by
        ]
        fault_place = max(
            (
                fault_place
                for fault_place in fault.places
                if fault_place.direction == faulty_direction
            ),
            key=lambda fault_place: fault_place.row,
            default=None,
        )
        if _is_why(context, link, fault, fault_place, noops):
            explanations.append(((key, fault), fault_place))
    return max(
        explanations,
        key=lambda explanation: (
            explanation[1].row if explanation[1] is not None else link.closed_packet
        ),
        default=None,
    )


def _is_why(
    context: Context,
    link: TcpConnection,
    fault: Finding,
    fault_place: MessagePlace | None,
    noops: Noops | None,
) -> bool:
    kind = CLOSES[fault.rule]
    if kind == AT_ONCE:
        # everything that the other side sent after its last message was no message
        if fault_place is None:
            return fault.cause == DIRECTIONS[1 - link.closed_by] and not fault.places
        return 0 <= link.closed_ns - _time_ns(context, fault_place) <= PATIENCE_NS
    if noops is None or fault_place is None:
        return False
    peer = noops.peers[link.number]
    if kind == UNANSWERED:
        return bool(peer.is_waiting or (peer.open.place.row and peer.undecided.place.row))
    interval = context.session(link.number).noop_interval
    is_over = (
        interval is not None
        and link.closed_ns - max(fault_place.time_ns, peer.consumer_time) >= interval * 1e9
    )
    return fault.severity == "error" and is_over


def _time_ns(context: Context, message_place: MessagePlace) -> int:
    """Returns the time of a message; a place behind a loss does not keep it."""
    losses = context.tracker.state.known_tables.losses
    return message_place.time_ns or int(
        losses.after_time[losses.after_row == message_place.row].max(initial=0)
    )


RULE_SET = RuleSet(RULES, findings=findings)
