"""Records that OpenSSL does not write are ones that tshark opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import mutations
from tests.tls import oracle
from tests.tls.damage import taped, untouched
from tests.tls.forged import Forged
from tests.tls.peers import AEAD_1_2, CBC_1_2, SUITES_1_3, Tls

pytestmark = [pytest.mark.requires("tshark"), pytest.mark.deep]  # as test_peers

WAYS = [
    *(Tls(suites=suite) for suite in SUITES_1_3),
    *(Tls("1.2", suite) for suite in AEAD_1_2),
    *(Tls("1.2", suite, encrypt_then_mac=etm) for suite in CBC_1_2 for etm in (True, False)),
]


@pytest.mark.parametrize(
    "tls",
    WAYS,
    ids=lambda tls: f"{tls.suites}{'' if tls.encrypt_then_mac else ' MAC-then-encrypt'}",
)
def test_tshark_opens_records_that_are_empty_tiny_or_padded(tls: Tls, tmp_path: Path) -> None:
    forged = Forged(tmp_path, tls)
    first, *more = mutations(9)
    forged.send(0)
    forged.send(1)
    forged.send(1)
    for data in (first[:1], first[1:30], b"", first[30:], b"".join(more)):
        forged.send(1, data)
    forged.send(0, first)
    if "GCM" not in tls.suites and "POLY" not in tls.suites:
        forged.send(1, first, padding=224)
    elif tls.version == "1.3":
        forged.send(1, first, padding=1000)
        forged.send(1, padding=5)
    recorded = forged.finish()
    said = recorded.connections[0].said
    assert oracle.plain(recorded.path, recorded.keylog, 0, said.server) == (
        b"".join(said.c2s),
        b"".join(said.s2c),
    )
    assert len(said.s2c) >= 9


def test_a_spoilt_record_holds_nothing(tmp_path: Path) -> None:
    forged = Forged(tmp_path)
    one, two, three = mutations(3)
    forged.send(1, one)
    forged.send(1, two, spoilt=True)
    forged.send(1, three)
    recorded = forged.finish()
    assert recorded.connections[0].said.s2c == [one, three]
    assert (
        one
        in oracle.plain(recorded.path, recorded.keylog, 0, recorded.connections[0].said.server)[1]
    )


def test_a_forged_capture_can_be_damaged(tmp_path: Path) -> None:
    forged = Forged(tmp_path)
    for data in mutations(20):
        forged.send(1, data)
    tape = taped(forged.finish())
    whole = [place for place, packet in enumerate(tape.packets) if packet.size]
    left = untouched(
        tape, [packet for place, packet in enumerate(tape.packets) if place != whole[-3]]
    )
    assert [len(left[flow].messages) for flow in sorted(left, key=lambda flow: flow[2])] == [0, 19]


@pytest.mark.requires("editcap")
def test_tshark_reads_a_capture_with_its_secrets_in_it(tmp_path: Path) -> None:
    forged = Forged(tmp_path)
    forged.send(1, b"".join(mutations(5)))
    recorded = forged.finish()
    path = oracle.embed(recorded.path, recorded.keylog, tmp_path / "embedded.pcapng")
    assert oracle.messages(path, tmp_path / "none.log") == 5
