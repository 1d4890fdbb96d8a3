"""One direction of a TLS connection: cipher text with holes in, plain text with holes out.

After a hole it looks for the next record header. It tries the sequence numbers that the hole may
have held until the tag of the record verifies. So only the records that the hole hit are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from dcpinspect.arrays import unique
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.transport.chunk import (
    C2S,
    NOWHERE,
    S2C,
    SCATTERED,
    StreamChunk,
    StreamEntries,
    rows_of,
)
from dcpinspect.transport.tls.alerts import CLOSE_NOTIFY
from dcpinspect.transport.tls.connection import Closing, TlsConnection
from dcpinspect.transport.tls.handshake import (
    CERTIFICATE,
    CLIENT_HELLO,
    EARLY_DATA,
    FINISHED,
    KEY_UPDATE,
    SERVER_HELLO,
    HandshakeReader,
    Hello,
    first_certificate,
    hello_of,
)
from dcpinspect.transport.tls.key_search import outward
from dcpinspect.transport.tls.suites import OpenedRecord, Protection, Suite, Tls13
from dcpinspect.transport.tls.tls_records import (
    ALERT,
    ANY_RECORD,
    APPLICATION,
    CHANGE_CIPHER,
    HANDSHAKE_RECORD,
    HEADER,
    MOST_RECORD,
    RECORD,
    TLS12,
    TLS13,
    record_end,
    whole_records,
)

BURST = 200_000
BYTES_A_TRIAL = 16
"""A direction starts with ``BURST`` trials, and gets one more for each ``BYTES_A_TRIAL`` bytes that
come; trials of long records cost more.

So bytes that look like records everywhere, and records of other keys, cannot hold up a reading. A
hole of 4 MiB takes 20,000 trials at most.
"""
MOST_INSIDE = 100
"""Greatest number of new handshakes of a connection that are followed."""
TRIALS = 20_000
"""Number of sequence numbers that are tried after a hole."""
_KEY_UPDATE_SIZE = HEADER + 5 + 1 + 16
"""Size in bytes of a record with a KeyUpdate: the message, its type, the tag."""


@dataclass(slots=True)
class _CapturedRun:
    """Captured bytes without a hole."""

    start: int
    data: bytearray
    at: int = 0
    """Number of bytes of ``data`` that were read."""

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class TlsDirection:
    """One direction of a connection: cipher text in, plain text out."""

    def __init__(self, number: int, about: TlsConnection) -> None:
        self.number = number
        """``C2S`` or ``S2C``."""
        self.is_ended = False
        self.is_lost = False
        """Whether it is unknown where the next record begins, or which number it has."""
        self.wants_keys = False
        """Whether a new handshake of TLS 1.2 changed the keys: ``renew`` has to come first."""
        self.inside: list[Hello] = []
        """Hellos of new handshakes, which were encrypted, in order."""
        self._about = about
        self._runs: list[_CapturedRun] = []
        self._segments: list[StreamEntries] = []
        self._chain: list[Protection] = []
        self._place = -1
        """Place in the chain of the keys in use; -1: no keys are used, records are plain."""
        self._sequence = 0
        self._suite: Suite | None = None
        self._was_handshake = False
        """Whether other keys were in use before what was lost."""
        self._reader = HandshakeReader()
        self._hello_reader = HandshakeReader()
        self._hello_at = 0
        self._has_told = False
        """Whether the alerts in plain text are noted."""
        self._offset = 0
        """Bytes of plain text so far, including holes."""
        self._next_record = 0
        """Cipher offset where the next record begins, if a damaged record's header says so."""
        self._refused = 0
        self._lost_records = 0
        self._lost_bytes = 0
        """Counted since the last record that was opened: ``_lost_records``, records known to be
        lost whole; ``_lost_bytes``, all cipher bytes lost.
        """
        self._is_start = False
        self._has_begun = False
        self._sampled: tuple[int, list[int], int] | None = None
        """The sample: number of its run, starts of the records in its row, its place in the row."""
        self.sampled_by = 0
        """Number of the packet by which there was a sample, or of the last one if there was none.
        """
        self._released = 0
        """Greatest number of a packet that made any of the plain text so far readable."""
        self._records = about.records[number]
        self._credit = BURST * BYTES_A_TRIAL
        """Trials that are left, in bytes."""
        self._earned = 0
        """Cipher offset up to which bytes have given trials."""
        self._sealed = self._sizes = 0
        """Number of records that keys opened, and of their cipher bytes."""
        # What one call of ``open`` makes.
        self._texts: list[bytes] = []
        self._spans: list[tuple[int, int, int, int, int]] = []
        """For each text: cipher offset of its record, of its first byte, of its record's end; plain
        offset; size in bytes.
        """
        self._breaks: list[tuple[int, int, int]] = []
        """For each hole of plain text: texts before it, plain offset of its end, size."""
        self._own: list[tuple[int, int]] = []
        """For each record without plain text: cipher offset of its start and of its end."""

    def begin(self, chain: Sequence[Protection], suite: Suite) -> None:
        """Sets the keys, in the order in which they come into use."""
        self._chain = list(chain)
        self._suite = suite

    def renew(self, keys: Protection | None, suite: Suite) -> None:
        """Sets the keys of the new handshake; None: they are unknown, so nothing more is opened."""
        self.wants_keys = False
        self.begin([] if keys is None else [keys], suite)
        self._place, self._sequence = 0, 0

    def add(self, chunk: StreamChunk) -> None:
        """Takes more cipher text."""
        data, start, end = chunk.data, chunk.offset, chunk.offset + len(chunk.data)
        for hole, after in (*chunk.holes, (end, end)):
            if hole > start:
                piece = data[start - chunk.offset : hole - chunk.offset].tobytes()
                if self._runs and self._runs[-1].end == start:
                    self._runs[-1].data += piece
                else:
                    self._runs.append(_CapturedRun(start, bytearray(piece)))
            start = max(start, after)
        if not self._has_begun and (len(data) or chunk.is_end):
            self._has_begun = True
            self._is_start = chunk.is_start
            self.is_lost = not chunk.is_start or bool(chunk.holes and chunk.holes[0][0] == 0)
        self._segments.append(chunk.segments)
        self.is_ended |= chunk.is_end

    def hellos(self) -> Iterator[tuple[int, bytes]]:
        """Yields the handshake messages in plain text that have come since the last call."""
        if not self._runs or self.is_lost:
            return
        run = self._runs[0]
        data = run.data
        while self._hello_at + HEADER <= len(data) and data[self._hello_at] in self._in_plain:
            end = record_end(data, self._hello_at)
            if end > len(data):
                return
            if data[self._hello_at] == ALERT and end == self._hello_at + HEADER + 2:
                self._alert(bytes(data[end - 2 : end]))
                self._has_told = True
            elif data[self._hello_at] == HANDSHAKE_RECORD:
                yield from self._hello_reader.feed(bytes(data[self._hello_at + HEADER : end]))
            self._hello_at = end

    @property
    def _in_plain(self) -> tuple[int, ...]:
        """Types of the records that are in plain text until the first one of another type; a change
        of ciphers may follow a retry.
        """
        return (HANDSHAKE_RECORD, ALERT, *((CHANGE_CIPHER,) if self._about.server is None else ()))

    @property
    def may_go_on_in_plain(self) -> bool:
        """Whether the next record may be handshake in plain text, as far as has come."""
        if self.is_ended or self.is_lost or len(self._runs) > 1:
            return False
        data = self._runs[0].data if self._runs else b""
        return self._hello_at >= len(data) or data[self._hello_at] in self._in_plain

    @property
    def waiting(self) -> int:
        """Number of bytes that were not opened."""
        return sum(len(run.data) - run.at for run in self._runs)

    def sample(self) -> bytes | None:
        """Returns a whole, small record of application data from what waits, to find keys by; None
        if there is none.

        The record is in the second half of its row, since the first records may have the keys of
        the handshake. The row ends with the first KeyUpdate, since later records have other keys.
        """
        segments = self._joined_segments()
        for run_number, run in enumerate(self._runs):
            rows = whole_records(run.data)
            if rows:
                sizes = [end - start for start, end in rows]
                if _KEY_UPDATE_SIZE in sizes:
                    rows = rows[: sizes.index(_KEY_UPDATE_SIZE) + 1]
                sample_row = min(
                    range(len(rows) // 2, len(rows)), key=lambda row: rows[row][1] - rows[row][0]
                )
                self._sampled = run_number, [start for start, _ in rows], sample_row
                first_ends = run.start + rows[0][1]
                self.sampled_by = int(
                    segments.release[np.searchsorted(segments.offset, first_ends - 1, "right") - 1]
                )
                return bytes(run.data[slice(*rows[sample_row])])
        self.sampled_by = int(segments.release.max(initial=0))
        return None

    def begin_at(self, keys: Tls13, sequence: int) -> None:
        """Sets the keys, and the number that the sample has under them. What comes before the row
        of the sample is lost.
        """
        assert self._sampled is not None
        self.not_before(self.sampled_by)
        run_number, starts, sample_row = self._sampled
        self.begin([keys], keys.suite)
        first = max(0, sample_row - sequence)  # records before it have other keys, of the handshake
        self._place, self._sequence = 0, sequence - (sample_row - first)
        self._was_handshake = self._sequence == 0
        for run, following in pairwise(self._runs[: run_number + 1]):
            self._lose(following.start, run)
        del self._runs[:run_number]
        self._step(self._runs[0], starts[first])
        self.is_lost = False

    @property
    def is_tls12(self) -> bool:
        """Whether what waits can only be TLS 1.2: its records are counted in plain text, as with
        AES-GCM.
        """
        for run in self._runs:
            rows = whole_records(run.data)
            counts = [
                int.from_bytes(run.data[start + HEADER : start + HEADER + 8], "big")
                for start, _ in rows
            ]
            if len(rows) > 2 and all(later == earlier + 1 for earlier, later in pairwise(counts)):
                return True
        return False

    def not_before(self, release: int) -> None:
        """Says which packet made it possible to open what has come. So nothing counts as readable
        by an earlier packet.
        """
        self._released = max(self._released, release)

    def open(self, latest: StreamChunk) -> Iterator[StreamChunk]:
        """Yields the plain text of the cipher text that has come."""
        self._texts, self._spans, self._breaks, self._own = [], [], [], []
        done = 0
        for run, following in pairwise([*self._runs, None]):
            assert run is not None
            self._read(run, is_last=following is None)
            if self.wants_keys:
                break
            if following is None and not self.is_ended:
                if run.at > MOST_RECORD:
                    del run.data[: run.at]
                    run.start, run.at = run.start + run.at, 0
                break
            self._lose(run.end if following is None else following.start, run)
            done += 1
        del self._runs[:done]
        yield from self._chunks(latest)

    def _read(self, run: _CapturedRun, *, is_last: bool) -> None:
        """Opens the records of a run, up to one that is not complete."""
        data = run.data
        if self._next_record > run.start + run.at:
            self._step(run, min(len(data), self._next_record - run.start))
            if self._next_record > run.end:
                return
        while not self.wants_keys:
            if self.is_lost and not self._find(run, is_last=is_last):
                return
            record_start = run.at
            if record_start + HEADER > len(data):
                return
            end = record_end(data, record_start)
            if not RECORD.match(data, record_start) or end - record_start > MOST_RECORD:
                self.is_lost = True
                self._reader.lose()
                continue
            if end > len(data):
                if not is_last:
                    self._next_record = run.start + end
                    self._lost_records += 1
                return
            record = bytes(data[record_start:end])
            run.at = end
            if not self._open(record, run.start + record_start):
                self._refuse(record)

    def _open(self, record: bytes, offset: int) -> bool:
        """Opens a record whose place is certain; returns False if no key opens it."""
        kind = record[0]
        if self._place < 0 and (self._chain or kind != APPLICATION):
            return self._open_plain(kind, record, offset)
        if not self._chain:
            return False
        if kind == CHANGE_CIPHER and self._suite is not None and self._suite.version == TLS13:
            self._count(record, offset)
            return True
        opened_record = self._chain[self._place].open(self._sequence, record)
        return self._take_record(opened_record or self._try(record, offset), record, offset)

    def _open_plain(self, kind: int, record: bytes, offset: int) -> bool:
        """Takes a record before keys are in use."""
        assert self._suite is not None
        if self._suite.version == TLS13 and kind == APPLICATION:
            self._place, self._sequence = 0, 0
            return self._open(record, offset)
        if kind == CHANGE_CIPHER:
            if self._suite.version == TLS12:
                self._place, self._sequence = 0, 0
            self._count(record, offset)
            return True
        if self._suite.version == TLS12 and (kind == APPLICATION or self.is_lost):
            return self._take_record(self._try(record, offset), record, offset)
        if kind == ALERT and len(record) == HEADER + 2 and not self._has_told:
            self._alert(record[HEADER:])
        self._count(record, offset)
        return True

    def _count(self, record: bytes, offset: int) -> None:
        self._own.append((offset, offset + len(record)))
        self._records.opened += 1
        self._records.overhead += len(record)

    def _try(self, record: bytes, offset: int) -> OpenedRecord | None:
        """Tries other sequence numbers, and keys that may have come into use, after a loss; sets
        both if they fit.
        """
        assert self._suite is not None
        self._earn(offset + len(record))
        most = self._lost_bytes // (HEADER + 16) + 2 if self._lost_bytes or self.is_lost else 1
        likely = min(
            most - 1, int(self._lost_bytes / (self._sizes / self._sealed if self._sealed else 400))
        )
        for chain_index in range(max(0, self._place), len(self._chain)):
            is_same = chain_index == self._place
            first = self._sequence if is_same else 0
            ahead = self._ahead(
                self._chain[chain_index],
                record,
                first,
                outward(self._lost_records if is_same else 0, likely, min(most, TRIALS)),
            )
            if ahead is not None:
                self._was_handshake = not is_same
                self._place, self._sequence, self._lost_records = chain_index, first + ahead, ahead
                return self._chain[chain_index].open(self._sequence, record)
        last = self._chain[-1]
        if (
            isinstance(last, Tls13)
            and self._place == len(self._chain) - 1
            and self._lost_bytes
            and self._credit > 0
        ):
            following = last.next()
            ahead = self._ahead(following, record, 0, range(min(most, TRIALS)))
            if ahead is not None:
                self._chain[-1] = following
                self._sequence = self._lost_records = ahead
                return following.open(ahead, record)
        return None

    def _earn(self, offset: int) -> None:
        """Adds trials for the bytes up to an offset, whatever chunk the bytes came in."""
        self._credit = min(self._credit + max(0, offset - self._earned), BURST * BYTES_A_TRIAL)
        self._earned = max(self._earned, offset)

    def _cost(self, size: int) -> int:
        """Returns the cost of a trial of a record, in bytes that give trials."""
        assert self._suite is not None
        return BYTES_A_TRIAL * self._suite.trial_cost * (1 + size // 4096)

    def _ahead(
        self, keys: Protection, record: bytes, first: int, numbers: Iterable[int]
    ) -> int | None:
        """Returns which of these numbers, counted from ``first``, a record has under some keys;
        None for none, or if no trials are left.
        """
        cost = self._cost(len(record))
        for ahead in numbers:
            self._credit -= cost
            if self._credit < 0:
                self._credit = 0
                return None
            if keys.open(first + ahead, record) is not None:
                return ahead
        return None

    def _take_record(self, opened: OpenedRecord | None, record: bytes, offset: int) -> bool:
        """Takes a record that was opened; returns False for one that no key opens."""
        if opened is None:
            return False
        (kind, plain), records = opened, self._records
        self._sequence += 1
        records.opened += 1
        self._sealed += 1
        self._sizes += len(record)
        self._end_loss()
        if not plain or kind != APPLICATION:
            self._own.append((offset, offset + len(record)))
        if kind == APPLICATION:
            records.plain += len(plain)
            records.overhead += len(record) - len(plain)
            if plain:
                assert self._suite is not None
                self._texts.append(plain)
                self._spans.append(
                    (
                        offset,
                        offset + HEADER + self._suite.lead,
                        offset + len(record),
                        self._offset,
                        len(plain),
                    )
                )
                self._offset += len(plain)
            return True
        records.overhead += len(record)
        if kind == ALERT and len(plain) == 2:
            self._alert(plain)
            if plain[1] == CLOSE_NOTIFY and records.close is None:
                segments = self._joined_segments()
                row = int(np.searchsorted(segments.offset, offset, "right")) - 1
                packet = segments.packet
                records.close = Closing(
                    int(packet.number[row]),
                    int(packet.frame[row]),
                    int(packet.file[row]),
                    int(packet.time[row]),
                )
        elif kind == HANDSHAKE_RECORD:
            for message, body in self._reader.feed(plain):
                self._handshake(message, body)
        elif kind == CHANGE_CIPHER and not isinstance(
            self._chain[self._place], Tls13
        ):  # in TLS 1.3 it means nothing
            self.wants_keys = True
        return True

    def _handshake(self, kind: int, body: bytes) -> None:
        if (
            kind == CERTIFICATE
            and self._about.certificate is None
            and self._about.sides[self.number] == S2C
        ):
            self._about.certificate = first_certificate(
                body, has_context=self._about.version == TLS13
            )
        keys = self._chain[self._place]
        if not isinstance(keys, Tls13):
            hello = hello_of(kind, body) if kind in (CLIENT_HELLO, SERVER_HELLO) else None
            if hello is not None and len(self.inside) < MOST_INSIDE:
                self.inside.append(hello)
            return
        if kind == FINISHED and self._place + 1 < len(self._chain):
            self._place, self._sequence = self._place + 1, 0
        elif kind == KEY_UPDATE:
            self._chain[self._place], self._sequence = keys.next(), 0

    def _alert(self, body: bytes) -> None:
        if len(self._records.alerts) < 10:
            self._records.alerts.append((body[0], body[1]))

    def _refuse(self, record: bytes) -> None:
        """Takes a whole record that no key opens: it is damaged, or has other keys."""
        if self._may_be_early():
            self._records.early += 1
            self._records.overhead += len(record)
            return
        self._records.refused += 1
        self._refused += 1
        self._records.overhead += len(record)
        self._lost_bytes += len(record)
        self._lost_records += 1
        self._reader.lose()

    def _may_be_early(self) -> bool:
        """Returns whether a record may be early data: before its handshake is over, a client may
        send what only other keys open.
        """
        client = self._about.client
        is_first = self._place == 0 and not self._sequence and not self._lost_bytes
        return (
            is_first
            and client is not None
            and EARLY_DATA in client.extensions
            and self._about.sides[self.number] == C2S
        )

    def _lose(self, following: int, run: _CapturedRun) -> None:
        """Gives up the rest of a run, and the hole behind it up to ``following``."""
        unread_bytes = len(run.data) - run.at
        if not unread_bytes and following == run.end:
            return
        self._records.overhead += unread_bytes
        self._lost_bytes += following - run.start - run.at
        self._reader.lose()
        # the hole ends after the record whose header says where the next one begins
        if self._next_record < following:
            self.is_lost = True

    def _end_loss(self) -> None:
        """Makes what was lost before an opened record a hole of the plain text.

        The size is exact if all lost records held application data, whose length the cipher
        reveals.
        """
        was_handshake, self._was_handshake = self._was_handshake, False
        if not self._lost_bytes:
            return
        assert self._suite is not None
        lost, self._lost_bytes = self._lost_bytes, 0
        count, self._lost_records = self._lost_records, 0
        self._records.lost += max(0, count - self._refused)
        self._refused = 0
        # the first record that keys opened, and number 0 under its keys
        is_first = self._sealed == 1 and self._sequence == 1
        if is_first or (was_handshake and count <= (self._suite.version == TLS12)):
            # what was lost is handshake: with TLS 1.2 the first record under the keys is handshake,
            # too
            return
        size = lost - count * (HEADER + self._suite.overhead)
        if count and not size and self._suite.kind != "cbc":
            return  # the records were empty
        size = max(1, size)
        self._offset += size
        # nothing was read between two holes
        if self._breaks and self._breaks[-1][0] == len(self._texts):
            size += self._breaks.pop()[2]
        self._breaks.append((len(self._texts), self._offset, size))

    def _find(self, run: _CapturedRun, *, is_last: bool) -> bool:
        """Looks for the next record that keys open; returns False if it has not come yet."""
        assert self._suite is not None
        data = run.data
        offset = run.at
        while True:
            match = ANY_RECORD.search(data, offset)
            if match is None:
                self._step(
                    run, max(run.at, len(data) - 2) if is_last and not self.is_ended else len(data)
                )
                return False
            offset = match.start()
            if offset + HEADER > len(data):
                self._step(run, offset)
                return False
            end = record_end(data, offset)
            if not HEADER + self._suite.overhead <= end - offset <= MOST_RECORD:
                offset += 1
                continue
            if end > len(data):
                if is_last and not self.is_ended:
                    self._step(run, offset)
                    return False
                offset += 1
                continue
            self._earn(run.start + end)
            if not self._chain or self._credit < self._cost(end - offset):
                offset += 1
                continue
            record = bytes(data[offset:end])
            before = self._lost_bytes, self._lost_records
            self._lost_bytes += offset - run.at
            opened_record = self._try(record, run.start + offset)
            if opened_record is not None:
                self._records.overhead += offset - run.at
                run.at = end
                self.is_lost = False
                return self._take_record(opened_record, record, run.start + offset)
            self._lost_bytes, self._lost_records = before
            offset += 1

    def _step(self, run: _CapturedRun, to: int) -> None:
        """Skips bytes that begin no record."""
        self._lost_bytes += to - run.at
        self._records.overhead += to - run.at
        run.at = to

    def _chunks(self, latest: StreamChunk) -> Iterator[StreamChunk]:
        """Yields what this call opened as chunks: one, one more for each hole, which stands before
        its chunk, and one for the end.
        """
        segments = self._joined_segments()
        starts = [0, *(text_count for text_count, _, _ in self._breaks)]
        ends = [*starts[1:], len(self._texts)]
        holes = [(0, 0), *((end - size, end) for _, end, size in self._breaks)]
        pieces = [
            piece
            for piece in zip(starts, ends, holes, strict=True)
            if piece[1] > piece[0] or piece[2][1]
        ]
        for start, end, hole in pieces:
            yield self._chunk(segments, start, end, hole, is_end=False, latest=latest)
        # by itself, since a message may be certain only by the packet of the end
        if self.is_ended and not self.wants_keys:
            yield self._chunk(segments, 0, 0, (0, 0), is_end=True, latest=latest)
        if self._own and latest.is_placed:
            self._about.own.append(
                unique(
                    segments.packet.number[rows_of(segments, *np.array(self._own, np.int64).T)[0]]
                )
            )
        self._segments = [self._unread_segments(segments)]

    def _chunk(
        self,
        segments: StreamEntries,
        start: int,
        end: int,
        hole: tuple[int, int],
        *,
        is_end: bool,
        latest: StreamChunk,
    ) -> StreamChunk:
        """``hole``: plain offsets of a hole before the texts; (0, 0): there is none."""
        record, cipher, record_end, plain, size = (
            np.array(self._spans[start:end], np.int64).reshape(-1, 5).T
        )
        data = np.frombuffer(b"".join(self._texts[start:end]), np.uint8)
        offset = int(plain[0]) if len(plain) else hole[1] or self._offset
        if len(plain):
            rows, span = rows_of(segments, cipher, cipher + size)
            entries = segments[rows]
            entries.offset = np.maximum(entries.offset, cipher[span]) - cipher[span] + plain[span]
            last = np.searchsorted(segments.offset, record_end - 1, "right") - 1
            entries.release = segments.release[last][span]
        else:
            entries = StreamEntries.zeros(0)
        if (hole[1] or not len(plain)) and len(segments):
            entries = StreamEntries.joined(
                [(entries if len(plain) else segments[-1:])[:1], entries]
            )
            entries.offset[0], entries.packet.frame[0] = hole[0] if hole[1] else offset, 0
        release = np.maximum.accumulate(entries.release)
        entries.release = np.maximum(release, self._released)
        self._released = int(entries.release.max(initial=self._released))
        entries.place = np.where(latest.is_placed & (entries.packet.frame > 0), SCATTERED, NOWHERE)
        is_start, self._is_start = self._is_start and not hole[1], False
        carriers = None
        if latest.is_placed and len(segments):
            rows, span = rows_of(segments, record, record_end)
            number, time = segments.packet.number, segments.packet.time
            carriers = np.stack((plain[span], (plain + size)[span], number[rows], time[rows]))
            if is_end:
                behind = offset + len(data)
                carriers = np.append(carriers, [[behind], [behind], number[-1:], time[-1:]], axis=1)
        return StreamChunk(
            connection=latest.connection,
            direction=self.number,
            offset=offset,
            data=data,
            segments=entries,
            holes=(hole,) if hole[1] else (),
            is_start=is_start,
            is_end=is_end,
            is_placed=latest.is_placed,
            carriers=carriers,
        )

    def _joined_segments(self) -> StreamEntries:
        """Returns the segments of the bytes that were not read yet, as one table."""
        if len(self._segments) != 1:
            self._segments = [StreamEntries.joined(self._segments)]
        return self._segments[0]

    def _unread_segments(self, segments: StreamEntries) -> StreamEntries:
        """Returns the segments of bytes that were not read yet."""
        if not len(segments):
            return segments
        offset = segments.offset
        read_to = self._runs[0].start + self._runs[0].at if self._runs else int(offset[-1])
        first = max(0, int(np.searchsorted(offset, read_to, "right")) - 1)
        return StreamEntries.joined([segments[first:]])
