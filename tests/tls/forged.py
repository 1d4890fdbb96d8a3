"""Records that OpenSSL does not write: empty, padded at will, spoilt, numbered wrongly. They are
sealed here, with the keys of the key log.

    forged = Forged(folder, Tls("1.2", "ECDHE-RSA-AES128-SHA"))
    forged.send(0, message)
    forged.send(1)  # an empty record
    recorded = forged.finish()

The handshake is OpenSSL's, the packets are ``tests.damage``'s; root is not needed.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from dcpinspect.protocol.header import decode_header
from tests.damage import Talk
from tests.peers.play import Said
from tests.tls.damage import save
from tests.tls.endpoint import Ledger
from tests.tls.memory import Ends
from tests.tls.peers import PORT, Connection, Contexts, Recorded, Tls

APPLICATION = 23

Seal = Callable[[int, int, bytes, int], bytes]
"""(sequence number, content type, plain bytes, bytes of padding) -> record."""


@dataclass(frozen=True, slots=True)
class Protection:
    """What is made of secrets."""

    hash: str
    key: int
    aead: type[AESGCM] | type[ChaCha20Poly1305] | None
    mac: str = ""
    iv: int = 0
    """Bytes of it among the keys of TLS 1.2."""


def protection(name: str) -> Protection:
    """Of a suite as OpenSSL or the standard calls it."""
    late = "sha384" if name.endswith("SHA384") else "sha256"
    key = 16 if "128" in name.split("POLY1305")[0] else 32
    if "POLY1305" in name:
        return Protection("sha256", 32, ChaCha20Poly1305, iv=12)
    if "GCM" in name:
        return Protection(late, key, AESGCM, iv=4)
    return Protection(late, key, None, mac="sha1" if name.endswith("SHA") else late)


def _record(kind: int, body: bytes) -> bytes:
    return struct.pack(">BHH", kind, 0x0303, len(body)) + body


def _numbered(iv: bytes, number: int) -> bytes:
    return (int.from_bytes(iv, "big") ^ number).to_bytes(len(iv), "big")


def expand(secret: bytes, label: str, size: int, suite: Protection) -> bytes:
    """HKDF-Expand-Label with no context."""
    full = b"tls13 " + label.encode()
    algorithm = hashes.SHA384() if suite.hash == "sha384" else hashes.SHA256()
    return HKDFExpand(algorithm, size, struct.pack(">HB", size, len(full)) + full + b"\0").derive(
        secret
    )


def seal_1_3(secret: bytes, suite: Protection) -> Seal:
    """Records of TLS 1.3 under a traffic secret."""
    assert suite.aead is not None
    cipher, iv = (
        suite.aead(expand(secret, "key", suite.key, suite)),
        expand(secret, "iv", 12, suite),
    )

    def seal(number: int, kind: int, plain: bytes, padding: int) -> bytes:
        inner = plain + bytes([kind]) + bytes(padding)
        header = struct.pack(">BHH", APPLICATION, 0x0303, len(inner) + 16)
        return header + cipher.encrypt(_numbered(iv, number), inner, header)

    return seal


def seal_1_2(
    keys: tuple[bytes, bytes, bytes], suite: Protection, *, encrypt_then_mac: bool
) -> Seal:
    """Records of TLS 1.2 under the keys of one side: MAC, cipher, first vector."""
    mac_key, key, iv = keys

    def told(number: int, kind: int, size: int) -> bytes:
        return struct.pack(">QBHH", number, kind, 0x0303, size)

    def seal_aead(number: int, kind: int, plain: bytes, padding: int) -> bytes:
        assert suite.aead is not None
        assert not padding
        explicit = struct.pack(">Q", number) if suite.aead is AESGCM else b""
        nonce = iv + explicit if explicit else _numbered(iv, number)
        return _record(
            kind, explicit + suite.aead(key).encrypt(nonce, plain, told(number, kind, len(plain)))
        )

    def seal_block(number: int, kind: int, plain: bytes, padding: int) -> bytes:
        first = hashlib.sha256(struct.pack(">Q", number) + mac_key).digest()[:16]

        def encrypt(data: bytes) -> bytes:
            fill = -(len(data) + 1) % 16 + padding // 16 * 16
            encryptor = Cipher(algorithms.AES(key), modes.CBC(first)).encryptor()
            return (
                first + encryptor.update(data + bytes([fill]) * (fill + 1)) + encryptor.finalize()
            )

        if encrypt_then_mac:
            body = encrypt(plain)
            return _record(
                kind, body + hmac.digest(mac_key, told(number, kind, len(body)) + body, suite.mac)
            )
        return _record(
            kind,
            encrypt(
                plain + hmac.digest(mac_key, told(number, kind, len(plain)) + plain, suite.mac)
            ),
        )

    return seal_aead if suite.aead is not None else seal_block


def prf(secret: bytes, seed: bytes, size: int, name: str) -> bytes:
    """That of TLS 1.2."""
    out, turn = b"", seed
    while len(out) < size:
        turn = hmac.digest(secret, turn, name)
        out += hmac.digest(secret, turn + seed, name)
    return out[:size]


class Forged:
    """One connection, written record by record."""

    def __init__(self, folder: Path, tls: Tls | None = None, *, port: int = PORT) -> None:
        self._tls = tls or Tls()
        self._folder = folder
        contexts = Contexts(folder, self._tls)
        contexts.server.num_tickets = 0
        self._keylog = contexts.keylog
        self._talk = Talk(server_port=port)
        self._ledgers = (Ledger(), Ledger())
        self._plain = (bytearray(), bytearray())
        self._talk.handshake()
        ends = Ends(contexts)
        hello = [b"", b""]
        for direction, said in ends.handshake():
            hello[direction] = hello[direction] or said
            self._ledgers[direction].note(said)
            self._talk.stream(direction, said)
        cipher = ends.tls[0].cipher()
        assert cipher is not None
        self._name = cipher[0]
        # In TLS 1.2 Finished was sealed with the same keys.
        self.numbers = [1, 1] if self._tls.version == "1.2" else [0, 0]
        """Sequence number of each direction's next record."""
        self._seals = self._keys([said[11:43] for said in hello])

    def _keys(self, randoms: list[bytes]) -> list[Seal]:
        suite = protection(self._name)
        secrets = {
            line.split()[0]: bytes.fromhex(line.split()[2])
            for line in self._keylog.read_text().splitlines()
            if line[:1] != "#"
        }
        if self._tls.version == "1.3":
            return [
                seal_1_3(secrets[f"{side}_TRAFFIC_SECRET_0"], suite)
                for side in ("CLIENT", "SERVER")
            ]
        sizes = {"sha1": 20, "sha256": 32, "sha384": 48}.get(suite.mac, 0), suite.key, suite.iv
        left = prf(
            secrets["CLIENT_RANDOM"],
            b"key expansion" + randoms[1] + randoms[0],
            2 * sum(sizes),
            suite.hash,
        )
        parts: list[bytes] = []
        for size in sizes:
            parts += [left[:size], left[size : 2 * size]]
            left = left[2 * size :]
        return [
            seal_1_2(
                (parts[way], parts[2 + way], parts[4 + way]),
                suite,
                encrypt_then_mac=self._tls.encrypt_then_mac,
            )
            for way in (0, 1)
        ]

    def send(
        self,
        direction: int,
        plain: bytes = b"",
        *,
        kind: int = APPLICATION,
        padding: int = 0,
        spoilt: bool = False,
    ) -> bytes:
        """One record, of any size and content type; ``spoilt``: with its last bit turned, so that
        nobody can open it.
        """
        record = self._seals[direction](self.numbers[direction], kind, plain, padding)
        self.numbers[direction] += 1
        if spoilt:
            record = record[:-1] + bytes([record[-1] ^ 1])
        readable = kind == APPLICATION and not spoilt
        self.send_raw(direction, record, len(plain) if readable else 0)
        self._plain[direction].extend(plain if readable else b"")
        return record

    def send_raw(self, direction: int, cipher: bytes, plain: int = 0) -> None:
        """Bytes as they are, in full segments."""
        self._ledgers[direction].note(cipher, plain)
        self._talk.stream(direction, cipher)

    def finish(self, first_fin: int = 0) -> Recorded:
        """The capture; what was said is cut into messages."""
        self._talk.close(first_fin)
        client, server = (tuple(text.rsplit(":", 1)) for text in self._talk.packets[0].flow[:2])
        ways = [list(_messages(bytes(data))) for data in self._plain]
        said = Said("forged", (client[0], int(client[1])), (server[0], int(server[1])), *ways)
        path = save(self._folder / "capture.pcap", self._talk.packets)
        records = {direction: ledger.records for direction, ledger in enumerate(self._ledgers)}
        return Recorded(
            path,
            self._keylog,
            [Connection(said, f"TLSv{self._tls.version}", self._name, False, records)],
        )


def _messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = decode_header(memoryview(data)[at:]).size
        yield data[at : at + size]
        at += size
