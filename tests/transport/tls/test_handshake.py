"""Hellos of OpenSSL, whole and cut."""

from __future__ import annotations

import contextlib
import ssl

from dcpinspect.transport.tls.handshake import CLIENT_HELLO, MOST_BYTES, HandshakeReader, first_certificate, hello_of


def client_hello(name: str | None = "db.example") -> bytes:
    """The handshake message that OpenSSL sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    record = out.read()
    assert record[0] == 22
    return record[5 : 5 + int.from_bytes(record[3:5], "big")]


def test_a_hello_says_its_random_its_suites_and_the_host() -> None:
    message = client_hello()
    ((kind, body),) = HandshakeReader().feed(message)
    assert kind == CLIENT_HELLO
    hello = hello_of(kind, body)
    assert hello is not None
    assert (hello.random, hello.server_name, hello.is_retry) == (message[6:38], "db.example", False)
    assert 0x1301 in hello.suites
    assert hello.encrypts_then_macs
    ((_, body),) = HandshakeReader().feed(client_hello(None))
    without = hello_of(CLIENT_HELLO, body)
    assert without is not None
    assert without.server_name is None


def test_a_hello_that_is_cut_anywhere_does_no_harm() -> None:
    body = client_hello()[4:]
    for end in range(len(body)):
        hello = hello_of(CLIENT_HELLO, body[:end])
        assert hello is None or hello.random == body[2:34]
        assert hello is None or hello.server_name in (None, "db.example")


def test_messages_come_together_however_records_cut_them() -> None:
    data = client_hello() * 3
    for size in (1, 5, 100, len(data)):
        reader = HandshakeReader()
        found = [one for at in range(0, len(data), size) for one in reader.feed(data[at : at + size])]
        assert len(found) == 3
    reader = HandshakeReader()
    list(reader.feed(data[:50]))
    reader.lose()
    assert len(list(reader.feed(data))) == 3


def test_a_message_that_is_too_long_is_none() -> None:
    reader = HandshakeReader()
    assert list(reader.feed(b"\x01\xff\xff\xff" + bytes(100))) == []
    assert reader._data == b""
    assert MOST_BYTES < 1 << 24


def test_a_certificate_message_that_is_cut_has_none() -> None:
    whole = b"\0\0\x07" + b"\0\0\x04" + b"cert"
    assert first_certificate(whole, has_context=False) == b"cert"
    assert first_certificate(b"\x01c" + whole, has_context=True) == b"cert"
    assert first_certificate(b"\0\0\0", has_context=False) is None
    for end in range(len(whole)):
        assert first_certificate(whole[:end], has_context=False) is None
