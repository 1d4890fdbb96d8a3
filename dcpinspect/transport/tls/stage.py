"""The stage between reassembly and framing: of TLS connections whose secrets are known, framing sees the plain text.

Chunks of cipher text with holes become chunks of plain text with holes. Offsets are those of the plain text; packets and times stay those
of the bytes on the wire. What cannot be opened is a hole. Connections without TLS, and those without secrets, pass as they are.

This module finds out which connections are TLS, and which keys are theirs; ``direction`` opens the records.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from dcpinspect.transport.chunk import C2S, S2C, StreamChunk
from dcpinspect.transport.tls.connection import TlsConnection
from dcpinspect.transport.tls.direction import ANY_RECORD, HANDSHAKE_RECORD, HEADER, MOST_RECORD, RECORD, Direction
from dcpinspect.transport.tls.handshake import CERTIFICATE, CLIENT_HELLO, SERVER_HELLO, first_certificate, hello_of
from dcpinspect.transport.tls.keylog import HANDSHAKE, MASTER, TRAFFIC, KeyLog
from dcpinspect.transport.tls.suites import SUITES, TLS12, TLS13, Suite, Tls13, tls12_keys

MOST_WAITING = 256 << 10
"""Bytes of a direction that wait for the other direction's hello, or for secrets that the key log does not have yet."""
SEARCH = 250_000
"""Secrets and sequence numbers that are tried for a connection that began before the capture: some 2 s."""
_START = re.compile(rb"[\x15\x16]\x03[\x00-\x04]")
_SMALL_SUITES = tuple(suite for suite in SUITES.values() if suite.version == TLS13)


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
        self.left = [0, 0]
        """``overhead`` of connections that have left, by direction."""

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

    def leave(self, connections: Collection[int]) -> None:
        """Nobody asks for these any more; nothing comes of them."""
        self._plain.difference_update(connections)
        for number in connections:
            for side in range(2):
                self.left[side] += self.overhead(number, side)
            self.connections.pop(number, None)

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
        found = ANY_RECORD.search(data)
        while found is not None:
            at, chained = found.start(), 0
            while at + HEADER <= len(data) and RECORD.match(data, at) and data[at + 3] < 0x49:
                at += HEADER + int.from_bytes(data[at + 3 : at + 5], "big")
                chained += 1
            if chained >= 2 or (chained == 1 and at == len(data) and found.start() == 0):
                return True
            found = ANY_RECORD.search(data, found.start() + 1)
        return False


class _Talk:
    """One connection."""

    def __init__(self, about: TlsConnection, keys: KeyLog, search: int) -> None:
        self._about = about
        self._keys = keys
        self._search = search
        self._sides = (Direction(C2S, about), Direction(S2C, about))
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
                if kind == CERTIFICATE and about.certificate is None and side.number != self._client_side:
                    about.certificate = first_certificate(body, has_context=False)
                hello = hello_of(kind, body) if kind in (CLIENT_HELLO, SERVER_HELLO) else None
                if hello is None:
                    continue
                if kind == CLIENT_HELLO and about.client is None:
                    about.client, self._client_side = hello, side.number
                    about.sides = (C2S, S2C) if side.number == C2S else (S2C, C2S)
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

    def _in_roles(self) -> tuple[Direction, Direction]:
        """Client, server."""
        return self._sides[self._client_side], self._sides[1 - self._client_side]

    def _search_keys(self) -> None:
        """The connection began before the capture: whose records are these?"""
        left = self._search
        for side in self._sides:
            record = side.smallest_record()
            if record is None:
                continue
            for role in (side.number, 1 - side.number):
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

    def _found(self, keys: Tls13, role: int, side: Direction) -> None:
        """These keys open a record of a side, which has this role: so those of the other side are known."""
        about, suite = self._about, keys.suite
        for found in self._keys.each():
            if found.get(TRAFFIC[role]) == keys.secret:
                about.secrets = found
        about.version, about.suite = TLS13, suite
        self._client_side = side.number if role == C2S else 1 - side.number
        about.sides = (C2S, S2C) if self._client_side == C2S else (S2C, C2S)
        for place, one in enumerate(self._in_roles()):
            secret = about.secrets.get(TRAFFIC[place])
            one.begin([] if secret is None else [Tls13(secret, suite)], suite)
            one.is_lost = True
        about.is_open = True


def _secret_bytes(suite: Suite) -> int:
    return 48 if suite.hash == "sha384" else 32
