"""The packets that chosen messages came in, as a capture of their own.

While the captures are read, the packets wanted are marked, a bit each; then the captures are read again and what is marked is written. What
comes through a pipe cannot be read again, so its packets are kept in a temporary file meanwhile.

Of TLS the packets wanted are those of whole records, which nobody could open otherwise. Its secrets are written for who asks for them, and
never copied from the captures.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Self

import numpy as np

from dcpinspect.capture.batch import Column, PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcapng_writer import PcapNgWriter, Sink
from dcpinspect.errors import OutputError
from dcpinspect.escape import escape
from dcpinspect.export.handshakes import Handshakes
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.transport.chunk import StreamChunk

_OPENING = np.array([Opcode.HELLO, Opcode.SELECT_BUCKET, Opcode.DCP_OPEN, Opcode.DCP_CONTROL], dtype=np.uint8)
"""What a connection agrees on before it streams, and what follows cannot be read without; not what it says to log in."""
MAX_OPENING = 64
"""Such messages of a connection that are remembered."""


@dataclass(frozen=True, slots=True)
class PacketWishes:
    """How packets are written."""

    with_handshakes: bool = False
    """With how the connections began."""
    with_secrets: bool = False
    """With the secrets of the connections of TLS, and how they began, without which nobody can use them."""

    @property
    def is_private(self) -> bool:
        """The file is for its owner alone."""
        return self.with_secrets


class Marks:
    """A set of packets, by number over the whole reading: a bit each."""

    def __init__(self) -> None:
        self._bits = np.zeros(1024, np.uint8)

    def add(self, packets: Column) -> None:
        """Add packets."""
        if not len(packets):
            return
        need = int(packets.max()) // 8 + 1
        if need > len(self._bits):
            self._bits = np.concatenate((self._bits, np.zeros(max(need, 2 * len(self._bits)) - len(self._bits), np.uint8)))
        np.bitwise_or.at(self._bits, packets >> 3, (1 << (packets & 7)).astype(np.uint8))

    def within(self, first: int, count: int) -> Column:
        """Those of ``count`` packets from ``first`` on, as numbers from 0 on."""
        start = first // 8
        bits = np.unpackbits(self._bits[start : (first + count) // 8 + 1], bitorder="little")[first - 8 * start :][:count]
        found: Column = np.flatnonzero(bits)
        return found

    @property
    def end(self) -> int:
        """One past the greatest, or 0."""
        used = np.flatnonzero(self._bits)
        return 8 * int(used[-1]) + int(self._bits[used[-1]]).bit_length() if len(used) else 0


@dataclass(slots=True)
class _Flow:
    """Which packet gave which bytes of one direction, of those that a message may still have."""

    parts: list[tuple[Column, Column, Column]] = field(default_factory=list)
    """(first stream offset, one past the last, packet) of segments in stream order; of TLS the offsets are those of the whole record."""

    def packets(self, start: Column, end: Column) -> Column:
        """The packets that gave any of the bytes of these ranges, which are in order and do not overlap."""
        if not self.parts:
            return np.empty(0, np.int64)
        first, behind, packet = (np.concatenate(columns) for columns in zip(*self.parts, strict=True))
        # A segment is wanted if a range begins in it, or one that began before it goes on in it. Those of TLS may overlap.
        place = np.searchsorted(start, behind) - 1  # the last range that begins before the segment ends
        wanted = (place >= 0) & (end[np.maximum(place, 0)] > first)
        found: Column = packet[wanted]
        return found


@dataclass(slots=True)
class _File:
    """What was seen of one file of the reading."""

    first_packet: int
    packets: int = 0
    spool: IO[bytes] | None = None
    writer: PcapNgWriter | None = None


class Subset:
    """Follows a reading, of which it is the ``keeper``; use as a context manager. Give every batch to ``choose``, in order."""

    def __init__(self, wishes: PacketWishes | None = None) -> None:
        self.position = 0
        """Bytes read again so far."""
        self._wishes = wishes or PacketWishes()
        self._with_handshakes = self._wishes.with_handshakes or self._wishes.with_secrets
        self._marks = Marks()
        self._flows: dict[int, _Flow] = {}
        self._files: list[_File] = []
        self._companions: list[tuple[int, int]] = []
        self._connections: set[int] = set()
        self._comments: dict[int, list[str]] = {}
        self._openings: dict[int, list[Column]] = {}
        self._reading: Reading | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def follow(self, reading: Reading) -> None:
        """Say which reading this is the keeper of, before it begins."""
        self._reading = reading

    def keep(self, packets: PacketBatch | None, chunks: Sequence[StreamChunk]) -> None:
        """As ``engine.Keeper`` has it."""
        assert self._reading is not None
        if packets is not None:
            self._note(packets)
        self._companions += self._reading.engine.transport.take_companions()
        self._forget()
        for chunk in chunks:
            first, behind, packet = _origins(chunk)
            if len(first):
                self._flows.setdefault(2 * chunk.connection + chunk.direction, _Flow()).parts.append((first, behind, packet))

    def choose(self, batch: MessageBatch, rows: Rows) -> None:
        """Want the packets of these messages of a batch."""
        self._connections.update(np.unique(batch.connection[rows]).tolist())
        for _, packets in self._packets(batch, rows):
            self._marks.add(packets)
        if self._with_handshakes:
            opening = np.flatnonzero(np.isin(batch.decoded.opcode, _OPENING) & ~batch.decoded.is_server)
            for connection, packets in self._packets(batch, opening):
                known = self._openings.setdefault(connection, [])
                if len(known) < MAX_OPENING:
                    known.append(packets)

    def packets_of(self, batch: MessageBatch, rows: Rows) -> Column:
        """The packets of messages of the latest batch."""
        return np.concatenate([np.empty(0, np.int64), *(packets for _, packets in self._packets(batch, rows))])

    def add(self, packets: Column) -> None:
        """Want these packets."""
        self._marks.add(packets)

    def comment(self, file: int, frame: int, text: str) -> None:
        """Want a packet that was read, by the number of its file from 0 and its own in it, with a comment; it may have several."""
        packet = self._files[file].first_packet + frame - 1
        self._marks.add(np.array([packet]))
        self._comments.setdefault(packet, []).append(text)

    @property
    def names(self) -> list[str]:
        """The captures once more, those that cannot be read again as they were kept."""
        for file in self._files:
            if file.spool is not None:
                file.spool.flush()
        assert self._reading is not None
        names = [file.name for file in self._reading.capture.files]
        kept = [name if file.spool is None else file.spool.name for file, name in zip(self._files, names, strict=False)]
        return kept + names[len(kept) :]

    def write(self, sink: Sink, *, check: Callable[[], None] = lambda: None) -> int:
        """Write the packets wanted as pcapng; how many there are. ``check`` is called now and then, and may raise.

        Raises OutputError when a file has not the packets any more that it had.
        """
        assert self._reading is not None
        transport, tls = self._reading.engine.transport, self._reading.engine.tls.connections
        opened = [tls[connection] for connection in self._connections if connection in tls and tls[connection].is_open]
        for connection in self._connections:
            for packets in self._openings.get(connection, ()):
                self._marks.add(packets)
        for packets in (packets for about in opened for packets in about.own if self._with_handshakes):
            self._marks.add(packets)
        others = np.array(self._companions, dtype=np.int64).reshape(-1, 2)
        self._marks.add(others[np.isin(others[:, 0], self._marks.within(0, self._marks.end)), 1] if len(others) else others[:, 1])
        handshakes = Handshakes(transport, self._connections) if self._with_handshakes else None
        captures = self._reading.capture.files
        writer = PcapNgWriter(sink, list(dict.fromkeys(note for file in captures for note in file.notes)))
        if self._wishes.with_secrets:
            writer.secrets(self._reading.engine.keys.lines(about.secrets for about in opened))
        written = 0
        for file, name in zip(self._files, (file.name for file in captures), strict=False):
            for batch in self._again(file, name):
                check()
                wanted = self._marks.within(batch.first_packet, len(batch))
                if handshakes is not None:
                    wanted = np.union1d(wanted, handshakes.packets(batch))
                writer.write(batch, wanted, self._commented(batch, wanted))
                written += len(wanted)
        return written

    def _commented(self, batch: PacketBatch, wanted: Column) -> dict[int, str]:
        first = batch.first_packet
        found = wanted[np.isin(wanted + first, list(self._comments))].tolist() if self._comments else ()
        return {packet: "\n".join(self._comments[first + packet]) for packet in found}

    @property
    def size(self) -> int | None:
        """Bytes that ``write`` reads, if that is known."""
        return self._reading.capture.size if self._reading is not None else None

    def _packets(self, batch: MessageBatch, rows: Rows) -> Iterator[tuple[int, Column]]:
        """(connection, packets) of these messages, for each direction of each connection."""
        assert self._reading is not None
        turned = np.array(sorted(self._reading.engine.turned), dtype=np.int64)
        connection = batch.connection[rows]
        direction = batch.direction[rows] ^ np.isin(connection, turned)
        of_flow = 2 * connection + direction
        for flow in np.unique(of_flow).tolist():
            here = rows[of_flow == flow]
            start = batch.stream_offset[here]
            order = np.argsort(start)
            if flow in self._flows:
                yield flow // 2, self._flows[flow].packets(start[order], (start + batch.length[here])[order])

    def _forget(self) -> None:
        """Drop what no message that comes has any bytes of."""
        assert self._reading is not None
        engine = self._reading.engine
        for number, flow in list(self._flows.items()):
            flow.parts = [part for part in flow.parts if not engine.is_told(number // 2, number % 2, int(part[1][-1]))]
            if not flow.parts:
                del self._flows[number]

    def _note(self, packets: PacketBatch) -> None:
        """Count the packets, and keep those that cannot be read again."""
        assert self._reading is not None
        while len(self._files) <= packets.file:
            file = _File(packets.first_packet - (packets.first_frame - 1))
            self._files.append(file)
            if self._reading.capture.files[len(self._files) - 1].storage == "stream":
                spool = tempfile.NamedTemporaryFile(prefix="dcpinspect-", suffix=".pcapng")  # noqa: SIM115 - closed with the stack
                file.spool = self._stack.enter_context(spool)
                file.writer = PcapNgWriter(file.spool)
        file = self._files[packets.file]
        file.packets = packets.first_frame - 1 + len(packets)
        if file.writer is not None and file.spool is not None:
            try:
                file.writer.write(packets)
            except OSError as error:
                folder = escape(os.path.dirname(file.spool.name))
                what = (
                    f"{folder}: {error.strerror}; what comes through a pipe is kept there until it is written, TMPDIR names another folder"
                )
                raise OutputError(what) from error

    def _again(self, file: _File, name: str) -> Iterator[PacketBatch]:
        """The packets of a file, numbered as before, as far as any is wanted."""
        last = self._marks.end if not self._with_handshakes else file.first_packet + file.packets
        wanted = min(file.packets, last - file.first_packet)
        if wanted <= 0:
            return
        if file.spool is not None:
            file.spool.flush()
        before, done = self.position, 0
        with open_capture(name if file.spool is None else file.spool.name) as capture:
            for batch in capture:
                self.position = before + capture.position
                yield dataclasses.replace(batch, first_packet=file.first_packet + done)
                done += len(batch)
                if done >= wanted:
                    return
        raise OutputError(f"{escape(name)}: changed while it was read, so its packets are not those that were shown; nothing was written")


def _origins(chunk: StreamChunk) -> tuple[Column, Column, Column]:
    """As ``_Flow.parts``."""
    if chunk.carriers is not None:
        first, behind, packet, _ = chunk.carriers
        return first, behind, packet
    segments = chunk.segments
    behind = np.append(segments.offset[1:], chunk.offset + len(chunk.data))
    given = (segments.frame > 0) & (behind > segments.offset)
    return segments.offset[given], behind[given], segments.packet[given]
