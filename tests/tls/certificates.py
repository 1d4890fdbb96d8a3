"""Certificates for the tests: an authority, servers, a client, and those that are wrong in one way
each.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

Kind = Literal["rsa", "ec"]
_Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

SERVER_NAME = "node1.example.com"
ADDRESSES = ("10.11.0.1", "10.11.0.2", "10.11.0.3", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate with its key, as PEM."""

    certificate: bytes
    key: bytes

    def save(self, folder: Path, name: str) -> Path:
        """One file with both, as OpenSSL loads it."""
        path = folder / f"{name}.pem"
        path.write_bytes(self.certificate + self.key)
        return path


class Authority:
    """Signs certificates; ``certificate`` is what those have who trust it."""

    def __init__(self, name: str = "Example CA") -> None:
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(
            self._name, self._key, names=(), addresses=(), days=(-5000, 365), authority=True
        )

    def issue(
        self,
        name: str = SERVER_NAME,
        *,
        kind: Kind = "rsa",
        names: tuple[str, ...] | None = None,
        addresses: tuple[str, ...] = ADDRESSES,
        days: tuple[int, int] = (-1, 30),
    ) -> Identity:
        """A certificate for ``names`` (its own name unless told) and ``addresses``, good from and
        until so many days from now.
        """
        key: _Key = (
            rsa.generate_private_key(public_exponent=65537, key_size=2048)
            if kind == "rsa"
            else ec.generate_private_key(ec.SECP256R1())
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Identity(
            self._sign(
                _named(name),
                key,
                names=(name,) if names is None else names,
                addresses=addresses,
                days=days,
            ),
            pem,
        )

    def _sign(
        self,
        subject: x509.Name,
        key: _Key,
        *,
        names: tuple[str, ...],
        addresses: tuple[str, ...],
        days: tuple[int, int],
        authority: bool = False,
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days[0]))
            .not_valid_after(now + datetime.timedelta(days[1]))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if names or addresses:
            alternatives = [x509.DNSName(name) for name in names] + [
                x509.IPAddress(ipaddress.ip_address(text)) for text in addresses
            ]
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternatives), critical=False
            )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@cache
def authority(name: str = "Example CA") -> Authority:
    """The one of that name."""
    return Authority(name)


@cache
def server(kind: Kind = "rsa") -> Identity:
    """A server's, with nothing wrong."""
    return authority().issue(kind=kind)


@cache
def client() -> Identity:
    """A client's, for mutual TLS."""
    return authority().issue("reader", names=(), addresses=(), kind="ec")


@cache
def expired() -> Identity:
    """A server's that was good until yesterday."""
    return authority().issue(days=(-10, -1))


@cache
def misnamed() -> Identity:
    """A server's for another host."""
    return authority().issue("elsewhere.example.org", addresses=())
