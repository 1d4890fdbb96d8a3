"""The stage between reassembly and framing: for TLS connections with known secrets, framing gets
plain text.

Chunks of cipher text with holes become chunks of plain text with holes. Offsets are those of the
plain text; packets and times stay those of the bytes on the wire. What cannot be opened becomes a
hole. Connections without TLS, and those without secrets, pass unchanged.

``doubt`` finds out which connections are TLS; ``decryption`` finds their keys; ``direction`` opens
the records. Without any secret everything passes unchanged, and is only looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.transport.chunk import C2S, S2C, StreamChunk
from dcpinspect.transport.tls.connection import TlsConnection
from dcpinspect.transport.tls.doubt import Doubt, FirstHeader, no_header
from dcpinspect.transport.tls.keylog import KeyLog

if TYPE_CHECKING:
    from dcpinspect.transport.tls.decryption import TlsDecryption

MOST_FOR_KEYS = 32 << 20
"""Greatest number of bytes, over all connections, that wait for secrets which the key log does not
have yet. Then the first connection waits no longer.
"""
MOST_IN_DOUBT = 32 << 20
"""Greatest number of bytes, over all connections, kept until it is certain whether they are TLS.
Then the first connection passes unchanged.
"""


class TlsStage:
    """Takes chunks and yields chunks, connection by connection."""

    def __init__(self, keys: KeyLog, first_header: FirstHeader = no_header) -> None:
        self._keys = keys
        self._first_header = first_header
        self._shared = SharedSecrets()
        self.connections: dict[int, TlsConnection] = {}
        """Connections that look like TLS, by number."""
        self._doubts: dict[int, Doubt] = {}
        self._doubted = 0
        """Bytes that ``_doubts`` keep."""
        self._decryptions: dict[int, TlsDecryption] = {}
        self.plain_ones: set[int] = set()
        """Connections that pass unchanged."""
        self._seen = keys.count  # number of secrets when what waits was last looked at
        self.left = [0, 0]
        """By direction: ``overhead`` of connections that left, with bytes they still held back."""

    def plain(
        self, chunks: Iterable[StreamChunk], *, is_last: bool = False
    ) -> Iterator[StreamChunk]:
        """Yields what framing is to see of chunks; with the last, also of those held back."""
        doubted: dict[int, Doubt] = {}
        news: dict[int, list[StreamChunk]] = {}
        for chunk in chunks:
            number = chunk.connection
            if number in self.plain_ones:
                yield chunk
                continue
            decryption, doubt = self._decryptions.get(number), self._doubts.get(number)
            if decryption is not None:
                if decryption.is_watched:
                    yield chunk
                news.setdefault(number, []).append(chunk)
                continue
            if doubt is None:
                doubt = self._doubts[number] = Doubt(self._first_header, is_watched=not self._keys)
            if doubt.is_watched:
                yield chunk
            if number not in doubted:
                doubted[number] = doubt
                self._doubted -= doubt.held
            doubt.add(chunk)
        # Not before both directions were read: the last chunk of a batch may have been sent first.
        for number, doubt in doubted.items():
            yield from self._judged(number, doubt)
            self._doubted += doubt.held if number in self._doubts else 0
        while self._doubts and (is_last or self._doubted > MOST_IN_DOUBT):
            number, doubt = next(iter(self._doubts.items()))
            self._doubted -= doubt.held
            yield from self._judged(number, doubt, is_last=True)
        for number, fed in news.items():
            yield from self._fed(number, fed)
        yield from self._again()
        for number, decryption in (
            [*self._decryptions.items()] if is_last or self._shared.waiting > MOST_FOR_KEYS else ()
        ):
            if not is_last and self._shared.waiting <= MOST_FOR_KEYS:
                break
            if is_last or decryption.is_waiting:
                yield from decryption.held_chunks()
                self._end(number, decryption)

    def _judged(self, number: int, doubt: Doubt, *, is_last: bool = False) -> Iterator[StreamChunk]:
        """Yields what is certain of a connection by now, and is no longer held back."""
        is_tls = doubt.judge(is_last=is_last)
        if True in is_tls:
            # deferred: most captures have no TLS
            from dcpinspect.transport.tls.decryption import TlsDecryption

            del self._doubts[number]
            about = self.connections[number] = TlsConnection()
            plain_sides = frozenset(side for side in (C2S, S2C) if is_tls[side] is False)
            self._decryptions[number] = TlsDecryption(
                about, self._keys, self._shared, plain_sides, is_watched=doubt.is_watched
            )
            yield from self._fed(number, doubt.chunks)
        else:
            held = doubt.chunks
            doubt.chunks = [chunk for chunk in doubt.chunks if is_tls[chunk.direction] is None]
            yield from (
                ()
                if doubt.is_watched
                else (chunk for chunk in held if is_tls[chunk.direction] is False)
            )
            if None not in is_tls or (doubt.is_watched and False in is_tls):
                del self._doubts[number]
                self.plain_ones.add(number)

    def _fed(self, number: int, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        decryption = self._decryptions[number]
        yield from decryption.feed(chunks)
        self._end(number, decryption)

    def _again(self) -> Iterator[StreamChunk]:
        """Yields what was held back of connections whose secrets the key log has by now."""
        if not self._shared.waiting:
            return
        self._keys.look_again()
        if self._keys.count != self._seen:
            self._seen = self._keys.count
            for number, decryption in [*self._decryptions.items()]:
                if decryption.is_waiting:
                    yield from decryption.again()
                    self._end(number, decryption)

    def _end(self, number: int, decryption: TlsDecryption) -> None:
        if decryption.is_over:
            del self._decryptions[number]
            self.plain_ones.add(number)

    def leave(self, connections: Collection[int]) -> None:
        """Drops connections on which nothing comes, and which nobody asks for any more."""
        self.plain_ones.difference_update(connections)
        for number in connections:
            for side in range(2):
                self.left[side] += self.overhead(number, side) + self.unread(number, side)
            self.connections.pop(number, None)
            decryption, doubt = self._decryptions.pop(number, None), self._doubts.pop(number, None)
            self._doubted -= 0 if doubt is None else doubt.held
            held = (
                decryption.held()
                if decryption is not None
                else []
                if doubt is None or doubt.is_watched
                else doubt.chunks
            )
            for chunk in held:
                self.left[chunk.direction] += len(chunk.data) - sum(
                    end - start for start, end in chunk.holes
                )

    def text(self, connection: int) -> str | None:
        """Returns ``TlsConnection.text`` of a connection; None without TLS."""
        about = self.connections.get(connection)
        return None if about is None else about.text

    @property
    def is_plain(self) -> bool:
        """Whether everything passes unchanged: nothing is held back, and no secret is in use."""
        is_held = self._decryptions or any(not doubt.is_watched for doubt in self._doubts.values())
        return not is_held and not any(
            about.is_open or about.secrets for about in self.connections.values()
        )

    @property
    def has_keys(self) -> bool:
        """Whether there are secrets."""
        return bool(self._keys)

    def overhead(self, connection: int, direction: int) -> int:
        """Returns a direction's cipher bytes in the chunks so far that are no plain text."""
        about = self.connections.get(connection)
        if about is None or not about.is_open or about.is_misfit:
            return 0
        return about.records[direction].overhead

    def unread(self, connection: int, direction: int) -> int:
        """Returns the cipher bytes of a direction that are no plain text, if its connection's
        secrets are wrong and there is no plain text; else 0.
        """
        about = self.connections.get(connection)
        return about.records[direction].overhead if about is not None and about.is_misfit else 0


@dataclass(slots=True)
class SharedSecrets:
    """What the connections of a reading know of each other."""

    waiting: int = 0
    """Number of bytes that all connections hold back."""
    randoms: set[bytes] = field(default_factory=set)
    """Client randoms of connections that were opened: other connections hardly have their secrets.
    """
    in_vain: int = 0
    """Number of connections whose keys were searched for in vain."""
