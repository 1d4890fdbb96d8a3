"""What a TLS handshake says in plain text, as far as needed (RFC 8446, 4; RFC 5246, 7.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from dcpinspect.lazy_dataclass import dataclass

CLIENT_HELLO, SERVER_HELLO, CERTIFICATE, FINISHED, KEY_UPDATE = 1, 2, 11, 20, 24
MOST_BYTES = 1 << 18
"""A longer message is no handshake message."""
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a HelloRetryRequest."""
EARLY_DATA = 42
"""Extension of a ClientHello that says that early data follow."""
_SERVER_NAME, _PROTOCOLS, _ENCRYPT_THEN_MAC, _SUPPORTED_VERSIONS = 0, 16, 22, 43
_KEPT = {_SERVER_NAME, _PROTOCOLS, _ENCRYPT_THEN_MAC, EARLY_DATA, _SUPPORTED_VERSIONS}
MOST_NAME = 255
"""Greatest number of characters in a host's name (RFC 1035, 2.3.4)."""
_MOST_EXTENSION = 1024
_MOST_SUITES = 256
"""Greatest number of suites that are read; a client offers about 30."""
MOST_CERTIFICATE = 1 << 16
"""A certificate longer than this is not looked at: it would be kept as long as its connection."""


@dataclass(slots=True)
class Hello:
    """A ClientHello or ServerHello."""

    random: bytes
    version: int
    """The version; in a ServerHello the one chosen."""
    suites: tuple[int, ...]
    """The cipher suites; in a ServerHello the one chosen."""
    extensions: dict[int, bytes] = field(default_factory=dict)
    """Extensions that reading needs, by number."""

    @property
    def is_retry(self) -> bool:
        """Whether it asks for another ClientHello."""
        return self.random == _RETRY

    @property
    def encrypts_then_macs(self) -> bool:
        """Whether CBC records have their MAC outside (RFC 7366)."""
        return _ENCRYPT_THEN_MAC in self.extensions

    @property
    def server_name(self) -> str | None:
        """The host that a client asks for; None if it names none."""
        data = self.extensions.get(_SERVER_NAME, b"")
        if len(data) < 5 or data[2]:
            return None
        size = int.from_bytes(data[3:5], "big")
        if len(data) >= 5 + size and size <= MOST_NAME:
            return data[5 : 5 + size].decode("ascii", "replace")
        return None

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols that a client offers to speak inside (RFC 7301); one that is not plain text
        has marks in it.
        """
        data = self.extensions.get(_PROTOCOLS, b"")[2:]
        protocols, offset = [], 0
        while offset < len(data):
            protocols.append(
                data[offset + 1 : offset + 1 + data[offset]].decode("ascii", "replace")
            )
            offset += 1 + data[offset]
        return tuple(protocols)


def hello_of(kind: int, body: bytes) -> Hello | None:
    """Returns the hello in a message body; None if it is damaged."""
    try:
        return _hello(kind, _Bytes(body))
    except IndexError:
        return None


def _hello(kind: int, body: _Bytes) -> Hello:
    version = body.number(2)
    random = body.next_bytes(32)
    body.next_bytes(body.number(1))
    if kind == CLIENT_HELLO:
        listed = _Bytes(body.next_bytes(body.number(2)))
        suites = tuple(listed.number(2) for _ in range(min(len(listed.data) // 2, _MOST_SUITES)))
        body.next_bytes(body.number(1))
    else:
        suites = (body.number(2),)
        body.next_bytes(1)
    hello = Hello(random, version, suites)
    if body.size_left:
        extensions = _Bytes(body.next_bytes(min(body.number(2), body.size_left)))
        while extensions.size_left >= 4:
            number, data = extensions.number(2), extensions.next_bytes(extensions.number(2))
            if number in _KEPT:
                hello.extensions[number] = data if len(data) <= _MOST_EXTENSION else b""
    selected_version = hello.extensions.get(_SUPPORTED_VERSIONS, b"")
    if kind == SERVER_HELLO and len(selected_version) == 2:
        hello.version = int.from_bytes(selected_version, "big")
    return hello


def first_certificate(body: bytes, *, has_context: bool) -> bytes | None:
    """Returns the sender's own certificate in a Certificate message; None if there is none.
    ``has_context``: the message is of TLS 1.3.
    """
    data = _Bytes(body)
    try:
        if has_context:
            data.next_bytes(data.number(1))
        data.number(3)
        certificate = data.next_bytes(data.number(3))
    except IndexError:
        return None
    return certificate if 0 < len(certificate) <= MOST_CERTIFICATE else None


class _Bytes:
    """Bytes that are taken one after the other. Raises IndexError if there are too few."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._at = 0

    @property
    def size_left(self) -> int:
        return len(self.data) - self._at

    def next_bytes(self, size: int) -> bytes:
        if size > self.size_left:
            raise IndexError
        self._at += size
        return self.data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.next_bytes(size), "big")


class HandshakeReader:
    """The handshake messages of one direction; records may cut them anywhere."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yields kind and body of each message that is complete now."""
        self._data += data
        while len(self._data) >= 4:
            size = 4 + int.from_bytes(self._data[1:4], "big")
            if size > MOST_BYTES:
                self.lose()
                return
            if len(self._data) < size:
                return
            kind, body = self._data[0], bytes(self._data[4:size])
            del self._data[:size]
            yield kind, body

    def lose(self) -> None:
        """Drops the message begun, because bytes are missing here."""
        self._data.clear()
