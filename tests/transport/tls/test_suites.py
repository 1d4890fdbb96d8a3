"""Keys against the vectors of the specifications; records against OpenSSL in test_stage."""

from __future__ import annotations

from dcpinspect.transport.tls.suites import SUITES, Suite, Tls13, expand_label, prf, tls12_keys
from dcpinspect.transport.tls.tls_records import TLS12, TLS13
from tests.catalogue import each


def test_traffic_keys_are_those_of_rfc_8448() -> None:
    secret = bytes.fromhex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38")
    assert expand_label(secret, "key", 16, "sha256").hex() == "3fce516009c21727d0f2e4e86ee403bc"
    assert expand_label(secret, "iv", 12, "sha256").hex() == "5d313eb2671276ee13000b30"


def test_the_pseudo_random_function_is_that_of_tls_1_2() -> None:
    """The vector for SHA-256 that implementations of RFC 5246 share."""
    secret, seed = (
        bytes.fromhex("9bbe436ba940f017b17652849a71db35"),
        bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c"),
    )
    found = prf(secret, b"test label" + seed, 100, "sha256")
    assert found.hex().startswith(
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a"
    )
    assert found.hex().endswith("87347b66")


def test_every_suite_has_what_its_name_says() -> None:
    for suite in SUITES.values():
        assert ("_WITH_" not in suite.name) == (suite.version == TLS13)
        assert ("_128_" in suite.name) == (suite.key_bytes == 16)
        assert suite.name.endswith("SHA384") == (suite.hash == "sha384")
        assert ("CBC" in suite.name) == (suite.kind == "cbc") == bool(suite.mac)


@each("suite", SUITES.values())
def test_garbage_is_no_record(suite: Suite) -> None:
    if suite.version == TLS13:
        keys = [Tls13(bytes(48 if suite.hash == "sha384" else 32), suite)]
    else:
        keys = list(tls12_keys(bytes(48), bytes(32), bytes(32), suite, encrypts_then_macs=False))  # type: ignore[arg-type]
        keys += tls12_keys(bytes(48), bytes(32), bytes(32), suite, encrypts_then_macs=True)  # type: ignore[arg-type]
    assert suite.version in (TLS12, TLS13)
    for one in keys:
        for size in (0, 1, 7, 15, 16, 17, 31, 32, 48, 64, 100, 16_384):
            assert one.open(0, b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)) is None
