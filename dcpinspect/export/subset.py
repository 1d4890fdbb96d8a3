"""The packets that chosen messages came in, as a capture of their own.

While the captures are read, the packets wanted are marked, a bit each; then the captures are read again and what is marked is written. What
comes through a pipe cannot be read again, so its packets are kept in a temporary file meanwhile.

Of TLS the packets wanted are those of whole records, which nobody could open otherwise. Its secrets are written for those who ask for them,
and never copied from the captures. If plain text is asked for instead, packets are made of the messages (``plain_packets``).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, NamedTuple, Self

import numpy as np

from dcpinspect.capture.batch import Column, PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcapng_writer import PcapNgWriter, Sink
from dcpinspect.errors import OutputError
from dcpinspect.escape import escape
from dcpinspect.export.handshakes import Handshakes
from dcpinspect.export.marks import Marks
from dcpinspect.export.plain_packets import Origins, PlainPackets
from dcpinspect.export.whole import Chosen, WholeTalks
from dcpinspect.findings.finding import Place
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.temporary import named_file
from dcpinspect.transport.chunk import StreamChunk

_OPENING = np.array([Opcode.HELLO, Opcode.SELECT_BUCKET, Opcode.DCP_OPEN, Opcode.DCP_CONTROL], dtype=np.uint8)
"""What a connection agrees on before it streams, and what follows cannot be read without; not what it says to log in."""
_NONE = np.empty(0, np.int64)
MAX_OPENING = 64
"""Such messages of a connection that are remembered."""


@dataclass(frozen=True, slots=True)
class PacketWishes:
    """How packets are written."""

    with_handshakes: bool = False
    """With how the connections began."""
    with_secrets: bool = False
    """With the secrets of the connections of TLS, and how they began, without which nobody can use them."""

    decrypted: bool = False
    """Messages of TLS in plain text, in packets that are made of them, in place of those that were captured."""
    redactor: Redactor | None = None
    """For ``decrypted``: packets are made of all messages, without what it would replace."""

    @property
    def is_private(self) -> bool:
        """The file is for its owner alone."""
        return self.with_secrets or self.decrypted


class Kept(NamedTuple):
    """Where messages are to be found."""

    packets: Column
    """Numbers of packets."""
    rows: Column
    """Numbers of messages of which packets will be made."""


@dataclass(slots=True)
class _Flow:
    """Which packet gave which bytes of one direction, of those that a message may still have."""

    parts: list[Origins] = field(default_factory=list)
    """Segments in stream order; of TLS the offsets are those of the whole record."""

    @property
    def origins(self) -> Origins:
        """All of them."""
        first, behind, packet, time_ns = (np.concatenate(columns) for columns in zip(*self.parts, strict=True))
        return first, behind, packet, time_ns

    def packets(self, start: Column, end: Column) -> Column:
        """The packets that gave any of the bytes of these ranges, which are in order and do not overlap."""
        first, behind, packet, _ = self.origins
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
        self._chosen = Chosen()
        self._comments: dict[int, list[str]] = {}
        self._openings: dict[int, list[Kept]] = {}
        self._reading: Reading | None = None
        self._plain = PlainPackets(self._wishes.redactor) if self._wishes.decrypted else None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._plain is not None:
            self._stack.enter_context(self._plain)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def follow(self, reading: Reading) -> None:
        """Say which reading this is the keeper of, before it begins."""
        self._reading = reading

    def keep(self, packets: PacketBatch | None, chunks: Sequence[StreamChunk]) -> None:
        """As ``engine.Keeper`` has it."""
        assert self._reading is not None
        if self._plain is not None:
            self._plain.settle()
        if packets is not None:
            self._note(packets)
        self._companions += self._reading.engine.transport.take_companions()
        self._forget()
        for chunk in chunks:
            origins = _origins(chunk)
            if len(origins[0]):
                self._flows.setdefault(2 * chunk.connection + chunk.direction, _Flow()).parts.append(origins)
            if (
                self._plain is not None
                and chunk.is_end
                and len(origins[0])
                and self._reading.engine.transport.has_fin(chunk.connection, chunk.direction)
            ):
                (packet, time_ns) = (int(column[-1]) for column in origins[2:])
                self._plain.end(2 * chunk.connection + chunk.direction, chunk.offset + len(chunk.data), packet, time_ns)

    def choose(self, batch: MessageBatch, rows: Rows) -> None:
        """Want the packets of these messages of a batch."""
        self._chosen.feed(batch, rows)
        self._connections.update(np.unique(batch.connection[rows]).tolist())
        for _, kept in self._kept(batch, rows):
            self.add(kept)
        if self._with_handshakes:
            opening = np.flatnonzero(np.isin(batch.decoded.opcode, _OPENING) & ~batch.decoded.is_server)
            for connection, kept in self._kept(batch, opening):
                known = self._openings.setdefault(connection, [])
                if len(known) < MAX_OPENING:
                    known.append(kept)

    def kept(self, batch: MessageBatch, rows: Rows) -> list[Kept]:
        """Messages of the latest batch, which may be wanted later."""
        return [kept for _, kept in self._kept(batch, rows)]

    def add(self, kept: Kept) -> None:
        """Want these messages."""
        self._marks.add(kept.packets)
        if self._plain is not None:
            self._plain.want(kept.rows)

    def comment(self, place: Place, text: str) -> None:
        """Want the last packet of a message that was read, with a comment; it may have several."""
        if self._plain is not None and self._is_made(place.connection):
            self._plain.comment(place.row, text)
            return
        packet = self._files[place.file].first_packet + place.frame - 1
        self._marks.add(np.array([packet]))
        self._comments.setdefault(packet, []).append(text)

    def _is_made(self, connection: int) -> bool:
        """Packets are made of the messages of a connection."""
        assert self._reading is not None
        about = self._reading.engine.tls.connections.get(connection)
        return self._plain is not None and (self._wishes.redactor is not None or (about is not None and about.is_open))

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
        made = {connection for connection in self._connections if self._is_made(connection)}
        if self._plain is not None:
            self._plain.want_ends(made)
        for connection in self._connections:
            for kept in self._openings.get(connection, ()):
                self.add(kept)
        for packets in (packets for about in opened for packets in about.own if self._with_handshakes and self._plain is None):
            self._marks.add(packets)
        pairs = self._chosen.whole(transport.pair_of_connection, np.array(sorted(made), np.int64)) if self._reading.is_through else _NONE
        others = np.array(self._companions, dtype=np.int64).reshape(-1, 2)
        is_wanted = np.isin(others[:, 0], self._marks.within(0, self._marks.end)) | (len(pairs) > 0)
        self._marks.add(others[is_wanted, 1])
        # Without TCP's handshake no reader would believe a direction of one message.
        begun = self._connections if self._with_handshakes else made
        handshakes = Handshakes(transport, begun, bare=made) if begun else None
        talks = [finder for finder in (handshakes, WholeTalks(transport, pairs) if len(pairs) else None) if finder is not None]
        captures = self._reading.capture.files
        notes = [note for file in captures for note in file.notes]
        if self._plain is not None and self._plain.note is not None:
            notes.append(self._plain.note)
        writer = PcapNgWriter(sink, list(dict.fromkeys(notes)))
        if self._wishes.with_secrets:
            writer.secrets(self._reading.engine.keys.lines(about.secrets for about in opened))
        written = 0
        for file, name in zip(self._files, (file.name for file in captures), strict=False):
            for batch in self._again(file, name, is_whole=bool(talks)):
                check()
                wanted = self._marks.within(batch.first_packet, len(batch))
                for finder in talks:
                    wanted = np.union1d(wanted, finder.packets(batch))
                written += self._write(writer, batch, wanted)
        for plain, comments in self._plain.packets() if self._plain is not None else ():
            check()
            writer.write(plain, comments=comments)
            written += len(plain)
        return written

    def _write(self, writer: PcapNgWriter, batch: PacketBatch, wanted: Column) -> int:
        """Write packets of a batch, and those whose places are before its end that were made; how many there are."""
        written = len(wanted)
        for plain, comments in self._plain.packets(batch.first_packet + len(batch)) if self._plain is not None else ():
            before, wanted = np.split(wanted, [int(np.searchsorted(batch.first_packet + wanted, plain.packets[-1], "right"))])
            both, order = _joined(batch, before, plain)
            said = {len(before) + place: text for place, text in comments.items()}
            for index, text in self._commented(batch, before).items():
                said[int(np.searchsorted(before, index))] = text
            writer.write(both, order, said)
            written += len(plain)
        writer.write(batch, wanted, self._commented(batch, wanted))
        return written

    def _commented(self, batch: PacketBatch, wanted: Column) -> dict[int, str]:
        first = batch.first_packet
        found = wanted[np.isin(wanted + first, list(self._comments))].tolist() if self._comments else ()
        return {packet: "\n".join(self._comments[first + packet]) for packet in found}

    @property
    def size(self) -> int | None:
        """Bytes that ``write`` reads, if that is known."""
        return self._reading.capture.size if self._reading is not None else None

    def _kept(self, batch: MessageBatch, rows: Rows) -> Iterator[tuple[int, Kept]]:
        """(connection, messages) of these, for each direction of each connection."""
        assert self._reading is not None
        transport = self._reading.engine.transport
        turned = np.array(sorted(self._reading.engine.turned), dtype=np.int64)
        connection = batch.connection[rows]
        direction = batch.direction[rows] ^ np.isin(connection, turned)
        of_flow = 2 * connection + direction
        for flow in np.unique(of_flow).tolist():
            if flow not in self._flows:
                continue
            here = rows[of_flow == flow]
            here = here[np.argsort(batch.stream_offset[here])]
            if self._plain is not None and self._is_made(flow // 2):
                self._plain.keep(batch, here, flow, transport.first_seq(flow // 2), self._flows[flow].origins)
                yield flow // 2, Kept(_NONE, batch.row[here])
            else:
                start = batch.stream_offset[here]
                yield flow // 2, Kept(self._flows[flow].packets(start, start + batch.length[here]), _NONE)

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
                file.spool = self._stack.enter_context(named_file(".pcapng"))
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

    def _again(self, file: _File, name: str, *, is_whole: bool) -> Iterator[PacketBatch]:
        """The packets of a file, numbered as before, as far as any is wanted, or all that were read."""
        last = file.first_packet + file.packets if is_whole else self._marks.end
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


def _joined(batch: PacketBatch, rows: Column, made: PacketBatch) -> tuple[PacketBatch, Column]:
    """(packets of a batch and such as were made in one batch, their order)."""
    packet = np.concatenate((batch.first_packet + rows, made.packets))
    options = np.zeros(len(packet), np.int64)
    if batch.options is not None:
        options[: len(rows)] = batch.options[rows]
    captured, wire, time_ns, link_type = (
        np.concatenate((old[rows], new))
        for old, new in (
            (batch.captured, made.captured),
            (batch.wire, made.wire),
            (batch.time_ns, made.time_ns),
            (batch.link_type, made.link_type),
        )
    )
    both = dataclasses.replace(
        made,
        data=np.concatenate((batch.data, made.data)),
        offset=np.concatenate((batch.offset[rows], len(batch.data) + made.offset)),
        captured=captured,
        wire=wire,
        time_ns=time_ns,
        link_type=link_type,
        options=options,
        packet=packet,
    )
    return both, np.argsort(packet, kind="stable")


def _origins(chunk: StreamChunk) -> Origins:
    """As ``_Flow.parts``."""
    if chunk.carriers is not None:
        first, behind, packet, time_ns = chunk.carriers
        return first, behind, packet, time_ns
    segments = chunk.segments
    behind = np.append(segments.offset[1:], chunk.offset + len(chunk.data))
    given = (segments.frame > 0) & (behind > segments.offset)
    given[-1:] |= chunk.is_end  # of no bytes
    return segments.offset[given], behind[given], segments.packet[given], segments.time_ns[given]
