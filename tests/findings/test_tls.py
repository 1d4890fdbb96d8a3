"""What TLS shows without secrets; tests/transport/tls/test_stage.py has the rest, with OpenSSL on
both sides.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import ACK, FIN, RST, Conversation
from tests.transport.tls.test_handshake import client_hello


def record(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + b"\x03\x03" + len(body).to_bytes(2, "big") + body


def found(tmp_path: Path, *said: tuple[bool, bytes], port: int = 11_207) -> dict[str, Finding]:
    talk = Conversation(server=("10.0.0.2", port))
    talk.handshake()
    for to_server, data in said:
        talk.stream(to_server, data)
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded(talk.segments)))
    with Reading([str(path)], find_ports=True) as reading:
        reading.check()
        list(reading)
        return {one.rule: one for one in reading.findings()}


def test_an_encrypted_connection_says_what_a_key_log_has_of_it(tmp_path: Path) -> None:
    hello = client_hello()
    one = found(
        tmp_path,
        (True, record(22, hello)),
        (False, record(23, bytes(100))),
        (True, record(23, bytes(100))),
    )["tls-without-key"]
    assert one.message == f"encrypted: server name db.example, client random {hello[6:38].hex()}"
    assert one.severity == "note"


def test_a_name_from_the_wire_is_escaped(tmp_path: Path) -> None:
    hello = client_hello().replace(b"db.example", b"db\x1b[31m\nx"[:10].ljust(10, b"y"))
    one = found(tmp_path, (True, record(22, hello)), (False, record(23, bytes(100))))[
        "tls-without-key"
    ]
    assert "\x1b" not in one.message
    assert "\n" not in one.message


@pytest.mark.parametrize(
    ("alert", "name"), [(40, "handshake-failure"), (48, "unknown-ca"), (70, "protocol-version")]
)
def test_an_alert_says_who_sends_it_and_what_it_means(
    alert: int, name: str, tmp_path: Path
) -> None:
    one = found(
        tmp_path, (True, record(22, client_hello())), (False, record(21, bytes([2, alert])))
    )["tls-alert"]
    assert one.message.startswith(f"the server says {name}: ")
    assert (one.cause, one.severity) == (name, "error")


def test_an_alert_that_only_closes_is_none_and_one_without_a_name_has_its_number(
    tmp_path: Path,
) -> None:
    hello = (True, record(22, client_hello()))
    assert "tls-alert" not in found(tmp_path, hello, (False, record(21, bytes([1, 0]))))
    one = found(tmp_path, hello, (False, record(21, bytes([2, 200]))))["tls-alert"]
    assert (one.message, one.cause) == ("the server says alert-200: an alert without a name", None)


def test_connections_of_others_are_theirs(tmp_path: Path) -> None:
    assert (
        found(
            tmp_path,
            (True, record(22, client_hello())),
            (False, record(21, bytes([2, 40]))),
            port=443,
        )
        == {}
    )


def test_a_plain_connection_has_no_finding_about_tls(tmp_path: Path) -> None:
    assert not [
        rule for rule in found(tmp_path, (False, builders.mutation(1))) if rule.startswith("tls")
    ]


# -- one side speaks TLS, and the other does not
# --------------------------------------------------------------------------------------


def closed(
    tmp_path: Path, *said: tuple[bool, bytes], port: int, flags: int = RST | ACK
) -> dict[str, Finding]:
    talk = Conversation(server=("10.0.0.2", port))
    talk.handshake()
    for to_server, data in said:
        talk.stream(to_server, data)
    talk.send(False, flags=flags)
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded(talk.segments)))
    with Reading([str(path)], extra_ports=(port,), track=True) as reading:
        reading.check()
        list(reading)
        return {one.rule: one for one in reading.findings()}


@pytest.mark.parametrize("flags", [RST | ACK, FIN | ACK])
@pytest.mark.parametrize("port", [11_210, 9_999])
def test_tls_to_a_plain_port_is_told_with_the_port_that_is_right(
    port: int, flags: int, tmp_path: Path
) -> None:
    found = closed(tmp_path, (True, record(22, client_hello())), port=port, flags=flags)
    assert list(found) == ["wrong-port"]
    one = found["wrong-port"]
    assert (one.severity, one.cause, one.whose) == ("error", "tls-to-plain-port", "client")
    assert one.next == (
        "connect to the TLS port of this node (11207, unless it is configured otherwise), or "
        "turn TLS off in the client's settings; a client should tell its user that the port is wrong"
    )


def test_tls_that_is_refused_on_the_tls_port_is_no_wrong_port(tmp_path: Path) -> None:
    assert "wrong-port" not in closed(tmp_path, (True, record(22, client_hello())), port=11_207)


def test_messages_in_clear_to_a_tls_port_are_told_with_the_port_that_is_right(
    tmp_path: Path,
) -> None:
    said = (
        (True, builders.message(magic=0x80, opcode=0x1F, key=b"client")),
        (False, record(21, bytes([2, 70]))),
    )
    found = closed(tmp_path, *said, port=11_207, flags=FIN | ACK)
    assert list(found) == ["wrong-port"]
    one = found["wrong-port"]
    assert (one.severity, one.cause, one.whose) == ("error", "plain-to-tls-port", "client")
    assert one.next == (
        "turn TLS on in the client's settings, or connect to the plain port of this node "
        "(11210, unless it is configured otherwise); a client should tell its user that the port is wrong"
    )


def test_sidecars_of_a_mesh_are_named_and_the_port_that_is_read_is_not_advised(
    tmp_path: Path,
) -> None:
    hello = client_hello(protocols=["istio"])
    one = found(tmp_path, (True, record(22, hello)), (False, record(23, bytes(100))), port=11_210)[
        "tls-without-key"
    ]
    assert one.message.startswith("encrypted by sidecars of a service mesh (ALPN istio)")
    assert one.next == (
        "sidecars have the keys; capture inside the pod, between the program and its sidecar "
        "(-i lo), where it is plain"
    )


def test_other_tls_on_the_plain_port_is_not_advised_to_be_read_there(tmp_path: Path) -> None:
    one = found(
        tmp_path, (True, record(22, client_hello())), (False, record(23, bytes(100))), port=11_210
    )["tls-without-key"]
    assert one.next == (
        "give the client's key log with --keylog, or capture between the server and what ends "
        "TLS, where it is plain"
    )


def test_a_password_that_is_sent_to_a_tls_port_before_any_tls_was_in_clear(tmp_path: Path) -> None:
    login = builders.message(magic=0x80, opcode=0x21, key=b"PLAIN", value=b"\0reader\0secret")
    said = (True, login), (False, record(21, bytes([2, 70])))
    found = closed(tmp_path, *said, port=11_207, flags=FIN | ACK)
    assert sorted(found) == ["credentials-in-clear", "wrong-port"]
