"""TLS before a socket, as an end of a conversation uses one; and which record holds which plain
bytes.

Python's SSLSocket may not be read and written by two threads at once, which the ends do. Here
OpenSSL works between two memory buffers under a lock. So every write is seen, and each of its
records is noted as it is made.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from tests.tls import openssl

MOST = 1 << 14
"""Plain bytes that a record can hold."""

HEADER = 5


@dataclass(frozen=True, slots=True)
class Sealed:
    """One record of one direction, by offsets in its byte streams; half-open."""

    start: int
    end: int
    """In the cipher stream, header included."""
    kind: int
    """The content type that everybody can see; 23 for all that TLS 1.3 encrypts."""
    plain_start: int
    plain_end: int
    """In the stream of DCP; an empty range for a record of TLS's own."""


def headers(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(content type, start, end) of each record of an undamaged cipher stream."""
    at = 0
    while at < len(data):
        end = at + HEADER + int.from_bytes(data[at + 3 : at + 5], "big")
        yield data[at], at, end
        at = end


class Ledger:
    """The records of one direction, in order, as they are written."""

    def __init__(self) -> None:
        self.records: list[Sealed] = []
        self._cipher = self._plain = 0

    def note(self, cipher: bytes, plain: int = 0) -> None:
        """What one write gave; plain bytes stand in its last record, keys and the like
        before it.
        """
        found = list(headers(cipher))
        for number, (kind, start, end) in enumerate(found, 1):
            size = plain if number == len(found) else 0
            self.records.append(
                Sealed(
                    self._cipher + start, self._cipher + end, kind, self._plain, self._plain + size
                )
            )
            self._plain += size
        self._cipher += len(cipher)


@dataclass(frozen=True, slots=True)
class Habits:
    """How an end writes."""

    sizes: Sequence[int] = (MOST,)
    """Plain bytes of its records, in turn."""
    update_every: int = 0
    """TLS 1.3: new keys before every so many writes."""
    update_both: bool = False
    """It has the other side do the same."""
    early: bytes = b""
    """A client's early data where its session allows it; a server takes it and keeps it apart."""


USUAL = Habits()
"""Records as large as what is written."""


class TlsSocket:
    """A socket with TLS before it; made by ``handshake``."""

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject],
        habits: Habits,
    ) -> None:
        self._sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = make(self._in, self._out)
        self.address, self.peer = sock.getsockname()[:2], sock.getpeername()[:2]
        self.sent = Ledger()
        self.early = b""
        """Early data that this server got."""
        self.version, self.suite, self.resumed = "", "", False
        self._habits = habits
        self._sizes = cycle(habits.sizes)
        self._writes = 0
        self._state = threading.Lock()
        self._sending = threading.Lock()

    def handshake(self) -> None:
        """Both sides' hellos to Finished; what it fails with is raised once the other side can
        know.
        """
        if self._habits.early and not self.tls.server_side and self.tls.session is not None:
            openssl.write_early(self.tls, self._habits.early)
        early = bool(self._habits.early and self.tls.server_side)
        try:
            while True:
                try:
                    if early:
                        data, finished = openssl.read_early(self.tls)
                        self.early += data
                        early = not finished
                        if not data and not finished:
                            raise ssl.SSLWantReadError
                        continue
                    self.tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    self._flush()
                    self._fill()
        finally:
            self._flush()
        cipher = self.tls.cipher()
        assert cipher is not None
        self.version, self.suite, self.resumed = (
            str(self.tls.version()),
            cipher[0],
            bool(self.tls.session_reused),
        )

    def _fill(self) -> None:
        data = self._sock.recv(1 << 16)
        with self._state:
            self._in.write(data) if data else self._in.write_eof()

    def _flush(self) -> None:
        """Send what OpenSSL has written of its own."""
        with self._sending:
            with self._state:
                out = self._out.read()
                self.sent.note(out)
            if out:
                self._sock.sendall(out)

    def recv(self, size: int, /) -> bytes:
        """Plain bytes; none at close_notify, or where the connection ends without one."""
        while True:
            try:
                with self._state:
                    return self.tls.read(size)
            except ssl.SSLWantReadError:
                self._fill()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    def sendall(self, data: bytes | bytearray, /) -> None:
        """In records of the sizes that are its habit, all in one write to the socket."""
        habits = self._habits
        with self._sending:
            out = []
            with self._state:
                self._writes += 1
                if habits.update_every and self._writes % habits.update_every == 0:
                    openssl.update_keys(self.tls, both=habits.update_both)
                at = 0
                while at < len(data):
                    piece = bytes(data[at : at + next(self._sizes)])
                    written = self.tls.write(piece)
                    assert written == len(piece)
                    at += written
                    out.append(self._out.read())
                    self.sent.note(out[-1], written)
            self._sock.sendall(b"".join(out))

    def shutdown(self, how: int, /) -> None:
        """Writing ends with close_notify."""
        if how != socket.SHUT_RD:
            with self._state:
                openssl.say_goodbye(self.tls)
            with suppress(OSError):
                self._flush()
        self._sock.shutdown(how)

    def settimeout(self, value: float | None, /) -> None:
        """The socket's."""
        self._sock.settimeout(value)

    def setsockopt(self, level: int, name: int, value: int | bytes, /) -> None:
        """The socket's."""
        self._sock.setsockopt(level, name, value)

    def getsockname(self) -> Any:
        """The socket's."""
        return self._sock.getsockname()

    def getpeername(self) -> Any:
        """The socket's."""
        return self._sock.getpeername()

    def close(self) -> None:
        """The socket's; nothing more is said."""
        self._sock.close()
