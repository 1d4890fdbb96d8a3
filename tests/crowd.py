"""Captures of very many short connections, written fast."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.builders import ACK, FIN, PSH, RST, SYN, mutation

SERVER = bytes((10, 9, 9, 9))
PORT = 11_210


@dataclass
class Talk:
    """One connection: who sends what, in the order in which it is captured."""

    seed: int
    next: dict[bool, int] = field(default_factory=lambda: {True: 1000, False: 5000})
    packets: list[tuple[bool, int, int, int, bytes]] = field(default_factory=list)
    """To the server, sequence number, acknowledgement, flags, payload."""

    def send(self, to_server: bool, payload: bytes = b"", flags: int = ACK | PSH) -> None:
        """One packet."""
        ack = self.next[not to_server] if flags & ACK else 0
        self.packets.append((to_server, self.next[to_server], ack, flags, payload))
        self.next[to_server] += len(payload) + bool(flags & SYN) + bool(flags & FIN)

    def open(self) -> None:
        """The handshake."""
        self.send(True, flags=SYN)
        self.send(False, flags=SYN | ACK)
        self.send(True, flags=ACK)

    def close(self) -> None:
        """FIN from both sides."""
        self.send(True, flags=FIN | ACK)
        self.send(False, flags=FIN | ACK)
        self.send(True, flags=ACK)

    def noise(self, size: int) -> bytes:
        """Bytes that are no messages, others for every connection; values that begin headers are
        among them.
        """
        return random.Random(self.seed).randbytes(size)


def junk(talk: Talk) -> None:
    """In the middle of a connection, nothing that frames."""
    talk.send(True, talk.noise(200))
    talk.send(False, talk.noise(200))


def long_junk(talk: Talk) -> None:
    """The same, 30 kB."""
    for part in range(10):
        talk.send(part % 2 == 0, talk.noise(3000))


def one_way(talk: Talk) -> None:
    """The same, one direction of it."""
    talk.send(False, talk.noise(200))


def handshake(talk: Talk) -> None:
    """Nothing but that."""
    talk.open()


def reset(talk: Talk) -> None:
    """A handshake that is refused."""
    talk.send(True, flags=SYN)
    talk.send(False, flags=RST | ACK)


def tls(talk: Talk) -> None:
    """TLS from its start."""
    talk.open()
    talk.send(True, b"\x16\x03\x01\x01\x00\x01" + talk.noise(255))
    talk.send(False, b"\x16\x03\x03\x01\x00\x02" + talk.noise(255))
    talk.send(True, b"\x17\x03\x03\x01\x00" + talk.noise(256))


def tls_within(talk: Talk) -> None:
    """TLS from its middle."""
    for part in range(4):
        talk.send(part % 2 == 0, (b"\x17\x03\x03\x02\x00" + talk.noise(512)) * 4)


def text(talk: Talk) -> None:
    """memcached's text protocol from its middle, at length."""
    for _ in range(4):
        talk.send(True, b"get some-key\r\n" * 80)
        talk.send(False, b"END\r\n" * 80)


def spoilt(talk: Talk) -> None:
    """A handshake, then nothing that frames."""
    talk.open()
    junk(talk)


def hole(talk: Talk) -> None:
    """The server's first bytes are lost."""
    talk.open()
    talk.next[False] += 500
    talk.send(False, talk.noise(200))
    talk.send(True, talk.noise(50))


def messages(talk: Talk) -> None:
    """Three messages."""
    talk.open()
    talk.send(False, b"".join(mutation(number) for number in range(1, 4)))


def messages_within(talk: Talk) -> None:
    """Five messages, from the middle of a connection."""
    talk.send(False, b"".join(mutation(number) for number in range(1, 6)))


Kind = Callable[[Talk], None]
KINDS: tuple[Kind, ...] = (
    junk, long_junk, one_way, handshake, reset, tls, tls_within, text, spoilt, hole, messages, messages_within,
)  # fmt: skip


def crowd(kinds: Sequence[Kind], count: int, *, closed: bool, port: int = PORT) -> Iterator[bytes]:
    """A pcap of ``count`` connections one after the other, of these kinds in turn; piece by
    piece.
    """
    yield struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    time = 0
    for number in range(count):
        talk = Talk(number)
        kinds[number % len(kinds)](talk)
        if closed:
            talk.close()
        client, client_port = (
            struct.pack(">I", 0x0A000100 + number // 50_000),
            10_000 + number % 50_000,
        )
        for to_server, seq, ack, flags, payload in talk.packets:
            time += 10
            ends = (
                (client, SERVER, client_port, port)
                if to_server
                else (SERVER, client, port, client_port)
            )
            frame = _frame(*ends, seq, ack, flags, payload)
            yield (
                struct.pack(
                    "<IIII",
                    1_700_000_000 + time // 1_000_000,
                    time % 1_000_000,
                    len(frame),
                    len(frame),
                )
                + frame
            )


def _frame(
    source: bytes,
    target: bytes,
    source_port: int,
    target_port: int,
    seq: int,
    ack: int,
    flags: int,
    payload: bytes,
) -> bytes:
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, source, target)
    tcp = struct.pack(
        ">HHIIBBHHH",
        source_port,
        target_port,
        seq & 0xFFFFFFFF,
        ack & 0xFFFFFFFF,
        5 << 4,
        flags,
        65_535,
        0,
        0,
    )
    return b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\0" + ip + tcp + payload
