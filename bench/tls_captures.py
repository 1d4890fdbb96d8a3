"""The captures of ``bench.captures`` over TLS, with a key log: no sockets, OpenSSL works between memory buffers.

python -m bench.tls_captures CAPTURE KEYLOG [MESSAGES] [1.2|1.3] [SUITE] [RECORD]
"""

from __future__ import annotations

import shutil
import ssl
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench import captures
from bench.captures import CLIENT, SERVER, Bytes, Writer
from tests.tls import certificates
from tests.tls.endpoint import MOST
from tests.tls.peers import PORT, Contexts, Tls


class _Ends:
    """Client and server in this process."""

    def __init__(self, contexts: Contexts) -> None:
        self._in = {CLIENT: ssl.MemoryBIO(), SERVER: ssl.MemoryBIO()}
        self._out = {CLIENT: ssl.MemoryBIO(), SERVER: ssl.MemoryBIO()}
        name = certificates.SERVER_NAME
        self._ends = {
            CLIENT: contexts.client.wrap_bio(self._in[CLIENT], self._out[CLIENT], server_hostname=name),
            SERVER: contexts.server.wrap_bio(self._in[SERVER], self._out[SERVER], server_side=True),
        }

    def handshake(self, writer: Writer) -> None:
        """Both sides of it, up to the server's tickets."""
        waiting = {CLIENT, SERVER}
        while waiting:
            for source, peer in ((CLIENT, SERVER), (SERVER, CLIENT)):
                try:
                    self._ends[source].do_handshake()
                    waiting.discard(source)
                except ssl.SSLWantReadError:
                    pass
                if said := self._out[source].read():
                    writer.send(source, np.frombuffer(said, np.uint8))
                    self._in[peer].write(said)

    def seal(self, source: bytes, data: Bytes, record: int) -> Bytes:
        """The records of plain bytes; the other side never reads them."""
        view = memoryview(data)
        for at in range(0, len(view), record):
            self._ends[source].write(view[at : at + record])
        return np.frombuffer(self._out[source].read(), np.uint8)


def make(path: Path, keylog: Path, messages: int, *, tls: Tls | None = None, record: int = MOST) -> int:
    """Write a capture with about so many messages, in records of so many plain bytes, and its key log; returns how many it has."""
    count, blocks = captures.streaming(messages)
    with tempfile.TemporaryDirectory() as folder:
        # Good today, when OpenSSL looks at it, and at the time of the capture.
        identity = certificates.authority().issue(days=(-4000, 30))
        contexts = Contexts(Path(folder), tls or Tls(), identity=identity)
        ends = _Ends(contexts)
        with Writer(path, server_port=PORT) as writer:
            ends.handshake(writer)
            for source, said in zip((CLIENT, SERVER), captures.opening(), strict=True):
                writer.send(source, ends.seal(source, said, record))
            for block in blocks:
                writer.stream(ends.seal(SERVER, block, record))
        shutil.copyfile(contexts.keylog, keylog)
    return count


if __name__ == "__main__":
    capture, keys, *more = sys.argv[1:]
    messages, version, suite, record = (*more, *("1000000", "1.3", "", str(MOST))[len(more) :])
    assert version in ("1.2", "1.3")
    print(make(Path(capture), Path(keys), int(messages), tls=Tls(version, suite), record=int(record)), "messages")  # noqa: T201
