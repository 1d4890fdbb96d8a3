"""The bytes of the key stream are those by which ``cryptography`` encrypts."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from dcpinspect.transport.tls.keystream import aes_bytes, chacha_bytes

IVS = [bytes(range(101, 113)), bytes(range(12))]
FIRST, COUNT = (1 << 40) - 3, 7  # numbers that differ in more than their lowest bytes


def nonce(iv: bytes, sequence: int) -> bytes:
    return (int.from_bytes(iv, "big") ^ sequence).to_bytes(12, "big")


@pytest.mark.parametrize("place", [0, 15, 16, 63, 64, 1000])
@pytest.mark.parametrize("size", [16, 32])
def test_each_byte_is_what_zeros_are_encrypted_to(size: int, place: int) -> None:
    zeros, numbers = bytes(1001), range(FIRST, FIRST + COUNT)
    keys = [bytes(range(size)), bytes(range(7, 7 + size))]
    gcm = aes_bytes(keys, IVS, FIRST, COUNT, at=place)
    assert gcm.tolist() == [
        [AESGCM(key).encrypt(nonce(iv, one), zeros, None)[place] for one in numbers]
        for key, iv in zip(keys, IVS, strict=True)
    ]
    if size == 32:
        chacha = chacha_bytes(keys, IVS, FIRST, COUNT, at=place)
        assert chacha.tolist() == [
            [ChaCha20Poly1305(key).encrypt(nonce(iv, one), zeros, None)[place] for one in numbers]
            for key, iv in zip(keys, IVS, strict=True)
        ]
