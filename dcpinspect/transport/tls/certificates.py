"""What a server's certificate says of its period of validity and its names (RFC 5280, 6125)."""

from __future__ import annotations

import warnings
from datetime import datetime

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.transport.tls.handshake import MOST_NAME


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of a certificate that clients check first."""

    since: str
    until: str
    since_ns: int
    until_ns: int
    names: tuple[str, ...]
    """Names of hosts, in lower case."""


def read_certificate(data: bytes) -> Certificate | None:
    """Returns a certificate in DER; None if it is damaged."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of unusual parts would reach the terminal
            return _read(data)
    except Exception:
        return None


def _read(data: bytes) -> Certificate:
    from cryptography import x509  # deferred: only TLS needs it

    certificate = x509.load_der_x509_certificate(data)
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    try:
        listed = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [
            *listed.get_values_for_type(x509.DNSName),
            *map(str, listed.get_values_for_type(x509.IPAddress)),
        ]
    except x509.ExtensionNotFound:
        names = []
    hosts = tuple(name.lower() for name in names if len(name) <= MOST_NAME)
    return Certificate(_text(since), _text(until), _ns(since), _ns(until), hosts)


def host_named(host: str, names: tuple[str, ...]) -> bool:
    """Returns whether a certificate of these names is the host's; a star is a first label."""
    host = host.lower().rstrip(".")
    parent_domain = host.partition(".")[2]
    return any(
        name == host
        or (name.startswith("*.") and name[2:] == parent_domain and bool(parent_domain))
        for name in names
    )


def _ns(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
