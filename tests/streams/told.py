"""Conversations told to the tracker: scripts of events become packets, packets become tables.

``tests.peers.script`` says who sends what. On top of it a ``Told`` says what the capture lacks::

    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    with talk.lost():
        stream.mutation(1, "a")
    stream.mutation(2, "b")
    (gap,) = tables(talk).gaps
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from dcpinspect.reading.engine import Engine
from dcpinspect.streams.anomalies import CASES
from dcpinspect.streams.contents import MOST, Contents
from dcpinspect.streams.events import RECENT
from dcpinspect.streams.records import Anomalies
from dcpinspect.streams.tracker import Tracker
from tests.builders import ACK, FIN, PSH, RST, START_NS, Recorded, pcap
from tests.damage import PORT, Packet, Talk, batches
from tests.peers.script import Close, Conversation, Mark, Send

Record = dict[str, Any]

_SERVERS = {"node1": "10.0.0.2", "node2": "10.0.0.3"}

_LOSE, _KEEP, _BEGIN = "lose", "keep", "begin"

ANOMALIES = tuple(case.cause or case.rule for case in CASES)
"""What tests call them, by code."""


@dataclass(eq=False, slots=True)
class Told(Conversation):
    """A conversation, what of it was captured, and when."""

    port: int = 50_000
    """Of the client; the same one again is the same pair of addresses."""
    host: str = "10.0.0.1"
    """Of the client."""

    @contextmanager
    def lost(self) -> Iterator[None]:
        """What is sent meanwhile is not in the capture."""
        self.mark(_LOSE)
        yield
        self.mark(_KEEP)

    def begin(self) -> None:
        """The capture begins here."""
        self.mark(_BEGIN)

    def wait(self, seconds: float) -> None:
        """Nothing is sent for so long."""
        self.mark(f"wait {seconds}")

    def high_seqnos(self, seqnos: Mapping[int, int]) -> None:
        """The client asks how high vbuckets are, and is told."""
        listed = [{"vbucket": vbucket, "seqno": seqno} for vbucket, seqno in seqnos.items()]
        self.ask("get_all_vb_seqnos", {"seqnos": listed})

    def observe(self, vbucket: int, current: int, persisted: int = 0, *, uuid: int = 0xA) -> None:
        """The client asks up to where a vbucket is in memory and on disk, and is told."""
        told = {
            "vbucket_uuid": uuid,
            "observed_vbucket": vbucket,
            "current_seqno": current,
            "last_persisted_seqno": persisted,
        }
        self.ask("observe_seqno", told, vbucket=vbucket, vbucket_uuid=uuid)


def opened(name: str = "test:1", *flags: str, port: int = 50_000, **controls: str) -> Told:
    """A connection that is open for DCP; ``controls`` are settings that the server accepts."""
    talk = Told(name, port=port)
    talk.hello("test/1.0", "JSON", "Collections")
    talk.open(name, "producer", *flags)
    for key, value in controls.items():
        talk.control(key, value)
    return talk


def capture(*talks: Told) -> bytes:
    """The pcap file with these packets."""
    return pcap(Recorded(packet.data, packet.wire, packet.time_ns) for packet in packets(*talks))


def packets(*talks: Told) -> list[Packet]:
    """The packets of conversations, one conversation after the other, that the capture has."""
    out: list[Packet] = []
    time_ns = START_NS
    for number, talk in enumerate(talks):
        isn = 1000 + 100_000 * number, 5000 + 100_000 * number
        wire = Talk(talk.port, isn=isn, start_ns=time_ns, hosts=(talk.host, _SERVERS[talk.server]))
        wire.handshake()
        kept, is_lost = 0, False
        for event in talk.events:
            before = len(wire.packets)
            if isinstance(event, Send):
                wire.send(int(event.side == "server"), event.data, ACK | PSH)
                wire.send(int(event.side == "client"))
            elif isinstance(event, Close):
                wire.send(int(event.side == "server"), flags=RST if event.abort else FIN | ACK)
                if not event.abort:
                    wire.send(int(event.side == "client"), flags=FIN | ACK)
            elif isinstance(event, Mark):
                kind, _, seconds = event.name.partition(" ")
                wire.time_ns += int(float(seconds or 0) * 1e9)
                is_lost = kind == _LOSE or (is_lost and kind != _KEEP)
                kept = len(wire.packets) if kind == _BEGIN else kept
            if is_lost:
                del wire.packets[before:]
        out += wire.packets[kept:]
        time_ns = wire.time_ns + 1_000_000
    return out


class Seen:
    """What a tracker made of packets."""

    def __init__(
        self,
        captured: Sequence[Packet],
        sizes: Sequence[int] = (),
        *,
        remembers: bool = True,
        most: int = RECENT,
        keys: int = MOST,
    ) -> None:
        """``sizes``: packets of each batch; without, one batch. ``most``: events remembered to
        compare streams by; ``keys``: to tell what is wrong with events.
        """
        engine, self.tracker = (
            Engine(["told.pcap"], ports=(PORT,)),
            Tracker(remembers=remembers, limit=most),
        )
        self.tracker.contents = Contents(keys)
        found = []
        for batch in [*(engine.feed(part) for part in batches(captured, sizes)), engine.finish()]:
            if batch is not None:
                self.tracker.feed(batch)
                found.append(
                    Anomalies(self.tracker.state.used(self.tracker.state.anomalies).array.copy())
                )
        self.anomaly_rows = Anomalies.joined(found)
        """What was not as the protocol has it, as the kernels wrote it."""
        self.links = engine.links
        self.tables = self.tracker.tables(self.links)

    def __getattr__(self, name: str) -> list[Record]:
        """The records of a table."""
        return self.tables.by_name[name].records()

    @property
    def anomalies(self) -> list[str]:
        """What was not as the protocol has it, in order of rows."""
        found = self.anomaly_rows
        order = found.place.row.argsort(kind="stable")
        return [ANOMALIES[code] for code in found.code[order].tolist()]

    def everything(self) -> dict[str, Any]:
        """All that can be compared."""
        return {name: table.records() for name, table in self.tables.by_name.items()} | {
            "anomalies": self.anomalies
        }


def tables(*talks: Told, sizes: Sequence[int] = ()) -> Seen:
    """The tables of conversations."""
    return Seen(packets(*talks), sizes)


def sent_again(
    captured: Sequence[Packet], number: int, *after_s: float, arrives: bool = True
) -> list[Packet]:
    """What a capture at the sender has if the network lost packet ``number``: it is sent again so
    long after it. The packet behind it acknowledges it, after the last copy or never.
    """
    first, acked = captured[number], captured[number + 1]
    copies = [replace(first, time_ns=first.time_ns + int(1e9 * after)) for after in after_s]
    late = [replace(acked, time_ns=copies[-1].time_ns + 1000)] if arrives else []
    others = [
        packet
        if arrives or packet.flow != acked.flow or packet.time_ns < first.time_ns
        else replace(packet, data=_lacking(packet, first))
        for packet in captured
        if packet is not acked
    ]
    return sorted([*others, *copies, *late], key=lambda packet: packet.time_ns)


def _lacking(packet: Packet, lost: Packet) -> bytes:
    """A packet whose sender does not have what was lost."""
    at, seq = packet.payload - 20 + 8, lost.payload - 20 + 4
    return packet.data[:at] + lost.data[seq : seq + 4] + packet.data[at + 4 :]
