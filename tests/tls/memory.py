"""Client and server in one process, with nothing between them but memory."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import suppress

from tests.tls import certificates, openssl
from tests.tls.peers import Contexts


class Ends:
    """Both ends of one connection; direction 0 is what the client says."""

    def __init__(self, contexts: Contexts) -> None:
        self._in, self._out = ([ssl.MemoryBIO(), ssl.MemoryBIO()] for _ in range(2))
        self.tls = (
            contexts.client.wrap_bio(
                self._in[0], self._out[0], server_hostname=certificates.SERVER_NAME
            ),
            contexts.server.wrap_bio(self._in[1], self._out[1], server_side=True),
        )

    def handshake(self) -> Iterator[tuple[int, bytes]]:
        """(direction, bytes) of all that is said, up to the server's tickets."""
        waiting = {0, 1}
        while waiting:
            for direction in (0, 1):
                try:
                    self.tls[direction].do_handshake()
                    waiting.discard(direction)
                except ssl.SSLWantReadError:
                    pass
                if said := self._out[direction].read():
                    self._in[1 - direction].write(said)
                    yield direction, said

    def renegotiate(self) -> Iterator[tuple[int, bytes]]:
        """The same of a new handshake with TLS 1.2, which the client begins inside the
        connection.
        """
        openssl.renegotiate(self.tls[0])
        is_done = False
        while not is_done:
            try:
                self.tls[0].do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            for direction in (0, 1):
                with suppress(ssl.SSLWantReadError):
                    if direction:
                        self.tls[1].read(1)
                if said := self._out[direction].read():
                    self._in[1 - direction].write(said)
                    yield direction, said

    def seal(self, direction: int, data: memoryview, record: int) -> bytes:
        """Plain bytes in records of that size; the other side never reads them."""
        for at in range(0, len(data), record):
            self.tls[direction].write(data[at : at + record])
        return self._out[direction].read()

    def deliver(self, direction: int, sealed: bytes) -> None:
        """Let the other side read what was sealed, which it has to before there are new keys."""
        self._in[1 - direction].write(sealed)
        with suppress(ssl.SSLWantReadError):
            while self.tls[1 - direction].read(1 << 14):
                pass
