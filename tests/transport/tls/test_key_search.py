"""The search finds secret, cipher suite and number of a record, and says how far it went where it
does not.
"""

from __future__ import annotations

import os

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from dcpinspect.transport.tls.key_search import FEW, SEARCHED, CandidateRecord, Search
from dcpinspect.transport.tls.keylog import TRAFFIC, Secrets
from dcpinspect.transport.tls.suites import Suite, expand_label


def sealed(secret: bytes, suite: Suite, sequence: int, plain: bytes) -> bytes:
    key, iv = (
        expand_label(secret, label, size, suite.hash)
        for label, size in (("key", suite.key_bytes), ("iv", 12))
    )
    nonce = (int.from_bytes(iv, "big") ^ sequence).to_bytes(12, "big")
    head = b"\x17\x03\x03" + (len(plain) + 17).to_bytes(2, "big")
    return head + (AESGCM if suite.kind == "gcm" else ChaCha20Poly1305)(key).encrypt(
        nonce, plain + b"\x17", head
    )


def secrets(size: int, count: int) -> list[Secrets]:
    return [{label: os.urandom(size) for label in TRAFFIC} for _ in range(count)]


@pytest.mark.parametrize("suite", SEARCHED, ids=lambda suite: suite.name)
def test_a_record_is_found_among_secrets_numbers_and_suites(suite: Suite) -> None:
    known = secrets(suite.secret_bytes, 5)
    record = sealed(known[3][TRAFFIC[1]], suite, 12_345, b"plain" * 20)
    asked = [CandidateRecord(record, 0), CandidateRecord(record, 1)]
    fit = Search().find(asked, known, SEARCHED, limit=1_000_000)
    assert fit is not None
    assert (fit.asked, fit.secrets, fit.keys.suite, fit.sequence) == (
        asked[1],
        known[3],
        suite,
        12_345,
    )


def test_trials_are_bounded_and_what_was_tried_is_told() -> None:
    suite = SEARCHED[0]
    known = secrets(32, 4)
    asked = [CandidateRecord(sealed(known[3][TRAFFIC[0]], suite, 5000, b"plain"), 0)]
    search = Search()
    assert search.find(asked, known, [suite], limit=20_000 - 1) is None
    assert (search.known, search.tried, search.numbers) == (4, 4, 4999)
    fit = search.find(asked, known, [suite], limit=20_004)
    assert fit is not None
    assert fit.sequence == 5000


def test_of_very_many_secrets_the_first_ones_are_tried() -> None:
    known = secrets(32, 50)
    asked = [CandidateRecord(sealed(bytes(32), SEARCHED[0], 0, b"plain"), 0)]
    search = Search()
    assert search.find(asked, known, SEARCHED[:1], limit=10 * FEW) is None
    assert (search.known, search.tried, search.numbers) == (50, 10, FEW)


def test_nothing_to_try_finds_nothing() -> None:
    search, asked = Search(), [CandidateRecord(bytes(30), 0)]
    assert search.find(asked, [], SEARCHED, limit=1000) is None
    assert search.find(asked, [{"CLIENT_RANDOM": bytes(48)}], SEARCHED, limit=1000) is None
    assert (search.known, search.numbers) == (0, 0)
    assert search.find(asked, secrets(32, 1), SEARCHED, limit=0) is None
    assert (search.known, search.numbers) == (1, 0)
    assert search.find([], secrets(32, 1), SEARCHED, limit=1000) is None
