"""The stage between reassembly and framing: for TLS connections with known secrets, framing gets plain text.

Chunks of cipher text with holes become chunks of plain text with holes. Offsets are those of the plain text; packets and times stay those
of the bytes on the wire. What cannot be opened becomes a hole. Connections without TLS, and those without secrets, pass unchanged.

``doubt`` finds out which connections are TLS; this module finds their keys; ``direction`` opens the records. Without any secret everything
passes unchanged, and is only looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import field

from dcpinspect.records import dataclass
from dcpinspect.transport.chunk import C2S, S2C, StreamChunk
from dcpinspect.transport.tls.connection import TlsConnection
from dcpinspect.transport.tls.direction import Direction
from dcpinspect.transport.tls.doubt import Doubt, FirstHeader, no_header
from dcpinspect.transport.tls.handshake import CERTIFICATE, CLIENT_HELLO, SERVER_HELLO, Hello, first_certificate, hello_of
from dcpinspect.transport.tls.keylog import HANDSHAKE, MASTER, TRAFFIC, KeyLog
from dcpinspect.transport.tls.search import SEARCHED, Asked, Fit, Search
from dcpinspect.transport.tls.suites import SUITES, TLS12, TLS13, Protection, Suite, Tls13, tls12_keys

MOST_WAITING = 256 << 10
"""Greatest number of bytes of a connection that wait for the other direction's hello."""
MOST_FOR_KEYS = 32 << 20
"""Greatest number of bytes, over all connections, that wait for secrets which the key log does not have yet. Then the first connection
waits no longer."""
MOST_IN_DOUBT = 32 << 20
"""Greatest number of bytes, over all connections, kept until it is certain whether they are TLS. Then the first connection passes
unchanged."""
IN_VAIN = 30
"""After this number of connections whose keys were searched for in vain, no more are searched."""


class TlsStage:
    """Takes chunks and yields chunks, connection by connection."""

    def __init__(self, keys: KeyLog, first_header: FirstHeader = no_header) -> None:
        self._keys = keys
        self._first_header = first_header
        self._shared = Shared()
        self.connections: dict[int, TlsConnection] = {}
        """Connections that look like TLS, by number."""
        self._doubts: dict[int, Doubt] = {}
        self._doubted = 0
        """Bytes that ``_doubts`` keep."""
        self._talks: dict[int, _Talk] = {}
        self.plain_ones: set[int] = set()
        """Connections that pass unchanged."""
        self._seen = keys.count  # number of secrets when what waits was last looked at
        self.left = [0, 0]
        """By direction: ``overhead`` of connections that have left, with the bytes that they still held back."""

    def plain(self, chunks: Iterable[StreamChunk], *, is_last: bool = False) -> Iterator[StreamChunk]:
        """Yields what framing is to see of the chunks; with the last chunks, also of those that were held back."""
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
        for number, talk in [*self._talks.items()] if is_last or self._shared.waiting > MOST_FOR_KEYS else ():
            if not is_last and self._shared.waiting <= MOST_FOR_KEYS:
                break
            if is_last or talk.is_waiting:
                yield from talk.rest()
                self._end(number, talk)

    def _judged(self, number: int, doubt: Doubt, *, is_last: bool = False) -> Iterator[StreamChunk]:
        """Yields what is certain of a connection by now, and is no longer held back."""
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
        """Yields what was held back of connections whose secrets the key log has by now."""
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
        """Drops connections on which nothing comes, and which nobody asks for any more."""
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
        """Returns ``TlsConnection.text`` of a connection; None without TLS."""
        about = self.connections.get(connection)
        return None if about is None else about.text

    @property
    def is_plain(self) -> bool:
        """Whether everything passes unchanged: nothing is held back, and no secret is in use."""
        is_held = self._talks or any(not doubt.is_watched for doubt in self._doubts.values())
        return not is_held and not any(about.is_open or about.secrets for about in self.connections.values())

    @property
    def has_keys(self) -> bool:
        """Whether there are secrets."""
        return bool(self._keys)

    def overhead(self, connection: int, direction: int) -> int:
        """Returns the cipher bytes of a direction, among those in chunks so far, that are no plain text."""
        about = self.connections.get(connection)
        return 0 if about is None or not about.is_open or about.is_misfit else about.records[direction].overhead

    def unread(self, connection: int, direction: int) -> int:
        """Returns the cipher bytes of a direction that are no plain text, if its connection's secrets are wrong and there is no plain text;
        else 0."""
        about = self.connections.get(connection)
        return about.records[direction].overhead if about is not None and about.is_misfit else 0


@dataclass(slots=True)
class Shared:
    """What the connections of a reading know of each other."""

    waiting: int = 0
    """Number of bytes that all connections hold back."""
    randoms: set[bytes] = field(default_factory=set)
    """Client randoms of connections that were opened: other connections hardly have their secrets."""
    in_vain: int = 0
    """Number of connections whose keys were searched for in vain."""


class _Talk:
    """One TLS connection."""

    def __init__(
        self, about: TlsConnection, keys: KeyLog, shared: Shared, plain_sides: Collection[int] = (), *, is_watched: bool = False
    ) -> None:
        """``plain_sides``: directions that pass unchanged. ``is_watched``: both pass unchanged, because there were no secrets when it
        began."""
        self._about = about
        self._plain_sides = plain_sides
        self.is_watched = is_watched
        self._keys = keys
        self._shared = shared
        self._sides = (Direction(C2S, about), Direction(S2C, about))
        self._raw: list[StreamChunk] = []
        """The chunks as they came, until it is known that they can be opened; empty if the connection is watched."""
        self._waits = 0
        """Number of bytes that ``_raw`` takes, or would take."""
        self._client_side = C2S
        self._is_hopeless = False
        """Whether it cannot be opened, whatever comes."""
        self._renewed = [0, 0]
        """By role: number of new handshakes inside the connection whose keys are in use."""
        self._unplaced: Direction | None = None
        """The direction whose secret is known, but not the numbers of its records: it has had no record yet."""
        self._latest: StreamChunk | None = None
        self.is_over = False
        """Whether nothing is done with it any more: chunks pass unchanged."""

    @property
    def is_waiting(self) -> bool:
        """Whether something is held back."""
        return self._waits > 0

    def feed(self, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        """Yields what there is to see after these chunks; nothing for a watched connection, since its chunks have passed."""
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
        """Yields what was held back, if the key log has its secrets by now."""
        if self._learn(is_last=all(one.is_ended for one in self._sides)):
            yield from self._open_held()

    def rest(self) -> Iterator[StreamChunk]:
        """Yields what was held back: opened if that is possible at last, else as it came."""
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
        """Returns the chunks that were held back, and holds them no longer."""
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
        """Gives a side the keys of a new handshake inside the connection (RFC 5246, 7.4.1.1). Returns whether the side goes on, with or
        without keys."""
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
        """Reads hellos, and takes the keys that belong to them. Returns whether the connection can be opened. ``is_last``: more secrets are
        not waited for."""
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
            lacks_some = about.version == TLS13 and not all(label in about.secrets for label in TRAFFIC)
            if is_last or not lacks_some:
                self._take_keys()
            if is_last and lacks_some:
                self._not_before(self._last_held())
        self._is_hopeless = about.server is not None and (about.suite is None or self.is_watched) and not self._may_show_certificate()
        return about.is_open

    def _may_show_certificate(self) -> bool:
        """Returns whether the server's certificate may still come in plain text."""
        about, side = self._about, self._sides[1 - self._client_side]
        return about.version != TLS13 and about.certificate is None and side.may_go_on_in_plain and self._waits <= MOST_WAITING

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
                # A handshake that fails has no traffic secrets, and perhaps no secrets of one side.
                side.begin([Tls13(secrets[label], suite) for label in (HANDSHAKE[role], TRAFFIC[role]) if label in secrets], suite)
                about.is_open |= any(label in secrets for label in (HANDSHAKE[role], TRAFFIC[role]))
        elif about.version == TLS12 and suite.version == TLS12 and MASTER in secrets:
            both = _keys12(secrets[MASTER], about.client, about.server, suite)
            for keys, side in zip(both, self._in_roles(), strict=True):
                side.begin([keys], suite)
            about.is_open = True

    def _in_roles(self) -> tuple[Direction, Direction]:
        """Returns the directions of the client and of the server, in this order."""
        return self._sides[self._client_side], self._sides[1 - self._client_side]

    def _is_inside(self) -> bool:
        """Returns whether the capture begins inside the connection, and there is enough of it to find its keys."""
        about = self._about
        return about.client is None and about.server is None and all(one.is_ended or one.sample() is not None for one in self._sides)

    def _search_keys(self) -> bool:
        """Searches the keys of a connection without one of its hellos: both would tell the keys. Returns whether any known keys open the
        records."""
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
        inside = about.client is None and about.server is None
        self._not_before(max(side.sampled_by for side in self._sides) if inside else self._last_held())
        self._found(fit, asked[fit.asked])
        return True

    def _last_held(self) -> int:
        """Returns the number of the last packet that gave any of what is held back."""
        return max((int(chunk.segments.release.max(initial=0)) for chunk in self._raw), default=0)

    def _not_before(self, release: int) -> None:
        for side in self._sides:
            side.not_before(release)

    def _roles_of(self, side: Direction) -> tuple[int, ...]:
        """Returns who may send in a direction: 0 for the client, 1 for the server. Without a hello the number of the direction is a
        guess."""
        if self._about.client is None and self._about.server is None:
            return (side.number, 1 - side.number)
        return (C2S,) if side.number == self._client_side else (S2C,)

    def _found(self, fit: Fit, side: Direction) -> None:
        """Takes keys that open a record of a side. So the other side's secret is known, and the numbers of its records have to be found."""
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
    """Returns roughly how many bytes it takes to hold a chunk back."""
    return 1000 + len(chunk.data)


def _keys12(master: bytes, client: Hello, server: Hello, suite: Suite) -> tuple[Protection, Protection]:
    """Returns the keys that a handshake of TLS 1.2 gives both sides."""
    both = client.encrypts_then_macs and server.encrypts_then_macs
    return tls12_keys(master, client.random, server.random, suite, encrypts_then_macs=both)
