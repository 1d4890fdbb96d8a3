"""Rules about DCP opens: commands before an open, a refused open, a second open, and names that two
connections claim.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dcpinspect.arrays import unique
from dcpinspect.findings.cases import duration
from dcpinspect.findings.collector import place_of
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import Candidates, FindingKey, MessagePlace, Occurrence
from dcpinspect.findings.history_rules import MOST_ROUNDS
from dcpinspect.findings.logins import CLIENTS, NOT_READY, SERVERS, SEVERE, admitted_hosts
from dcpinspect.findings.recommended import LONGEST_NAME
from dcpinspect.findings.reconnecting import LEAST_TIMES, PAUSE_NS, way_of
from dcpinspect.findings.rule import LONG_NS, LOOP, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleInput, RuleSet, Watcher
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.command_statuses import command_status_meaning
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Opcode, Trait, opcode_name
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.statuses import Status, status_name
from dcpinspect.streams.followers import PerConnection
from dcpinspect.streams.session import text
from dcpinspect.streams.tcp_facts import OUTAGE_NS, TcpConnection, host_of
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import MOST_NAME, clip, words_of

RULES = rules(
    f"""
    dcp-before-open session error client
        fires: a client sends a DCP command, but it did not open the connection for DCP, or was
            refused
        unless: captures that begin inside the connection; a hole that may hide the open; commands
            sent before the refusal arrived
        next: report the client's version to its author; it has to open first and wait for success,
            because the server answers EINVAL to all else
        cost: connection, was not opened for DCP, were not opened for DCP
        silences: stream-refused missing-response
    open-refused session warning
        fires: DCP open is answered with a status other than success. {SEVERE}
        next: check the client's settings; a client has to change what the status names, the flags
            of the open or the name
        causes: {CLIENTS} {SERVERS}
        whose: client for {CLIENTS}, server for {SERVERS}
        cost: connection, could not open DCP, could not open DCP
    open-twice session warning client
        fires: a connection that is open for DCP is opened again
        unless: a failed first open; after a hole
        next: report the client's version to its author; it has to use one connection for one DCP
            name, because the server answers EINVAL
        cost: connection, was opened twice, were opened twice
        fields: key
    name-clash session warning client
        fires: a connection opens with the name of another open connection, and the server closes
            the older one; a note if the network had carried nothing of that for 10 s, and both are
            of one host
        unless: older connections that are already closed, or on which the server goes on to speak;
            another server or bucket; a refused open
        next: look for a second instance of this client with the same name; a client should make its
            names unique, for instance with a uuid
        reports: couchbase/sync_gateway#2514, couchbase/sync_gateway#1406,
            couchbase/sync_gateway#3037, JDCP-206
        cost: connection, had the name of another, had the name of another
        fields: key
    """
)

MOST, MOST_EARLY = 1 << 16, 1 << 10
"""Greatest numbers of opens and early commands remembered, and of these on a connection. Nothing is
said of a connection whose opens are too many to remember.
"""
_CLOCKS_NS = 10_000_000
"""Clocks of captures may be so far apart."""
_LAST_WORDS_NS = 1_000_000_000
"""A server that closes a connection because of its name has said all that it has to say on it by
this time after the open.
"""
_IS_BACK = (
    "nothing is left to do: the network had cut off the older connection, and the client came back"
)
_ADVICE = {
    **dict.fromkeys(words_of(SERVERS), NOT_READY),
    "eaccess": (
        "give the user a role that may read the bucket over DCP; a client should tell its user the "
        "status, and pause before it asks again"
    ),
}
_SHORTER = (
    "shorten what the client makes its name of, such as the name of a group or a connector; a "
    "client should refuse names that are too long"
)
CLIENT = 0
"""Direction of the side that opens, whichever side will be the producer."""

_BEGIN = 30
"""Number of columns of a name that is too long to be accepted, so that what is wrong is not far."""
_OF_VBUCKET = opcodes_with(Trait.VBUCKET)
_OF_DCP = opcodes_with(Trait.DCP)
_OF_DCP[Opcode.DCP_OPEN] = False
_SETS_UP = np.isin(
    np.arange(256),
    (
        *(Opcode.HELLO, Opcode.SASL_LIST_MECHS, Opcode.SASL_AUTH, Opcode.SASL_STEP),
        *(Opcode.SELECT_BUCKET, Opcode.GET_ERROR_MAP, Opcode.GET_CLUSTER_CONFIG),
        *(Opcode.VERSION, Opcode.NOOP, Opcode.DCP_OPEN, Opcode.DCP_CONTROL, Opcode.DCP_NOOP),
    ),
)
"""Commands of whoever has not begun with what it came for."""


@dataclass(slots=True)
class DcpOpen:
    """A DCP open and its answer."""

    place: MessagePlace
    name: str
    status: int | None = None
    answered: MessagePlace | None = None


@dataclass(frozen=True, slots=True)
class _Early:
    """A DCP command that came before any open had succeeded."""

    place: MessagePlace
    opcode: int
    refused: DcpOpen | None
    """The refused open before the command; None if there was none."""
    vbucket: int | None
    """The vbucket that the command is about, if it is about one."""


class Opens(Watcher):
    """Follows the opens of all connections."""

    travels = ("_of", "_early", "_asking")

    def __init__(self) -> None:
        self._of: PerConnection[int, list[DcpOpen]] = PerConnection()
        self._by_row: PerConnection[tuple[int, int], DcpOpen] = PerConnection()
        self._early: PerConnection[tuple[int, int], _Early] = PerConnection()
        """By connection and row."""
        self._early_count: PerConnection[int, int] = PerConnection()
        self._asking: PerConnection[int, bool] = PerConnection()
        """Connections whose client asked for more than to be set up."""
        self._settled: PerConnection[int, bool] = PerConnection()
        """Connections that need no further look: they are, or may be, open, or told of enough."""

    def watch(self, fed: RuleInput) -> Iterable[Candidates]:
        """Takes the next messages."""
        batch, decoded, news = fed.batch, fed.batch.decoded, fed.tracker.conversation.news
        opens = {
            session_message.index: session_message
            for session_message in news
            if session_message.opcode == Opcode.DCP_OPEN
        }
        requests = decoded.is_request & (batch.direction == CLIENT)
        unreadable = np.setdiff1d(
            np.flatnonzero(requests & (decoded.opcode == Opcode.DCP_OPEN)),
            list(opens),
            assume_unique=True,
        )
        self._settled.update(dict.fromkeys(batch.connection[unreadable].tolist(), True))
        asks = requests & ~_SETS_UP[decoded.opcode]
        self._asking.update(dict.fromkeys(unique(batch.connection[asks]).tolist(), True))
        of_dcp = requests & _OF_DCP[decoded.opcode]
        asking = unique(batch.connection[of_dcp]).tolist()
        wanted_numbers = [
            number
            for number in asking
            if batch.endpoints.has_handshake[number - 1] and number not in self._settled
        ]
        early = np.flatnonzero(of_dcp & np.isin(batch.connection, wanted_numbers))
        for index in sorted({*opens, *early.tolist()}):
            connection = int(batch.connection[index])
            if index not in opens:
                self._command(batch, index, connection)
            elif opens[index].status is None:
                if len(self._by_row) >= MOST:
                    self._settled[connection] = True
                    self._of.pop(connection, None)
                else:
                    dcp_open = DcpOpen(place_of(batch, index), text(batch.key_of(index) or b""))
                    self._of.setdefault(connection, []).append(dcp_open)
                    self._by_row[connection, dcp_open.place.row] = dcp_open
            elif batch.request_row.value_at(index) is not None:
                open_request = self._by_row.get((connection, int(batch.request_row.values[index])))
                if open_request is not None:
                    open_request.status = opens[index].status
                    open_request.answered = place_of(batch, index)
                    if open_request.status == Status.SUCCESS:
                        self._settled[connection] = True
        return ()

    def _command(self, batch: MessageBatch, index: int, connection: int) -> None:
        latest = next(reversed(self._of.get(connection, ())), None)
        if connection in self._settled or (latest is not None and latest.status is None):
            return
        if latest is not None and latest.answered is not None:
            took = latest.answered.time_ns - latest.place.time_ns
            if batch.time_ns[index] <= latest.answered.time_ns + took:
                return  # the client may not have heard of the refusal
        opcode = int(batch.decoded.opcode[index])
        vbucket = int(batch.decoded.specific[index]) if _OF_VBUCKET[opcode] else None
        self._early[connection, int(batch.row[index])] = _Early(
            place_of(batch, index), opcode, latest, vbucket
        )
        self._early_count[connection] = self._early_count.get(connection, 0) + 1
        if self._early_count[connection] >= MOST_EARLY or len(self._early) >= MOST:
            self._settled[connection] = True

    # -- what is known at the end

    def findings(self, finished: ReadingEnd) -> Iterator[Occurrence]:
        """Yields all occurrences."""
        refused = finished.so_far.occurrences_of(["login-refused", "bucket-refused"])
        unbound = {key[3]: key for key, _ in refused}
        yield from self._misplaced(finished.context, unbound)
        yield from self._clashes(finished.context)
        yield from self._loops(finished.context)

    def _loops(self, context: Context) -> Iterator[Occurrence]:
        """Yields clients that connect and open DCP again and again, and never ask for a stream."""
        rounds: dict[tuple[str, str], list[tuple[DcpOpen, TcpConnection]]] = {}
        for link in sorted(context.links, key=lambda link: (link.first_ns, link.number)):
            latest = next(reversed(self._of.get(link.number, ())), None)
            if latest is None:
                continue
            of_client = rounds.setdefault((context.clients.get(link.number, ""), link.server), [])
            if of_client and not 0 <= link.first_ns - of_client[-1][1].closed_ns <= PAUSE_NS:
                yield from _loop(of_client)
                of_client.clear()
            if (
                latest.status == Status.SUCCESS
                and link.closed in ("fin", "rst")
                and context.sight.is_complete(link.number)
                and link.number not in self._asking
                and not len(context.streams_of(link.number))
            ):
                of_client.append((latest, link))
            else:
                yield from _loop(of_client)
                of_client.clear()
        for of_client in rounds.values():
            yield from _loop(of_client)

    def _misplaced(
        self, context: Context, unbound: Mapping[int, FindingKey]
    ) -> Iterator[Occurrence]:
        """Yields all occurrences but name clashes. ``unbound``: connections that got no login or no
        bucket, with the finding of each.
        """
        for early in self._early.values():
            link = context.by_number.get(early.place.connection)
            if (
                link is None
                or not link.has_handshake
                or early.place.time_ns > context.sight.known_until_ns(link.number, CLIENT)
            ):
                continue
            if early.refused is not None and link.number in unbound:
                continue  # both are effects
            before = "DCP_OPEN" if early.refused is None else "a DCP_OPEN that succeeds"
            evidence = [early.place, *([early.refused.place] if early.refused is not None else [])]
            message = f"{opcode_name(early.opcode)} before {before}"
            yield Occurrence(
                "dcp-before-open", message, link.number, tuple(evidence), early.vbucket
            )
        severe = self._severe(context)
        for connection, opens_of_connection in self._of.items():
            is_over = any(dcp_open.status == Status.SUCCESS for dcp_open in opens_of_connection)
            first: DcpOpen | None = None
            for dcp_open in opens_of_connection:
                if first is not None:
                    yield from _again(context, first, dcp_open)
                elif dcp_open.status == Status.SUCCESS:
                    first = dcp_open
                elif dcp_open.status is not None:
                    severity: Severity = "error" if connection in severe else "warning"
                    refused = _refusal(dcp_open, "note" if is_over else severity)
                    yield replace(refused, effect_of=unbound.get(connection))

    def _severe(self, context: Context) -> set[int]:
        """Returns connections of clients that are refused so long that waiting will not help."""
        hosts = admitted_hosts(context, has_bucket=False)
        alike: dict[tuple[str, str, int], list[DcpOpen]] = defaultdict(list)
        for connection, opens_of_connection in self._of.items():
            link = context.by_number.get(connection)
            if link is None or (client := host_of(link.client)) in hosts:
                continue
            for dcp_open in opens_of_connection:
                if _cause(dcp_open) in words_of(CLIENTS):
                    alike[client, link.server, dcp_open.status or 0].append(dcp_open)
        return {
            dcp_open.place.connection
            for opens in alike.values()
            for dcp_open in opens
            if len(opens) >= LOOP and opens[-1].place.time_ns - opens[0].place.time_ns >= LONG_NS
        }

    def _clashes(self, context: Context) -> Iterator[Occurrence]:
        """Yields name clashes: the server lets the older connection be silent, and closes it."""
        claimed: dict[tuple[str, str | None, str], list[tuple[DcpOpen, TcpConnection]]] = {}
        good = [
            item
            for opens in self._of.values()
            for item in opens
            if item.status == Status.SUCCESS and item.name
        ]
        for dcp_open in sorted(good, key=lambda item: (item.place.time_ns, item.place)):
            link = context.by_number.get(dcp_open.place.connection)
            if link is None:
                continue
            other_opens = claimed.setdefault(
                (link.server, context.session(link.number).bucket, dcp_open.name), []
            )
            held = [item for item in other_opens if _holds(item[1], dcp_open.place.time_ns)]
            if (
                held
                and held[-1][1].number != link.number
                and _is_closed_for(context, dcp_open, held[-1][1])
            ):
                yield _clash(dcp_open, link, *held[-1])
            other_opens[:] = [*held, (dcp_open, link)]


def _again(context: Context, first: DcpOpen, again: DcpOpen) -> Iterator[Occurrence]:
    """Yields an open of a connection that had been opened."""
    if _is_lost_between(context, first.place, again.place):
        return  # by then, another connection may run between the two addresses
    connection = again.place.connection
    message, link = f"opened again as {again.name}", context.by_number.get(connection)
    closes = connection if link is not None and _is_closed_for(context, again, link) else None
    if link is not None and closes is not None:
        message += f"; server closed the connection, in frame {link.closed_frame}"
    yield Occurrence("open-twice", message, connection, (again.place, first.place), closes=closes)


def _cause(dcp_open: DcpOpen) -> str:
    """Returns the status of an open as a cause; empty if it was not answered."""
    return "" if dcp_open.status is None else status_name(dcp_open.status).replace("_", "-")


def _refusal(dcp_open: DcpOpen, severity: Severity) -> Occurrence:
    """``severity``: a note if a later open of the connection was granted."""
    assert dcp_open.status is not None
    name = status_name(dcp_open.status)
    cause, size = _cause(dcp_open), len(dcp_open.name.encode())
    is_long = dcp_open.status == Status.EINVAL and size > LONGEST_NAME
    name_text = f" {dcp_open.name}" if dcp_open.name else ""
    shown_name = clip(name_text, _BEGIN if is_long else MOST_NAME)
    reason = (
        f"the name has {size} bytes, and may have {LONGEST_NAME}"
        if is_long
        else command_status_meaning(Opcode.DCP_OPEN, dcp_open.status)
    )
    message = f"DCP open{shown_name}: {name}, {reason}"
    return Occurrence(
        "open-refused",
        message,
        dcp_open.place.connection,
        (dcp_open.place,),
        cause=cause,
        next=_SHORTER if is_long else _ADVICE.get(cause),
        is_over=True if severity == "note" else None,
        severity=severity,
    )


def _loop(rounds: Sequence[tuple[DcpOpen, TcpConnection]]) -> Iterator[Occurrence]:
    """Yields the occurrence of these connections of a client, if they are enough."""
    if len(rounds) < LEAST_TIMES:
        return
    ways = Counter(way_of(link) for _, link in rounds)
    (first, _), (last, link) = rounds[0], rounds[-1]
    spent = duration(last.place.time_ns - first.place.time_ns)
    evidence = [last.place, *(dcp_open.place for dcp_open, _ in rounds[:MOST_ROUNDS])]
    yield Occurrence(
        "reconnect-loop",
        f"connected {len(rounds):,} times in {spent}, opened DCP, and never asked for a stream",
        link.number,
        tuple(evidence),
        cause=ways.most_common(1)[0][0],
        next="look in the client's log, and in the server's, for what came last on a connection",
        rows=[dcp_open.place.row for dcp_open, _ in rounds],
        time_ns=first.place.time_ns,
        connections={link.number for _, link in rounds},
    )


def _is_lost_between(context: Context, first: MessagePlace, again: MessagePlace) -> bool:
    """Returns whether something of the opening side was lost between two of its messages."""
    losses = context.tracker.state.known_tables.losses
    client_losses = losses[(losses.connection == first.connection) & (losses.direction == CLIENT)]
    return bool(
        ((client_losses.after_row > first.row) & (client_losses.before_row < again.row)).any()
    )


def _holds(link: TcpConnection, when: int) -> bool:
    """Returns whether a connection was still there at a time."""
    return (
        link.closed != "replaced"
        and link.last_ns > when
        and not (link.closed and link.closed_ns <= when)
    )


def _is_closed_for(context: Context, newer: DcpOpen, held: TcpConnection) -> bool:
    """Returns whether the server closed a connection for a newer open, of its name or on it: it
    said nothing more on it by then.
    """
    latest_ns = context.tracker.state.connections[held.number].time[1 - CLIENT]
    is_closed = held.closed in ("fin", "rst") and held.closed_by == 1 - CLIENT
    # packets of two captures show which came first if they are further apart than the clocks
    has_one_clock = held.closed_file == newer.place.file
    is_closed &= has_one_clock or held.closed_ns - newer.place.time_ns > _CLOCKS_NS
    return is_closed and bool(latest_ns <= newer.place.time_ns + _LAST_WORDS_NS)


def _clash(newer: DcpOpen, link: TcpConnection, older: DcpOpen, held: TcpConnection) -> Occurrence:
    after = duration(held.closed_ns - newer.place.time_ns)
    message = (
        f"name {newer.name} opened by connection {link.number} while connection {held.number} held "
        f"it; server closed connection {held.number} after {after}, in frame "
        f"{held.closed_frame}"
    )
    is_back = (
        host_of(held.client) == host_of(link.client)
        and held.outage_ns(newer.place.time_ns) >= OUTAGE_NS
    )
    return Occurrence(
        "name-clash",
        message,
        link.number,
        (newer.place, older.place),
        next=_IS_BACK if is_back else None,
        closes=held.number,
        connections=(held.number, link.number),
        severity="note" if is_back else "warning",
    )


RULE_SET = RuleSet(RULES, watcher=Opens, also=("reconnect-loop",))
