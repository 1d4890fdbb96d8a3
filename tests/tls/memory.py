"""Client and server in one process, with nothing between them but memory."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from tests.tls import certificates
from tests.tls.peers import Contexts


class Ends:
    """Both ends of one connection; direction 0 is what the client says."""

    def __init__(self, contexts: Contexts) -> None:
        self._in, self._out = ([ssl.MemoryBIO(), ssl.MemoryBIO()] for _ in range(2))
        self.tls = (
            contexts.client.wrap_bio(self._in[0], self._out[0], server_hostname=certificates.SERVER_NAME),
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

    def seal(self, direction: int, data: memoryview, record: int) -> bytes:
        """Plain bytes in records of that size; the other side never reads them."""
        for at in range(0, len(data), record):
            self.tls[direction].write(data[at : at + record])
        return self._out[direction].read()
