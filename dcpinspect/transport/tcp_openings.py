"""What came of the SYN of connections, which ends took nothing for a while, and what arrived late:
what TCP itself tells of trouble.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.transport.flow_records import (
    BY_RST,
    FILE_BIT,
    LATE_NS,
    LONGEST_SHUTS,
    OPEN,
    RECENT_LATES,
    SHUT_NS,
    Flow,
    TcpConnectionRows,
    TransportTables,
)
from dcpinspect.transport.headers import OF_IPV6, TIME_EXCEEDED
from dcpinspect.transport.waiting import WAIT_NS

_IS_OPEN, _UNANSWERED, _REFUSED, _SILENT = range(4)
UNANSWERED, REFUSED, SILENT = "unanswered", "refused", "silent"
OPENINGS = ("", UNANSWERED, REFUSED, SILENT)
"""What came of a connection. The last one: it was opened and closed, and nobody said a byte."""
_ERROR_CODES = {
    "net-unreachable": (0, 6, 11, OF_IPV6 + 0, OF_IPV6 + 6),
    "host-unreachable": (1, 7, 12, OF_IPV6 + 3),
    "protocol-unreachable": (2,),
    "port-unreachable": (3, OF_IPV6 + 4),
    "administratively-prohibited": (9, 10, 13, OF_IPV6 + 1, OF_IPV6 + 5),
    "time-exceeded": (TIME_EXCEEDED, OF_IPV6 + TIME_EXCEEDED),
}
"""What ICMP says, by the codes of IPv4 and IPv6."""
_CODES = {code: error for error, codes in _ERROR_CODES.items() for code in codes}
ERRORS = tuple(_ERROR_CODES)
OTHER_ERROR = "destination-unreachable"
PATIENCE_NS = 2_000_000_000
"""A SYN that was sent once waits so long for its answer before that is missed; one that was sent
again, ``WAIT_NS`` later or more, was not answered before.
"""


Spell = tuple[int, int, int, int]
"""The fields of ``streams.tcp_facts.ZeroWindow``."""
Shut = tuple[list[Spell], int, bool]
"""The fields of ``streams.tcp_facts.ZeroWindows``."""
Late = tuple[int, int, int, int, int]
"""The fields of ``streams.tcp_facts.LateAck``."""
NEVER = (1 << 63) - 1
"""The end and the time of what was not acknowledged."""


class Opening(NamedTuple):
    """What came of one connection; fields as in ``streams.links.Link``, by direction of chunks."""

    unopened: str
    unreached: tuple[str, str]
    syns: int
    shut: tuple[Shut | None, Shut | None]
    unseen: int
    unproven: tuple[int, int]
    late_acks: tuple[tuple[Late, ...], tuple[Late, ...]]
    ends_unacked: bool


def openings(tables: TransportTables, numbers: IntArray, now_ns: int) -> Iterator[Opening]:
    """Yields what came of these connections, by number."""
    connection_rows = tables.connections[numbers - 1]
    kinds = _kinds(tables, connection_rows, numbers, now_ns)
    errors = connection_rows.unreached.tolist()
    syns = tables.sides.packets[2 * numbers - 2]
    syns = np.where(_goes_on(connection_rows), syns, np.minimum(syns, 1)).tolist()
    shut, first = _shut(tables, connection_rows), np.maximum(connection_rows.flows, 0)
    behind = np.stack(
        (tables.flows.unproven[first], tables.flows.unproven[first + 1]), axis=1
    ).tolist()
    is_late: BoolArray = (tables.flows.late_acks > 0) | (tables.flows.resent_since > 0)
    acked_to = tables.flows.acked_to
    is_unacked: BoolArray = (
        (acked_to > 0) & (acked_to < tables.flows.next) & (tables.flows.resent_since == 0)
    )
    columns = (
        kinds.tolist(),
        errors,
        syns,
        _unseen(tables, connection_rows, numbers).tolist(),
        behind,
        (is_late[first] | is_late[first + 1]).tolist(),
        (is_unacked[first] | is_unacked[first + 1]).tolist(),
        first.tolist(),
    )
    for row, (kind, error, count, unseen, unproven, late, unacked, flow) in enumerate(
        zip(*columns, strict=True)
    ):
        unreached = _error(error), _error(-error)
        unopened = unreached[0] if unreached[0] and kind == _UNANSWERED else OPENINGS[kind]
        yield Opening(
            unopened,
            unreached,
            count if kind in (_UNANSWERED, _REFUSED) else 0,
            shut.get(row, (None, None)),
            unseen,
            tuple(unproven),
            (_late_acks(tables, flow), _late_acks(tables, flow + 1)) if late else ((), ()),
            unacked,
        )


def _error(factor: int) -> str:
    """Returns what an ICMP error says, by the factor that ``headers`` has; empty for none."""
    return _CODES.get(factor - 1, OTHER_ERROR) if factor > 0 else ""


def counted(tables: TransportTables, numbers: IntArray, now_ns: int) -> Counter[str]:
    """Returns how many of these connections were not opened, or silent, by what came of them."""
    outcome_counts: Counter[str] = Counter()
    kinds = _kinds(tables, tables.connections[numbers - 1], numbers, now_ns)
    for kind, count in enumerate(np.bincount(kinds, minlength=len(OPENINGS)).tolist()):
        outcome_counts[OPENINGS[kind]] = count
    errors = tables.connections.unreached[numbers - 1][kinds == _UNANSWERED]
    for error, count in zip(
        *(column.tolist() for column in np.unique(errors[errors > 0], return_counts=True)),
        strict=True,
    ):
        outcome_counts[UNANSWERED] -= count
        outcome_counts[_error(error)] += count
    del outcome_counts[""]
    return +outcome_counts


def _kinds(
    tables: TransportTables, connection_rows: TcpConnectionRows, numbers: IntArray, now_ns: int
) -> IntArray:
    """Returns what came of connections: places in ``OPENINGS``.

    A client that said, acknowledged or reset something was answered before, whether the capture has
    that or not. Nobody misses an answer where the capture has no packet of any server: then it has
    one direction only.
    """
    client, server = tables.sides[2 * numbers - 2], tables.sides[2 * numbers - 1]
    kinds = np.zeros(len(numbers), np.int64)
    first_flow = np.maximum(connection_rows.flows, 0)
    is_mute, is_mute_server = (
        (connection_rows.flows >= -1)
        & (tables.flows.payload[first_flow + direction] == 0)
        & (tables.flows.missing[first_flow + direction] == 0)
        & (tables.flows.passed[first_flow + direction] == 0)
        for direction in range(2)
    )
    is_reset, by_client = connection_rows.closed_how == BY_RST, connection_rows.closed_by == 0
    has_asked = (client.started != 0) & (server.has_base == 0) & is_mute & ~(is_reset & by_client)
    hears_servers = bool((tables.sides.packets[1 : 2 * tables.counts.connections : 2] > 0).any())
    waited = _goes_on(connection_rows) | (connection_rows.unreached > 0)
    waited |= (
        hears_servers
        & (connection_rows.closed_how == OPEN)
        & (now_ns - connection_rows.last_time > PATIENCE_NS)
    )
    kinds[has_asked & (server.packets == 0) & waited] = _UNANSWERED
    kinds[has_asked & (server.packets > 0) & is_reset & (connection_rows.closed_by == 1)] = _REFUSED
    kinds[
        (client.started != 0)
        & (server.started != 0)
        & is_mute
        & is_mute_server
        & (connection_rows.closed_how != OPEN)
    ] = _SILENT
    return kinds


def _goes_on(connection_rows: TcpConnectionRows) -> BoolArray:
    """Returns of which connections packets came for so long that one may have been sent again: what
    comes again sooner is a copy, from another interface or place.
    """
    return connection_rows.last_time - connection_rows.first.time >= WAIT_NS


def _late_acks(tables: TransportTables, row: int) -> tuple[Late, ...]:
    """Returns which bytes of a flow arrived late, as far as is remembered."""
    flow = tables.flows[row]
    recent = [
        tables.lates[int(flow.lates * RECENT_LATES + nth % RECENT_LATES)]
        for nth in range(max(0, int(flow.late_acks) - RECENT_LATES), int(flow.late_acks))
    ]
    late_acks = [
        (int(late.start), int(late.end), int(late.sent), int(late.since), int(late.time))
        for late in recent
    ]
    if flow.late_acks > RECENT_LATES:  # what came before the oldest one may have waited, too
        start, _, _, since_ns, _ = late_acks[0]
        late_acks.insert(0, (0, start, 0, 0, since_ns))
    if flow.resent_since > 0 and flow.resent_ms * 1_000_000 >= LATE_NS:
        late_acks.append(
            (int(flow.acked_to), NEVER, int(flow.acked_at), int(flow.resent_since), NEVER)
        )
    return tuple(late_acks)


def _unseen(
    tables: TransportTables, connection_rows: TcpConnectionRows, numbers: IntArray
) -> IntArray:
    """Returns the direction of which no packet was captured, for each connection, or -1.

    The other one must show that there was something: by its handshake, or because it goes on for
    longer than an answer takes.
    """
    both, first = np.stack((2 * numbers - 2, 2 * numbers - 1)), np.maximum(connection_rows.flows, 0)
    is_seen = tables.sides.packets[both] > 0
    payload, again = (
        column[first] + column[first + 1]
        for column in (tables.flows.payload, tables.flows.duplicate)
    )
    goes_on = _goes_on(connection_rows) & (again == 0)
    is_sure = (tables.sides.has_base[both] != 0).all(axis=0) | goes_on
    has_bytes = (payload > 0) | (connection_rows.flows < -1)
    return np.where(
        (is_seen.sum(axis=0) == 1) & has_bytes & is_sure, np.argmin(is_seen, axis=0), -1
    )


def _shut(
    tables: TransportTables, connection_rows: TcpConnectionRows
) -> dict[int, tuple[Shut | None, Shut | None]]:
    """Returns by place, for connections of which an end took nothing for ``SHUT_NS`` or more, when
    each direction's sender did.
    """
    first = connection_rows.flows.astype(np.int64)
    flows = tables.flows
    is_any: BoolArray = (flows.shut_since > 0) | (flows.shuts > 0)
    shuts = {}
    for row in np.flatnonzero(
        (first > 0) & (is_any[np.maximum(first, 0)] | is_any[np.maximum(first, 0) + 1])
    ).tolist():
        connection = connection_rows[row]
        until = connection.last_time if connection.closed_how == OPEN else connection.closed.time
        client, server = (
            _shut_spells(tables, flows[int(first[row]) + direction], int(until))
            for direction in range(2)
        )
        if client or server:
            shuts[row] = client, server
    return shuts


def _shut_spells(tables: TransportTables, flow: Flow, until_ns: int) -> Shut | None:
    """Returns when a flow's sender took nothing, in order of time, as far as is remembered."""
    begin, times = int(flow.shut_spells * LONGEST_SHUTS), int(flow.shuts)
    rows = tables.shuts[begin : begin + min(times, LONGEST_SHUTS)]
    spells = [(int(spell.since), int(spell.until), int(spell.place)) for spell in rows]
    is_over = not flow.shut_since or until_ns - flow.shut_since < SHUT_NS
    if not is_over:
        spells.append((int(flow.shut_since), until_ns, int(flow.shut_place)))
    if not spells:
        return None
    return (
        [
            (since, until, frame & (1 << FILE_BIT) - 1, frame >> FILE_BIT)
            for since, until, frame in sorted(spells)
        ],
        times + (not is_over),
        is_over,
    )
