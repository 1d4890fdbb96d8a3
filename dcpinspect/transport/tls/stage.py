"""The stage between reassembly and framing: of TLS connections whose secrets are known, framing sees the plain text.

Chunks of cipher text with holes become chunks of plain text with holes. Offsets are those of the plain text; packets and times stay those
of the bytes on the wire. What cannot be opened is a hole. Connections without TLS, and those without secrets, pass as they are.

After a hole the stage looks for the next record header, and tries the sequence numbers that the hole can have held until the record's tag
verifies: so it loses the records that were hit, and no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dcpinspect.capture.batch import Column
from dcpinspect.transport.chunk import C2S, NOWHERE, S2C, SCATTERED, Segments, StreamChunk
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
from dcpinspect.transport.tls.keylog import HANDSHAKE, MASTER, TRAFFIC, KeyLog
from dcpinspect.transport.tls.suites import SUITES, TLS12, TLS13, Protection, Suite, Tls13, tls12_keys

CHANGE_CIPHER, ALERT, HANDSHAKE_RECORD, APPLICATION = 20, 21, 22, 23
HEADER = 5
MOST_RECORD = HEADER + (1 << 14) + 2048
"""Bytes of the longest record (RFC 5246, 6.2.3)."""
MOST_WAITING = 256 << 10
"""Bytes of a direction that wait for the other direction's hello, or for secrets that the key log does not have yet."""
TRIALS = 20_000
"""Sequence numbers that are tried after a hole."""
SEARCH = 250_000
"""Secrets and sequence numbers that are tried for a connection that began before the capture: some 2 s."""
_START = re.compile(rb"[\x15\x16]\x03[\x00-\x04]")
_RECORD = re.compile(rb"[\x14-\x17]\x03[\x01-\x03]")
_ANY_RECORD = re.compile(rb"[\x15-\x17]\x03\x03")
_SMALL_SUITES = tuple(suite for suite in SUITES.values() if suite.version == TLS13)


@dataclass(slots=True)
class Records:
    """What became of the records of one direction."""

    opened: int = 0
    lost: int = 0
    """Hit by a hole."""
    refused: int = 0
    """Whole, and not opened by any key."""
    early: int = 0
    """Sent before the handshake was over (RFC 8446, 2.3); these are not opened."""
    plain: int = 0
    """Bytes of plain text handed on."""
    overhead: int = 0
    """Cipher bytes that are no plain text handed on: headers, tags, handshakes, records that were not opened."""
    alerts: list[tuple[int, int]] = field(default_factory=list)
    """Level and description of each, the first ones."""


@dataclass(slots=True)
class TlsConnection:
    """What is known of the TLS of one connection."""

    client: Hello | None = None
    server: Hello | None = None
    suite: Suite | None = None
    version: int = 0
    secrets: Mapping[str, bytes] = field(default_factory=dict)
    is_open: bool = False
    """Its records are opened."""
    is_given_up: bool = False
    """It passes as it is."""
    is_searched: bool = False
    """It began before the capture, and every secret was tried that there is time for."""
    certificate: bytes | None = None
    """Of the server, in DER; None where it was not seen."""
    records: tuple[Records, Records] = field(default_factory=lambda: (Records(), Records()))
    """By direction of the chunks."""
    sides: tuple[int, int] = (C2S, S2C)
    """Who sends in these directions: 0 for the client."""

    @property
    def version_name(self) -> str:
        """``TLS 1.3``; empty where it is not known."""
        number = self.version or (self.server.version if self.server is not None else 0)
        return {0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS12: "TLS 1.2", TLS13: "TLS 1.3"}.get(number, "")

    @property
    def suite_name(self) -> str:
        """``TLS_AES_128_GCM_SHA256``; its number where that cannot be read, and empty where it is not known."""
        if self.suite is not None:
            return self.suite.name
        return f"cipher suite 0x{self.server.suites[0]:04x}" if self.server is not None else ""


class TlsStage:
    """Chunks in, chunks out; by connection."""

    def __init__(self, keys: KeyLog, *, search: int = SEARCH) -> None:
        """``search``: how many secrets and sequence numbers are tried for a connection that began before the capture."""
        self._keys = keys
        self._search = search
        self.connections: dict[int, TlsConnection] = {}
        """Those that look like TLS, by number."""
        self._talks: dict[int, _Talk] = {}
        self._plain: set[int] = set()

    def plain(self, chunks: Iterable[StreamChunk], *, is_last: bool = False) -> Iterator[StreamChunk]:
        """What framing is to see of the chunks; with the last ones, also of those that were held back."""
        for chunk in chunks:
            number = chunk.connection
            if number in self._plain:
                yield chunk
                continue
            talk = self._talks.get(number)
            if talk is None:
                if not self._looks_like_tls(chunk):
                    self._plain.add(number)
                    yield chunk
                    continue
                self.connections[number] = about = TlsConnection()
                talk = self._talks[number] = _Talk(about, self._keys, self._search)
            yield from talk.feed(chunk)
            if talk.is_over:
                del self._talks[number]
                self._plain.add(number)
        if is_last:
            for talk in self._talks.values():
                yield from talk.rest()
            self._talks.clear()

    def text(self, connection: int) -> str | None:
        """Version, cipher suite and what became of the records, in words; None without TLS."""
        about = self.connections.get(connection)
        if about is None:
            return None
        name = ", ".join(part for part in (about.version_name, about.suite_name) if part) or "TLS"
        if not about.is_open:
            return f"{name}: not decrypted"
        opened, lost, refused = (sum(getattr(one, what) for one in about.records) for what in ("opened", "lost", "refused"))
        return f"{name}: {opened:,} records read, {lost:,} lost, {refused:,} refused"

    @property
    def has_keys(self) -> bool:
        """There are secrets."""
        return bool(self._keys)

    def overhead(self, connection: int, direction: int) -> int:
        """Cipher bytes of a direction that are no plain text, so far; of those that chunks had."""
        about = self.connections.get(connection)
        return 0 if about is None or not about.is_open else about.records[direction].overhead

    def _looks_like_tls(self, chunk: StreamChunk) -> bool:
        """A record of a hello or an alert at the start, or records that chain in the middle of a stream."""
        data = chunk.data[: 2 * MOST_RECORD].tobytes()
        if not data:
            return False
        if chunk.is_start:
            return bool(_START.match(data)) or (len(data) < 3 and data[0] == HANDSHAKE_RECORD)
        found = _ANY_RECORD.search(data)
        while found is not None:
            at, chained = found.start(), 0
            while at + HEADER <= len(data) and _RECORD.match(data, at) and data[at + 3] < 0x49:
                at += HEADER + int.from_bytes(data[at + 3 : at + 5], "big")
                chained += 1
            if chained >= 2 or (chained == 1 and at == len(data) and found.start() == 0):
                return True
            found = _ANY_RECORD.search(data, found.start() + 1)
        return False


class _Talk:
    """One connection."""

    def __init__(self, about: TlsConnection, keys: KeyLog, search: int) -> None:
        self._about = about
        self._keys = keys
        self._search = search
        self._sides = (_Side(C2S, about), _Side(S2C, about))
        self._raw: list[StreamChunk] = []
        """As they came, until it is known that they can be opened."""
        self._waiting = 0
        self._client_side = C2S
        self._is_complete = True
        """Every secret is there that may be needed."""
        self.is_over = False
        """Nothing is done with it any more: chunks pass as they are."""

    def feed(self, chunk: StreamChunk) -> Iterator[StreamChunk]:
        about = self._about
        if not about.is_open:
            self._raw.append(chunk)
            self._waiting += len(chunk.data)
        side = self._sides[chunk.direction]
        side.add(chunk)
        if not about.is_open:
            self._learn()
            if not about.is_open:
                is_hopeless = not self._keys and (about.server is not None or about.is_searched)
                if is_hopeless or self._waiting > MOST_WAITING or all(one.is_ended for one in self._sides):
                    about.is_given_up = self.is_over = True
                    yield from self._raw
                return
            self._raw.clear()
            yield from self._sides[self._client_side].open(chunk)
            yield from self._sides[1 - self._client_side].open(chunk)
        else:
            if not self._is_complete:
                self._complete()
            yield from side.open(chunk)
        self.is_over = all(one.is_ended for one in self._sides)

    def rest(self) -> Iterator[StreamChunk]:
        """What was held back, as it came."""
        yield from self._raw
        self._raw.clear()

    def _learn(self) -> None:
        """Reads hellos, and finds keys."""
        about = self._about
        for side in self._sides:
            for kind, body in side.hellos():
                if kind == CERTIFICATE and about.certificate is None and side.direction != self._client_side:
                    about.certificate = first_certificate(body, has_context=False)
                hello = hello_of(kind, body) if kind in (CLIENT_HELLO, SERVER_HELLO) else None
                if hello is None:
                    continue
                if kind == CLIENT_HELLO and about.client is None:
                    about.client, self._client_side = hello, side.direction
                    about.sides = (C2S, S2C) if side.direction == C2S else (S2C, C2S)
                elif kind == CLIENT_HELLO:
                    about.client = hello
                elif kind == SERVER_HELLO and not hello.is_retry and about.server is None:
                    about.server = hello
                    about.version, about.suite = hello.version, SUITES.get(hello.suites[0])
        if about.client is not None and about.server is not None and about.suite is not None:
            about.secrets = self._keys.of(about.client.random, TRAFFIC if about.version == TLS13 else (MASTER,))
            self._take_keys()
        elif about.client is None and not about.is_searched and all(side.has_records or side.is_ended for side in self._sides):
            about.is_searched = True
            self._search_keys()

    def _take_keys(self) -> None:
        about = self._about
        assert about.client is not None
        assert about.server is not None
        assert about.suite is not None
        suite, secrets = about.suite, about.secrets
        if about.version == TLS13 and suite.version == TLS13:
            for role, side in enumerate(self._in_roles()):
                # Of a handshake that fails there are no secrets of traffic, and perhaps none of one side.
                side.begin([Tls13(secrets[label], suite) for label in (HANDSHAKE[role], TRAFFIC[role]) if label in secrets], suite)
                about.is_open |= any(label in secrets for label in (HANDSHAKE[role], TRAFFIC[role]))
            self._is_complete = all(label in secrets for label in TRAFFIC)
        elif about.version == TLS12 and suite.version == TLS12 and MASTER in secrets:
            both = tls12_keys(
                secrets[MASTER],
                about.client.random,
                about.server.random,
                suite,
                encrypts_then_macs=about.server.encrypts_then_macs and about.client.encrypts_then_macs,
            )
            for keys, side in zip(both, self._in_roles(), strict=True):
                side.begin([keys], suite)
            about.is_open = True

    def _complete(self) -> None:
        """Takes secrets of traffic that were written after those of the handshake."""
        about = self._about
        if about.client is None or about.suite is None:
            return
        secrets = self._keys.of(about.client.random, TRAFFIC)
        if all(label in secrets for label in TRAFFIC):
            for role, side in enumerate(self._in_roles()):
                side.add_keys(Tls13(secrets[TRAFFIC[role]], about.suite))
            self._is_complete = True

    def _in_roles(self) -> tuple[_Side, _Side]:
        """Client, server."""
        return self._sides[self._client_side], self._sides[1 - self._client_side]

    def _search_keys(self) -> None:
        """The connection began before the capture: whose records are these?"""
        left = self._search
        for side in self._sides:
            record = side.smallest_record()
            if record is None:
                continue
            for role in (side.direction, 1 - side.direction):
                secrets = self._keys.all_of(TRAFFIC[role])
                suites = [suite for suite in _SMALL_SUITES if suite.kind in ("gcm", "chacha")]
                tries = [Tls13(secret, suite) for secret in secrets[:1000] for suite in suites if len(secret) == _secret_bytes(suite)]
                most = min(1 << 20, left // max(1, len(tries)) // 2)
                for keys in tries:
                    for sequence in range(most):
                        if keys.open(sequence, record) is not None:
                            self._found(keys, role, side)
                            return
                left -= len(tries) * most

    def _found(self, keys: Tls13, role: int, side: _Side) -> None:
        """These keys open a record of a side, which has this role: so those of the other side are known."""
        about, suite = self._about, keys.suite
        for found in self._keys.each():
            if found.get(TRAFFIC[role]) == keys.secret:
                about.secrets = found
        about.version, about.suite = TLS13, suite
        self._client_side = side.direction if role == C2S else 1 - side.direction
        about.sides = (C2S, S2C) if self._client_side == C2S else (S2C, C2S)
        for place, one in enumerate(self._in_roles()):
            secret = about.secrets.get(TRAFFIC[place])
            one.begin([] if secret is None else [Tls13(secret, suite)], suite)
            one.is_lost = True
        about.is_open = True


def _secret_bytes(suite: Suite) -> int:
    return 48 if suite.hash == "sha384" else 32


@dataclass(slots=True)
class _Run:
    """Captured bytes without a hole."""

    start: int
    data: bytearray
    at: int = 0
    """Of the data, what was read."""

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class _Side:
    """One direction of a connection: cipher text in, plain text out."""

    def __init__(self, direction: int, about: TlsConnection) -> None:
        self.direction = direction
        self.is_ended = False
        self.is_lost = False
        """Where the next record begins, or which number it has, is not known."""
        self._about = about
        self._runs: list[_Run] = []
        self._segments: list[Column] = []
        self._chain: list[Protection] = []
        self._place = -1
        """Of the chain, the keys in use; -1: none, records are plain."""
        self._sequence = 0
        self._suite: Suite | None = None
        self._was_handshake = False
        """Other keys were in use before what was lost."""
        self._reader = HandshakeReader()
        self._hello_reader = HandshakeReader()
        self._hello_at = 0
        self._has_told = False
        """The alerts in the open are noted."""
        self._offset = 0
        """Bytes of plain text so far, holes among them."""
        self._next_record = 0
        """Cipher offset where the next record begins, where a record that was hit says so."""
        self._refused = 0
        self._lost_records = 0
        self._lost_bytes = 0
        """Since the last record that was opened: records that are known to be lost whole, and cipher bytes in all."""
        self._is_start = False
        self._has_begun = False
        self._records = about.records[direction]
        self._sizes = 0
        """Cipher bytes of the records that were opened."""
        # What one call makes.
        self._texts: list[bytes] = []
        self._spans: list[tuple[int, int, int, int]] = []
        """Of each text: cipher offset of its first byte, of its record's end, plain offset, bytes."""
        self._breaks: list[tuple[int, int]] = []
        """How many texts were before a hole of plain text, and its bytes."""

    def begin(self, chain: Sequence[Protection], suite: Suite) -> None:
        """The keys, in the order in which they come into use."""
        self._chain = list(chain)
        self._suite = suite

    def add_keys(self, keys: Tls13) -> None:
        """One more at the end of the chain."""
        if not any(isinstance(one, Tls13) and one.secret == keys.secret for one in self._chain):
            self._chain.append(keys)

    @property
    def has_records(self) -> bool:
        """There is enough to try keys on."""
        return sum(len(run.data) for run in self._runs) >= 2 * HEADER and self.smallest_record() is not None

    def add(self, chunk: StreamChunk) -> None:
        """More cipher text."""
        data, at, end = chunk.data, chunk.offset, chunk.offset + len(chunk.data)
        for hole, after in (*chunk.holes, (end, end)):
            if hole > at:
                piece = data[at - chunk.offset : hole - chunk.offset].tobytes()
                if self._runs and self._runs[-1].end == at:
                    self._runs[-1].data += piece
                else:
                    self._runs.append(_Run(at, bytearray(piece)))
            at = max(at, after)
        if not self._has_begun and (len(data) or chunk.is_end):
            self._has_begun = True
            self._is_start = chunk.is_start
            self.is_lost = not chunk.is_start or bool(chunk.holes and chunk.holes[0][0] == 0)
        self._segments.append(chunk.segments.columns)
        self.is_ended |= chunk.is_end

    def hellos(self) -> Iterator[tuple[int, bytes]]:
        """Handshake messages in the open that have come since this was asked."""
        if not self._runs or self.is_lost:
            return
        run = self._runs[0]
        data = run.data
        in_the_open = (HANDSHAKE_RECORD, ALERT, *((CHANGE_CIPHER,) if self._about.server is None else ()))  # it may follow a retry
        while self._hello_at + HEADER <= len(data) and data[self._hello_at] in in_the_open:
            end = self._hello_at + HEADER + int.from_bytes(data[self._hello_at + 3 : self._hello_at + 5], "big")
            if end > len(data):
                return
            if data[self._hello_at] == ALERT and end == self._hello_at + HEADER + 2:
                self._alert(bytes(data[end - 2 : end]))
                self._has_told = True
            elif data[self._hello_at] == HANDSHAKE_RECORD:
                yield from self._hello_reader.feed(bytes(data[self._hello_at + HEADER : end]))
            self._hello_at = end

    def smallest_record(self) -> bytes | None:
        """The smallest whole record of application data in what waits."""
        best: bytes | None = None
        for run in self._runs:
            data = bytes(run.data[: 4 * MOST_RECORD])
            found = _ANY_RECORD.search(data)
            while found is not None:
                at = found.start()
                if at + HEADER > len(data):
                    break
                end = at + HEADER + int.from_bytes(data[at + 3 : at + 5], "big")
                is_followed = end == len(data) or (end + 3 <= len(data) and _RECORD.match(data, end) is not None)
                if data[at] == APPLICATION and end <= len(data) and is_followed and end - at > HEADER + 16:
                    if best is None or end - at < len(best):
                        best = data[at:end]
                    found = _ANY_RECORD.search(data, end)
                else:
                    found = _ANY_RECORD.search(data, at + 1)
        return best

    def open(self, latest: StreamChunk) -> Iterator[StreamChunk]:
        """The plain text of what has come."""
        self._texts, self._spans, self._breaks = [], [], []
        while self._runs:
            run = self._runs[0]
            self._read(run, is_last=len(self._runs) == 1)
            if len(self._runs) == 1 and not self.is_ended:
                if run.at > MOST_RECORD:
                    del run.data[: run.at]
                    run.start, run.at = run.start + run.at, 0
                break
            following = self._runs[1].start if len(self._runs) > 1 else run.end
            self._lose(following, run)
            del self._runs[0]
        yield from self._chunks(latest)

    def _read(self, run: _Run, *, is_last: bool) -> None:
        """Opens the records of a run, up to one that is not there as a whole."""
        data = run.data
        if self._next_record > run.start + run.at:
            self._step(run, min(len(data), self._next_record - run.start))
            if self._next_record > run.end:
                return
        while True:
            if self.is_lost and not self._find(run, is_last=is_last):
                return
            at = run.at
            if at + HEADER > len(data):
                return
            if not _RECORD.match(data, at) or (size := int.from_bytes(data[at + 3 : at + 5], "big")) > MOST_RECORD - HEADER:
                self.is_lost = True
                self._reader.lose()
                continue
            end = at + HEADER + size
            if end > len(data):
                if not is_last:
                    self._next_record = run.start + end
                    self._lost_records += 1
                return
            record = bytes(data[at:end])
            run.at = end
            if not self._open(record, run.start + at):
                self._refuse(record)

    def _open(self, record: bytes, offset: int) -> bool:
        """Opens a record whose place is certain; False where no key does."""
        kind = record[0]
        if self._place < 0 and (self._chain or kind != APPLICATION):
            return self._open_plain(kind, record, offset)
        if not self._chain:
            return False
        if kind == CHANGE_CIPHER and self._suite is not None and self._suite.version == TLS13:
            self._count(record)
            return True
        opened = self._chain[self._place].open(self._sequence, record)
        if opened is None:
            opened = self._try(record)
            if opened is None:
                return False
        self._sequence += 1
        self._take(opened[0], opened[1], record, offset)
        return True

    def _open_plain(self, kind: int, record: bytes, offset: int) -> bool:
        """Before keys are in use."""
        assert self._suite is not None
        if self._suite.version == TLS13 and kind == APPLICATION:
            self._place, self._sequence = 0, 0
            return self._open(record, offset)
        if kind == CHANGE_CIPHER:
            if self._suite.version == TLS12:
                self._place, self._sequence = 0, 0
            self._count(record)
            return True
        if self._suite.version == TLS12 and (kind == APPLICATION or self.is_lost):
            opened = self._try(record)
            if opened is None:
                return False
            self._sequence += 1
            self._take(opened[0], opened[1], record, offset)
            return True
        if kind == ALERT and len(record) == HEADER + 2 and not self._has_told:
            self._alert(record[HEADER:])
        self._count(record)
        return True

    def _count(self, record: bytes) -> None:
        self._records.opened += 1
        self._records.overhead += len(record)

    def _try(self, record: bytes) -> tuple[int, bytes] | None:
        """Other sequence numbers, and the keys that may have come into use, where something was lost; sets both."""
        assert self._suite is not None
        most = self._lost_bytes // (HEADER + 16) + 2 if self._lost_bytes or self.is_lost else 1
        mean = self._sizes / self._records.opened if self._records.opened and self._sizes else 400
        likely = int(self._lost_bytes / mean)
        for place in range(max(0, self._place), len(self._chain)):
            is_same = place == self._place
            first = self._sequence if is_same else 0
            keys = self._chain[place]
            for ahead in _outward(self._lost_records if is_same else 0, likely, min(most, TRIALS)):
                opened = keys.open(first + ahead, record)
                if opened is not None:
                    self._was_handshake = not is_same
                    self._place, self._sequence, self._lost_records = place, first + ahead, ahead
                    return opened
        last = self._chain[-1]
        if isinstance(last, Tls13) and self._place == len(self._chain) - 1 and self._lost_bytes:
            following = last.next()
            for ahead in range(min(most, TRIALS)):
                opened = following.open(ahead, record)
                if opened is not None:
                    self._chain[-1] = following
                    self._sequence = self._lost_records = ahead
                    return opened
        return None

    def _take(self, kind: int, plain: bytes, record: bytes, offset: int) -> None:
        """A record was opened."""
        records = self._records
        records.opened += 1
        self._sizes += len(record)
        self._end_loss()
        if kind == APPLICATION:
            records.plain += len(plain)
            records.overhead += len(record) - len(plain)
            if plain:
                assert self._suite is not None
                lead = HEADER + (0 if self._suite.version == TLS13 else 16 if self._suite.kind == "cbc" else _explicit(self._suite))
                self._texts.append(plain)
                self._spans.append((offset + lead, offset + len(record), self._offset, len(plain)))
                self._offset += len(plain)
            return
        records.overhead += len(record)
        if kind == ALERT and len(plain) == 2:
            self._alert(plain)
        elif kind == HANDSHAKE_RECORD:
            for message, body in self._reader.feed(plain):
                self._handshake(message, body)

    def _handshake(self, kind: int, body: bytes) -> None:
        if kind == CERTIFICATE and self._about.certificate is None and self._about.sides[self.direction] == S2C:
            self._about.certificate = first_certificate(body, has_context=self._about.version == TLS13)
        keys = self._chain[self._place]
        if not isinstance(keys, Tls13):
            return
        if kind == FINISHED and self._place + 1 < len(self._chain):
            self._place, self._sequence = self._place + 1, 0
        elif kind == KEY_UPDATE:
            self._chain[self._place], self._sequence = keys.next(), 0

    def _alert(self, body: bytes) -> None:
        if len(self._records.alerts) < 10:
            self._records.alerts.append((body[0], body[1]))

    def _refuse(self, record: bytes) -> None:
        """A whole record that no key opens: it is damaged, or the keys are others."""
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
        """Before its handshake is over a client may send what only other keys open."""
        client = self._about.client
        is_first = self._place == 0 and not self._sequence and not self._lost_bytes
        return is_first and client is not None and EARLY_DATA in client.extensions and self._about.sides[self.direction] == C2S

    def _lose(self, following: int, run: _Run) -> None:
        """What is left of a run, and the hole behind it, which the bytes from ``following`` on end, cannot be read."""
        left = len(run.data) - run.at
        if not left and following == run.end:
            return
        self._records.overhead += left
        self._lost_bytes += following - run.start - run.at
        self._reader.lose()
        if self._next_record < following:  # the hole is not within one record, whose header says where the next one begins
            self.is_lost = True

    def _end_loss(self) -> None:
        """A record was opened again: what was lost before it is a hole of the plain text.

        Its bytes are exact where all lost records held application data, whose length the cipher gives away.
        """
        if not self._lost_bytes:
            return
        assert self._suite is not None
        lost, self._lost_bytes = self._lost_bytes, 0
        count, self._lost_records = self._lost_records, 0
        self._records.lost += max(0, count - self._refused)
        self._refused = 0
        was_handshake, self._was_handshake = self._was_handshake, False
        if was_handshake and not count:
            return  # the first record under its keys: what was lost is handshake
        size = max(1, lost - count * (HEADER + self._suite.overhead))
        self._breaks.append((len(self._texts), size))
        self._offset += size

    def _find(self, run: _Run, *, is_last: bool) -> bool:
        """Looks for the next record that keys open; False where it has not come yet."""
        data = run.data
        at = run.at
        while True:
            found = _ANY_RECORD.search(data, at)
            if found is None:
                self._step(run, max(run.at, len(data) - 2) if is_last and not self.is_ended else len(data))
                return False
            at = found.start()
            if at + HEADER > len(data):
                self._step(run, at)
                return False
            size = int.from_bytes(data[at + 3 : at + 5], "big")
            end = at + HEADER + size
            if size > MOST_RECORD - HEADER or size < 17:
                at += 1
                continue
            if end > len(data):
                if is_last and not self.is_ended:
                    self._step(run, at)
                    return False
                at += 1
                continue
            record = bytes(data[at:end])
            before = self._lost_bytes, self._lost_records
            self._lost_bytes += at - run.at
            opened = self._try(record) if self._chain else None
            if opened is not None:
                self._records.overhead += at - run.at
                self._sequence += 1
                run.at = end
                self.is_lost = False
                self._take(opened[0], opened[1], record, run.start + at)
                return True
            self._lost_bytes, self._lost_records = before
            at += 1

    def _step(self, run: _Run, to: int) -> None:
        """Bytes that begin no record."""
        self._lost_bytes += to - run.at
        self._records.overhead += to - run.at
        run.at = to

    def _chunks(self, latest: StreamChunk) -> Iterator[StreamChunk]:
        """What was opened in this call, as chunks: one, and one more for each hole, which stands in front of it."""
        columns = self._segments[0] if len(self._segments) == 1 else np.concatenate(self._segments, axis=1)
        starts = [0, *(place for place, _ in self._breaks)]
        ends = [*starts[1:], len(self._texts)]
        holes = [0, *(size for _, size in self._breaks)]
        pieces = [one for one in zip(starts, ends, holes, strict=True) if one[1] > one[0] or one[2]]
        for start, end, hole in pieces:
            is_last = (start, end, hole) == pieces[-1]
            yield self._chunk(columns, start, end, hole, is_end=self.is_ended and is_last, latest=latest)
        if self.is_ended and not pieces:
            yield self._chunk(columns, 0, 0, 0, is_end=True, latest=latest)
        self._segments = [self._kept(columns)]

    def _chunk(self, columns: Column, start: int, end: int, hole: int, *, is_end: bool, latest: StreamChunk) -> StreamChunk:
        spans = np.array(self._spans[start:end], np.int64).reshape(-1, 4).T
        cipher, record_end, plain, size = spans
        data = np.frombuffer(b"".join(self._texts[start:end]), np.uint8)
        offset = int(plain[0]) if len(plain) else self._offset
        if len(plain):
            first = np.searchsorted(columns[0], cipher, "right") - 1
            last = np.searchsorted(columns[0], cipher + size - 1, "right") - 1
            counts = last - first + 1
            rows = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
            entries = columns[:, rows].copy()
            which = np.repeat(np.arange(len(plain)), counts)
            entries[0] = np.maximum(columns[0, rows], cipher[which]) - cipher[which] + plain[which]
            entries[5] = columns[5, np.searchsorted(columns[0], record_end - 1, "right") - 1][which]
        else:
            entries = np.empty((6, 0), np.int64)
        if hole or not len(plain):
            known = entries[:, :1] if len(plain) else columns[:, -1:]
            entries = np.concatenate((known.copy(), entries), axis=1)
            entries[0, 0], entries[2, 0] = offset - hole, 0
        release = np.maximum.accumulate(entries[5])
        entries[5] = np.maximum(release, self._released)
        self._released = int(entries[5, -1])
        is_start, self._is_start = self._is_start and not hole, False
        return StreamChunk(
            connection=latest.connection,
            direction=self.direction,
            offset=offset,
            data=data,
            segments=Segments(entries),
            holes=((offset - hole, offset),) if hole else (),
            is_start=is_start,
            is_end=is_end,
            places=None if latest.places is None else np.where(entries[2] > 0, SCATTERED, NOWHERE),
        )

    _released = 0

    def _kept(self, columns: Column) -> Column:
        """The segments of bytes that were not read yet."""
        at = self._runs[0].start + self._runs[0].at if self._runs else int(columns[0, -1])
        kept: Column = columns[:, max(0, int(np.searchsorted(columns[0], at, "right")) - 1) :].copy()
        return kept


def _explicit(suite: Suite) -> int:
    """Bytes of the nonce in a record of TLS 1.2."""
    return 0 if suite.kind == "chacha" else 8


def _outward(known: int, likely: int, most: int) -> Iterator[int]:
    """The number that is known, 0, then the numbers below ``most`` from the likely one outward."""
    yield known
    if known:
        yield 0
    for distance in range(most + 1):
        if 0 < likely + distance < most:
            yield likely + distance
        if distance and 0 < likely - distance < most:
            yield likely - distance
