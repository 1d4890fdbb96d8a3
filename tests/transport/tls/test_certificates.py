from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from dcpinspect.transport.tls.certificates import host_named, read_certificate
from tests.tls import certificates


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
def test_a_star_stands_for_the_first_label(host: str, names: tuple[str, ...], is_named: bool) -> None:
    assert host_named(host, names) == is_named
