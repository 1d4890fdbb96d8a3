from __future__ import annotations

import datetime
import random
import warnings

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from dcpinspect.transport.tls.certificates import host_named, read_certificate
from tests.tls import certificates


def nested(depth: int) -> bytes:
    """A sequence of a sequence of …"""
    sizes = [0]
    for _ in range(depth):
        sizes.append(sizes[-1] + 4)
    return b"".join(b"\x30\x82" + size.to_bytes(2, "big") for size in reversed(sizes[:-1]))


def der() -> bytes:
    return load_pem_x509_certificate(certificates.server().certificate).public_bytes(Encoding.DER)


def test_a_certificate_says_its_time_and_its_names() -> None:
    found = read_certificate(der())
    assert found is not None
    assert certificates.SERVER_NAME in found.names
    assert found.since_ns < found.until_ns
    assert found.until.endswith(" UTC")


def test_a_damaged_certificate_is_none_or_is_read() -> None:
    data, rng = der(), random.Random(1)
    assert read_certificate(b"") is None
    for _ in range(300):
        hit = bytearray(data)
        hit[rng.randrange(len(hit))] = rng.randrange(256)
        read_certificate(bytes(hit[: rng.randrange(1, len(hit) + 1)]))


def with_names(*names: str, serial: int = 5) -> bytes:
    """A certificate that says these names."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(serial)
    )
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(1))
    listed = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    return (
        builder.add_extension(listed, critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


def test_what_is_unusual_in_a_certificate_is_not_printed() -> None:
    data = bytearray(with_names("db.example"))
    data[data.index(b"\2\1\5") + 2] = 0  # a serial number that the library warns of
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert read_certificate(bytes(data)) is not None
    assert told == []


def test_each_of_many_names_counts_and_those_that_no_host_has_do_not() -> None:
    found = read_certificate(
        with_names(*(f"n{number}.example" for number in range(300)), "a" * 256)
    )
    assert found is not None
    assert len(found.names) == 300
    assert host_named("n299.example", found.names)


@pytest.mark.parametrize(
    "data", [b"\x30" * 60_000, b"\x30\x80" * 30_000, b"\x30\x84\xff\xff\xff\xff", nested(10_000)]
)
def test_any_nesting_and_any_length_is_refused(data: bytes) -> None:
    assert read_certificate(data) is None


@pytest.mark.parametrize(
    ("host", "names", "is_named"),
    [
        ("db.example", ("db.example",), True),
        ("DB.example.", ("db.example",), True),
        ("db.example", ("*.example",), True),
        ("a.db.example", ("*.example",), False),
        ("example", ("*.example",), False),
        ("localhost", ("*.",), False),
        ("10.0.0.1", ("10.0.0.1", "x"), True),
        ("evil.example", ("db.example",), False),
    ],
)
def test_a_star_stands_for_the_first_label(
    host: str, names: tuple[str, ...], is_named: bool
) -> None:
    assert host_named(host, names) == is_named
