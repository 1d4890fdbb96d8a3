"""Writes the packets that carried chosen messages, as a capture of their own.

While the captures are read, wanted packets are marked, one bit each. Then the captures are read
again, and marked packets are written. Data from a pipe cannot be read again, so its packets are
kept in a temporary file meanwhile.

For TLS, the packets of whole records are wanted, because nobody could decrypt parts of them. TLS
secrets are written only on request, and are never copied from the captures. If plain text is asked
for instead, packets are made from the messages (``plain_packets``).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import field, replace
from typing import IO, NamedTuple, Self

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, unique
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.merging import joined
from dcpinspect.capture.open import BATCH_BYTES, open_capture
from dcpinspect.capture.pcapng_writer import PcapNgWriter, Sink
from dcpinspect.errors import OutputError
from dcpinspect.findings.finding import MessagePlace
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.export.carriers import Carriers, LineMarks, ends
from dcpinspect.output.export.handshakes import (
    ChosenCounts,
    Handshakes,
    HeadersAgain,
    Openings,
    SeenAgain,
)
from dcpinspect.output.export.plain_packets import PlainPackets
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.first_bytes import BriefMessages
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.temporary import named_file
from dcpinspect.text import escape
from dcpinspect.transport.chunk import StreamChunk

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class PacketWishes:
    """How packets are written."""

    with_handshakes: bool = False
    """Whether the handshakes of connections are written, too."""
    with_secrets: bool = False
    """Whether the secrets of TLS connections are written, with the handshakes, without which nobody
    can use them.
    """

    decrypted: bool = False
    """Whether messages of TLS are written in plain text, in packets made from them, instead of the
    captured packets.
    """
    redactor: Redactor | None = None
    """For ``decrypted``: packets are made from all messages, private data is replaced by zeros, and
    comments are left out.
    """

    @property
    def is_private(self) -> bool:
        """Whether only the owner may read the file."""
        return self.with_secrets or self.decrypted


class KeptPackets(NamedTuple):
    """Where the bytes of messages are."""

    packets: IntArray
    """Numbers of packets."""
    rows: IntArray
    """Rows of messages from which packets will be made."""


@dataclass(slots=True)
class _File:
    """What was read of one file of the reading."""

    spool: IO[bytes] | None = None
    writer: PcapNgWriter | None = None
    packets: int = 0
    first: bytes = b""
    """The bytes of its first packet."""
    runs: list[tuple[int, int]] = field(default_factory=list)
    """Runs of packets that follow each other: how many packets of the file are before each one, and
    the number of its first packet over the whole reading.
    """

    def note(self, numbers: IntArray) -> None:
        """Notes the file's next packets, by their numbers over the whole reading."""
        apart = np.flatnonzero(np.diff(numbers, prepend=-2) != 1)
        last = self.runs[-1] if self.runs else (0, -1)
        for start in apart.tolist():
            before, number = self.packets + start, int(numbers[start])
            if number - last[1] != before - last[0]:
                last = before, number
                self.runs.append(last)
        self.packets += len(numbers)

    def packet(self, frame: int) -> int:
        """Returns the number over the whole reading of the packet in a frame."""
        before, number = self.runs[bisect_right(self.runs, frame - 1, key=lambda run: run[0]) - 1]
        return number + frame - 1 - before


class Subset:
    """Follows a reading as its ``keeper``, within ``with``. Give batches to ``choose`` in order."""

    def __init__(self, wishes: PacketWishes | None = None) -> None:
        self.position = 0
        """Number of bytes that were read again so far."""
        self._wishes = wishes or PacketWishes()
        self._with_handshakes = self._wishes.with_handshakes or self._wishes.with_secrets
        self._marks = LineMarks()
        self._carriers = Carriers()
        self._files: list[_File] = []
        self._end = 0
        self._companions: list[tuple[int, int]] = []
        self._connections = LineMarks()
        self._whole: IntArray = _NONE
        self._chosen = ChosenCounts()
        self._comments: dict[int, list[str]] = {}
        self._moments: dict[tuple[int, int], str] = {}
        self._openings = Openings()
        self._reading: Reading
        """The reading that is followed."""
        self._plain = PlainPackets(self._wishes.redactor) if self._wishes.decrypted else None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._plain is not None:
            self._stack.enter_context(self._plain)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # nobody wants what could not be written to temporary files by now
            self._stack.close()

    def follow(self, reading: Reading) -> None:
        """Sets the reading that this is the keeper of, before it begins."""
        self._reading = reading

    def keep(
        self,
        packets: PacketBatch | None,
        chunks: Sequence[StreamChunk],
        briefs: Sequence[BriefMessages],
    ) -> None:
        """Takes packets, chunks and messages; see ``engine.Keeper``."""
        if self._plain is not None:
            self._plain.settle()
        if packets is not None:
            self._note(packets)
        self._companions += self._reading.engine.transport.take_companions()
        self._carriers.forget(self._reading.engine.held_from)
        self._carriers.add(chunks, briefs)
        if self._plain is not None:
            for end in ends(chunks, briefs):
                if self._reading.engine.transport.has_fin(end.flow // 2, end.flow % 2):
                    self._plain.end(*end)

    def choose(self, batch: MessageBatch, rows: RowNumbers) -> None:
        """Marks the packets of these messages of a batch as wanted."""
        self._chosen.feed(batch, rows)
        self._connections.add(batch.connection[rows])
        self.add(self.locate(batch, rows))
        if self._with_handshakes:
            opening = self._openings.fresh(batch)
            carried, packets, made = self._where(batch, opening)
            self._openings.add(
                batch.connection[opening[carried]], packets, batch.connection[made], batch.row[made]
            )

    def locate(self, batch: MessageBatch, rows: RowNumbers) -> KeptPackets:
        """Returns where messages of the latest batch are, so that they can be marked later."""
        _, packets, made = self._where(batch, rows)
        return KeptPackets(packets, batch.row[made])

    def add(self, kept: KeptPackets) -> None:
        """Marks these messages as wanted."""
        self._marks.add(kept.packets)
        if self._plain is not None:
            self._plain.want(kept.rows)

    def comment(self, message: MessagePlace, text: str) -> None:
        """Marks the last packet of a message as wanted, and adds a comment to it; a packet can have
        several comments.
        """
        if self._plain is not None and self._is_made(message.connection):
            self._plain.comment(message.row, text)
            return
        packet = self._files[message.file].packet(message.frame)
        self._marks.add(np.array([packet]))
        self._comments.setdefault(packet, []).append(text)

    def add_connections(self, connections: Sequence[int]) -> None:
        """Marks all packets of connections as wanted, also those without bytes, and of others on
        the same addresses. Those from whose messages packets are made have none.
        """
        self._whole = np.array(
            [number for number in connections if not self._is_made(number)], np.int64
        )
        self._connections.add(self._whole)

    def add_moment(self, connection: int, time_ns: int, text: str) -> None:
        """Marks the packets of a connection at a time as wanted, whether or not they carry a
        message, and adds a comment to them.
        """
        if not self._is_made(connection):
            self._connections.add(np.array([connection]))
            self._moments[connection, time_ns] = text

    def _is_made(self, connection: int) -> bool:
        """Whether packets are made from the messages of a connection."""
        return bool(self._are_made(np.array([connection]))[0])

    def _are_made(self, connections: IntArray) -> BoolArray:
        """Returns, for each of these connections, whether packets are made from its messages."""
        if self._plain is None:
            return np.zeros(len(connections), np.bool_)
        if self._wishes.redactor is not None:
            return np.ones(len(connections), np.bool_)
        open_connections = [
            connection
            for connection, about in self._reading.engine.tls.connections.items()
            if about.is_open
        ]
        return np.isin(connections, np.array(open_connections, np.int64))

    @property
    def names(self) -> list[str]:
        """Names of the captures to read again; for captures that cannot be read again, of the files
        in which they were kept.
        """
        for file in self._files:
            if file.spool is not None:
                file.spool.flush()
        names = self._reading.files
        file_names = [
            name if file.spool is None else file.spool.name
            for file, name in zip(self._files, names, strict=False)
        ]
        return file_names + names[len(file_names) :]

    def _notes(self) -> list[bytes]:
        """Returns the notes of the captures, none of which comes through redaction, and our own."""
        captures = self._reading.capture.files if self._wishes.redactor is None else ()
        notes = [note for file in captures for note in file.notes]
        if self._plain is not None and self._plain.note is not None:
            notes.append(self._plain.note)
        return list(dict.fromkeys(notes))

    def write(self, sink: Sink, *, check: Callable[[], None] = lambda: None) -> int:
        """Writes the wanted packets as pcapng, and returns their number. ``check`` is called now
        and then, and may raise an error.

        Raises OutputError if a file does not have its packets any more.
        """
        transport, tls = self._reading.engine.transport, self._reading.engine.tls.connections
        selected = self._connections.within(0, self._connections.end)
        open_tls = [
            about
            for connection, about in sorted(tls.items())
            if about.is_open and self._connections.has(np.array([connection]))[0]
        ]
        made = selected[self._are_made(selected)]
        if self._plain is not None:
            self._plain.want_ends(made)
        self.add(KeptPackets(*self._openings.of_connections(self._connections)))
        if self._with_handshakes and self._plain is None:
            for about in open_tls:
                for packets in about.own:
                    self._marks.add(packets)
        pairs = (
            self._chosen.complete_pairs(transport.pair_of_connection, made)
            if self._reading.is_through
            else _NONE
        )
        pairs = np.union1d(pairs, transport.pair_of_connection[self._whole - 1])
        companions = np.array(self._companions, dtype=np.int64).reshape(-1, 2)
        is_wanted = np.isin(companions[:, 0], self._marks.within(0, self._marks.end)) | (
            len(pairs) > 0
        )
        self._marks.add(companions[is_wanted, 1])
        # without a TCP handshake, no reader would believe a direction with one message
        begun = selected if self._with_handshakes else made
        handshakes = Handshakes(transport, begun, bare=made) if len(begun) else None
        looks = handshakes is not None or len(pairs) > 0 or len(self._moments) > 0
        again = HeadersAgain(transport) if looks else None
        writer = PcapNgWriter(sink, self._notes())
        if self._wishes.with_secrets:
            writer.secrets(self._reading.engine.keys.lines(about.secrets for about in open_tls))
        written = 0
        for batch in self._again(is_whole=looks):
            check()
            selected = self._marks.within(batch.first_packet, len(batch))
            if again is not None:
                seen = again.seen(batch)
                of_pairs = seen.headers.index[np.isin(seen.pair, pairs)]
                positions = [selected, of_pairs, self._packets_at_moments(batch, seen)]
                if handshakes is not None:
                    positions.append(handshakes.packets(batch, seen))
                selected = unique(np.concatenate(positions))
            written += self._write(writer, batch, selected)
        for plain, comments in self._plain.packets() if self._plain is not None else ():
            check()
            writer.write(plain, comments=comments)
            written += len(plain)
        return written

    def _packets_at_moments(self, batch: PacketBatch, seen: SeenAgain) -> IntArray:
        """Returns the positions of packets of the connections and times of ``add_moment``, which
        get their comments.
        """
        pair_of = self._reading.engine.transport.pair_of_connection
        texts = {
            (int(pair_of[connection - 1]), time_ns): text
            for (connection, time_ns), text in self._moments.items()
        }
        times, positions = batch.time_ns[seen.headers.index], list[int]()
        wanted = np.array([time_ns for _, time_ns in texts], np.int64)
        for row in np.flatnonzero(np.isin(times, wanted)).tolist():
            text = texts.get((int(seen.pair[row]), int(times[row])))
            if text is not None:
                positions.append(int(seen.headers.index[row]))
                self._comments.setdefault(batch.first_packet + positions[-1], []).append(text)
        return np.array(positions, np.int64)

    def _write(self, writer: PcapNgWriter, batch: PacketBatch, packet_numbers: IntArray) -> int:
        """Writes packets of a batch, and made packets whose places are before its end. Returns
        their number.
        """
        written = len(packet_numbers)
        for plain, comments in (
            self._plain.packets(batch.first_packet + len(batch)) if self._plain is not None else ()
        ):
            before, packet_numbers = np.split(
                packet_numbers,
                [
                    int(
                        np.searchsorted(
                            batch.first_packet + packet_numbers, plain.packets[-1], "right"
                        )
                    )
                ],
            )
            captured = [batch.packets_of_file(before, batch.file)] if len(before) else []
            packets = np.concatenate((batch.first_packet + before, plain.packets))
            both = joined([*captured, plain], np.arange(len(packets)))
            comment_of = {
                len(before) + packet_index: text for packet_index, text in comments.items()
            }
            for index, text in self._commented(batch, before).items():
                comment_of[int(np.searchsorted(before, index))] = text
            writer.write(both, np.argsort(packets, kind="stable"), comment_of)
            written += len(plain)
        writer.write(batch, packet_numbers, self._commented(batch, packet_numbers))
        return written

    def _commented(self, batch: PacketBatch, wanted: IntArray) -> dict[int, str]:
        first = batch.first_packet
        commented = (
            wanted[np.isin(wanted + first, list(self._comments))].tolist() if self._comments else ()
        )
        return {packet: "\n".join(self._comments[first + packet]) for packet in commented}

    @property
    def size(self) -> int | None:
        """Number of bytes that ``write`` reads, if known."""
        return self._reading.capture.size

    def _where(
        self, batch: MessageBatch, rows: RowNumbers
    ) -> tuple[RowNumbers, IntArray, RowNumbers]:
        """Returns all pairs of a place among these messages and a packet with any of its bytes, and
        the messages from which packets are made.
        """
        transport = self._reading.engine.transport
        turned = np.array(sorted(self._reading.engine.turned), dtype=np.int64)
        connection = batch.connection[rows]
        flow = 2 * connection + (batch.direction[rows] ^ np.isin(connection, turned))
        is_made = self._are_made(connection)
        made = rows[is_made]
        if self._plain is not None and len(made):
            order = np.lexsort((batch.stream_offset[made], flow[is_made]))
            flows, begin = np.unique(flow[is_made][order], return_index=True)
            for number, message_rows in zip(
                flows.tolist(), np.split(made[order], begin[1:]), strict=True
            ):
                self._plain.keep(
                    batch,
                    message_rows,
                    number,
                    transport.first_seq(number // 2),
                    self._carriers.of_flow(number),
                )
        captured_rows = np.flatnonzero(~is_made)
        start = batch.stream_offset[rows[captured_rows]]
        row_index, packets = self._carriers.packets(
            flow[captured_rows], start, start + batch.length[rows[captured_rows]]
        )
        return captured_rows[row_index], packets, made

    def _note(self, packets: PacketBatch) -> None:
        """Notes where the packets are, and keeps those that cannot be read again."""
        files, numbers = packets.files, packets.packets
        for number in np.unique(files).tolist():
            while len(self._files) <= number:
                self._files.append(_File())
                if self._reading.capture.files[len(self._files) - 1].storage == "stream":
                    spool = self._stack.enter_context(named_file(".pcapng"))
                    self._files[-1].spool, self._files[-1].writer = spool, PcapNgWriter(spool)
            rows, file = np.flatnonzero(files == number), self._files[number]
            if not file.packets:
                file.first = packets.bytes_of(int(rows[0]))
            file.note(numbers[rows])
            if file.writer is not None and file.spool is not None:
                try:
                    file.writer.write(packets, rows)
                    file.spool.flush()
                except OSError as error:
                    folder = escape(os.path.dirname(file.spool.name))
                    problem = (
                        f"{folder}: {error.strerror}; what comes through a pipe is kept there "
                        "until it is written, TMPDIR names another folder"
                    )
                    raise OutputError(problem) from error
        self._end = packets.first_packet + len(packets)

    def _again(self, *, is_whole: bool) -> Iterator[PacketBatch]:
        """Yields the packets in the same order, up to the last wanted one, or all that were read."""
        end, done = self._end if is_whole else min(self._end, self._marks.end), 0
        if not end:
            return
        names = self.names[: len(self._files)]
        batch_bytes = getattr(self._reading.capture, "batch_bytes", BATCH_BYTES)
        with open_capture(names, batch_bytes=batch_bytes) as capture:
            if (surveyed := self._reading.options["surveyed"]) is not None:
                capture.set_clocks(surveyed.ahead_ns, surveyed.goes_on)
            for batch in capture:
                self.position = capture.position
                for number, row in zip(*np.unique(batch.files, return_index=True), strict=True):
                    is_begin = capture.files[number].packets == 0
                    if is_begin and self._files[number].first != batch.bytes_of(int(row)):
                        raise _changed(capture.files[number].name)
                # comments may quote anything
                yield batch if self._wishes.redactor is None else replace(batch, options=None)
                done = batch.first_packet + len(batch)
                if done >= end:
                    return
            fewer = (
                name
                for name, file, again in zip(names, self._files, capture.files, strict=True)
                if again.packets < file.packets
            )
        raise _changed(next(fewer))


def _changed(name: str) -> OutputError:
    return OutputError(
        f"{escape(name)}: changed while it was read, so its packets are not those that "
        "were shown; nothing was written"
    )
