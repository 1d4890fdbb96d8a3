"""TLS decrypted: every way of speaking it gives the messages that were said; damage takes those that it hit, and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.reading import Reading
from dcpinspect.store.store import Store
from dcpinspect.transport.tls.alerts import ALERTS
from dcpinspect.transport.tls.keylog import KeyLog
from tests import damage as packets_damaged
from tests.peers.network import NEEDS_ROOT
from tests.tls.damage import Tape, midstream, one_way, save, save_cut, taped, untouched
from tests.tls.damage import cut as cut_packets
from tests.tls.peers import REFUSALS, Recorded, Tls, refuse
from tests.tls.variants import VARIANTS, make

pytestmark = [NEEDS_ROOT, pytest.mark.requires("tcpdump")]

Message = tuple[str, int, bytes]
"""The client's address, direction, bytes."""


def read(path: Path, keylog: Path | None) -> tuple[list[Message], list[Message], Reading]:
    """Whole messages, those that bytes are missing of, and the reading."""
    whole: list[Message] = []
    hit: list[Message] = []
    keys = KeyLog([str(keylog)] if keylog is not None and keylog.exists() else [])
    with Reading([str(path)], keys=keys) as reading:
        reading.check()
        for batch in reading:
            missing = set(batch.missing.row.tolist())
            for place in range(len(batch)):
                client = batch.endpoints.client[int(batch.connection[place]) - 1]
                found = (client, int(batch.direction[place]), bytes(batch.bytes_of(place)))
                (hit if place in missing else whole).append(found)
    for one in reading.coverage.directions:
        decoded = one.decoded + sum(one.skipped.values()) + one.unfinished + one.not_decodable
        assert one.unique == decoded + one.tls
    return whole, hit, reading


def said(recorded: Recorded) -> list[Message]:
    ways = [(connection.said, way) for connection in recorded.connections for way in (0, 1)]
    return [(f"{talk.client[0]}:{talk.client[1]}", way, data) for talk, way in ways for data in (talk.c2s, talk.s2c)[way]]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_way_of_speaking_tls_gives_what_was_said(name: str, tmp_path: Path) -> None:
    recorded = make(name, tmp_path)
    whole, hit, reading = read(recorded.path, recorded.keylog)
    assert Counter(whole) == Counter(said(recorded))
    assert hit == []
    told = {link.client: link.tls for link in reading.engine.links}
    for connection in recorded.connections:
        text = told[f"{connection.said.client[0]}:{connection.said.client[1]}"]
        assert text is not None
        assert text.startswith(connection.version.replace("TLSv", "TLS "))
        assert ", 0 lost, " in text
        assert text.endswith(" 0 refused")


@pytest.fixture(
    scope="module", params=["1.3 TLS_AES_128_GCM_SHA256", "1.3 TLS_CHACHA20_POLY1305_SHA256", "1.2 ECDHE-RSA-AES256-GCM-SHA384"]
)
def tape(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tape, Recorded]:
    recorded = make(request.param, tmp_path_factory.mktemp("tls"))
    return taped(recorded), recorded


def expected(tape: Tape, packets: Sequence[packets_damaged.Packet]) -> Counter[bytes]:
    left = untouched(tape, packets)
    return Counter(tape.messages[flow][number] for flow, one in left.items() for number in one.messages)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
def test_packets_that_are_lost_take_what_they_hit(share: float, seed: int, tape: tuple[Tape, Recorded], tmp_path: Path) -> None:
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
    with Store() as store, Reading([str(path)], keeper=store, keys=KeyLog([str(recorded.keylog)])) as reading:
        for _ in store.fill(reading):
            pass
        found = Counter(bytes(store.bytes_of(row)) for row in range(1, store.rows + 1))
    assert found == Counter(data for _, _, data in whole + hit)


def has_hellos(tape: Tape, packets: Sequence[packets_damaged.Packet]) -> bool:
    """The first record of each direction is there: without it TLS 1.2 cannot be read."""
    return all(0 in one.records for one in untouched(tape, packets).values())


def test_packets_that_come_in_another_order_or_twice_change_nothing(tape: tuple[Tape, Recorded], tmp_path: Path) -> None:
    what, recorded = tape
    for packets in (packets_damaged.swapped(what.packets, 0.05, 1), packets_damaged.doubled(what.packets, 1)):
        whole, hit, _ = read(save(tmp_path / "x.pcap", packets), recorded.keylog)
        assert Counter(whole) == Counter(said(recorded))
        assert hit == []


def test_a_file_that_ends_early_gives_what_it_has(tape: tuple[Tape, Recorded], tmp_path: Path) -> None:
    what, recorded = tape
    packets = save_cut(tmp_path / "x.pcap", what.packets, 0.6)
    whole, _, _ = read(tmp_path / "x.pcap", recorded.keylog)
    assert Counter(data for _, _, data in whole) == expected(what, packets)


def test_packets_that_are_cut_to_a_length_invent_nothing(tape: tuple[Tape, Recorded], tmp_path: Path) -> None:
    what, recorded = tape
    for snaplen in (80, 200, 700):
        whole, _, _ = read(save(tmp_path / "x.pcap", cut_packets(what.packets, snaplen)), recorded.keylog)
        assert Counter(data for _, _, data in whole) <= Counter(data for _, _, data in said(recorded))


@pytest.mark.parametrize("suite", ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
def test_a_capture_that_begins_inside_a_connection_is_read(suite: str, tmp_path: Path) -> None:
    recorded = make(f"1.3 {suite}", tmp_path)
    what = taped(recorded)
    for share in (0.3, 0.6):
        packets = midstream(what.packets, share)
        whole, _, _ = read(save(tmp_path / "x.pcap", packets), recorded.keylog)
        found, truth = Counter(data for _, _, data in whole), expected(what, packets)
        assert found <= Counter(data for _, _, data in said(recorded))
        assert sum((truth & found).values()) > 0.8 * sum(truth.values())


def test_one_direction_alone_is_read(tmp_path: Path) -> None:
    recorded = make("1.3 TLS_AES_256_GCM_SHA384", tmp_path)
    what = taped(recorded)
    for direction in (0, 1):
        packets = one_way(what.packets, direction)
        whole, _, _ = read(save(tmp_path / "x.pcap", packets), recorded.keylog)
        assert Counter(data for _, _, data in whole) <= Counter(data for _, _, data in said(recorded))


def by_rule(reading: Reading) -> dict[str, Finding]:
    return {one.rule: one for one in reading.findings()}


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("what", REFUSALS)
def test_handshakes_that_fail_say_who_ended_them_and_why(what: str, version: str, tmp_path: Path) -> None:
    refused = refuse(tmp_path, what, Tls(version))  # type: ignore[arg-type] # one of the two
    _, _, reading = read(refused.path, refused.keylog)
    found = by_rule(reading)
    assert found["tls-alert"].message.startswith(f"the {refused.side} says {ALERTS[refused.alert][0]}: ")
    if what in ("expired", "wrong name"):
        assert found["tls-certificate"].cause == {"expired": "expired", "wrong name": "other-name"}[what]


def test_connections_without_secrets_say_how_to_find_them(tmp_path: Path) -> None:
    recorded = make("1.3 TLS_AES_128_GCM_SHA256", tmp_path)
    _, _, reading = read(recorded.path, None)
    line = next(line for line in recorded.keylog.read_text().splitlines() if line.startswith("CLIENT_TRAFFIC"))
    client_random = line.split()[1]
    message = by_rule(reading)["tls-without-key"].message
    assert "TLS 1.3, TLS_AES_128_GCM_SHA256, server name " in message
    assert client_random in message
    other = tmp_path / "other.log"
    other.write_text(recorded.keylog.read_text().replace(client_random, "0" * 64))
    _, _, reading = read(recorded.path, other)
    assert client_random in by_rule(reading)["tls-key-unknown"].message
    assert "tls-without-key" not in by_rule(reading)
