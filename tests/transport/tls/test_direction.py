"""Damage takes the records that it hit, and no other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.store import Store
from dcpinspect.transport.tls.keylog import KeyLog
from dcpinspect.transport.tls.stage import TlsStage
from tests import damage as packets_damaged
from tests.peers.network import NEEDS_ROOT
from tests.tls.damage import Tape, save, save_cut, taped
from tests.tls.damage import cut as cut_packets
from tests.tls.decrypted import expected, has_hellos, read, said
from tests.tls.invented import ALERT, Invented, chunks, pieces
from tests.tls.peers import Recorded
from tests.tls.variants import make

pytestmark = [NEEDS_ROOT, pytest.mark.requires("tcpdump")]


@pytest.fixture(
    scope="module",
    params=[
        "1.3 TLS_AES_128_GCM_SHA256",
        "1.3 TLS_CHACHA20_POLY1305_SHA256",
        "1.2 ECDHE-RSA-AES256-GCM-SHA384",
    ],
)
def tape(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tape, Recorded]:
    recorded = make(request.param, tmp_path_factory.mktemp("tls"))
    return taped(recorded), recorded


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
def test_packets_that_are_lost_take_what_they_hit(
    share: float, seed: int, tape: tuple[Tape, Recorded], tmp_path: Path
) -> None:
    what, recorded = tape
    packets = packets_damaged.lost(what.packets, share, seed)
    whole, _, _ = read(save(tmp_path / "x.pcap", packets), recorded.keylog)
    found = Counter(data for _, _, data in whole)
    assert found <= Counter(data for _, _, data in said(recorded))
    if has_hellos(what, packets):
        assert found >= expected(what, packets)


def test_messages_can_be_looked_up_behind_holes(tmp_path: Path) -> None:
    recorded = make("1.3 records of maximum size", tmp_path)
    what = taped(recorded)
    path = save(tmp_path / "x.pcap", packets_damaged.lost(what.packets, 0.05, 1))
    whole, hit, _ = read(path, recorded.keylog)
    with (
        Store() as store,
        Reading([str(path)], keeper=store, keys=KeyLog([str(recorded.keylog)])) as reading,
    ):
        for _ in store.fill(reading):
            pass
        found = Counter(
            bytes(store.messages([row]).bytes_of(0)) for row in range(1, store.rows + 1)
        )
    assert found == Counter(data for _, _, data in whole + hit)


def test_packets_that_come_in_another_order_or_twice_change_nothing(
    tape: tuple[Tape, Recorded], tmp_path: Path
) -> None:
    what, recorded = tape
    for packets in (
        packets_damaged.swapped(what.packets, 0.05, 1),
        packets_damaged.doubled(what.packets, 1),
    ):
        whole, hit, _ = read(save(tmp_path / "x.pcap", packets), recorded.keylog)
        assert Counter(whole) == Counter(said(recorded))
        assert hit == []


def test_a_file_that_ends_early_gives_what_it_has(
    tape: tuple[Tape, Recorded], tmp_path: Path
) -> None:
    what, recorded = tape
    packets = save_cut(tmp_path / "x.pcap", what.packets, 0.6)
    whole, _, _ = read(tmp_path / "x.pcap", recorded.keylog)
    assert Counter(data for _, _, data in whole) == expected(what, packets)


def test_packets_that_are_cut_to_a_length_invent_nothing(
    tape: tuple[Tape, Recorded], tmp_path: Path
) -> None:
    what, recorded = tape
    for snaplen in (80, 200, 700):
        whole, _, _ = read(
            save(tmp_path / "x.pcap", cut_packets(what.packets, snaplen)), recorded.keylog
        )
        assert Counter(data for _, _, data in whole) <= Counter(
            data for _, _, data in said(recorded)
        )


def test_keys_that_are_updated_in_a_capture_begun_inside_hide_nothing() -> None:
    talk = Invented()
    begun = len(talk.writes)
    for _ in range(4):
        talk.send(1, bytes(100))
    talk.update(1)
    for _ in range(8):
        talk.send(1, bytes(100))
    talk.send(1, b"\1\0", kind=ALERT)
    parts = chunks(pieces(talk.writes[begun:]), is_start=False)
    opened = TlsStage(talk.keys()).plain(parts, is_last=True)
    assert sum(len(part.data) for part in opened) == 12 * 100
