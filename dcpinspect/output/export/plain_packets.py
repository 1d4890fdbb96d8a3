"""Makes packets that were not captured: chosen messages in plain text, as TCP segments between the
same ends.

They replace packets that are encrypted, or that contain data which is to be redacted. Sequence
numbers are those of the plain text, so bytes that are missing there leave a gap. Each packet has
the time of the packet that completed its TLS record, and its place in the file. Plain text waits in
files without names, so that they vanish with the process.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Self

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import ByteArray, IntArray, numbers_of, unique
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.errors import OutputError
from dcpinspect.kernels.gathering import copy_pieces
from dcpinspect.output.export.carriers import CarrierPieces, LineMarks
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.redact import Redactor
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import escape
from dcpinspect.transport.headers import ACK, FIN

MOST = 1 << 14
"""Size from which a segment gets no more bytes: that of the longest TLS record."""
TOGETHER = 4096
"""Number of pieces of messages that are made into packets at once."""
WINDOW = 1 << 18
"""Number of pieces that are sorted at once. If the bytes of a message are spread wider, some of its
packets stand too late in the file.
"""
_PIECE = np.dtype(
    [(name, np.int64) for name in ("order", "time_ns", "flow", "offset", "at", "size", "row")]
)
"""A stretch of a message: number and time of the packet that completed it; 2 * connection +
direction, and stream offset; place in the file of bytes, and size; row of the message, which is
``_END`` for the FIN of a direction.
"""
_END = 0
_PUSH = 8
_ETHERNET = 1
_LINK, _IPV4, _TCP = 14, 20, 20


class PlainPackets:
    """Keeps messages in plain text, and makes the wanted ones' packets. A context manager."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        """``redactor``: replaces private data by zeros."""
        self._redactor = redactor
        content = (
            "plain text of a TLS connection"
            if redactor is None
            else "redacted messages of a connection"
        )
        self._remark = f"{content}, made by dcpinspect: not captured bytes"
        self._flows: dict[int, _Flow] = {}
        self._kept, self._wanted = LineMarks(), LineMarks()
        self._fresh: list[npt.NDArray[np.void]] = []
        self._ended: list[tuple[int, ...]] = []
        """Ends of directions in the latest batch, which are not sorted in yet."""
        self._ends_of = np.empty(0, np.int64)
        """Connections whose ends are wanted."""
        self._used = 0
        self._window = np.empty(0, _PIECE)
        self._is_read = 0
        self._comments: dict[int, list[str]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._bytes: IO[bytes] = self._stack.enter_context(tempfile.TemporaryFile())
        self._pieces: IO[bytes] = self._stack.enter_context(tempfile.TemporaryFile())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def note(self) -> bytes | None:
        """Remark for the file about its packets; None if none was made."""
        return self._remark.encode() if self._flows else None

    def keep(
        self,
        batch: MessageBatch,
        rows: RowNumbers,
        flow: int,
        first_seq: tuple[int, int],
        carried: CarrierPieces,
    ) -> None:
        """Keeps messages of one direction, by their places in the batch, in order; they are not
        wanted yet.

        ``first_seq``: sequence number of stream offset 0 of both directions. ``carried``: the
        pieces of this direction, in its order.
        """
        rows = rows[~self._kept.has(batch.row[rows])]
        if not len(rows) or not len(carried):
            return
        self._kept.add(batch.row[rows])
        if flow not in self._flows:
            self._flows[flow] = _Flow.of_message(
                batch, int(rows[0]), first_seq[flow % 2], first_seq[1 - flow % 2]
            )
        first, behind, order, time_ns = _stretches(carried)
        data, data_start = (
            (batch.data, batch.start[rows])
            if self._redactor is None
            else _redacted(batch, rows, self._redactor)
        )
        start = batch.stream_offset[rows]
        end = start + batch.length[rows]
        low = np.searchsorted(behind, start, "right")
        counts = np.maximum(np.searchsorted(first, end, "left") - low, 0)
        stretch, message = numbers_of(low, counts)
        pieces = np.empty(len(message), _PIECE)
        pieces["offset"] = np.maximum(start[message], first[stretch])
        pieces["size"] = np.minimum(end[message], behind[stretch]) - pieces["offset"]
        pieces["order"] = order[stretch]
        pieces["time_ns"] = time_ns[stretch]
        pieces["flow"] = flow
        pieces["row"] = batch.row[rows][message]
        source = data_start[message] + pieces["offset"] - start[message]
        size = np.ascontiguousarray(pieces["size"])
        target = np.cumsum(size) - size
        pieces["at"] = self._used + target
        text = np.empty(int(size.sum()), np.uint8)
        copy_pieces(data, source, size, text, target)
        self._append(self._bytes, text)
        self._used += len(text)
        self._fresh.append(pieces)

    def want(self, rows: RowNumbers) -> None:
        """Marks kept messages, by row, as wanted."""
        self._wanted.add(rows)

    def end(self, flow: int, offset: int, packet: int, time_ns: int) -> None:
        """Remembers that a direction ends at a stream offset, as a packet shows: so readers of the
        file see what is missing at its end.
        """
        self._ended.append((packet, time_ns, flow, offset, 0, 0, _END))

    def want_ends(self, connections: IntArray) -> None:
        """Marks the ends of these connections as wanted."""
        self._ends_of = connections

    def comment(self, row: int, text: str) -> None:
        """Adds a comment on a message."""
        self._comments.setdefault(row, []).append(text)

    def settle(self) -> None:
        """Sorts the pieces of a batch, after all its messages were kept."""
        ended = [ended_flow for ended_flow in self._ended if ended_flow[2] in self._flows]
        self._ended = []
        if self._fresh or ended:
            pieces = np.concatenate([*self._fresh, np.array(ended, _PIECE)])
            self._fresh = []
            self._append(
                self._pieces,
                pieces[np.lexsort((pieces["offset"], pieces["flow"], pieces["order"]))],
            )

    def packets(self, before: int | None = None) -> Iterator[tuple[PacketBatch, dict[int, str]]]:
        """Yields packets with comments, whose places are before packet ``before`` of the reading;
        None: all remaining ones. Each packet comes once.
        """
        self.settle()
        while True:
            self._fill()
            count = (
                len(self._window)
                if before is None
                else int(np.searchsorted(self._window["order"], before))
            )
            if not count:
                return
            pieces, self._window = np.split(self._window, [min(count, TOGETHER)])
            is_end = (pieces["row"] == _END) & np.isin(pieces["flow"] // 2, self._ends_of)
            pieces = pieces[is_end | self._wanted.has(pieces["row"])]
            if len(pieces):
                yield self._made(pieces)

    def _fill(self) -> None:
        if len(self._window) > WINDOW // 2:
            return
        self._pieces.seek(self._is_read)
        read = self._pieces.read(WINDOW * _PIECE.itemsize)
        if read:
            self._is_read += len(read)
            pieces = np.concatenate((self._window, np.frombuffer(read, _PIECE)))
            self._window = pieces[np.argsort(pieces["order"], kind="stable")]

    def _append(self, file: IO[bytes], array: npt.NDArray[np.void] | ByteArray) -> None:
        try:
            file.seek(0, os.SEEK_END)
            file.write(array.tobytes())
            file.flush()
        except OSError as error:
            folder = escape(tempfile.gettempdir())
            problem = (
                f"{folder}: {error.strerror}; plain text is kept there until it is written, "
                "TMPDIR names another folder"
            )
            raise OutputError(problem) from error

    def _made(self, pieces: npt.NDArray[np.void]) -> tuple[PacketBatch, dict[int, str]]:
        """Returns the packets of sorted pieces; pieces that follow each other share a packet."""
        flow, offset, data_at, size, order = (
            np.ascontiguousarray(pieces[name]) for name in ("flow", "offset", "at", "size", "order")
        )
        begins = np.ones(len(pieces), np.bool_)
        begins[1:] = (flow[1:] != flow[:-1]) | (order[1:] != order[:-1])
        for column in (offset, data_at):
            begins[1:] |= column[1:] != column[:-1] + size[:-1]
        run = offset[np.maximum.accumulate(np.where(begins, np.arange(len(pieces)), 0))]
        cell = (offset - run) // MOST
        begins[1:] |= cell[1:] != cell[:-1]
        is_end = pieces["row"] == _END
        begins |= is_end
        first = np.flatnonzero(begins)
        sizes = np.add.reduceat(size, first)
        flows, offsets, is_end = flow[first], offset[first], is_end[first]
        text, piece = self._text(data_at[first], sizes)
        numbers, flow_number = np.unique(flows, return_inverse=True)
        known_flows = [self._flows[number] for number in numbers.tolist()]
        segments = _Segments(known_flows, flow_number, sizes)
        copy_pieces(text, piece, sizes, segments.data, segments.payload)
        segments.complete(
            offsets,
            self._reached(flows, offsets + sizes + is_end),
            np.where(is_end, ACK | FIN, ACK | _PUSH),
        )
        sizes_and_times = segments.length, segments.length, pieces["time_ns"][first]
        batch = PacketBatch(
            data=segments.data,
            columns=np.stack((segments.start, *sizes_and_times, np.full(len(first), _ETHERNET))),
            file=0,
            first_frame=1,
            first_packet=int(order[first[0]]),
            file_offset=0,
            packet=order[first],
        )
        comments: dict[int, list[str]] = {}
        for number, flow_entry in zip(numbers.tolist(), known_flows, strict=True):
            if not flow_entry.is_remarked:
                flow_entry.is_remarked = True
                comments.setdefault(int(np.flatnonzero(flows == number)[0]), []).append(
                    self._remark
                )
        commented = (
            np.flatnonzero(np.isin(pieces["row"], list(self._comments))) if self._comments else ()
        )
        for piece in commented[::-1]:  # a message has its comments at its last packet
            texts = self._comments.pop(int(pieces["row"][piece]), [])
            comments.setdefault(int(np.searchsorted(first, piece, "right")) - 1, []).extend(texts)
        return batch, {piece: "\n".join(texts) for piece, texts in comments.items() if texts}

    def _text(self, at: IntArray, size: IntArray) -> tuple[ByteArray, IntArray]:
        """Returns a stretch of the file of bytes, and where the pieces begin in it."""
        there = np.flatnonzero(size)
        if not len(there):
            return np.empty(0, np.uint8), at
        begin, end = int(at[there].min()), int((at + size)[there].max())
        self._bytes.flush()
        return np.memmap(
            self._bytes, np.uint8, "r", offset=begin, shape=(end - begin,)
        ), np.maximum(at - begin, 0)

    def _reached(self, flows: IntArray, end: IntArray) -> IntArray:
        """Returns, for each packet, how far the other direction has come. Must be called with all
        packets once, in order.
        """
        order = np.argsort(flows // 2, kind="stable")  # sorts by connection
        flow, end = flows[order], end[order]
        # where the packets of each packet's connection begin
        begin = np.searchsorted(flow // 2, flow // 2)
        reached = np.zeros(len(flow), np.int64)
        for direction in (0, 1):
            sends = flow % 2 == direction
            last = np.maximum.accumulate(np.where(sends, np.arange(len(flow)), -1))
            opposites, opposite_index = np.unique(flow[~sends] ^ 1, return_inverse=True)
            earlier = np.array(
                [
                    self._flows[opposite].end if opposite in self._flows else 0
                    for opposite in opposites.tolist()
                ],
                np.int64,
            )
            reached[order[~sends]] = np.where(
                (last >= begin)[~sends], end[last][~sends], earlier[opposite_index]
            )
        for number in unique(flow).tolist():
            self._flows[number].end = int(end[flow == number][-1])
        return reached


@dataclasses.dataclass(slots=True)
class _Flow:
    """One direction of a connection for which packets are made."""

    header: ByteArray
    """Headers of its packets, with everything that is the same in all of them."""
    seq: int
    """Sequence number of stream offset 0."""
    ack: int
    """Sequence number of stream offset 0 in the other direction."""
    end: int = 0
    """Stream offset up to which packets were made."""
    is_remarked: bool = False

    @staticmethod
    def of_message(batch: MessageBatch, index: int, seq: int, ack: int) -> _Flow:
        """Returns the direction of a message."""
        number = int(batch.connection[index]) - 1
        ends = [batch.endpoints.client[number], batch.endpoints.server[number]]
        (source, from_port), (target, to_port) = (
            text.rsplit(":", 1) for text in (ends if batch.direction[index] == 0 else ends[::-1])
        )
        hosts = [ipaddress.ip_address(host.strip("[]")) for host in (source, target)]
        addresses = b"".join(host.packed for host in hosts)
        if len(addresses) == 8:
            kind = 0x0800
            network = struct.pack(">BBHHHBBH", 0x45, 0, 0, 0, 0x4000, 64, 6, 0) + addresses
        else:
            kind, network = 0x86DD, struct.pack(">IHBB", 6 << 28, 0, 6, 64) + addresses
        tcp = struct.pack(">HHIIBBHHH", int(from_port), int(to_port), 0, 0, 0x50, 0, 0xFFFF, 0, 0)
        header = np.frombuffer(bytes(12) + struct.pack(">H", kind) + network + tcp, np.uint8)
        return _Flow(header, max(seq, 0), max(ack, 0))


class _Segments:
    """The bytes of packets, each at an even place, because checksums add words of two bytes."""

    def __init__(self, flows: Sequence[_Flow], which: IntArray, sizes: IntArray) -> None:
        """``which``: each packet's flow, as its place in ``flows``. ``sizes``: of payloads."""
        self._flows, self._which = flows, which
        self._header = np.array([len(flow.header) for flow in flows])[which]
        self.length: IntArray = self._header + sizes
        even = self.length + self.length % 2
        self.start: IntArray = np.cumsum(even) - even
        self.data: ByteArray = np.zeros(int(even.sum()) + 2, np.uint8)
        self.payload: IntArray = self.start + self._header

    def complete(self, seq: IntArray, ack: IntArray, flags: IntArray) -> None:
        """Writes the headers of packets whose payload is complete. ``seq`` and ``ack`` are stream
        offsets of the two directions.
        """
        for number, flow in enumerate(self._flows):
            starts = self.start[self._which == number]
            self.data[starts[:, None] + np.arange(len(flow.header))] = flow.header
        tcp = self.payload - _TCP
        bases = np.array([(flow.seq, flow.ack) for flow in self._flows], np.int64)[self._which]
        self._write(tcp + 4, bases[:, 0] + seq, 4)
        self._write(tcp + 8, bases[:, 1] + ack, 4)
        self._write(tcp + 13, flags, 1)
        is_v4 = self._header == _LINK + _IPV4 + _TCP
        network, end = self.start + _LINK, self.start + self.length
        self._write(network[is_v4] + 2, (end - network)[is_v4], 2)
        self._write(network[is_v4] + 10, self._sum(network, network + _IPV4)[is_v4], 2)
        self._write(network[~is_v4] + 4, (end - tcp)[~is_v4], 2)
        pseudo = 6 + end - tcp  # protocol, length, and the addresses, which stand before the ports
        self._write(tcp + 16, self._sum(tcp - np.where(is_v4, 8, 32), end, pseudo), 2)

    def _write(self, at: IntArray, values: IntArray, width: int) -> None:
        for byte in range(width):
            self.data[at + byte] = values >> 8 * (width - 1 - byte) & 0xFF

    def _sum(self, start: IntArray, end: IntArray, more: IntArray | int = 0) -> IntArray:
        """Returns the Internet checksum of these ranges, which do not overlap."""
        edges = np.stack((start, end + end % 2), axis=1).reshape(-1) // 2
        sums: IntArray = np.add.reduceat(self.data.view(">u2").astype(np.int64), edges)
        folded = sums[::2] + more
        for _ in range(3):
            folded = (folded & 0xFFFF) + (folded >> 16)
        checksum: IntArray = folded ^ 0xFFFF
        return checksum


def _stretches(carried: CarrierPieces) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Returns the stretches of ``carried``, each once and with at most ``MOST`` bytes.

    The columns are: first offset, one past the last, number and time of the packet that completed
    the stretch and those before it.
    """
    first, behind, packet, time_ns = (
        carried[name] for name in ("first", "behind", "packet", "time_ns")
    )
    first, rows = np.unique(first, return_index=True)
    behind = behind[rows]
    packet = np.maximum.reduceat(packet, rows)
    time_ns = np.maximum.reduceat(time_ns, rows)
    packet, time_ns = np.maximum.accumulate(packet), np.maximum.accumulate(time_ns)
    piece, stretch = numbers_of(0, -(-(behind - first) // MOST))
    first = first[stretch] + MOST * piece
    return first, np.minimum(first + MOST, behind[stretch]), packet[stretch], time_ns[stretch]


def _redacted(
    batch: MessageBatch, rows: RowNumbers, redactor: Redactor
) -> tuple[ByteArray, IntArray]:
    """Returns the bytes of these messages with zeros for private data, and where each begins."""
    batch = batch.redacted(redactor)
    texts = [
        batch.annotate(index).data.ljust(int(batch.length[index]), b"\0") for index in rows.tolist()
    ]
    sizes = np.array([len(text) for text in texts], np.int64)
    return np.frombuffer(b"".join(texts), np.uint8), np.cumsum(sizes) - sizes
