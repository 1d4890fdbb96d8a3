"""What TLS shows without secrets; tests/transport/tls/test_stage.py has the rest, with OpenSSL on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.reading import Reading
from tests import builders
from tests.builders import Conversation
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
    one = found(tmp_path, (True, record(22, hello)), (False, record(23, bytes(100))), (True, record(23, bytes(100))))["tls-without-key"]
    assert one.message == f"encrypted: server name db.example, client random {hello[6:38].hex()}"
    assert one.severity == "note"


def test_a_name_from_the_wire_is_escaped(tmp_path: Path) -> None:
    hello = client_hello().replace(b"db.example", b"db\x1b[31m\nx"[:10].ljust(10, b"y"))
    one = found(tmp_path, (True, record(22, hello)), (False, record(23, bytes(100))))["tls-without-key"]
    assert "\x1b" not in one.message
    assert "\n" not in one.message


@pytest.mark.parametrize(("alert", "name"), [(40, "handshake-failure"), (48, "unknown-ca"), (70, "protocol-version")])
def test_an_alert_says_who_sends_it_and_what_it_means(alert: int, name: str, tmp_path: Path) -> None:
    one = found(tmp_path, (True, record(22, client_hello())), (False, record(21, bytes([2, alert]))))["tls-alert"]
    assert one.message.startswith(f"the server says {name}: ")
    assert (one.cause, one.severity) == (name, "error")


def test_an_alert_that_only_closes_is_none_and_one_without_a_name_has_its_number(tmp_path: Path) -> None:
    hello = (True, record(22, client_hello()))
    assert "tls-alert" not in found(tmp_path, hello, (False, record(21, bytes([1, 0]))))
    one = found(tmp_path, hello, (False, record(21, bytes([2, 200]))))["tls-alert"]
    assert (one.message, one.cause) == ("the server says alert-200: an alert without a name", None)


def test_connections_of_others_are_theirs(tmp_path: Path) -> None:
    assert found(tmp_path, (True, record(22, client_hello())), (False, record(21, bytes([2, 40]))), port=443) == {}


def test_a_plain_connection_has_no_finding_about_tls(tmp_path: Path) -> None:
    assert not [rule for rule in found(tmp_path, (False, builders.mutation(1))) if rule.startswith("tls")]
