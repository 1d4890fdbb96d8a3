"""TLS decrypted: every way of speaking it gives the messages that were said."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.tls.alerts import ALERTS
from tests.peers.network import NEEDS_ROOT
from tests.tls.damage import midstream, one_way, save, taped
from tests.tls.decrypted import expected, read, said
from tests.tls.peers import REFUSALS, SUITES_1_3, Tls, Version, record, refuse
from tests.tls.variants import VARIANTS, make, short

pytestmark = [NEEDS_ROOT, pytest.mark.slow, pytest.mark.requires("tcpdump")]


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
        assert " 0 refused" in text
        assert text.endswith(" 0 refused") or (
            name == "1.3 early data"
            and re.search(r" refused; \d+ records? of early data not read", text)
        )


@pytest.mark.parametrize("suite", SUITES_1_3)
def test_a_capture_that_begins_inside_a_connection_is_read(suite: str, tmp_path: Path) -> None:
    recorded = make(f"1.3 {suite}", tmp_path)
    what = taped(recorded)
    for share in (0.3, 0.6):
        packets = midstream(what.packets, share)
        whole, _, _ = read(save(tmp_path / "x.pcap", packets), recorded.keylog)
        found, truth = Counter(data for _, _, data in whole), expected(what, packets)
        assert truth <= found <= Counter(data for _, _, data in said(recorded))


@pytest.mark.parametrize("suite", SUITES_1_3)
@pytest.mark.parametrize("direction", [0, 1])
def test_one_direction_alone_is_read(direction: int, suite: str, tmp_path: Path) -> None:
    recorded = make(f"1.3 {suite}", tmp_path)
    what = taped(recorded)
    for share in (0, 0.4):
        packets = midstream(one_way(what.packets, direction), share)
        whole, _, _ = read(save(tmp_path / "x.pcap", packets), recorded.keylog)
        found = Counter(data for _, _, data in whole)
        assert expected(what, packets) <= found <= Counter(data for _, _, data in said(recorded))


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_connections_of_any_port_are_found_by_the_protocol_inside(
    version: Version, tmp_path: Path
) -> None:
    recorded = record(tmp_path, short(), Tls(version), port=12_345)
    whole, hit, _ = read(recorded.path, recorded.keylog, find_ports=True)
    assert (Counter(whole), hit) == (Counter(said(recorded)), [])
    assert read(recorded.path, recorded.keylog)[0] == []
    if version == "1.3":
        what = taped(recorded, 12_345)
        packets = midstream(what.packets, 0.4)
        whole, _, _ = read(save(tmp_path / "x.pcap", packets), recorded.keylog, find_ports=True)
        assert (
            expected(what, packets)
            <= Counter(data for _, _, data in whole)
            <= Counter(data for _, _, data in said(recorded))
        )


def by_rule(reading: Reading) -> dict[str, Finding]:
    return {one.rule: one for one in reading.findings()}


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("what", REFUSALS)
def test_handshakes_that_fail_say_who_ended_them_and_why(
    what: str, version: str, tmp_path: Path
) -> None:
    refused = refuse(tmp_path, what, Tls(version))  # type: ignore[arg-type] # one of the two
    _, _, reading = read(refused.path, refused.keylog)
    found = by_rule(reading)
    assert found["tls-alert"].message.startswith(
        f"the {refused.side} says {ALERTS[refused.alert][0]}: "
    )
    assert (
        f"; the {refused.side} says {ALERTS[refused.alert][0]}"
        in reading.engine.tls.connections[1].text
    )
    if what in ("expired", "wrong name"):
        assert (
            found["tls-certificate"].cause
            == {"expired": "expired", "wrong name": "other-name"}[what]
        )


def test_connections_without_secrets_say_how_to_find_them(tmp_path: Path) -> None:
    recorded = make("1.3 TLS_AES_128_GCM_SHA256", tmp_path)
    _, _, reading = read(recorded.path, None)
    line = next(
        line
        for line in recorded.keylog.read_text().splitlines()
        if line.startswith("CLIENT_TRAFFIC")
    )
    client_random = line.split()[1]
    message = by_rule(reading)["tls-without-key"].message
    assert "TLS 1.3, TLS_AES_128_GCM_SHA256, server name " in message
    assert client_random in message
    other = tmp_path / "other.log"
    other.write_text(recorded.keylog.read_text().replace(client_random, "0" * 64))
    _, _, reading = read(recorded.path, other)
    assert client_random in by_rule(reading)["tls-key-unknown"].message
    assert "tls-without-key" not in by_rule(reading)
