"""Packets read by the package: its tables, and the messages found recognised as those of the tape."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from dcpinspect.engine import Engine
from dcpinspect.streams.tracker import Tracker
from tests.builders import FIN, RST, SYN
from tests.damage import PORT, Packet, batches
from tests.model.facts import End, Heard, Record
from tests.model.packets import Laid
from tests.model.tape import Tape

_FLAGS = 47
"""Where the TCP flags are in a packet that ``damage.Talk`` wrote."""


@dataclass(slots=True)
class Capture:
    """Some packets of a tape, by their places among all."""

    tape: Tape
    laid: Laid
    places: Sequence[int]

    @property
    def packets(self) -> list[Packet]:
        return [self.laid.packets[place] for place in self.places]

    @property
    def ends(self) -> dict[int, End]:
        """How connections end, as far as these packets show it."""
        found: dict[int, End] = {}
        pairs: dict[object, int] = {}
        for place in self.places:
            packet, number = self.laid.packets[place], self.laid.connection_of[place]
            flags = packet.data[_FLAGS]
            if flags & (FIN | RST) and number not in found:
                found[number] = End("server" if packet.flow[2] else "client", packet.time_ns)
            if flags & SYN and packet.flow[2] == 0:
                before = pairs.get(packet.flow)
                if before is not None and before not in found:
                    found[before] = End(None, packet.time_ns)
                pairs[packet.flow] = number
        return found

    @property
    def last_ns(self) -> dict[int, int]:
        """Time of the last packet of each connection."""
        return {self.laid.connection_of[place]: self.laid.packets[place].time_ns for place in self.places}


@dataclass(slots=True)
class Read:
    """What the package made of a capture."""

    heard: list[Heard]
    """The messages in row order, as far as they are the tape's."""
    connections: list[int]
    """Index on the tape of each connection that was met."""
    tables: dict[str, list[Record]]
    """The records of each table, by its name."""


def read(capture: Capture, sizes: Sequence[int] = ()) -> Read:
    """Reads a capture in batches of ``sizes`` packets, then all the rest; asserts that whole messages have the tape's bytes."""
    engine, tracker = Engine(["model.pcap"], ports=(PORT,)), Tracker()
    offsets, said = capture.laid.offsets, capture.tape.said
    by_place = {(one.connection, 0 if one.to_server else 1, offsets[place]): one for place, one in enumerate(said)}
    bases: dict[tuple[int, int], int] = {}
    for place in capture.places:
        packet = capture.laid.packets[place]
        if packet.size or packet.begins:  # without a SYN, offsets count from the first bytes
            bases.setdefault((capture.laid.connection_of[place], packet.flow[2]), packet.offset)
    heard: list[Heard] = []
    for part in (*batches(capture.packets, sizes), None):
        batch = engine.finish() if part is None else engine.feed(part)
        if batch is None:
            continue
        tracker.feed(batch)
        known = _connections(engine, capture)
        for index in range(len(batch)):
            number, direction = known[int(batch.connection[index]) - 1], int(batch.direction[index])
            one = by_place.get((number, direction, int(batch.stream_offset[index]) + bases[number, direction]))
            if one is None:
                continue  # what a heuristic took for a message
            is_whole = not batch.missing.of(index)
            assert not is_whole or batch.bytes_of(index) == one.data, f"row {batch.row[index]} is not {one}"
            heard.append(Heard(one, int(batch.row[index]), int(batch.time_ns[index]), is_whole))
    tables = {name: made.records() for name, made in tracker.tables(engine.links).by_name.items()}
    return Read(heard, _connections(engine, capture), tables)


def _connections(engine: Engine, capture: Capture) -> list[int]:
    """Index on the tape of each connection that the engine met: that of its SYN, where it has one, or of its first packet."""
    out = []
    for link in engine.transport.connections:
        places = list(capture.places[link.first_packet :])
        flow = capture.laid.packets[places[0]].flow[:2]
        if link.starts == "handshake":
            place = next(p for p in places if capture.laid.packets[p].flow[:2] == flow and capture.laid.packets[p].begins)
        else:
            place = places[0]
        out.append(capture.laid.connection_of[place])
    return out


def whole(tape: Tape, laid: Laid) -> Capture:
    """The capture that lacks nothing."""
    return Capture(tape, laid, range(len(laid.packets)))


def cut(capture: Capture, count: int) -> Capture:
    """Its first packets: nothing is missing, it only stops."""
    return Capture(capture.tape, capture.laid, capture.places[:count])


def begun(capture: Capture, place: int) -> Capture:
    """From a packet on."""
    return Capture(capture.tape, capture.laid, capture.places[place:])


def lossy(capture: Capture, lost: Container[int]) -> Capture:
    """Without some packets."""
    return Capture(capture.tape, capture.laid, [place for place in capture.places if place not in lost])
