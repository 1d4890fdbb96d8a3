"""The captures of ``bench.captures`` over TLS, with a key log: no sockets, OpenSSL works between
memory buffers.

python -m bench.tls_captures CAPTURE KEYLOG [MESSAGES] [1.2|1.3] [SUITE] [RECORD]
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench import captures
from bench.captures import CLIENT, SERVER, Bytes, Writer
from tests.tls import certificates
from tests.tls.endpoint import MOST
from tests.tls.memory import Ends
from tests.tls.peers import PORT, Contexts, Tls

_SOURCES = (CLIENT, SERVER)


def make(
    path: Path, keylog: Path, messages: int, *, tls: Tls | None = None, record: int = MOST
) -> int:
    """Write a capture with about so many messages, in records of so many plain bytes, and its key
    log; returns how many it has.
    """
    count, blocks = captures.streaming(messages)
    with tempfile.TemporaryDirectory() as folder:
        # Good today, when OpenSSL looks at it, and at the time of the capture.
        identity = certificates.authority().issue(days=(-4000, 30))
        contexts = Contexts(Path(folder), tls or Tls(), identity=identity)
        ends = Ends(contexts)
        with Writer(path, server_port=PORT) as writer:
            for direction, said in ends.handshake():
                writer.send(_SOURCES[direction], np.frombuffer(said, np.uint8))
            for direction, plain in enumerate(captures.opening()):
                writer.send(_SOURCES[direction], _sealed(ends, direction, plain, record))
            for block in blocks:
                writer.stream(_sealed(ends, 1, block, record))
        shutil.copyfile(contexts.keylog, keylog)
    return count


def lose(path: Path, into: Path, share: float, *, seed: int = 1) -> int:
    """Write a capture of ours without that share of its packets; returns how many that are. The
    first hundred stay: the handshake.
    """
    data, at, count, lost = path.read_bytes(), 24, 0, 0
    rng = random.Random(seed)  # noqa: S311 - no secret
    with into.open("wb") as out:
        out.write(data[:24])
        while at < len(data):
            end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
            count += 1
            if count > 100 and rng.random() < share:
                lost += 1
            else:
                out.write(data[at:end])
            at = end
    return lost


def _sealed(ends: Ends, direction: int, plain: Bytes, record: int) -> Bytes:
    return np.frombuffer(ends.seal(direction, memoryview(plain), record), np.uint8)


if __name__ == "__main__":
    capture, keys, *more = sys.argv[1:]
    messages, version, suite, record = (*more, *("1000000", "1.3", "", str(MOST))[len(more) :])
    assert version in ("1.2", "1.3")
    print(  # noqa: T201
        make(Path(capture), Path(keys), int(messages), tls=Tls(version, suite), record=int(record)),
        "messages",
    )
