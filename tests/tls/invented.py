"""A TLS connection with keys of our own choosing: the same bytes in every run, no sockets, no
OpenSSL, no packets.

talk = Invented("TLS_AES_128_GCM_SHA256")
talk.send(1, b"plain")
talk.update(1)  # new keys
stage = TlsStage(talk.keys())
plain = list(stage.plain(chunked(talk.writes)))
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dcpinspect.transport.chunk import StreamChunk
from dcpinspect.transport.tls.keylog import EARLY, HANDSHAKE, MASTER, TRAFFIC, KeyLog
from dcpinspect.transport.tls.suites import SUITES
from tests.tls.endpoint import Ledger
from tests.tls.forged import APPLICATION, Seal, expand, prf, protection, seal_1_2, seal_1_3
from tests.transport_views import segments_of

CHANGE_CIPHER, ALERT, HANDSHAKE_RECORD = 20, 21, 22
CLIENT_HELLO, SERVER_HELLO, CERTIFICATE, CLIENT_KEY_EXCHANGE, FINISHED, KEY_UPDATE = (
    1,
    2,
    11,
    16,
    20,
    24,
)

_RANDOMS = (b"\xc1" * 32, b"\x5e" * 32)


def record(kind: int, body: bytes) -> bytes:
    """One that is not encrypted."""
    return struct.pack(">BHH", kind, 0x0303, len(body)) + body


def message(kind: int, body: bytes = b"") -> bytes:
    """One of a handshake."""
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def _extension(number: int, data: bytes) -> bytes:
    return struct.pack(">HH", number, len(data)) + data


class Invented:
    """One connection, record by record; direction 0 is what the client says."""

    def __init__(
        self,
        suite: str = "TLS_AES_128_GCM_SHA256",
        *,
        encrypt_then_mac: bool = False,
        offers_early: bool = False,
        host: bytes = b"",
        number: int = 1,
    ) -> None:
        """With the handshake done. ``number``: of the connection, which has keys and randoms of its
        own.
        """
        self.number = number
        self.writes: list[tuple[int, bytes]] = []
        """(direction, cipher bytes), as they were written."""
        self.ledgers = (Ledger(), Ledger())
        self.plain = (bytearray(), bytearray())
        self.is_1_3 = "_WITH_" not in suite
        self._suite = protection(suite)
        self._number = next(number for number, one in SUITES.items() if one.name == suite)
        self._randoms = [
            bytes(byte ^ number & 0xFF for byte in one[:-4]) + number.to_bytes(4, "big")
            for one in _RANDOMS
        ]
        self._encrypt_then_mac = encrypt_then_mac
        self._secrets = {
            label: self._secret(label) for label in (MASTER, EARLY, *HANDSHAKE, *TRAFFIC)
        }
        self._updated = [self._secrets[label] for label in TRAFFIC]
        self.numbers = [0, 0]
        """Sequence number of each direction's next record."""
        extensions = agreed = _extension(22, b"") if encrypt_then_mac else b""
        if host:
            extensions += _extension(0, struct.pack(">HBH", len(host) + 3, 0, len(host)) + host)
        offered = (
            _extension(43, b"\x04\x03\x04\x03\x03")
            + extensions
            + (_extension(42, b"") if offers_early else b"")
        )
        self.raw(
            0,
            record(
                HANDSHAKE_RECORD,
                message(
                    CLIENT_HELLO,
                    self._hello(0, struct.pack(">HH", 2, self._number), b"\1\0", offered),
                ),
            ),
        )
        chosen = _extension(43, b"\x03\x04") if self.is_1_3 else agreed
        hello = message(
            SERVER_HELLO, self._hello(1, struct.pack(">H", self._number), b"\0", chosen)
        )
        (self._handshake_1_3 if self.is_1_3 else self._handshake_1_2)(hello)
        self.handshake = tuple(len(ledger.records) for ledger in self.ledgers)
        """How many records of each direction belong to it."""

    def _secret(self, label: str) -> bytes:
        size = 48 if label == MASTER or self._suite.hash == "sha384" else 32
        return bytes(
            (sum(label.encode()) + self.number * 31 + place) & 0xFF for place in range(size)
        )

    def _hello(self, side: int, suites: bytes, compression: bytes, extensions: bytes) -> bytes:
        return (
            b"\3\3"
            + self._randoms[side]
            + b"\0"
            + suites
            + compression
            + struct.pack(">H", len(extensions))
            + extensions
        )

    def _handshake_1_3(self, hello: bytes) -> None:
        self.raw(1, record(HANDSHAKE_RECORD, hello))
        self._seals: list[Seal] = [
            seal_1_3(self._secrets[label], self._suite) for label in HANDSHAKE
        ]
        self.raw(1, record(CHANGE_CIPHER, b"\1"))
        self.send(
            1,
            message(8, b"\0\0") + message(CERTIFICATE, bytes(300)) + message(FINISHED, bytes(32)),
            kind=HANDSHAKE_RECORD,
        )
        self.raw(0, record(CHANGE_CIPHER, b"\1"))
        self.send(0, message(FINISHED, bytes(32)), kind=HANDSHAKE_RECORD)
        self._seals = [seal_1_3(secret, self._suite) for secret in self._updated]
        self.numbers = [0, 0]

    def _handshake_1_2(self, hello: bytes) -> None:
        suite = self._suite
        sizes = {"sha1": 20, "sha256": 32, "sha384": 48}.get(suite.mac, 0), suite.key, suite.iv
        left = prf(
            self._secrets[MASTER],
            b"key expansion" + self._randoms[1] + self._randoms[0],
            2 * sum(sizes),
            suite.hash,
        )
        parts: list[bytes] = []
        for size in sizes:
            parts += [left[:size], left[size : 2 * size]]
            left = left[2 * size :]
        self._seals = [
            seal_1_2(
                (parts[way], parts[2 + way], parts[4 + way]),
                suite,
                encrypt_then_mac=self._encrypt_then_mac,
            )
            for way in (0, 1)
        ]
        self.raw(
            1, record(HANDSHAKE_RECORD, hello + message(CERTIFICATE, bytes(300)) + message(14))
        )
        self.raw(0, record(HANDSHAKE_RECORD, message(CLIENT_KEY_EXCHANGE, bytes(33))))
        for side in (0, 1):
            self.raw(side, record(CHANGE_CIPHER, b"\1"))
            self.send(side, message(FINISHED, bytes(12)), kind=HANDSHAKE_RECORD)

    def send(
        self, direction: int, plain: bytes = b"", *, kind: int = APPLICATION, padding: int = 0
    ) -> bytes:
        """One record."""
        cipher = self._seals[direction](self.numbers[direction], kind, plain, padding)
        self.numbers[direction] += 1
        said = plain if kind == APPLICATION else b""
        self.raw(direction, cipher, len(said))
        self.plain[direction].extend(said)
        return cipher

    def update(self, direction: int, *, times: int = 1) -> None:
        """TLS 1.3: a KeyUpdate, and the keys after it."""
        for _ in range(times):
            self.send(direction, message(KEY_UPDATE, b"\0"), kind=HANDSHAKE_RECORD)
            self._updated[direction] = expand(
                self._updated[direction], "traffic upd", len(self._updated[direction]), self._suite
            )
            self._seals[direction] = seal_1_3(self._updated[direction], self._suite)
            self.numbers[direction] = 0

    def raw(self, direction: int, cipher: bytes, plain: int = 0) -> None:
        """Bytes as they are."""
        self.writes.append((direction, cipher))
        self.ledgers[direction].note(cipher, plain)

    @property
    def lines(self) -> bytes:
        """Its key log."""
        labels = (*HANDSHAKE, *TRAFFIC) if self.is_1_3 else (MASTER,)
        return "".join(
            f"{label} {self._randoms[0].hex()} {self._secrets[label].hex()}\n" for label in labels
        ).encode()

    @property
    def client_random(self) -> bytes:
        """What its key log is found by."""
        return self._randoms[0]

    def keys(self) -> KeyLog:
        """Its secrets."""
        keys = KeyLog()
        keys.add(self.lines)
        return keys


@dataclass(frozen=True, slots=True)
class Piece:
    """What one packet gives."""

    direction: int
    start: int
    """In the cipher stream."""
    data: bytes
    is_lost: bool = False
    packet: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def pieces(writes: Iterable[tuple[int, bytes]], size: int = 1448) -> list[Piece]:
    """Packets of at most so many bytes each."""
    at = [0, 0]
    made: list[Piece] = []
    for direction, data in writes:
        for begin in range(0, len(data), size):
            part = data[begin : begin + size]
            made.append(Piece(direction, at[direction], part, packet=len(made)))
            at[direction] += len(part)
    return made


def chunks(
    packets: Sequence[Piece],
    sizes: Sequence[int] = (),
    *,
    connection: int = 1,
    is_start: bool = True,
    is_end: bool = True,
) -> list[StreamChunk]:
    """Packets, which come in the order of their streams, in batches of so many (at last all that
    are left), client before server.
    """
    found: list[StreamChunk] = []
    waiting: list[list[Piece]] = [[], []]
    begun = [False, False]
    edges, at = [], 0
    for size in sizes:
        at += size
        edges.append(at)
    for begin, end in zip([0, *edges], [*edges, len(packets)], strict=True):
        is_last = end >= len(packets)
        for piece in packets[begin:end]:
            waiting[piece.direction].append(piece)
        for direction in (0, 1):
            # A hole is told with the bytes behind it, or at the end.
            here = waiting[direction]
            while here and here[-1].is_lost and not (is_last and is_end):
                here = here[:-1]
            if here or (is_last and is_end):
                waiting[direction] = waiting[direction][len(here) :]
                found.append(
                    _chunk(
                        connection,
                        direction,
                        here,
                        is_start=is_start and not begun[direction],
                        is_end=is_last and is_end,
                    )
                )
                begun[direction] = True
        if is_last:
            break
    return found


def _chunk(
    connection: int, direction: int, here: Sequence[Piece], *, is_start: bool, is_end: bool
) -> StreamChunk:
    number = np.array([piece.packet for piece in here], np.int64)
    lost = np.array([piece.is_lost for piece in here], bool)
    offsets = np.array([piece.start for piece in here], np.int64)
    segments = segments_of(
        offsets,
        number,
        np.where(lost, 0, number + 1),
        number * 0,
        number * 1000,
        np.maximum.accumulate(number),
    )
    data = np.frombuffer(
        b"".join(bytes(len(piece.data)) if piece.is_lost else piece.data for piece in here),
        np.uint8,
    )
    holes: list[tuple[int, int]] = []
    for piece in here:
        if piece.is_lost and holes and holes[-1][1] == piece.start:
            holes[-1] = (holes[-1][0], piece.end)
        elif piece.is_lost:
            holes.append((piece.start, piece.end))
    return StreamChunk(
        connection,
        direction,
        here[0].start if here else 0,
        data,
        segments,
        tuple(holes),
        is_start,
        is_end,
    )


def lose(packets: Sequence[Piece], which: Iterable[int]) -> list[Piece]:
    """Without these packets."""
    gone = set(which)
    return [
        replace(piece, is_lost=piece.is_lost or place in gone)
        for place, piece in enumerate(packets)
    ]
