"""The TLS captures are what they say; tshark with the key log is the judge."""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from bench.tls_captures import make as make_large
from tests.peers import capture_file
from tests.peers.network import NEEDS_ROOT
from tests.tls import oracle
from tests.tls.endpoint import MOST, headers
from tests.tls.peers import REFUSALS, Recorded, Tls, Version, refuse
from tests.tls.variants import VARIANTS, make

pytestmark = [
    pytest.mark.requires("tshark", "tcpdump"),
    NEEDS_ROOT,
    pytest.mark.deep,
]  # they prove what the tests of decryption stand on

CERTIFICATE, END_OF_EARLY_DATA, KEY_UPDATE = 11, 5, 24
ENCRYPT_THEN_MAC, EXTENDED_MASTER_SECRET = "22", "23"
APPLICATION = 23

Recording = Callable[[str], Recorded]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return cache(lambda name: make(name, tmp_path_factory.mktemp("tls")))


@cache
def _numbers() -> dict[str, int]:
    """Cipher suites by OpenSSL's name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:COMPLEMENTOFALL")
    return {cipher["name"]: cipher["id"] & 0xFFFF for cipher in context.get_ciphers()}


def _handshakes(recorded: Recorded, kind: int) -> list[int]:
    """Handshake messages of a type that client and server sent."""
    rows = oracle.fields(
        recorded.path,
        recorded.keylog,
        f"tls.handshake.type == {kind}",
        "tcp.dstport",
        "tls.handshake.type",
    )
    seen = Counter(dict.fromkeys(("client", "server"), 0))
    for port, kinds in rows:
        seen["client" if port == "11207" else "server"] += kinds.split(",").count(str(kind))
    return [seen["client"], seen["server"]]


@cache
def _hellos(path: Path, keylog: Path) -> list[list[str]]:
    """Of each server's hello: connection, suite, version, and the extensions."""
    names = (
        "tcp.stream",
        "tls.handshake.ciphersuite",
        "tls.handshake.extensions.supported_version",
        "tls.handshake.extension.type",
    )
    return oracle.fields(path, keylog, "tls.handshake.type == 2", *names)


def _cipher(recorded: Recorded) -> list[list[bytes]]:
    """The cipher streams of each connection, from the capture."""
    segments = list(capture_file.segments(*capture_file.read(recorded.path)))
    out = []
    for connection in recorded.connections:
        said = connection.said
        streams = []
        for source in (said.client, said.server):
            way = [
                s
                for s in segments
                if s.source == source and {s.source, s.target} == {said.client, said.server}
            ]
            first = next(s.seq + 1 for s in way if s.syn)
            parts = {(s.seq - first) & 0xFFFF_FFFF: s.payload for s in way if s.payload}
            stream = b"".join(parts[at] for at in sorted(parts))
            assert sum(map(len, parts.values())) == len(stream)
            streams.append(stream)
        out.append(streams)
    return out


@pytest.mark.parametrize("name", VARIANTS)
def test_tshark_decrypts_what_was_said(name: str, recording: Recording) -> None:
    recorded = recording(name)
    for number, connection in enumerate(recorded.connections):
        said = connection.said
        read = oracle.plain(recorded.path, recorded.keylog, number, said.server)
        assert read == (connection.early + b"".join(said.c2s), b"".join(said.s2c))


@pytest.mark.parametrize(
    "name",
    ["1.3 TLS_AES_128_GCM_SHA256", "1.3 resumed", "1.2 ECDHE-RSA-AES128-SHA MAC-then-encrypt"],
)
def test_tshark_finds_as_many_messages_as_were_said(name: str, recording: Recording) -> None:
    recorded = recording(name)
    assert oracle.messages(recorded.path, recorded.keylog) == sum(
        len(c.said.c2s) + len(c.said.s2c) for c in recorded.connections
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_version_and_suite_are_those_of_the_server_hello(name: str, recording: Recording) -> None:
    recorded, tls = recording(name), VARIANTS[name].tls
    told = {
        int(stream): (int(suite, 0), version)
        for stream, suite, version, _ in _hellos(recorded.path, recorded.keylog)
    }
    assert told == {
        number: (_numbers()[connection.suite], "0x0304" if tls.version == "1.3" else "")
        for number, connection in enumerate(recorded.connections)
    }
    assert {connection.version for connection in recorded.connections} == {f"TLSv{tls.version}"}
    assert not tls.suites or {connection.suite for connection in recorded.connections} == {
        tls.suites
    }


@pytest.mark.parametrize("name", VARIANTS)
def test_records_stand_where_the_ledger_says(name: str, recording: Recording) -> None:
    recorded = recording(name)
    for connection, streams in zip(recorded.connections, _cipher(recorded), strict=True):
        for direction, (stream, messages) in enumerate(
            zip(streams, (connection.said.c2s, connection.said.s2c), strict=True)
        ):
            records = connection.records[direction]
            assert [(record.kind, record.start, record.end) for record in records] == list(
                headers(stream)
            )
            at = 0
            for record in records:
                assert record.plain_start == at
                at = record.plain_end
            assert at == sum(map(len, messages))


def _overheads(recorded: Recorded) -> set[int]:
    """Bytes that each record with plain ones has beside them and its header."""
    return {
        record.end - record.start - 5 - (record.plain_end - record.plain_start)
        for connection in recorded.connections
        for records in connection.records.values()
        for record in records
        if record.plain_end > record.plain_start
    }


@pytest.mark.parametrize(
    ("name", "overhead"),
    [
        ("1.3 TLS_AES_256_GCM_SHA384", {17}),
        ("1.3 tiny records", {17}),
        ("1.2 ECDHE-RSA-AES128-GCM-SHA256", {24}),
        ("1.2 ECDHE-RSA-CHACHA20-POLY1305", {16}),
        # The first vector, the MAC, and 1 to 16 bytes of padding.
        ("1.2 ECDHE-RSA-AES128-SHA encrypt-then-MAC", set(range(37, 53))),
        ("1.2 ECDHE-RSA-AES256-SHA384 MAC-then-encrypt", set(range(65, 81))),
    ],
)
def test_a_record_holds_the_plain_bytes_that_its_size_leaves_room_for(
    name: str, overhead: set[int], recording: Recording
) -> None:
    found = _overheads(recording(name))
    assert found
    assert found <= overhead


def test_padding_fills_records_to_blocks(recording: Recording) -> None:
    sizes = {
        r.end - r.start - 5 - 16
        for r in recording("1.3 padding").connections[0].records[1]
        if r.plain_end > r.plain_start
    }
    assert sizes
    assert all(size % 512 == 0 for size in sizes)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_records_may_be_tiny_or_of_maximum_size(version: str, recording: Recording) -> None:
    tiny, largest = (
        [
            r.plain_end - r.plain_start
            for r in recording(f"{version} {name}").connections[0].records[1]
            if r.plain_end > r.plain_start
        ]
        for name in ("tiny records", "records of maximum size")
    )
    assert {1, 3, 17, 100} <= set(tiny)
    assert max(tiny) == 100
    assert max(largest) == MOST


@pytest.mark.parametrize("name", ["1.2 tiny records", "1.3 tiny records"])
def test_segments_hold_several_records_and_records_several_segments(
    name: str, recording: Recording
) -> None:
    several, split = 0, 0
    for segment in capture_file.segments(*capture_file.read(recording(name).path)):
        found = list(headers(segment.payload)) if segment.payload[:1] == b"\x17" else []
        several += len(found) > 1
        split += bool(found) and found[-1][2] > len(segment.payload)
    assert several
    assert split


@pytest.mark.parametrize(
    ("name", "by"),
    [("the client", (True, False)), ("the server", (False, True)), ("both", (True, True))],
)
def test_keys_are_updated_by_whom_it_says(
    name: str, by: tuple[bool, bool], recording: Recording
) -> None:
    updates = _handshakes(recording(f"1.3 key updates of {name}"), KEY_UPDATE)
    assert tuple(count > 3 for count in updates) == by


@pytest.mark.parametrize("name", [name for name, variant in VARIANTS.items() if variant.tls.resume])
def test_the_second_connection_resumes_the_session_of_the_first(
    name: str, recording: Recording
) -> None:
    recorded = recording(name)
    assert [connection.resumed for connection in recorded.connections] == [False, True]
    # Only the first shows a certificate.
    assert sum(_handshakes(recorded, CERTIFICATE)) == 1


def test_a_session_is_resumed_by_ticket_or_by_id(recording: Recording) -> None:
    new_ticket = 4
    assert _handshakes(recording("1.2 resumed by ticket"), new_ticket)[1] > 0
    by_id = recording("1.2 resumed by session ID")
    assert _handshakes(by_id, new_ticket) == [0, 0]
    hellos = oracle.fields(
        by_id.path, by_id.keylog, "tls.handshake.type == 2", "tls.handshake.session_id"
    )
    assert len({hello for (hello,) in hellos}) == 1
    assert len(hellos[0][0]) == 64


def test_early_data_comes_before_the_end_of_early_data(recording: Recording) -> None:
    recorded = recording("1.3 early data")
    assert [connection.early for connection in recorded.connections] == [
        b"",
        b"early bytes, which are no part of any conversation",
    ]
    assert _handshakes(recorded, END_OF_EARLY_DATA) == [1, 0]


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_both_sides_show_certificates_where_tls_is_mutual(
    version: str, recording: Recording
) -> None:
    assert _handshakes(recording(f"{version} mutual"), CERTIFICATE) == [1, 1]


def test_a_server_asks_for_another_key_share(recording: Recording) -> None:
    recorded = recording("1.3 hello retry request")
    assert [_handshakes(recorded, 1), _handshakes(recorded, 2)] == [[2, 0], [0, 2]]


@pytest.mark.parametrize(
    "name", [name for name, variant in VARIANTS.items() if variant.tls.version == "1.2"]
)
def test_the_server_hello_has_the_extensions_that_change_the_keys(
    name: str, recording: Recording
) -> None:
    recorded, tls = recording(name), VARIANTS[name].tls
    seen = {
        kind for *_, kinds in _hellos(recorded.path, recorded.keylog) for kind in kinds.split(",")
    }
    agreed = seen & {ENCRYPT_THEN_MAC, EXTENDED_MASTER_SECRET}
    block = not any(part in tls.suites for part in ("GCM", "POLY"))
    expected = {
        ENCRYPT_THEN_MAC: block and tls.encrypt_then_mac,
        EXTENDED_MASTER_SECRET: tls.extended_master_secret,
    }
    assert agreed == {kind for kind, there in expected.items() if there}


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("what", REFUSALS)
def test_a_handshake_fails_with_its_alert(what: str, version: Version, tmp_path: Path) -> None:
    refused = refuse(tmp_path, what, Tls(version))
    rows = oracle.fields(
        refused.path,
        refused.keylog,
        "tls.alert_message.desc",
        "tcp.dstport",
        "tls.alert_message.desc",
    )
    assert [("client" if port == "11207" else "server", int(alert)) for port, alert in rows] == [
        (refused.side, refused.alert)
    ]


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_tshark_reads_every_message_of_a_capture_made_in_memory(
    version: Version, tmp_path: Path
) -> None:
    path, keylog = tmp_path / "large.pcap", tmp_path / "keys.log"
    count = make_large(path, keylog, 6000, tls=Tls(version), record=1000)
    assert oracle.messages(path, keylog) == count
