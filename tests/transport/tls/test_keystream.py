"""The bytes of the key stream are those by which ``cryptography`` encrypts."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from dcpinspect.transport.tls.keystream import aes_bytes, chacha_bytes

IV = bytes(range(101, 113))
FIRST, COUNT = (1 << 40) - 3, 7  # numbers that differ in more than their lowest bytes


def nonce(sequence: int) -> bytes:
    return (int.from_bytes(IV, "big") ^ sequence).to_bytes(12, "big")


@pytest.mark.parametrize("place", [0, 15, 16, 63, 64, 1000])
def test_each_byte_is_what_zeros_are_encrypted_to(place: int) -> None:
    zeros, numbers = bytes(1001), range(FIRST, FIRST + COUNT)
    for size in (16, 32):
        key = bytes(range(size))
        gcm = aes_bytes(key, IV, FIRST, COUNT, head=b"", counter=2 + place // 16, at=place % 16)
        assert gcm.tolist() == [
            AESGCM(key).encrypt(nonce(one), zeros, None)[place] for one in numbers
        ]
        ccm = aes_bytes(key, IV, FIRST, COUNT, head=b"\2", counter=1 + place // 16, at=place % 16)
        assert ccm.tolist() == [
            AESCCM(key).encrypt(nonce(one), zeros, None)[place] for one in numbers
        ]
    chacha = chacha_bytes(key, IV, FIRST, COUNT, counter=1 + place // 64, at=place % 64)
    assert chacha.tolist() == [
        ChaCha20Poly1305(key).encrypt(nonce(one), zeros, None)[place] for one in numbers
    ]
