"""Hellos of OpenSSL, whole and cut."""

from __future__ import annotations

import contextlib
import ssl
import struct
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.transport.tls.handshake import (
    CLIENT_HELLO,
    MOST_BYTES,
    MOST_CERTIFICATE,
    SERVER_HELLO,
    HandshakeReader,
    first_certificate,
    hello_of,
)


def client_hello(name: str | None = "db.example", protocols: Sequence[str] = ()) -> bytes:
    """The handshake message that OpenSSL sends first; ``protocols``: what it offers to speak
    inside.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(protocols)
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    record = out.read()
    assert record[0] == 22
    return record[5 : 5 + int.from_bytes(record[3:5], "big")]


def test_a_hello_says_which_protocols_it_offers() -> None:
    ((kind, body),) = HandshakeReader().feed(
        client_hello(protocols=["istio-peer-exchange", "istio"])
    )
    hello = hello_of(kind, body)
    assert hello is not None
    assert hello.protocols == ("istio-peer-exchange", "istio")


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
        found = [
            one for at in range(0, len(data), size) for one in reader.feed(data[at : at + size])
        ]
        assert len(found) == 3
    reader = HandshakeReader()
    list(reader.feed(data[:50]))
    reader.lose()
    assert len(list(reader.feed(data))) == 3


def test_a_message_that_is_too_long_is_none() -> None:
    reader = HandshakeReader()
    assert list(reader.feed(b"\x01\xff\xff\xff" + bytes(100))) == []
    assert not reader._data
    assert MOST_BYTES < 1 << 24


def test_a_certificate_message_that_is_cut_has_none() -> None:
    whole = b"\0\0\x07" + b"\0\0\x04" + b"cert"
    assert first_certificate(whole, has_context=False) == b"cert"
    assert first_certificate(b"\x01c" + whole, has_context=True) == b"cert"
    assert first_certificate(b"\0\0\0", has_context=False) is None
    for end in range(len(whole)):
        assert first_certificate(whole[:end], has_context=False) is None


def hello(*, suites: bytes = b"\x13\x01", extensions: bytes = b"", session: bytes = b"") -> bytes:
    """The body of a ClientHello."""
    parts = (
        bytes([len(session)]) + session,
        struct.pack(">H", len(suites)) + suites,
        b"\1\0",
        struct.pack(">H", len(extensions)) + extensions,
    )
    return b"\3\3" + bytes(32) + b"".join(parts)


def extension(number: int, data: bytes) -> bytes:
    return struct.pack(">HH", number, len(data)) + data


def server_name(name: bytes) -> bytes:
    return extension(0, struct.pack(">HBH", len(name) + 3, 0, len(name)) + name)


def test_of_a_hello_of_maximum_size_little_is_kept() -> None:
    extensions = b"".join(extension(number, bytes(6)) for number in range(1000, 7000))
    found = hello_of(
        CLIENT_HELLO, hello(suites=bytes(65_534), extensions=extensions + server_name(b"db"))
    )
    assert found is not None
    assert len(found.suites) <= 256
    assert found.extensions.keys() == {0}
    assert found.server_name == "db"


def test_a_name_that_no_host_can_have_is_none() -> None:
    for size, is_name in ((255, True), (256, False), (60_000, False)):
        found = hello_of(CLIENT_HELLO, hello(extensions=server_name(b"a" * size)))
        assert found is not None
        assert (found.server_name is not None) == is_name


@given(
    st.sampled_from((CLIENT_HELLO, SERVER_HELLO)), st.binary(max_size=40), st.binary(max_size=200)
)
def test_any_bytes_are_a_hello_or_none(kind: int, front: bytes, rest: bytes) -> None:
    for body in (
        front + rest,
        b"\3\3" + bytes(32) + rest,
        hello(extensions=rest),
        hello(extensions=extension(0, rest)),
    ):
        found = hello_of(kind, body)
        if found is not None:
            assert len(found.random) == 32
            assert found.server_name is None or len(found.server_name) <= 255
        first_certificate(body, has_context=bool(front))


def test_a_message_in_records_of_one_byte_is_not_copied_for_each() -> None:
    reader, body = HandshakeReader(), bytes(MOST_BYTES - 4)
    message = b"\x0b" + len(body).to_bytes(3, "big") + body
    found: list[tuple[int, bytes]] = []
    before = id(reader._data)
    for at in range(len(message)):
        found += reader.feed(message[at : at + 1])
        assert id(reader._data) == before
    assert found == [(11, body)]


def test_a_certificate_that_is_too_long_is_none() -> None:
    for size, is_there in ((1, True), (MOST_CERTIFICATE, True), (MOST_CERTIFICATE + 1, False)):
        listed = size.to_bytes(3, "big") + bytes(size)
        found = first_certificate(len(listed).to_bytes(3, "big") + listed, has_context=False)
        assert (found is not None) == is_there
