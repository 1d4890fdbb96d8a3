"""Headers of the PROXY protocol, and conversations behind them."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.proxy import MOST, ProxyHeader, may_go_on, proxy_header
from tests import builders
from tests.builders import ACK, FIN, RST, Conversation, recorded
from tests.findings.test_tls import record
from tests.transport.tls.test_handshake import client_hello

ASK, ANSWER = (
    builders.message(magic=0x80, opcode=0x0A, opaque=7),
    builders.message(magic=0x81, opcode=0x0A, opaque=7),
)
LINE = b"PROXY TCP4 192.0.2.7 10.0.0.2 51234 11210\r\n"


def binary(command: int = 1, family: int = 0x11, addresses: bytes | None = None) -> bytes:
    """A header of version 2."""
    if addresses is None:
        addresses = (
            socket.inet_aton("192.0.2.7")
            + socket.inet_aton("10.0.0.2")
            + struct.pack(">HH", 51234, 11210)
        )
    return (
        b"\r\n\r\n\0\r\nQUIT\n"
        + bytes([0x20 | command, family])
        + struct.pack(">H", len(addresses))
        + addresses
    )


SIX = (
    socket.inet_pton(socket.AF_INET6, "2001:db8::7")
    + socket.inet_pton(socket.AF_INET6, "2001:db8::2")
    + struct.pack(">HH", 5, 6)
)


@pytest.mark.parametrize(
    ("data", "version", "client"),
    [
        (LINE, 1, "192.0.2.7:51234"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::2 51234 11210\r\n", 1, "[2001:db8::7]:51234"),
        (b"PROXY UNKNOWN\r\n", 1, ""),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", 1, ""),
        (binary(), 2, "192.0.2.7:51234"),
        (
            binary(
                addresses=socket.inet_aton("192.0.2.7")
                + socket.inet_aton("10.0.0.2")
                + struct.pack(">HH", 5, 6)
                + bytes(40)
            ),
            2,
            "192.0.2.7:5",
        ),
        (binary(family=0x21, addresses=SIX), 2, "[2001:db8::7]:5"),
        (binary(command=0, family=0, addresses=b""), 2, ""),
    ],
)
def test_a_header_names_the_client_and_ends_before_the_stream(
    data: bytes, version: int, client: str
) -> None:
    assert proxy_header(data + ASK) == ProxyHeader(version, client, len(data))
    for size in range(1, len(data)):
        assert proxy_header(data[:size]) is None
        assert may_go_on(data[:size])


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY TCP4 192.0.2.7\r\n" + ASK,
        b"PROXY " + b"x" * 200,
        binary()[:12] + b"\x11" + binary()[13:],
        binary(addresses=bytes(MOST)),
        b"PUT / HTTP/1.1\r\n",
    ],
)
def test_what_only_looks_like_one_is_none(data: bytes) -> None:
    assert proxy_header(data) is None
    assert not may_go_on(data)


def written(
    tmp_path: Path,
    *said: tuple[bool, bytes],
    port: int = 11_210,
    sizes: tuple[int, ...] = (),
    closes: int = 0,
) -> Path:
    talk = Conversation(server=("10.0.0.2", port))
    talk.handshake()
    for to_server, data in said:
        talk.stream(to_server, data, sizes)
    if closes:
        talk.send(False, flags=closes)
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(recorded(talk.segments)))
    return path


def read(path: Path) -> tuple[int, list[Finding], Reading]:
    """Number of messages, findings without notes about a lost start, and the reading at its end."""
    with Reading([str(path)], track=True) as reading:
        reading.check()
        count = sum(len(batch) for batch in reading)
        return count, reading.findings(), reading


@pytest.fixture(params=[(), (1,) * 200, (50,)])
def sizes(request: pytest.FixtureRequest) -> tuple[int, ...]:
    found: tuple[int, ...] = request.param
    return found


@pytest.mark.parametrize("header", [LINE, binary(), binary(command=0, family=0, addresses=b"")])
def test_messages_behind_a_header_are_read_and_every_byte_counts(
    header: bytes, sizes: tuple[int, ...], tmp_path: Path
) -> None:
    count, findings, reading = read(
        written(tmp_path, (True, header + ASK), (False, ANSWER), sizes=sizes)
    )
    assert count == 2
    assert [(one.rule, one.cause, one.severity) for one in findings] == [
        ("proxy-header", "accepted", "note")
    ]
    client, server = reading.coverage.directions
    assert (client.unique, client.decoded, client.is_whole) == (
        len(header) + 24,
        len(header) + 24,
        True,
    )
    assert (server.unique, server.decoded) == (24, 24)


def test_the_client_is_the_one_that_the_header_names(tmp_path: Path) -> None:
    _, (one,), reading = read(written(tmp_path, (True, LINE + ASK), (False, ANSWER)))
    assert (
        one.message
        == "a PROXY header comes first; the client is 192.0.2.7 behind the proxy 10.0.0.1"
    )
    assert one.clients == ("192.0.2.7",)
    (link,) = reading.engine.links
    assert (link.client, link.origin) == ("10.0.0.1:50000", "192.0.2.7:51234")
    row = reading.by_name()["connections"].row_dicts("client", "origin")
    assert [*row] == [{"client": link.client, "origin": link.origin}]


@pytest.mark.parametrize("flags", [RST | ACK, FIN | ACK])
@pytest.mark.parametrize("header", [LINE, binary()])
def test_a_server_that_closes_for_a_header_is_not_blamed_and_nobody_else_is(
    header: bytes, flags: int, tmp_path: Path
) -> None:
    _, (one,), _ = read(written(tmp_path, (True, header + ASK), closes=flags))
    assert (one.rule, one.cause, one.severity, one.whose) == (
        "proxy-header",
        "refused",
        "error",
        "unknown",
    )


def test_tls_behind_a_header_that_the_server_closes_is_the_headers(tmp_path: Path) -> None:
    _, found, _ = read(
        written(tmp_path, (True, binary() + record(22, client_hello())), closes=RST | ACK)
    )
    assert ("proxy-header", "refused") in [(one.rule, one.cause) for one in found]
    assert "wrong-port" not in [one.rule for one in found]


def test_tls_behind_a_header_is_seen_from_its_start(tmp_path: Path) -> None:
    said = ((True, binary() + record(22, client_hello())), (False, record(23, bytes(100))))
    _, found, _ = read(written(tmp_path, *said, port=11_207))
    assert [one.rule for one in found] == ["proxy-header", "tls-without-key"]
    assert "server name db.example" in found[1].message


def test_many_short_connections_behind_a_proxy_are_read_as_one(tmp_path: Path) -> None:
    packets = []
    for number in range(100):
        talk = Conversation(
            client=("10.0.0.1", 20_000 + number), time_ns=builders.START_NS + number * 1_000_000
        )
        talk.handshake()
        talk.stream(True, LINE + ASK)
        talk.stream(False, ANSWER)
        talk.close()
        packets += recorded(talk.segments)
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(packets))
    count, (one,), _ = read(path)
    assert (count, one.rule, one.count) == (200, "proxy-header", 100)
