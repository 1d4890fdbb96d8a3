"""Packets read by the package: its tables, and the messages found recognised as those of the
tape.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from dcpinspect.findings.checker import Checker
from dcpinspect.findings.finding import Finding
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.events import FoundEvents
from dcpinspect.streams.tracker import Tracker
from tests.agreement import complaints
from tests.builders import ACK, FIN, RST, SYN
from tests.damage import MODULUS, PORT, Packet, batches
from tests.model.facts import End, Heard, Record
from tests.model.packets import Laid, astray
from tests.model.tape import Said, Tape
from tests.transport_views import connections

_LATE_NS = 250_000_000
"""Nothing that was sent before a packet comes so long after it."""
_SEQ, _FLAGS = 38, 47
"""Where the sequence number and the TCP flags are in a packet that ``damage.Talk`` wrote."""


@dataclass
class Capture:
    """Some packets of a tape, by their places among all."""

    tape: Tape
    laid: Laid
    places: Sequence[int]
    snaplen: int = 1 << 18
    """Bytes that it has of a packet, at most, when it comes first."""

    @cached_property
    def packets(self) -> list[Packet]:
        """In the order in which they were captured, none before the one before it."""
        packets, known = [], set[int]()
        for place in self.places:
            packet = self.laid.packets[place]
            packets.append(packet if place in known else packet.cut(self.snaplen))
            known.add(place)
        times = accumulate((packet.time_ns for packet in packets), max)
        return [
            packet if packet.time_ns == time_ns else replace(packet, time_ns=time_ns)
            for packet, time_ns in zip(packets, times, strict=True)
        ]

    @property
    def ends(self) -> dict[int, End]:
        """How connections end, as far as these packets show it."""
        found: dict[int, End] = {}
        pairs: dict[object, int] = {}
        for place, packet in zip(self.places, self.packets, strict=True):
            number = self.laid.connection_of[place]
            flags = packet.data[_FLAGS] if place not in self.laid.strays else ACK
            if flags & (FIN | RST) and number not in found:
                found[number] = End("server" if packet.flow[2] else "client", packet.time_ns)
            if flags & SYN and packet.flow[2] == 0:
                before = pairs.get(packet.flow)
                if before not in (None, number) and before not in found:
                    found[before] = End(None, packet.time_ns)
                pairs[packet.flow] = number
        return found

    @property
    def cut_short(self) -> set[int]:
        """Connections whose last bytes or whose end are missing without a trace: to a reading they
        just fell silent.
        """
        last = {
            (number, packet.flow[2]): place
            for place, (number, packet) in enumerate(
                zip(self.laid.connection_of, self.laid.packets, strict=True)
            )
        }
        kept, ends = set(self.places), self.ends
        out = {number for (number, _), place in last.items() if place not in kept}
        whole_ends = whole(self.tape, self.laid).ends.items()
        return out | {
            number for number, end in whole_ends if number not in ends or ends[number].by != end.by
        }

    @property
    def last_ns(self) -> dict[int, int]:
        """Time of the last packet of each connection."""
        return {
            self.laid.connection_of[place]: packet.time_ns
            for place, packet in zip(self.places, self.packets, strict=True)
        }


@dataclass(slots=True)
class Read:
    """What the package made of a capture."""

    heard: list[Heard]
    """The messages in row order, as far as they are the tape's."""
    connections: list[int]
    """Index on the tape of each connection that was met."""
    tables: dict[str, list[Record]]
    """The records of each table, by its name."""
    findings: list[Finding]
    """What is wrong with it, by the package."""


_LATEST_NS = 20_000_000
"""A message is in packets soon after it was said."""


@dataclass(slots=True)
class _Found:
    """A message as it was found."""

    connection: int
    direction: int
    offset: int
    data: bytes
    row: int
    time_ns: int
    is_whole: bool


def read(capture: Capture, sizes: Sequence[int] = (), *, remembers: bool = True) -> Read:
    """Reads a capture in batches of ``sizes`` packets, then all the rest; asserts that whole
    messages have the tape's bytes, and that nothing contradicts itself in what is said of them.

    ``remembers``: as from a pipe; else the events by which streams are compared are read again.
    """
    engine, tracker = Engine(["model.pcap"], ports=(PORT,)), Tracker(remembers=remembers)
    checker = Checker(tracker)
    found: list[_Found] = []
    for part in (*batches(capture.packets, sizes), None):
        batch = engine.finish() if part is None else engine.feed(part)
        if batch is None:
            continue
        tracker.feed(batch)
        checker.feed(batch)
        columns = (batch.connection, batch.direction, batch.stream_offset, batch.row, batch.time_ns)
        for index, (connection, direction, offset, row, time_ns) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            data = batch.bytes_of(index)
            found.append(
                _Found(
                    connection,
                    direction,
                    offset,
                    data,
                    row,
                    time_ns,
                    is_whole=not batch.missing.ranges_of(index),
                )
            )
    known = _connections(engine, capture)
    if not remembers:
        tracker.compare(lambda wanted: _again(capture, FoundEvents(wanted)))
    tables = {name: made.records() for name, made in tracker.tables(engine.links).by_name.items()}
    findings = checker.findings(engine.links, engine.coverage)
    assert not (wrong := complaints(tables, findings)), "\n".join(wrong)
    for record in (*tables["streams"], *tables["vbuckets"]):
        if record["requested_end"] == "no end":
            record["requested_end"] = (1 << 64) - 1  # as the model has it
    return Read(_recognised(capture, found, known), known, tables, findings)


def _again(capture: Capture, shown: FoundEvents) -> FoundEvents:
    engine = Engine(["model.pcap"], ports=(PORT,))
    for part in (*batches(capture.packets), None):
        batch = engine.finish() if part is None else engine.feed(part)
        if batch is not None:
            shown.feed(batch)
    return shown


def _recognised(capture: Capture, found: Sequence[_Found], known: Sequence[int]) -> list[Heard]:
    """The messages as those of the tape; what a heuristic took for a message is left out."""
    started = {
        (capture.laid.connection_of[p], capture.laid.packets[p].flow[2])
        for p in capture.places
        if capture.laid.packets[p].begins
    }
    by_offset: dict[tuple[int, int, int], Said] = {}
    by_data: dict[tuple[int, int, bytes], list[tuple[int, int]]] = defaultdict(list)
    for place, one in enumerate(capture.tape.said):
        direction, offset = 0 if one.to_server else 1, capture.laid.offsets[place]
        by_offset[one.connection, direction, offset] = one
        by_data[one.connection, direction, one.data].append((offset, one.time_ns))
    # Without a SYN, offsets count from the first bytes that were read, wherever these are on the
    # tape.
    votes: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for message in found:
        flow = known[message.connection - 1], message.direction
        alike = by_data[*flow, message.data]
        votes[flow].update(
            offset - message.offset
            for offset, time_ns in alike
            if 0 <= message.time_ns - time_ns < _LATEST_NS
        )
    first = _first_offsets(capture)
    out = []
    for message in found:
        flow = known[message.connection - 1], message.direction
        base = (
            0
            if flow in started or not votes[flow]
            else max(votes[flow], key=lambda one: (votes[flow][one], one == first.get(flow)))
        )
        said = by_offset.get((*flow, base + message.offset))
        if said is None:
            continue
        assert not message.is_whole or message.data == said.data, f"row {message.row} is not {said}"
        out.append(Heard(said, message.row, message.time_ns, message.is_whole))
    return out


def _first_offsets(capture: Capture) -> dict[tuple[int, int], int]:
    """Where the first packet with bytes of each direction begins on the tape."""
    begun: dict[tuple[int, int], int] = {}
    found: dict[tuple[int, int], int] = {}
    for number, packet in zip(capture.laid.connection_of, capture.laid.packets, strict=True):
        begun.setdefault((number, packet.flow[2]), _seq(packet) + 1)  # the first one is its SYN
    for place in capture.places:
        packet, flow = (
            capture.laid.packets[place],
            (capture.laid.connection_of[place], capture.laid.packets[place].flow[2]),
        )
        if packet.size:
            found.setdefault(flow, (_seq(packet) - begun[flow]) % 2**32)
    return found


def _seq(packet: Packet) -> int:
    return int.from_bytes(packet.data[_SEQ : _SEQ + 4], "big")


def _connections(engine: Engine, capture: Capture) -> list[int]:
    """Index on the tape of each connection that the engine met: that of its SYN, where it has one,
    or of its first packet.
    """
    out = []
    for link in connections(engine.transport):
        places = list(capture.places[link.first_packet :])
        flow = capture.laid.packets[places[0]].flow[:2]
        if link.starts == "handshake":
            place = next(
                p
                for p in places
                if capture.laid.packets[p].flow[:2] == flow and capture.laid.packets[p].begins
            )
        else:
            place = places[0]
        out.append(capture.laid.connection_of[place])
    return out


def whole(tape: Tape, laid: Laid) -> Capture:
    """The capture that lacks nothing."""
    return Capture(tape, laid, range(len(laid.packets)))


def cut(capture: Capture, count: int) -> Capture:
    """Its first packets: nothing is missing, it only stops. Without an answer to it, a last SYN may
    be a stray one.
    """
    packets = capture.packets
    while count > 2 and packets[count - 1].begins:
        count -= 1
    return Capture(capture.tape, capture.laid, capture.places[:count])


def begun(capture: Capture, place: int) -> Capture:
    """From a packet on."""
    return Capture(capture.tape, capture.laid, capture.places[place:])


def lossy(capture: Capture, lost: Container[int]) -> Capture:
    """Without some packets."""
    return Capture(
        capture.tape, capture.laid, [place for place in capture.places if place not in lost]
    )


def one_sided(capture: Capture, direction: int) -> Capture:
    """Only what one side sent: 0 the client, 1 the server."""
    return Capture(
        capture.tape,
        capture.laid,
        [place for place in capture.places if capture.laid.packets[place].flow[2] == direction],
    )


def snapped(capture: Capture, snaplen: int) -> Capture:
    """With the beginning of each packet."""
    return Capture(capture.tape, capture.laid, capture.places, snaplen)


def disturbed(capture: Capture, rng: random.Random) -> Capture:
    """With SYNs and RSTs that their ends ignored: each connection said more after them, and had its
    handshake before.

    An RST that is a little ahead may stand behind bytes that were lost, unless its sender still
    says something new when no packet of before comes any more.
    """
    laid, numbers = capture.laid, capture.laid.connection_of
    flags = [packet.data[_FLAGS] for packet in laid.packets]
    last: dict[tuple[int, int], int] = {}
    begun: dict[int, int] = {}
    for place, (number, packet) in enumerate(zip(numbers, laid.packets, strict=True)):
        if packet.size:
            last[number, packet.flow[2]] = place
            begun.setdefault(number, place)
    packets, connection_of, order = [*laid.packets], [*numbers], []
    for place in capture.places:
        order.append(place)
        number, packet = numbers[place], laid.packets[place]
        if (
            place < begun.get(number, place + 1)
            or place >= last.get((number, packet.flow[2]), -1)
            or flags[place] & (SYN | FIN | RST)
        ):
            continue
        if rng.random() < 0.03:
            kind = rng.choice([SYN, SYN | ACK, RST, RST, RST | ACK])
            ahead = rng.choice([0, 1, 700, 60_000, 900_000_000, 2_000_000_000, MODULUS - 500])
            later_ns = laid.packets[last[number, packet.flow[2]]].time_ns - packet.time_ns
            if kind & RST and ahead in (700, 60_000) and later_ns <= _LATE_NS:
                continue
            order.append(len(packets))
            packets.append(astray(packet, kind, ahead))
            connection_of.append(number)
    strays = frozenset(range(len(laid.packets), len(packets)))
    return Capture(capture.tape, Laid(packets, connection_of, laid.offsets, strays), order)


def doubled(capture: Capture, snaplen: int = 1 << 18) -> Capture:
    """Each packet as it passed two interfaces of the machine, one after the other; the first has no
    more than ``snaplen`` bytes of it.
    """
    places = [place for place in capture.places for _ in (0, 1)]
    return Capture(capture.tape, capture.laid, places, snaplen)


def disordered(capture: Capture, rng: random.Random) -> Capture:
    """Some packets twice, as after a retransmission, and some a little later than others of their
    direction that were sent after them.

    None comes again after its addresses are those of a new connection.
    """
    places = [(place, place) for place in capture.places]
    places += [
        (place + rng.randrange(1, 9), place) for place in capture.places if rng.random() < 0.1
    ]
    packets = capture.laid.packets
    newest: dict[tuple[str, str], int] = {}
    order = []
    for _, place in sorted(places):
        pair, number = packets[place].flow[:2], capture.laid.connection_of[place]
        newest[pair] = max(number, newest.get(pair, 0))
        if number == newest[pair]:
            order.append(place)
    for at in range(len(order) - 1):
        one, two = packets[order[at]], packets[order[at + 1]]
        is_soon = two.time_ns - one.time_ns < _LATEST_NS
        if rng.random() < 0.1 and is_soon and one.flow == two.flow and one.size and two.size:
            order[at], order[at + 1] = order[at + 1], order[at]
    return Capture(capture.tape, capture.laid, order)
