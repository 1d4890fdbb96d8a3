"""The stage between reassembly and framing: of TLS connections whose secrets are known, framing sees the plain text.

Chunks of cipher text with holes become chunks of plain text with holes. Offsets are those of the plain text; packets and times stay those
of the bytes on the wire. What cannot be opened is a hole. Connections without TLS, and those without secrets, pass as they are.

``doubt`` finds out which connections are TLS, this module which keys are theirs; ``direction`` opens the records. Without any secret all
passes as it is, and is only looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from dcpinspect.transport.chunk import C2S, S2C, StreamChunk
from dcpinspect.transport.tls.connection import TlsConnection
from dcpinspect.transport.tls.direction import Direction
from dcpinspect.transport.tls.doubt import Doubt, FirstHeader, no_header
from dcpinspect.transport.tls.handshake import CERTIFICATE, CLIENT_HELLO, SERVER_HELLO, Hello, first_certificate, hello_of
from dcpinspect.transport.tls.keylog import HANDSHAKE, MASTER, TRAFFIC, KeyLog
from dcpinspect.transport.tls.search import SEARCHED, Asked, Fit, Search
from dcpinspect.transport.tls.suites import SUITES, TLS12, TLS13, Protection, Suite, Tls13, tls12_keys

MOST_WAITING = 256 << 10
"""Bytes of a connection that wait for the other direction's hello."""
MOST_FOR_KEYS = 32 << 20
"""Bytes of all connections that wait for secrets that the key log does not have yet; then the first one waits no longer."""
MOST_IN_DOUBT = 32 << 20
"""Bytes of all connections that are kept until it is certain whether they are TLS; then the first one is taken as it is."""
IN_VAIN = 30
"""Connections that are searched for in vain before no more are."""


class TlsStage:
    """Chunks in, chunks out; by connection."""

    def __init__(self, keys: KeyLog, first_header: FirstHeader = no_header) -> None:
        self._keys = keys
        self._first_header = first_header
        self._shared = Shared()
        self.connections: dict[int, TlsConnection] = {}
        """Those that look like TLS, by number."""
        self._doubts: dict[int, Doubt] = {}
        self._doubted = 0
        """Bytes that these keep."""
        self._talks: dict[int, _Talk] = {}
        self.plain_ones: set[int] = set()
        """Connections that pass as they are."""
        self._seen = keys.count  # secrets, when what waits was looked at last
        self.left = [0, 0]
        """``overhead`` of connections that have left, by direction, and what they still held back."""

    def plain(self, chunks: Iterable[StreamChunk], *, is_last: bool = False) -> Iterator[StreamChunk]:
        """What framing is to see of the chunks; with the last ones, also of those that were held back."""
        doubted: dict[int, Doubt] = {}
        news: dict[int, list[StreamChunk]] = {}
        for chunk in chunks:
            number = chunk.connection
            if number in self.plain_ones:
                yield chunk
                continue
            talk, doubt = self._talks.get(number), self._doubts.get(number)
            if talk is not None:
                if talk.is_watched:
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
        # Not before both directions have come: what a batch has last may have been sent first.
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
        for number, talk in [*self._talks.items()] if is_last or self._shared.waiting > MOST_FOR_KEYS else ():
            if not is_last and self._shared.waiting <= MOST_FOR_KEYS:
                break
            if is_last or talk.is_waiting:
                yield from talk.rest()
                self._end(number, talk)

    def _judged(self, number: int, doubt: Doubt, *, is_last: bool = False) -> Iterator[StreamChunk]:
        """What is certain of a connection by now, and is held back no longer."""
        is_tls = doubt.judge(is_last=is_last)
        if True in is_tls:
            del self._doubts[number]
            about = self.connections[number] = TlsConnection()
            plain_sides = frozenset(side for side in (C2S, S2C) if is_tls[side] is False)
            self._talks[number] = _Talk(about, self._keys, self._shared, plain_sides, is_watched=doubt.is_watched)
            yield from self._fed(number, doubt.chunks)
        else:
            held, doubt.chunks = doubt.chunks, [chunk for chunk in doubt.chunks if is_tls[chunk.direction] is None]
            yield from () if doubt.is_watched else (chunk for chunk in held if is_tls[chunk.direction] is False)
            if None not in is_tls or (doubt.is_watched and False in is_tls):
                del self._doubts[number]
                self.plain_ones.add(number)

    def _fed(self, number: int, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        talk = self._talks[number]
        yield from talk.feed(chunks)
        self._end(number, talk)

    def _again(self) -> Iterator[StreamChunk]:
        """What was held back, where the key log has its secrets by now."""
        if not self._shared.waiting:
            return
        self._keys.look_again()
        if self._keys.count != self._seen:
            self._seen = self._keys.count
            for number, talk in [*self._talks.items()]:
                if talk.is_waiting:
                    yield from talk.again()
                    self._end(number, talk)

    def _end(self, number: int, talk: _Talk) -> None:
        if talk.is_over:
            del self._talks[number]
            self.plain_ones.add(number)

    def leave(self, connections: Collection[int]) -> None:
        """Nobody asks for these any more; nothing comes of them."""
        self.plain_ones.difference_update(connections)
        for number in connections:
            for side in range(2):
                self.left[side] += self.overhead(number, side) + self.unread(number, side)
            self.connections.pop(number, None)
            talk, doubt = self._talks.pop(number, None), self._doubts.pop(number, None)
            self._doubted -= 0 if doubt is None else doubt.held
            held = talk.held() if talk is not None else [] if doubt is None or doubt.is_watched else doubt.chunks
            for chunk in held:
                self.left[chunk.direction] += len(chunk.data) - sum(end - start for start, end in chunk.holes)

    def text(self, connection: int) -> str | None:
        """As ``TlsConnection.text``; None without TLS."""
        about = self.connections.get(connection)
        return None if about is None else about.text

    @property
    def is_plain(self) -> bool:
        """Whether all passes as it is: nothing is held back, and no secret is in use."""
        is_held = self._talks or any(not doubt.is_watched for doubt in self._doubts.values())
        return not is_held and not any(about.is_open or about.secrets for about in self.connections.values())

    @property
    def has_keys(self) -> bool:
        """There are secrets."""
        return bool(self._keys)

    def overhead(self, connection: int, direction: int) -> int:
        """Cipher bytes of a direction that are no plain text, so far; of those that chunks had."""
        about = self.connections.get(connection)
        return 0 if about is None or not about.is_open or about.is_misfit else about.records[direction].overhead

    def unread(self, connection: int, direction: int) -> int:
        """The same where they are all that there is, as the connection's secrets are wrong."""
        about = self.connections.get(connection)
        return about.records[direction].overhead if about is not None and about.is_misfit else 0


@dataclass(slots=True)
class Shared:
    """What the connections of a reading know of each other."""

    waiting: int = 0
    """Bytes that all of them hold back."""
    randoms: set[bytes] = field(default_factory=set)
    """Client randoms of those that were opened: others hardly have their secrets."""
    in_vain: int = 0
    """Connections that were searched for in vain."""


class _Talk:
    """One connection."""

    def __init__(
        self, about: TlsConnection, keys: KeyLog, shared: Shared, plain_sides: Collection[int] = (), *, is_watched: bool = False
    ) -> None:
        """``plain_sides``: directions that pass as they are. ``is_watched``: both do, there being no secrets when it began."""
        self._about = about
        self._plain_sides = plain_sides
        self.is_watched = is_watched
        self._keys = keys
        self._shared = shared
        self._sides = (Direction(C2S, about), Direction(S2C, about))
        self._raw: list[StreamChunk] = []
        """As they came, until it is known that they can be opened; nothing of those that are watched."""
        self._waits = 0
        """Bytes that this takes, or would."""
        self._client_side = C2S
        self._is_hopeless = False
        """It cannot be opened, whatever comes."""
        self._renewed = [0, 0]
        """New handshakes inside the connection whose keys are in use, by role."""
        self._unplaced: Direction | None = None
        """Its secret is known, and the numbers of its records are not: it has had none yet."""
        self._latest: StreamChunk | None = None
        self.is_over = False
        """Nothing is done with it any more: chunks pass as they are."""

    @property
    def is_waiting(self) -> bool:
        """Something is held back."""
        return self._waits > 0

    def feed(self, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        """What there is to see after these; of a watched one nothing, for it has passed."""
        about = self._about
        was_open = about.is_open
        for chunk in chunks:
            if chunk.direction in self._plain_sides:
                yield from () if self.is_watched else (chunk,)
                continue
            side = self._sides[chunk.direction]
            side.add(chunk)
            self._latest = chunk
            if was_open:
                if side is self._unplaced:
                    self._place(side)
                yield from self._opened([side], chunk)
                continue
            if not self.is_watched:
                self._raw.append(chunk)
            self._waits += _weight(chunk)
            self._shared.waiting += _weight(chunk)
        is_over = all(one.is_ended for one in self._sides)
        if was_open:
            self.is_over = is_over
        elif self._waits:
            has_hellos = self._learn(is_last=is_over) or (about.client is not None and about.server is not None)
            if about.is_open:
                yield from self._open_held()
            elif self._is_hopeless or (not has_hellos and (is_over or self._is_inside() or self._waits > MOST_WAITING)):
                yield from self.rest()

    def again(self) -> Iterator[StreamChunk]:
        """What was held back, where the key log has its secrets by now."""
        if self._learn(is_last=all(one.is_ended for one in self._sides)):
            yield from self._open_held()

    def rest(self) -> Iterator[StreamChunk]:
        """What was held back: opened if that can be done at last, else as it came."""
        if self._waits and not self._is_hopeless and (self._learn(is_last=True) or self._search_keys()):
            yield from self._open_held()
        if self._unplaced is not None:
            side = self._unplaced
            self._place(side, is_last=True)
            if side.waiting and self._latest is not None:
                yield from side.open(self._latest)
        elif self._about.is_open and self._latest is not None:
            yield from self._opened((), self._latest, is_last=True)
        elif not self._about.is_open:
            self._about.is_given_up = self.is_over = True
            yield from self.held()

    def _open_held(self) -> Iterator[StreamChunk]:
        yield from self._opened(self._in_roles(), self.held()[-1])
        self.is_over = all(one.is_ended for one in self._sides)

    def held(self) -> list[StreamChunk]:
        """What was held back, and is not any more."""
        held, self._raw = self._raw, []
        self._shared.waiting -= self._waits
        self._waits = 0
        return held

    def _opened(self, sides: Iterable[Direction], latest: StreamChunk, *, is_last: bool = False) -> Iterator[StreamChunk]:
        for side in sides:
            if side is not self._unplaced:
                yield from side.open(latest)
        is_last = is_last or all(one.is_ended for one in self._sides)
        while renewed := [one for one in self._sides if one.wants_keys and self._renew(one, is_last=is_last)]:
            for side in renewed:
                yield from side.open(latest)

    def _renew(self, side: Direction, *, is_last: bool) -> bool:
        """Gives a side the keys of a new handshake inside the connection (RFC 5246, 7.4.1.1); whether it goes on, with them or without."""
        about = self._about
        assert about.suite is not None
        role = C2S if side.number == self._client_side else S2C
        turn = self._renewed[role]
        client, server = (one.inside[turn] if turn < len(one.inside) else None for one in self._in_roles())
        suite = None if server is None else SUITES.get(server.suites[0])
        if client is not None and server is not None and suite is not None and suite.version == TLS12:
            master = self._keys.of(client.random, (MASTER,)).get(MASTER)
            if master is not None:
                side.renew(_keys12(master, client, server, suite)[role], suite)
                self._renewed[role] += 1
                about.renewed = max(self._renewed)
                return True
        if not is_last and side.waiting <= MOST_WAITING:
            return False
        about.is_cut_short = True
        side.renew(None, about.suite)
        return True

    def _learn(self, *, is_last: bool) -> bool:
        """Reads hellos, and takes the keys that belong to them; whether it can be opened. ``is_last``: more secrets are not waited for."""
        about = self._about
        for side in self._sides:
            for kind, body in side.hellos():
                if kind == CERTIFICATE and about.certificate is None and side.number != self._client_side:
                    about.certificate = first_certificate(body, has_context=False)
                hello = hello_of(kind, body) if kind in (CLIENT_HELLO, SERVER_HELLO) else None
                if hello is None:
                    continue
                if kind == CLIENT_HELLO:
                    if about.client is None:
                        self._is_client(side)
                    about.client = hello
                elif not hello.is_retry and about.server is None:
                    if about.client is None:
                        self._is_client(self._sides[1 - side.number])
                    about.server = hello
                    about.version, about.suite = hello.version, SUITES.get(hello.suites[0])
        if about.client is not None and about.server is not None and about.suite is not None and not self.is_watched:
            about.secrets = self._keys.of(about.client.random, TRAFFIC if about.version == TLS13 else (MASTER,))
            if is_last or all(label in about.secrets for label in TRAFFIC) or about.version != TLS13:
                self._take_keys()
        self._is_hopeless = about.server is not None and (about.suite is None or self.is_watched)
        return about.is_open

    def _is_client(self, side: Direction) -> None:
        self._client_side = side.number
        self._about.sides = (C2S, S2C) if side.number == C2S else (S2C, C2S)

    def _take_keys(self) -> None:
        about = self._about
        assert about.client is not None
        assert about.server is not None
        assert about.suite is not None
        suite, secrets = about.suite, about.secrets
        if secrets:
            self._shared.randoms.add(about.client.random)
        if about.version == TLS13 and suite.version == TLS13:
            for role, side in enumerate(self._in_roles()):
                # Of a handshake that fails there are no secrets of traffic, and perhaps none of one side.
                side.begin([Tls13(secrets[label], suite) for label in (HANDSHAKE[role], TRAFFIC[role]) if label in secrets], suite)
                about.is_open |= any(label in secrets for label in (HANDSHAKE[role], TRAFFIC[role]))
        elif about.version == TLS12 and suite.version == TLS12 and MASTER in secrets:
            both = _keys12(secrets[MASTER], about.client, about.server, suite)
            for keys, side in zip(both, self._in_roles(), strict=True):
                side.begin([keys], suite)
            about.is_open = True

    def _in_roles(self) -> tuple[Direction, Direction]:
        """Client, server."""
        return self._sides[self._client_side], self._sides[1 - self._client_side]

    def _is_inside(self) -> bool:
        """The capture begins inside the connection, and there is enough of it to know its keys by."""
        about = self._about
        return about.client is None and about.server is None and all(one.is_ended or one.sample() is not None for one in self._sides)

    def _search_keys(self) -> bool:
        """Both hellos would tell the keys. One is not there: which keys of those that it may have open the records? Whether any do."""
        about, keys = self._about, self._keys
        if about.client is not None and about.server is not None:
            return False
        self._is_hopeless = True
        if any(side.is_tls12 for side in self._sides):
            about.version = TLS12
        if about.version == TLS12 or self.is_watched:
            return False
        about.search = search = Search()
        if self._shared.in_vain >= IN_VAIN:
            return False
        samples = [(side, side.sample()) for side in self._sides]
        asked = {Asked(sample, role): side for side, sample in samples if sample is not None for role in self._roles_of(side)}
        suites = [suite for suite in SEARCHED if about.suite in (None, suite)]
        if about.client is not None:
            known = {about.client.random: keys.of(about.client.random, TRAFFIC)}
        else:
            known = dict(keys.each())
            known = {random: secrets for random, secrets in known.items() if random not in self._shared.randoms} or known
        fit = search.find([*asked], known.values(), suites, most=keys.search)
        if fit is None:
            self._shared.in_vain += 1
            return False
        self._shared.randoms |= {random for random, secrets in known.items() if secrets is fit.secrets}
        self._found(fit, asked[fit.asked])
        return True

    def _roles_of(self, side: Direction) -> tuple[int, ...]:
        """Who may send in a direction: 0 for the client. Without a hello the number of the direction is a guess."""
        if self._about.client is None and self._about.server is None:
            return (side.number, 1 - side.number)
        return (C2S,) if side.number == self._client_side else (S2C,)

    def _found(self, fit: Fit, side: Direction) -> None:
        """Keys open a record of a side; so the secret of the other side is known, and the numbers of its records are to be found."""
        about, other = self._about, self._sides[1 - side.number]
        about.secrets, about.version, about.suite, about.search = fit.secrets, TLS13, fit.keys.suite, None
        about.is_open = True
        self._is_client(side if fit.asked.role == C2S else other)
        side.begin_at(fit.keys, fit.sequence)
        self._unplaced = other
        self._place(other)

    def _place(self, side: Direction, *, is_last: bool = False) -> None:
        """Finds the numbers of a side's records, once it has some."""
        about = self._about
        assert about.suite is not None
        sample = side.sample()
        if sample is None and not (is_last or side.is_ended or side.waiting > MOST_WAITING):
            return
        self._unplaced = None
        if sample is None:
            side.begin([], about.suite)
            return
        search = Search()
        role = C2S if side.number == self._client_side else S2C
        fit = search.find([Asked(sample, role)], [about.secrets], [about.suite], most=self._keys.search)
        if fit is not None:
            side.begin_at(fit.keys, fit.sequence)
        else:
            about.search = search
            side.begin([], about.suite)


def _weight(chunk: StreamChunk) -> int:
    """Bytes that it takes to hold a chunk back, about."""
    return 1000 + len(chunk.data)


def _keys12(master: bytes, client: Hello, server: Hello, suite: Suite) -> tuple[Protection, Protection]:
    """Those that a handshake of TLS 1.2 gives both sides."""
    both = client.encrypts_then_macs and server.encrypts_then_macs
    return tls12_keys(master, client.random, server.random, suite, encrypts_then_macs=both)
