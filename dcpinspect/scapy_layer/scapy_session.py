"""The engine behind ``sniff``: makes messages, as any other reading has them, of what Scapy
captures or reads from files.

Scapy's own ``TCPSession`` needs streams without loss and cannot resume within one. Here it only
delivers packets, whose bytes go to the engine unchanged.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scapy.config import conf
from scapy.packet import Packet
from scapy.sessions import DefaultSession
from scapy.utils import EDecimal

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.packet_walk import MAX_PACKET
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.reading.engine import Engine
from dcpinspect.scapy_layer.scapy_packets import DCP
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch
from dcpinspect.transport.connections import DEFAULT_PORTS, listed_ports
from dcpinspect.transport.tls.keylog import SEARCH, KeyLog

BATCH = 1000
"""Greatest number of packets given to the engine at once, if so many are there already."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message stands in its reading, and what its own bytes do not say. Names are those of
    the messages table.
    """

    row: int
    file: str
    """The file of ``frame``, or the name of the interface."""
    frame: int
    last_frame: int
    connection: int
    client: str
    server: str
    direction: str
    """``c2s`` or ``s2c``."""
    stream_offset: int
    vbucket: int | None
    """For a response, the vbucket of its request."""
    collection_id: int | None
    key: bytes | None
    """The key without the collection id."""
    request_row: int | None
    rtt_ns: int | None
    missing: tuple[tuple[int, int], ...]
    """Byte ranges [start, end) that were not captured; their bytes are zero here."""
    heuristic: bool
    problem: str | None


@dataclass(slots=True)
class _Source:
    """A file or interface that packets come from."""

    number: int
    frames: int = 0
    first: Packet | None = None
    """A packet that was read for its time, and was not yet given to the engine."""


class DCPSession(DefaultSession):
    """Makes ``sniff(offline=…, session=DCPSession)`` and ``sniff(iface=…, session=DCPSession)``
    return ``DCP`` packets, one for each message.

    Each packet has its message's bytes, the time of the packet that completed it, and an
    ``origin``. Several files are read as one, in order of time.
    At the end of files the messages still held back are returned; after a live capture ``finish``
    returns them.
    """

    def __init__(
        self,
        *,
        ports: int | Iterable[int] = (),
        find_ports: bool = False,
        keylog: Sequence[str] = (),
        tls_search: int = SEARCH,
    ) -> None:
        """``ports``: servers' ports besides the usual ones; ``find_ports``: take all ports that
        prove to carry DCP. Raises UsageError for a port that is none.

        ``keylog``: files with secrets of TLS. ``tls_search``: how many secrets and record numbers
        are tried for a connection that began before the capture.
        """
        super().__init__()
        self._names: list[str] = []
        keys = KeyLog(keylog, search=tls_search)
        every_port = (*DEFAULT_PORTS, *listed_ports(ports))
        self.engine = Engine(self._names, ports=every_port, find_ports=find_ports, keys=keys)
        """The engine; it knows the coverage of the reading."""
        self._sources: dict[Any, _Source] = {}
        self._open: list[Any] = []
        self._packets = 0

    def recv(self, sock: Any) -> Iterator[Packet]:
        """Yields the messages that the next packets of ``sock`` complete; ``sniff`` calls this."""
        is_file = getattr(sock, "nonblocking_socket", False)
        if sock not in self._sources:
            self._sources[sock] = _Source(len(self._names))
            self._names.append(
                str(getattr(sock, "filename", None) or getattr(sock, "iface", None) or sock)
            )
            self._open.append(sock)
            if is_file:  # because sniff asks every file once before it asks one again
                try:
                    self._sources[sock].first = _next(sock)
                except EOFError:
                    self._open.remove(sock)
                    raise
                return
        if is_file and sock is not min(self._open, key=self._first_time):
            return
        packets: list[Packet] = []
        try:
            packets += self._waiting(sock)
            while len(packets) < BATCH and (is_file or not packets or _has_more(sock)):
                packet = _next(sock)
                if packet is not None:
                    packets.append(packet)
                elif not is_file:
                    break
        except EOFError:
            self._open.remove(sock)
            yield from self._fed(sock, packets)
            if not self._open:
                yield from self.finish()
            raise
        yield from self._fed(sock, packets)

    def finish(self) -> Iterator[Packet]:
        """Yields the messages held back because bytes before them might still have come."""
        yield from _messages(self.engine.finish())

    def _first_time(self, sock: Any) -> float:
        first = self._sources[sock].first
        return float("-inf") if first is None else float(first.time)

    def _waiting(self, sock: Any) -> list[Packet]:
        source = self._sources[sock]
        first, source.first = source.first, None
        return [] if first is None else [first]

    def _fed(self, sock: Any, packets: list[Packet]) -> Iterator[Packet]:
        source = self._sources[sock]
        if packets:
            batch = _batch(sock, packets, source, self._packets)
            source.frames += len(packets)
            self._packets += len(packets)
            yield from _messages(self.engine.feed(batch))


def _next(sock: Any) -> Packet | None:
    # Scapy need only look at the link layer. Its own limit on packets is lower than what loopback
    # interfaces carry.
    packet: Packet | None = sock.recv(MAX_PACKET, stop_dissection_after=Packet)
    return packet


def _has_more(sock: Any) -> bool:
    try:
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):  # select fails on Windows, and for objects that are no files
        return False


def _batch(sock: Any, packets: list[Packet], source: _Source, before: int) -> PacketBatch:
    captured = np.array([len(packet.original) for packet in packets], np.int64)
    columns = (
        np.cumsum(captured) - captured,
        captured,
        np.maximum(captured, [packet.wirelen or 0 for packet in packets]),
        np.array([int(packet.time * 1_000_000_000) for packet in packets], np.int64),
        np.array([_link_type(sock, packet) for packet in packets], np.int64),
    )
    return PacketBatch(
        data=np.frombuffer(b"".join(packet.original for packet in packets), np.uint8),
        columns=np.stack(columns),
        file=source.number,
        first_frame=source.frames + 1,
        first_packet=before,
        file_offset=0,
    )


def _link_type(sock: Any, packet: Packet) -> int:
    """Returns the link type that the file states, or Scapy's number for the outermost layer."""
    described = {interface[0] for interface in getattr(sock, "interfaces", ())} or {
        getattr(sock, "linktype", None)
    }
    (only,) = described if len(described) == 1 else (None,)
    return int(only if only is not None else conf.l2types.layer2num.get(type(packet), -1))


def _messages(batch: MessageBatch | None) -> Iterator[Packet]:
    for index in range(len(batch) if batch is not None else 0):
        assert batch is not None
        packet = DCP(batch.bytes_of(index))
        packet.time = EDecimal(int(batch.time_ns[index])) / 1_000_000_000
        packet.origin = _origin(batch, index)
        yield packet


def _origin(batch: MessageBatch, index: int) -> Origin:
    connection = int(batch.connection[index])
    return Origin(
        row=int(batch.row[index]),
        file=batch.files[int(batch.file[index])],
        frame=int(batch.frame[index]),
        last_frame=int(batch.last_frame[index]),
        connection=connection,
        client=batch.endpoints.client[connection - 1],
        server=batch.endpoints.server[connection - 1],
        direction=DIRECTIONS[int(batch.direction[index])],
        stream_offset=int(batch.stream_offset[index]),
        vbucket=batch.vbucket.value_at(index),
        collection_id=batch.decoded.collection_id.value_at(index),
        key=batch.key_of(index),
        request_row=batch.request_row.value_at(index),
        rtt_ns=batch.rtt_ns.value_at(index),
        missing=batch.missing.ranges_of(index),
        heuristic=bool(batch.heuristic[index]),
        problem=batch.problem_of(index),
    )
