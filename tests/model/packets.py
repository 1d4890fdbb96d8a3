"""A tape laid into TCP packets: several messages in one, one message over several, both directions
under way at once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.builders import ACK, FIN, PSH, RST, SYN, Recorded, pcap
from tests.damage import MODULUS, Packet, Talk
from tests.model.tape import Closed, Opened, Said, Tape

_PATIENCE_NS = 3_000_000
"""Nothing stays in a socket's buffer longer."""


@dataclass(slots=True)
class Wire:
    """One connection's packets in the making."""

    talk: Talk
    mss: int
    coalesces: bool
    acks: float
    waiting: list[bytearray] = field(default_factory=lambda: [bytearray(), bytearray()])
    said_ns: int = 0


@dataclass(slots=True)
class Laid:
    """The packets of a tape, and where each message begins in its direction."""

    packets: list[Packet]
    connection_of: list[int]
    """Index of the connection of each packet."""
    offsets: dict[int, int]
    """Stream offset of each message, by its place among the tape's messages."""
    strays: frozenset[int] = frozenset()
    """Places of the packets that nobody of the tape sent."""


def laid(tape: Tape) -> Laid:
    """The packets in the order of their times, nanoseconds after the messages in them were said."""
    rng = random.Random(tape.shape)
    out = Laid([], [], {})
    wires: list[Wire] = []
    begun: dict[object, tuple[int, int]] = {}
    lengths: list[list[int]] = []

    def send(
        number: int, direction: int, payload: bytes = b"", flags: int = ACK, *, now: int
    ) -> None:
        wire = wires[number]
        wire.talk.time_ns = max(now, out.packets[-1].time_ns + 100 if out.packets else now)
        wire.talk.send(direction, payload, flags)
        out.packets.append(wire.talk.packets.pop())
        out.connection_of.append(number)

    def flush(number: int, direction: int, now: int, *, keep: bool = False) -> None:
        wire = wires[number]
        buffer = wire.waiting[direction]
        while len(buffer) >= wire.mss or (buffer and not keep):
            part = bytes(buffer[: wire.mss])
            del buffer[: wire.mss]
            send(number, direction, part, ACK | PSH, now=now)
            if rng.random() < wire.acks:
                send(number, 1 - direction, now=now)

    messages = 0
    for entry in tape.entries:
        now = entry.time_ns
        for number, wire in enumerate(wires):
            if any(wire.waiting) and now - wire.said_ns > _PATIENCE_NS:
                for direction in (0, 1):
                    flush(number, direction, wire.said_ns + _PATIENCE_NS)
        if isinstance(entry, Opened):
            isn = (
                rng.randrange(MODULUS),
                rng.choice([rng.randrange(MODULUS), MODULUS - rng.randrange(3000)]),
            )
            if (entry.client, entry.server) in begun:
                # A system does not let the numbers of a connection come near those of one before
                # with its addresses.
                client, server = begun[entry.client, entry.server]
                isn = (
                    (client + (1 << 28) + isn[0] % (1 << 28)) % MODULUS,
                    (server + (1 << 28) + isn[1] % (1 << 28)) % MODULUS,
                )
            begun[entry.client, entry.server] = isn
            talk = Talk(entry.client[1], isn=isn, hosts=(entry.client[0], entry.server[0]))
            mss = rng.choice([1448, 1448, 400, 90])
            wires.append(
                Wire(talk, mss, coalesces=rng.random() < 0.6, acks=rng.choice([0, 0.3, 1]))
            )
            lengths.append([0, 0])
            for direction, flags in ((0, SYN), (1, SYN | ACK), (0, ACK)):
                send(entry.connection, direction, flags=flags, now=now)
        elif isinstance(entry, Closed):
            if not entry.by:
                for direction in (0, 1):
                    flush(entry.connection, direction, now)
                continue
            first = 0 if entry.by == "client" else 1
            for direction in (1 - first, first):
                flush(entry.connection, direction, now)
            if entry.reset:
                send(entry.connection, first, flags=RST | ACK, now=now)
            else:
                for direction, flags in ((first, FIN | ACK), (1 - first, FIN | ACK), (first, ACK)):
                    send(entry.connection, direction, flags=flags, now=now)
        else:
            _say(entry, wires[entry.connection], flush, rng)
            direction = 0 if entry.to_server else 1
            out.offsets[messages] = lengths[entry.connection][direction]
            lengths[entry.connection][direction] += len(entry.data)
            messages += 1
    for number, wire in enumerate(wires):
        for direction in (0, 1):
            flush(number, direction, wire.said_ns + _PATIENCE_NS)
    return out


def _say(said: Said, wire: Wire, flush: object, rng: random.Random) -> None:
    assert callable(flush)
    direction = 0 if said.to_server else 1
    if said.waits:
        flush(said.connection, 1 - direction, said.time_ns)
    wire.waiting[direction] += said.data
    wire.said_ns = said.time_ns
    flush(said.connection, direction, said.time_ns, keep=wire.coalesces and rng.random() < 0.7)


def astray(like: Packet, flags: int, ahead: int) -> Packet:
    """What its sender never sent: a SYN or RST whose number is so far from that behind a packet, on
    the same addresses.
    """
    seq, ack = (int.from_bytes(like.data[at : at + 4], "big") for at in (38, 42))
    end = seq + like.size + bool(like.data[47] & (SYN | FIN))
    head = like.data[:16] + (40).to_bytes(2, "big") + like.data[18:38]
    numbers = ((end + ahead) % MODULUS).to_bytes(4, "big") + (ack if flags & ACK else 0).to_bytes(
        4, "big"
    )
    data = head + numbers + bytes([0x50, flags]) + like.data[48:54]
    return replace(like, data=data, wire=len(data), size=0, begins=False)


def write_pcap(path: Path, packets: Sequence[Packet]) -> Path:
    """As a capture file."""
    path.write_bytes(
        pcap(
            [Recorded(packet.data, packet.wire, packet.time_ns) for packet in packets],
            magic=0xA1B23C4D,
        )
    )
    return path
