"""Rules about trouble below DCP: servers that are not reached, ends that take nothing from their
sockets, and connections of probes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.collector import place_of
from dcpinspect.findings.context import Context, ends_of
from dcpinspect.findings.finding import Candidates, MessagePlace, Occurrence
from dcpinspect.findings.rule import SIDES, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleInput, RuleSet, Watcher
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.foreign import HTTP
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.streams.followers import PerConnection
from dcpinspect.streams.tcp_facts import TcpConnection, ZeroWindow, ZeroWindows, host_of
from dcpinspect.text import counted
from dcpinspect.transport.flow_records import SHUT_NS
from dcpinspect.transport.tcp_openings import ERRORS, OTHER_ERROR, REFUSED, SILENT, UNANSWERED
from dcpinspect.transport.waiting import WAIT_NS

ACCEPTED = "accepted"

RULES = rules(
    f"""
    server-not-reached session warning unknown
        fires: the TCP handshake fails: nobody answers the SYN, the server's host refuses it (RST),
            or an ICMP error says that it does not arrive; a note where the client reaches the
            server later, or has open streams elsewhere of all vbuckets that it had there
        unless: a SYN that was sent once, less than 2 s before the end, or before a pause of the
            capture; captures of one direction only
        next: look at the way from the client to this port: firewall, security group, network
            policy, routes, and whether the node is up; a client should try again with growing
            pauses
        causes: {UNANSWERED} {REFUSED} {" ".join(ERRORS)} {OTHER_ERROR}
        reports: MB-63014, sync_gateway#2514, sdk-doctor#26, couchbase-cxx-client#63
        of_each: yes
        cost: connection, could not be opened, could not be opened, lasts usual
    tcp-window-zero flow warning
        fires: an end announces a TCP receive window of 0 for 3 s, so the other end must not send;
            an error if this lasts to the end of the capture, a note from 1 s on; the first row is
            the last message before it, and the first frame announces it
        unless: shorter times, which any busy reader has
        next: look on that machine whether bytes wait in the socket ('ss -tm'): then something keeps
            the process from reading, such as a thread that hangs, garbage collection or a full
            queue; if none wait, its system does not open the window; it is neither the network nor
            DCP's flow control
        causes: client server
        reports: MB-70640
        whose: client for client, server for server
        cost: stalled
    health-probe session note
        fires: two or more connections are opened and closed, and nobody says a byte; or a client
            speaks HTTP, which a server of DCP closes
        next: operators have nothing to do if these are the checks of a load balancer, a kubelet or
            a monitor; else the client does not speak DCP, so look at who connects
        causes: {SILENT} {HTTP}
        reports: cilium#43528
        whose: normal for {SILENT}, client for {HTTP}
    proxy-header session error
        fires: a PROXY header comes before the client's first byte, and the server closes the
            connection without an answer; a note where the conversation goes on
        next: turn the PROXY protocol off for this port in the load balancer (send-proxy,
            proxy_protocol); a client must not send it either, because Couchbase servers do not know
            it
        causes: {REFUSED} {ACCEPTED}
        reports: tldr.fail#17, alexbers/mtprotoproxy#119
        whose: unknown for {REFUSED}, normal for {ACCEPTED}
        cost: connection, was closed for its PROXY header, were closed for their PROXY header
    """
)

LONG_NS = 3_000_000_000
"""A reader that takes nothing for so long hangs: TCP's buffers hold far less traffic."""
MOST = 1000
"""Greatest number of connections of a kind told one by one; the last counts for the rest."""
_ADVICE = {
    HTTP: (
        "let the check only open a connection (TCP), or ask HTTP on port 8091: this port answers "
        "no HTTP, so the check always fails"
    ),
    ACCEPTED: (
        "nothing, if the header is taken away behind this point; a Couchbase server itself "
        "would close the connection"
    ),
    REFUSED: (
        "look whether the service runs on this node, and whether it listens on this port: with "
        "encryption enforced, a node closes 11210 and serves 11207 only; a client should try "
        "again with growing pauses"
    ),
    "time-exceeded": (
        "look for a loop in the routes between the two; a client should try again with growing "
        "pauses"
    ),
}
_SAYS = {
    UNANSWERED: "no answer",
    REFUSED: "refused",
    **{error: f"ICMP says {error.replace('-', ' ')}" for error in (*ERRORS, OTHER_ERROR)},
}
_IS_EVENT = opcodes_with(Trait.COUNTED)
_MOST_STOPS, _MOST_OF_ONE = 1 << 12, 16


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A message of a stream."""

    place: MessagePlace
    vbucket: int


class Pauses(Watcher):
    """Remembers where the events of a connection stopped for a while: the last one before it, and
    the first one after it.
    """

    def __init__(self) -> None:
        self._last: PerConnection[int, StreamMessage] = PerConnection()
        self._stops: PerConnection[int, list[tuple[StreamMessage, StreamMessage]]] = PerConnection()

    def watch(self, fed: RuleInput) -> Iterator[Candidates]:
        """Takes the next messages."""
        batch, decoded = fed.batch, fed.batch.decoded
        rows = np.flatnonzero(decoded.is_request & _IS_EVENT[decoded.opcode])
        rows = rows[np.argsort(batch.connection[rows], kind="stable")]
        connection, time = batch.connection[rows], batch.time_ns[rows]
        is_first = np.append(True, connection[1:] != connection[:-1])[: len(rows)]
        stops = ~is_first & (np.diff(time, prepend=0) >= SHUT_NS)

        def event(row: int) -> StreamMessage:
            return StreamMessage(place_of(batch, row), int(batch.vbucket.values[row]))

        for index in np.flatnonzero(is_first | stops).tolist():
            number, now = int(connection[index]), event(int(rows[index]))
            before = self._last.get(number) if is_first[index] else event(int(rows[index - 1]))
            if before is not None and now.place.time_ns - before.place.time_ns >= SHUT_NS:
                self._note(number, before, now)
        for index in np.flatnonzero(np.append(is_first[1:], True)[: len(rows)]).tolist():
            self._last[int(connection[index])] = event(int(rows[index]))
        yield from ()

    def _note(self, connection: int, before: StreamMessage, after: StreamMessage) -> None:
        stops = (
            self._stops.setdefault(connection, [])
            if len(self._stops) < _MOST_STOPS
            else self._stops.get(connection, [])
        )
        stops.append((before, after))
        if len(stops) > _MOST_OF_ONE:  # the longest matter
            stops.remove(min(stops, key=lambda stop: stop[1].place.time_ns - stop[0].place.time_ns))

    def around(self, connection: int, shut: ZeroWindow) -> tuple[StreamMessage, ...]:
        """Returns the last event before a connection stopped, and the waiting one, if it came."""
        for before, after in self._stops.get(connection, ()):
            middle_ns = shut.since_ns + shut.time_ns // 2
            if before.place.time_ns <= middle_ns <= after.place.time_ns:
                is_waiting = after.place.time_ns - shut.until_ns < LONG_NS  # else it came of itself
                return (before, after) if is_waiting else (before,)
        last = self._last.get(connection)
        return () if last is None or last.place.time_ns > shut.until_ns else (last,)

    def findings(self, finished: ReadingEnd) -> Iterator[Occurrence]:
        """Yields all occurrences."""
        yield from _unreached(finished.context, finished.coverage.unopened)
        yield from _silent(finished.context, finished.coverage.unopened)
        yield from _http(finished)
        yield from _proxied(finished)
        for link in finished.context.links:
            for side, shut in enumerate(link.shut):
                if shut is not None and finished.is_whole | shut.is_over:
                    yield self._shut(finished.context, link, side, shut)

    def _shut(
        self, context: Context, link: TcpConnection, side: int, shut: ZeroWindows
    ) -> Occurrence:
        name, other_side = SIDES[side], SIDES[1 - side]
        last = shut.spells[-1]
        hangs = not shut.is_over and last.time_ns >= LONG_NS
        worst = last if hangs else shut.longest
        events = self.around(link.number, worst) if side != context.producer(link.number) else ()
        message = f"the {name}'s TCP window is 0 for {duration(worst.time_ns)}: it takes no bytes"
        places = [event.place for event in events]
        places[:0] = [place.packet(worst.file, worst.frame, worst.since_ns) for place in places[:1]]
        message += (
            f"; the {other_side}'s last message is of vbucket {events[-1].vbucket}"
            if events
            else ""
        )
        message += f"; {shut.times} times" if shut.times > 1 else ""
        ends = worst is last and not shut.is_over and link.closed in ("fin", "rst")
        if ends:
            message += f", then the {SIDES[link.closed_by]} {link.how_closed} the connection"
        is_long = worst.time_ns >= LONG_NS
        severity: Severity = "note" if not is_long else "error" if hangs else "warning"
        return Occurrence(
            "tcp-window-zero",
            message,
            link.number,
            tuple(places),
            cause=name,
            vbuckets=context.waiting_on(link.number, worst.since_ns) if events else (),
            next=_PASSED if shut.is_over else None,
            shared=f"the {name} takes no bytes, and the {other_side} must not send",
            time_ns=worst.since_ns,
            last_time_ns=last.until_ns,
            spans=[(spell.since_ns, spell.until_ns) for spell in shut.spells],
            is_over=None if ends else shut.is_over,
            closes=link.number if ends else None,
            severity=severity,
        )


_PASSED = (
    "look in the program's log for what kept it from reading then, such as a thread that hung, "
    "garbage collection or a full queue; it was neither the network nor DCP's flow control"
)
"""What to do about a receive window that is open again."""


def _attempt(link: TcpConnection) -> tuple[str, str]:
    """Returns the client's host and the server of a connection: what a client tries again.

    A host has several names for itself. ``localhost`` is tried as ``::1`` first, often in vain.
    """
    hosts = host_of(link.client), host_of(link.server)
    if all(host == "[::1]" or host.startswith("127.") for host in hosts):
        return "localhost", link.server.rpartition(":")[2]
    return hosts[0], link.server


def _sampled_links(
    links: Sequence[TcpConnection], count: int
) -> Iterator[tuple[TcpConnection, int]]:
    """Yields some of these connections, each with the number of connections for which it counts;
    ``count``: how many there are.
    """
    for number, link in enumerate(links[:MOST], 1):
        yield link, 1 + max(0, count - number) if number == min(len(links), MOST) else 1


def _unreached(context: Context, unopened: Mapping[str, int]) -> Iterator[Occurrence]:
    """Yields connections that were not opened, and those on which a host became unreachable."""
    latest: dict[tuple[str, str], int] = {}
    failed: dict[str, list[TcpConnection]] = {}
    for link in context.links:
        if (
            link.unopened == UNANSWERED
            and link.last_ns - link.first_ns < WAIT_NS
            and context.by_number[link.number].lost_at_end[1] is not None
        ):
            continue  # one SYN, and its answer may have come where nothing was captured
        if link.unopened in _SAYS:
            failed.setdefault(link.unopened, []).append(link)
        elif not any(link.unreached):
            attempt = _attempt(link)
            latest[attempt] = max(latest.get(attempt, 0), link.first_ns)
    has_left = cache(context.conduct.has_left)
    for reason, links in failed.items():
        for link, count in _sampled_links(links, unopened.get(reason, 0)):
            is_over = latest.get(_attempt(link), 0) > link.first_ns
            is_over |= has_left(host_of(link.client), link.server)
            message = f"{host_of(link.client)} does not reach {link.server}: {unopened_text(link)}"
            yield _not_reached(link, reason, message, count, is_over=is_over)
    for link in context.links:
        for direction, reason in enumerate(link.unreached):
            if reason and not link.unopened:
                near, far = (link.client, link.server)[:: -1 if direction else 1]
                message = f"{host_of(near)} does not reach {far} any more: {_SAYS[reason]}"
                yield _not_reached(link, reason, message, 1, is_over=False)


def unopened_text(link: TcpConnection) -> str:
    """Says what came of the SYNs of a connection instead of an answer; empty where one came."""
    if link.unopened not in _SAYS:
        return ""
    tries = f" to {counted(link.syns, 'SYN')} in {duration(link.last_ns - link.first_ns)}"
    return _SAYS[link.unopened] + (tries if link.syns > 1 else "")


def _not_reached(
    link: TcpConnection, reason: str, message: str, count: int, *, is_over: bool
) -> Occurrence:
    return Occurrence(
        "server-not-reached",
        message,
        link.number,
        ends_of(link) if link.unopened else (),  # of an ICMP error no frame is known
        cause=reason,
        next=_ADVICE.get(reason),
        shared=f"the TCP handshake fails: {_SAYS[reason]}",
        count=count,
        time_ns=link.first_ns,
        last_time_ns=link.last_ns,
        is_over=is_over,
        severity="note" if is_over else "warning",
    )


def _silent(context: Context, unopened: Mapping[str, int]) -> Iterator[Occurrence]:
    links = [link for link in context.links if link.unopened == SILENT]
    if len(links) < 2:
        return
    for link, count in _sampled_links(links, unopened.get(SILENT, 0)):
        yield _probe(link, SILENT, "opened and closed without a byte, as health probes do", count)


def _probe(link: TcpConnection, cause: str, message: str, count: int) -> Occurrence:
    return Occurrence(
        "health-probe",
        message,
        link.number,
        ends_of(link),
        cause=cause,
        next=_ADVICE.get(cause),
        count=count,
        time_ns=link.first_ns,
        last_time_ns=link.last_ns,
    )


def _http(finished: ReadingEnd) -> Iterator[Occurrence]:
    by_number = finished.context.by_number
    numbers = sorted(
        number
        for number, _ in finished.coverage.ways(
            lambda all_: (all_.direction == 0) & (all_.http > 0)
        )
    )
    links = [by_number[number] for number in numbers[: 2 * MOST] if number in by_number]
    for link, count in _sampled_links(links, len(numbers)):
        yield _probe(link, HTTP, "speaks HTTP, as health checks of load balancers do", count)


def _proxied(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields connections that begin with a PROXY header; the server closes those that reach it."""
    links = [link for link in finished.context.links if link.proxied is not None]
    numbers = np.array([link.number for link in links], np.int64)
    answered = finished.coverage.ways(
        lambda all_: (all_.direction == 1) & (all_.captured > 0) & np.isin(all_.connection, numbers)
    )
    for link in links:
        is_refused = (
            link.closed in ("fin", "rst")
            and link.closed_by == 1
            and (link.number, 1) not in answered
        )
        cause = REFUSED if is_refused else ACCEPTED
        client = (
            f"{host_of(link.origin)} behind the proxy {host_of(link.client)}"
            if link.proxied
            else f"the proxy {host_of(link.client)} itself"
        )
        then = f", and the server {link.how_it_closes} the connection for it" if is_refused else ""
        yield Occurrence(
            "proxy-header",
            f"a PROXY header comes first{then}; the client is {client}",
            link.number,
            ends_of(link) if is_refused else ends_of(link)[:1],
            cause=cause,
            next=None if is_refused else _ADVICE[ACCEPTED],
            shared=f"a PROXY header comes first{then}",
            time_ns=link.first_ns,
            last_time_ns=link.last_ns if is_refused else link.first_ns,
            closes=link.number if is_refused else None,
            severity="error" if is_refused else "note",
        )


RULE_SET = RuleSet(RULES, watcher=Pauses)
