"""How records of TLS are protected: cipher suites, the keys that secrets give, and opening a record
(RFC 5246, 8446, 5288, 7905, 7366).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal, Protocol

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.transport.tls import keystream
from dcpinspect.transport.tls.tls_records import TLS12, TLS13

CipherKind = Literal["gcm", "chacha", "ccm", "ccm8", "cbc"]


@dataclass(frozen=True, slots=True)
class Suite:
    """A cipher suite whose records can be opened."""

    name: str
    version: int
    kind: CipherKind
    key_bytes: int
    hash: str
    """Hash of the key derivation."""
    mac: str = ""
    """Hash of the MAC, for CBC."""

    @property
    def overhead(self) -> int:
        """Bytes of a record besides its plain text and header; for CBC the least number."""
        if self.version == TLS13:
            return _tag(self.kind) + 1
        if self.kind == "cbc":
            return 16 + _HASH_BYTES[self.mac] + 1
        return _tag(self.kind) + (0 if self.kind == "chacha" else 8)

    @property
    def lead(self) -> int:
        """Bytes of a record between its header and its encrypted plain text, which has the length
        of the plain text: the nonce of TLS 1.2.
        """
        if self.version == TLS13:
            return 0
        return {"cbc": 16, "chacha": 0}.get(self.kind, 8)

    @property
    def trial_cost(self) -> int:
        """Time to find out that a record has another number, as a multiple of the time with
        AES-GCM, which is 1 us.
        """
        return {"cbc": 20, "ccm": 5, "ccm8": 5}.get(self.kind, 1)

    @property
    def secret_bytes(self) -> int:
        """Size in bytes of a traffic secret of TLS 1.3."""
        return _HASH_BYTES[self.hash]


_HASH_BYTES = {"sha1": 20, "sha256": 32, "sha384": 48}


def _tag(kind: CipherKind) -> int:
    return 8 if kind == "ccm8" else 16


def _suites() -> dict[int, Suite]:
    suites = {
        0x1301: Suite("TLS_AES_128_GCM_SHA256", TLS13, "gcm", 16, "sha256"),
        0x1302: Suite("TLS_AES_256_GCM_SHA384", TLS13, "gcm", 32, "sha384"),
        0x1303: Suite("TLS_CHACHA20_POLY1305_SHA256", TLS13, "chacha", 32, "sha256"),
        0x1304: Suite("TLS_AES_128_CCM_SHA256", TLS13, "ccm", 16, "sha256"),
        0x1305: Suite("TLS_AES_128_CCM_8_SHA256", TLS13, "ccm8", 16, "sha256"),
    }
    for name, *numbers in (
        ("RSA", 0x009C, 0x009D, 0, 0x002F, 0x0035, 0x003C, 0x003D),
        ("DHE_RSA", 0x009E, 0x009F, 0xCCAA, 0x0033, 0x0039, 0x0067, 0x006B),
        ("ECDHE_ECDSA", 0xC02B, 0xC02C, 0xCCA9, 0xC009, 0xC00A, 0xC023, 0xC024),
        ("ECDHE_RSA", 0xC02F, 0xC030, 0xCCA8, 0xC013, 0xC014, 0xC027, 0xC028),
    ):
        last = "sha384" if name.startswith("EC") else "sha256"
        ciphers = (
            Suite("AES_128_GCM_SHA256", TLS12, "gcm", 16, "sha256"),
            Suite("AES_256_GCM_SHA384", TLS12, "gcm", 32, "sha384"),
            Suite("CHACHA20_POLY1305_SHA256", TLS12, "chacha", 32, "sha256"),
            Suite("AES_128_CBC_SHA", TLS12, "cbc", 16, "sha256", "sha1"),
            Suite("AES_256_CBC_SHA", TLS12, "cbc", 32, "sha256", "sha1"),
            Suite("AES_128_CBC_SHA256", TLS12, "cbc", 16, "sha256", "sha256"),
            Suite(f"AES_256_CBC_{last.upper()}", TLS12, "cbc", 32, last, last),
        )
        for number, cipher in zip(numbers, ciphers, strict=True):
            if number:  # the key exchange has this cipher
                suites[number] = replace(cipher, name=f"TLS_{name}_WITH_{cipher.name}")
    return suites


SUITES = _suites()
"""Cipher suites by number; suites that are not here cannot be read."""

_MAY_END = np.isin(np.arange(256), (0, 21, 22, 23))
"""By byte: whether the plain text of a TLS 1.3 record may end with it, before the tag."""

OpenedRecord = tuple[int, bytes]
"""Content type of a record, and its plain text."""


class Protection(Protocol):
    """The keys of one direction, until they change."""

    def open(self, sequence: int, record: bytes) -> OpenedRecord | None:
        """Opens a whole record with its header; None if it has another number or other keys."""


class Tls13:
    """The keys of TLS 1.3 records under one traffic secret."""

    def __init__(self, secret: bytes, suite: Suite) -> None:
        self.secret = secret
        self.suite = suite
        self.key = expand_label(secret, "key", suite.key_bytes, suite.hash)
        self._open = _aead(suite, self.key)
        self.iv = expand_label(secret, "iv", 12, suite.hash)
        self._iv_number = int.from_bytes(self.iv, "big")

    def open(self, sequence: int, record: bytes) -> OpenedRecord | None:
        """Opens a record, as ``Protection.open`` does."""
        try:
            plain = self._open(
                (self._iv_number ^ sequence).to_bytes(12, "big"), record[5:], record[:5]
            )
        except _failures():
            return None
        last = plain[-1:]
        if last == b"\0":
            plain = plain.rstrip(b"\0")
            last = plain[-1:]
        return (last[0], plain[:-1]) if last else (0, b"")

    def next(self) -> Tls13:
        """Returns the keys after a KeyUpdate."""
        return Tls13(
            expand_label(self.secret, "traffic upd", self.suite.secret_bytes, self.suite.hash),
            self.suite,
        )


def may_have(
    keys: Sequence[Tls13], record: bytes, first: int, count: int
) -> Iterator[tuple[int, int]]:
    """Yields which of these keys, of GCM or ChaCha20-Poly1305, and which sequence numbers, of
    ``count`` from ``first`` on, would have a record end with a content type or padding.

    One in 64 does so by chance; the others need not be tried.
    """
    last_byte = len(record) - 6 - _tag(keys[0].suite.kind)  # of the last byte of its plain text
    if last_byte < 0:
        return
    bytes_under = keystream.chacha_bytes if keys[0].suite.kind == "chacha" else keystream.aes_bytes
    stream = bytes_under(
        [tls13.key for tls13 in keys], [tls13.iv for tls13 in keys], first, count, at=last_byte
    )
    rows, numbers = np.nonzero(_MAY_END[stream ^ record[5 + last_byte]])
    yield from zip(rows.tolist(), (first + numbers).tolist(), strict=True)


class Aead12:
    """The keys of TLS 1.2 records with GCM, CCM or ChaCha20-Poly1305."""

    def __init__(self, key: bytes, iv: bytes, suite: Suite) -> None:
        self.suite = suite
        self._open = _aead(suite, key)
        self._iv = iv
        self._iv_number = int.from_bytes(iv, "big")

    def open(self, sequence: int, record: bytes) -> OpenedRecord | None:
        """Opens a record, as ``Protection.open`` does."""
        explicit = 0 if self.suite.kind == "chacha" else 8
        size = len(record) - 5 - explicit - _tag(self.suite.kind)
        if size < 0:
            return None
        nonce = (
            self._iv + record[5:13]
            if explicit
            else (self._iv_number ^ sequence).to_bytes(12, "big")
        )
        about = sequence.to_bytes(8, "big") + record[:3] + size.to_bytes(2, "big")
        try:
            return record[0], self._open(nonce, record[5 + explicit :], about)
        except _failures():
            return None


class Cbc12:
    """The keys of TLS 1.2 records of AES-CBC with an HMAC, before or behind the encryption."""

    def __init__(
        self, key: bytes, mac_key: bytes, suite: Suite, *, encrypts_then_macs: bool
    ) -> None:
        self.suite = suite
        self._key = key
        self._mac_key = mac_key
        self._is_outside = encrypts_then_macs
        self._mac_bytes = _HASH_BYTES[suite.mac]

    def open(self, sequence: int, record: bytes) -> OpenedRecord | None:
        """Opens a record, as ``Protection.open`` does."""
        head = sequence.to_bytes(8, "big") + record[:3]
        body, mac = record[5:], b""
        if self._is_outside:
            body, mac = body[: -self._mac_bytes], body[-self._mac_bytes :]
            if not hmac.compare_digest(self._mac(head + len(body).to_bytes(2, "big") + body), mac):
                return None
        if len(body) < 32 or len(body) % 16:
            return None
        plain = self._decrypt(body[:16], body[16:])
        padding = plain[-1] + 1
        if padding > len(plain) or plain[-padding:] != bytes([padding - 1]) * padding:
            return None
        plain = plain[:-padding]
        if not self._is_outside:
            if len(plain) < self._mac_bytes:
                return None
            plain, mac = plain[: -self._mac_bytes], plain[-self._mac_bytes :]
            if not hmac.compare_digest(
                self._mac(head + len(plain).to_bytes(2, "big") + plain), mac
            ):
                return None
        return record[0], plain

    def _mac(self, data: bytes) -> bytes:
        return hmac.digest(self._mac_key, data, self.suite.mac)

    def _decrypt(self, iv: bytes, body: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(iv)).decryptor()
        return decryptor.update(body) + decryptor.finalize()


def tls12_keys(
    master: bytes,
    client_random: bytes,
    server_random: bytes,
    suite: Suite,
    *,
    encrypts_then_macs: bool,
) -> tuple[Protection, Protection]:
    """Returns the keys of both directions, ``C2S`` and ``S2C`` (RFC 5246, 6.3)."""
    mac = _HASH_BYTES[suite.mac] if suite.kind == "cbc" else 0
    iv = 0 if suite.kind == "cbc" else 12 if suite.kind == "chacha" else 4
    block = prf(
        master,
        b"key expansion" + server_random + client_random,
        2 * (mac + suite.key_bytes + iv),
        suite.hash,
    )
    key_pieces, offset = [], 0
    for size in (mac, mac, suite.key_bytes, suite.key_bytes, iv, iv):
        key_pieces.append(block[offset : offset + size])
        offset += size

    def side(number: int) -> Protection:
        if suite.kind == "cbc":
            return Cbc12(
                key_pieces[2 + number],
                key_pieces[number],
                suite,
                encrypts_then_macs=encrypts_then_macs,
            )
        return Aead12(key_pieces[2 + number], key_pieces[4 + number], suite)

    return side(0), side(1)


def prf(secret: bytes, seed: bytes, size: int, name: str) -> bytes:
    """Returns bytes of the pseudo-random function of TLS 1.2 (RFC 5246, 5)."""
    output, a = b"", seed
    while len(output) < size:
        a = hmac.digest(secret, a, name)
        output += hmac.digest(secret, a + seed, name)
    return output[:size]


def expand_label(secret: bytes, label: str, size: int, name: str) -> bytes:
    """Returns HKDF-Expand-Label with no context (RFC 8446, 7.1)."""
    full = b"tls13 " + label.encode()
    info = size.to_bytes(2, "big") + bytes([len(full)]) + full + b"\0"
    output, block, number = b"", b"", 1
    while len(output) < size:
        block = hmac.digest(secret, block + info + bytes([number]), name)
        output, number = output + block, number + 1
    return output[:size]


def _aead(suite: Suite, key: bytes) -> Callable[[bytes, bytes, bytes], bytes]:
    # deferred: only TLS needs it
    from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

    if suite.kind == "gcm":
        return AESGCM(key).decrypt
    if suite.kind == "chacha":
        return ChaCha20Poly1305(key).decrypt
    return AESCCM(key, _tag(suite.kind)).decrypt


@cache
def _failures() -> tuple[type[Exception], ...]:
    """Returns the exceptions that opening raises if it is another record, or no record."""
    from cryptography.exceptions import InvalidTag

    return (InvalidTag, ValueError)
