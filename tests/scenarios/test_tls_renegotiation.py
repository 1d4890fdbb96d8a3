"""TLS 1.2 connections whose keys are changed by a new handshake inside."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests import builders, damage
from tests.damage import Talk
from tests.tls import openssl
from tests.tls.damage import save
from tests.tls.decrypted import Message, read
from tests.tls.memory import Ends
from tests.tls.peers import PORT, Contexts, Tls

SUITES = ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"]


def recorded(folder: Path, suite: str) -> tuple[list[damage.Packet], Path, list[Message]]:
    """Packets, key log and messages of a connection that renegotiates twice, between messages of
    both sides.
    """
    contexts = Contexts(folder, Tls("1.2", suite))
    contexts.server.options |= openssl.ALLOW_CLIENT_RENEGOTIATION
    ends, talk = Ends(contexts), Talk(server_port=PORT)
    talk.handshake()
    said: list[Message] = []
    for turn in range(3):
        for direction, data in ends.handshake() if turn == 0 else ends.renegotiate():
            talk.stream(direction, data)
        for seqno in range(5):
            for direction in (0, 1):
                message = builders.mutation(100 * turn + seqno + 1, value=b"x" * 700)
                said.append(("10.0.0.1:50000", direction, message))
                sealed = ends.seal(direction, memoryview(message), 1 << 14)
                ends.deliver(direction, sealed)
                talk.stream(direction, sealed)
    talk.close()
    return talk.packets, contexts.keylog, said


@pytest.mark.parametrize("suite", SUITES)
def test_what_was_said_before_and_after_is_read(suite: str, tmp_path: Path) -> None:
    packets, keylog, said = recorded(tmp_path, suite)
    whole, hit, reading = read(save(tmp_path / "x.pcap", packets), keylog)
    assert (Counter(whole), hit) == (Counter(said), [])
    (link,) = reading.engine.links
    assert str(link.tls).endswith(" 0 lost, 0 refused; its keys were renegotiated 2 times")


def test_without_the_new_secret_it_ends_there_and_says_so(tmp_path: Path) -> None:
    packets, keylog, said = recorded(tmp_path, SUITES[0])
    lines = [
        line for line in keylog.read_text().splitlines(keepends=True) if not line.startswith("#")
    ]
    keylog.write_text("".join(lines[:2]))
    whole, hit, reading = read(save(tmp_path / "x.pcap", packets), keylog)
    assert (Counter(whole), hit) == (Counter(said[:20]), [])
    (link,) = reading.engine.links
    assert (
        "; its keys were renegotiated 1 time; a new handshake changed its keys, and the key "
        "log has no secret of that"
    ) in str(link.tls)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_lost_around_it_invents_nothing(seed: int, tmp_path: Path) -> None:
    packets, keylog, said = recorded(tmp_path, SUITES[seed % 3])
    whole, _, _ = read(save(tmp_path / "x.pcap", damage.lost(packets, 0.05, seed)), keylog)
    assert Counter(whole) <= Counter(said)
