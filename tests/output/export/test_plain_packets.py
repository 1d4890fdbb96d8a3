"""Packets that are made of messages: here of those that are redacted, which are made whether there
is TLS or not.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from dcpinspect.capture.open import open_capture
from dcpinspect.output.export import plain_packets
from dcpinspect.output.export.packet_subset import PacketWishes, Subset
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import Conversation
from tests.capture.test_pcapng_writer import packets_in
from tests.encode import encode
from tests.scenarios.test_redaction import (
    SECRET_KEY,
    SECRET_PATH,
    SECRET_USER,
    SECRET_VALUE,
    everything,
)

COLUMNS = ("connection", "direction", "length", "stream_offset")


def written(
    path: Path, target: Path, *, from_row: int = 1, batch_bytes: int = 1 << 20
) -> list[tuple[int, ...]]:
    """The messages from a row on are written; what they are."""
    found = []
    capture = open_capture([str(path)], batch_bytes=batch_bytes)
    with (
        Subset(PacketWishes(decrypted=True, redactor=Redactor(b"salt"))) as subset,
        Reading(capture, keeper=subset) as reading,
    ):
        subset.follow(reading)
        for batch in reading:
            rows = np.flatnonzero(batch.row >= from_row)
            subset.choose(batch, rows)
            found += rows_of(batch, rows)
        with target.open("wb") as file:
            count = subset.write(file)
    assert count == len(packets_in(target))
    return sorted(found)


def rows_of(batch: object, rows: np.ndarray) -> list[tuple[int, ...]]:
    return list(zip(*(getattr(batch, name)[rows].tolist() for name in COLUMNS), strict=True))


def read(path: Path) -> list[tuple[int, ...]]:
    with Reading([str(path)]) as reading:
        return sorted(row for batch in reading for row in rows_of(batch, np.arange(len(batch))))


def capture(path: Path, conversations: list[Conversation]) -> Path:
    segments = sorted(
        (segment for one in conversations for segment in one.segments),
        key=lambda segment: segment.time_ns,
    )
    path.write_bytes(builders.pcap(builders.recorded(segments)))
    return path


def talk(
    number: int = 0,
    *,
    mss: int = 1448,
    client: str = "10.0.0.1",
    server: str = "10.0.0.2",
    size: int = 300,
) -> Conversation:
    """A client that asks now and then, and a server that streams."""
    one = Conversation(
        client=(client, 50_000 + number),
        server=(server, 11_210),
        mss=mss,
        time_ns=builders.START_NS + number,
    )
    one.handshake()
    one.stream(True, encode("dcp_open", key="name"))
    for start in range(1, 60, 20):
        one.stream(
            False,
            b"".join(
                builders.mutation(seqno, value=b"v" * size) for seqno in range(start, start + 20)
            ),
        )
        one.stream(True, encode("dcp_noop", opaque=start))
    one.close()
    return one


@pytest.mark.parametrize(("client", "server"), [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")])
def test_they_are_packets_with_right_lengths_checksums_and_numbers(
    client: str, server: str, tmp_path: Path
) -> None:
    path = capture(tmp_path / "x.pcap", [talk(client=client, server=server)])
    written(path, tmp_path / "y.pcapng")
    packets = [Ether(data) for data, *_ in packets_in(tmp_path / "y.pcapng")]
    assert [str(packet[TCP].flags) for packet in packets[:2]] == ["S", "SA"]
    isn = {packet[TCP].sport: packet[TCP].seq for packet in packets[:2]}
    assert len(isn) == 2
    reached = {port: (number + 1) % 2**32 for port, number in isn.items()}
    for packet in packets[2:]:
        tcp, network = packet[TCP], packet[IPv6 if IPv6 in packet else IP]
        assert tcp.seq == reached[tcp.sport]
        assert tcp.ack == reached[tcp.dport]
        reached[tcp.sport] = (tcp.seq + len(tcp.payload) + ("F" in tcp.flags)) % 2**32
        assert bytes(packet) == with_new_sums(packet)
        assert len(packet) == 14 + (network.plen + 40 if IPv6 in packet else network.len)
    assert {str(packet[TCP].flags) for packet in packets[2:]} == {"PA", "FA"}


def with_new_sums(packet: Packet) -> bytes:
    again = Ether(bytes(packet))
    payload = bytes(again[TCP].payload)
    again[TCP].remove_payload()  # Scapy may know DCP, and write what is redacted as it thinks fit
    again = again / Raw(payload)
    del again[TCP].chksum
    if IP in again:
        del again[IP].chksum
        del again[IP].len
    else:
        del again[IPv6].plen
    return bytes(again)


@pytest.mark.parametrize("batch_bytes", [2000, 1 << 20])
def test_messages_are_the_same_however_the_packets_were_cut(
    batch_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_packets, "TOGETHER", 7)
    monkeypatch.setattr(plain_packets, "WINDOW", 200)
    path = capture(tmp_path / "x.pcap", [talk(number) for number in range(3)])
    found = written(path, tmp_path / "y.pcapng", batch_bytes=batch_bytes)
    assert len(found) == 3 * 64
    assert read(tmp_path / "y.pcapng") == found
    times = [time_ns for *_, time_ns, _ in packets_in(tmp_path / "y.pcapng")]
    assert times == sorted(times)


@pytest.mark.parametrize("mss", [1448, 60_000])
def test_a_segment_is_never_too_long_for_a_packet(mss: int, tmp_path: Path) -> None:
    path = capture(tmp_path / "x.pcap", [talk(mss=mss, size=50_000)])
    found = written(path, tmp_path / "y.pcapng")
    assert read(tmp_path / "y.pcapng") == found
    assert (
        max(wire for _, wire, *_ in packets_in(tmp_path / "y.pcapng"))
        <= 54 + 2 * plain_packets.MOST
    )


def test_what_was_left_out_or_lost_leaves_a_gap(tmp_path: Path) -> None:
    one = talk()
    del one.segments[20:22]
    found = written(capture(tmp_path / "x.pcap", [one]), tmp_path / "y.pcapng", from_row=10)
    with Reading([str(tmp_path / "y.pcapng")]) as reading:
        assert (
            sorted(row for batch in reading for row in rows_of(batch, np.arange(len(batch))))
            == found
        )
        assert sum(reading.engine.links[0].missing) > 2 * 1448


def test_nothing_private_is_in_them_and_the_messages_keep_their_lengths(tmp_path: Path) -> None:
    path = everything(tmp_path / "x.pcap")
    found = written(path, tmp_path / "y.pcapng")
    data = (tmp_path / "y.pcapng").read_bytes()
    assert all(
        secret in path.read_bytes()
        for secret in (SECRET_USER, SECRET_KEY, SECRET_PATH, SECRET_VALUE)
    )
    for secret in (SECRET_USER, SECRET_KEY, SECRET_PATH, SECRET_VALUE, b"alice", b"seven"):
        assert secret not in data
    assert read(tmp_path / "y.pcapng") == found


def test_credentials_are_not_in_them(tmp_path: Path) -> None:
    path = builders.capture(
        tmp_path / "x.pcap", client=encode("sasl_auth", key="PLAIN", value=b"\0user\0secret")
    )
    written(path, tmp_path / "y.pcapng")
    assert b"secret" in path.read_bytes()
    assert b"secret" not in (tmp_path / "y.pcapng").read_bytes()


def test_what_waits_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = capture(tmp_path / "x.pcap", [talk()])
    with (
        Subset(PacketWishes(decrypted=True, redactor=Redactor())) as subset,
        Reading([str(path)], keeper=subset) as reading,
    ):
        subset.follow(reading)
        for batch in reading:
            subset.choose(batch, np.arange(len(batch)))
        assert os.listdir(tmp_path) == ["x.pcap"]
