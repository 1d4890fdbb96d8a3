"""Finds the keys of one TLS connection, and yields its plain text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from dcpinspect.transport.chunk import C2S, S2C, StreamChunk
from dcpinspect.transport.tls.connection import TlsConnection
from dcpinspect.transport.tls.direction import TlsDirection
from dcpinspect.transport.tls.handshake import (
    CERTIFICATE,
    CLIENT_HELLO,
    SERVER_HELLO,
    Hello,
    first_certificate,
    hello_of,
)
from dcpinspect.transport.tls.key_search import SEARCHED, CandidateRecord, FittingKeys, Search
from dcpinspect.transport.tls.keylog import HANDSHAKE, MASTER, TRAFFIC, KeyLog
from dcpinspect.transport.tls.stage import SharedSecrets
from dcpinspect.transport.tls.suites import SUITES, Protection, Suite, Tls13, tls12_keys
from dcpinspect.transport.tls.tls_records import TLS12, TLS13

MOST_WAITING = 256 << 10
"""Greatest number of bytes of a connection that wait for the other direction's hello."""


class TlsDecryption:
    """One TLS connection."""

    def __init__(
        self,
        about: TlsConnection,
        keys: KeyLog,
        shared: SharedSecrets,
        plain_sides: Collection[int] = (),
        *,
        is_watched: bool = False,
    ) -> None:
        """``plain_sides``: directions that pass unchanged. ``is_watched``: both pass unchanged,
        because there were no secrets when it began.
        """
        self._about = about
        self._plain_sides = plain_sides
        self.is_watched = is_watched
        self._keys = keys
        self._shared = shared
        self._sides = (TlsDirection(C2S, about), TlsDirection(S2C, about))
        self._raw: list[StreamChunk] = []
        """The chunks as they came, until it is known that they can be opened; empty if the
        connection is watched.
        """
        self._waits = 0
        """Number of bytes that ``_raw`` takes, or would take."""
        self._client_side = C2S
        self._is_hopeless = False
        """Whether it cannot be opened, whatever comes."""
        self._renewed = [0, 0]
        """By role: number of new handshakes inside the connection whose keys are in use."""
        self._unplaced: TlsDirection | None = None
        """The direction whose secret is known, but not its numbers: it has had no record yet."""
        self._latest: StreamChunk | None = None
        self.is_over = False
        """Whether nothing is done with it any more: chunks pass unchanged."""

    @property
    def is_waiting(self) -> bool:
        """Whether something is held back."""
        return self._waits > 0

    def feed(self, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        """Yields what there is to see after these chunks; nothing for a watched connection, since
        its chunks have passed.
        """
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
                    self._find_numbers(side)
                yield from self._open_chunks([side], chunk)
                continue
            if not self.is_watched:
                self._raw.append(chunk)
            self._waits += _weight(chunk)
            self._shared.waiting += _weight(chunk)
        is_over = all(each_side.is_ended for each_side in self._sides)
        if was_open:
            self.is_over = is_over
        elif self._waits:
            has_hellos = self._learn(is_last=is_over) or (
                about.client is not None and about.server is not None
            )
            if about.is_open:
                yield from self._open_held()
            elif self._is_hopeless or (
                not has_hellos and (is_over or self._is_inside() or self._waits > MOST_WAITING)
            ):
                yield from self.held_chunks()

    def again(self) -> Iterator[StreamChunk]:
        """Yields what was held back, if the key log has its secrets by now."""
        if self._learn(is_last=all(side.is_ended for side in self._sides)):
            yield from self._open_held()

    def held_chunks(self) -> Iterator[StreamChunk]:
        """Yields what was held back: opened if that is possible at last, else as it came."""
        if (
            self._waits
            and not self._is_hopeless
            and (self._learn(is_last=True) or self._search_keys())
        ):
            yield from self._open_held()
        if self._unplaced is not None:
            side = self._unplaced
            self._find_numbers(side, is_last=True)
            if side.waiting and self._latest is not None:
                yield from side.open(self._latest)
        elif self._about.is_open and self._latest is not None:
            yield from self._open_chunks((), self._latest, is_last=True)
        elif not self._about.is_open:
            self._about.is_given_up = self.is_over = True
            yield from self.held()

    def _open_held(self) -> Iterator[StreamChunk]:
        yield from self._open_chunks(self._in_roles(), self.held()[-1])
        self.is_over = all(side.is_ended for side in self._sides)

    def held(self) -> list[StreamChunk]:
        """Returns the chunks that were held back, and holds them no longer."""
        held, self._raw = self._raw, []
        self._shared.waiting -= self._waits
        self._waits = 0
        return held

    def _open_chunks(
        self, sides: Iterable[TlsDirection], latest: StreamChunk, *, is_last: bool = False
    ) -> Iterator[StreamChunk]:
        for side in sides:
            if side is not self._unplaced:
                yield from side.open(latest)
        is_last = is_last or all(each_side.is_ended for each_side in self._sides)
        while renewed := [
            each_side
            for each_side in self._sides
            if each_side.wants_keys and self._renew(each_side, is_last=is_last)
        ]:
            for side in renewed:
                yield from side.open(latest)

    def _renew(self, side: TlsDirection, *, is_last: bool) -> bool:
        """Gives a side the keys of a new handshake inside the connection (RFC 5246, 7.4.1.1).
        Returns whether the side goes on, with or without keys.
        """
        about = self._about
        assert about.suite is not None
        role = C2S if side.number == self._client_side else S2C
        turn = self._renewed[role]
        client, server = (
            each_side.inside[turn] if turn < len(each_side.inside) else None
            for each_side in self._in_roles()
        )
        suite = None if server is None else SUITES.get(server.suites[0])
        if (
            client is not None
            and server is not None
            and suite is not None
            and suite.version == TLS12
        ):
            master = self._keys.secrets_of(client.random, (MASTER,)).get(MASTER)
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
        """Reads hellos, and takes the keys that belong to them. Returns whether the connection can
        be opened. ``is_last``: more secrets are not waited for.
        """
        about = self._about
        for side in self._sides:
            for kind, body in side.hellos():
                if (
                    kind == CERTIFICATE
                    and about.certificate is None
                    and side.number != self._client_side
                ):
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
        if (
            about.client is not None
            and about.server is not None
            and about.suite is not None
            and not self.is_watched
        ):
            about.secrets = self._keys.secrets_of(
                about.client.random, TRAFFIC if about.version == TLS13 else (MASTER,)
            )
            lacks_some = about.version == TLS13 and not all(
                label in about.secrets for label in TRAFFIC
            )
            if is_last or not lacks_some:
                self._take_keys()
            if is_last and lacks_some:
                self._not_before(self._last_held())
        self._is_hopeless = (
            about.server is not None
            and (about.suite is None or self.is_watched)
            and not self._may_show_certificate()
        )
        return about.is_open

    def _may_show_certificate(self) -> bool:
        """Returns whether the server's certificate may still come in plain text."""
        about, side = self._about, self._sides[1 - self._client_side]
        return (
            about.version != TLS13
            and about.certificate is None
            and side.may_go_on_in_plain
            and self._waits <= MOST_WAITING
        )

    def _is_client(self, side: TlsDirection) -> None:
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
                side.begin(
                    [
                        Tls13(secrets[label], suite)
                        for label in (HANDSHAKE[role], TRAFFIC[role])
                        if label in secrets
                    ],
                    suite,
                )
                about.is_open |= any(label in secrets for label in (HANDSHAKE[role], TRAFFIC[role]))
        elif about.version == TLS12 and suite.version == TLS12 and MASTER in secrets:
            both = _keys12(secrets[MASTER], about.client, about.server, suite)
            for keys, side in zip(both, self._in_roles(), strict=True):
                side.begin([keys], suite)
            about.is_open = True

    def _in_roles(self) -> tuple[TlsDirection, TlsDirection]:
        """Returns the directions of the client and of the server, in this order."""
        return self._sides[self._client_side], self._sides[1 - self._client_side]

    def _is_inside(self) -> bool:
        """Returns whether the capture begins inside the connection, and there is enough of it to
        find its keys.
        """
        about = self._about
        return (
            about.client is None
            and about.server is None
            and all(side.is_ended or side.sample() is not None for side in self._sides)
        )

    def _search_keys(self) -> bool:
        """Searches the keys of a connection without one of its hellos: both would tell the keys.
        Returns whether any known keys open the records.
        """
        about, keys = self._about, self._keys
        if about.client is not None and about.server is not None:
            return False
        self._is_hopeless = True
        if any(side.is_tls12 for side in self._sides):
            about.version = TLS12
        if about.version == TLS12 or self.is_watched:
            return False
        about.search = search = Search()
        samples = [(side, side.sample()) for side in self._sides]
        side_of_record = {
            CandidateRecord(sample, role): side
            for side, sample in samples
            if sample is not None
            for role in self._roles_of(side)
        }
        suites = [suite for suite in SEARCHED if about.suite in (None, suite)]
        if about.client is not None:
            known_secrets = {about.client.random: keys.secrets_of(about.client.random, TRAFFIC)}
        else:
            known_secrets = dict(keys.all_secrets())
            known_secrets = {
                random: secrets
                for random, secrets in known_secrets.items()
                if random not in self._shared.randoms
            } or known_secrets
        # so that all searches together take a few times as long as one
        limit = keys.search // (1 + self._shared.in_vain // 2)
        fit = search.find([*side_of_record], known_secrets.values(), suites, limit=limit)
        if fit is None:
            self._shared.in_vain += search.tried > 0
            return False
        self._shared.randoms |= {
            random for random, secrets in known_secrets.items() if secrets is fit.secrets
        }
        inside = about.client is None and about.server is None
        self._not_before(
            max(side.sampled_by for side in self._sides) if inside else self._last_held()
        )
        self._use_keys(fit, side_of_record[fit.asked])
        return True

    def _last_held(self) -> int:
        """Returns the number of the last packet that gave any of what is held back."""
        return max((int(chunk.segments.release.max(initial=0)) for chunk in self._raw), default=0)

    def _not_before(self, release: int) -> None:
        for side in self._sides:
            side.not_before(release)

    def _roles_of(self, side: TlsDirection) -> tuple[int, ...]:
        """Returns who may send in a direction: 0 for the client, 1 for the server. Without a hello
        the number of the direction is a guess.
        """
        if self._about.client is None and self._about.server is None:
            return (side.number, 1 - side.number)
        return (C2S,) if side.number == self._client_side else (S2C,)

    def _use_keys(self, fit: FittingKeys, side: TlsDirection) -> None:
        """Takes keys that open a record of a side. So the other side's secret is known, and the
        numbers of its records have to be found.
        """
        about, other_side = self._about, self._sides[1 - side.number]
        about.secrets = fit.secrets
        about.version = TLS13
        about.suite = fit.keys.suite
        about.search = None
        about.is_open = True
        self._is_client(side if fit.asked.role == C2S else other_side)
        side.begin_at(fit.keys, fit.sequence)
        self._unplaced = other_side
        self._find_numbers(other_side)

    def _find_numbers(self, side: TlsDirection, *, is_last: bool = False) -> None:
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
        fit = search.find(
            [CandidateRecord(sample, role)], [about.secrets], [about.suite], limit=self._keys.search
        )
        if fit is not None:
            side.begin_at(fit.keys, fit.sequence)
        else:
            about.search = search
            side.begin([], about.suite)


def _weight(chunk: StreamChunk) -> int:
    """Returns roughly how many bytes it takes to hold a chunk back."""
    return 1000 + len(chunk.data)


def _keys12(
    master: bytes, client: Hello, server: Hello, suite: Suite
) -> tuple[Protection, Protection]:
    """Returns the keys that a handshake of TLS 1.2 gives both sides."""
    both = client.encrypts_then_macs and server.encrypts_then_macs
    return tls12_keys(master, client.random, server.random, suite, encrypts_then_macs=both)
