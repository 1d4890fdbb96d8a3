"""One byte of the key stream under many keys and sequence numbers at once: some 50 million a second
with AES, 6 million with ChaCha20.

Opening a record takes 100 times as long. So a search for the sequence number of a record tries this
byte first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import ByteArray

Words = npt.NDArray[np.uint32]
AT_ONCE = 8192
"""Number of keys times sequence numbers for which the work fits into the processor's cache."""
_CONSTANT = np.frombuffer(b"expand 32-byte k", "<u4")


def aes_bytes(
    keys: Sequence[bytes], ivs: Sequence[bytes], first: int, count: int, *, at: int
) -> ByteArray:
    """Returns [key, sequence number from ``first`` on]: byte ``at`` of the key stream of AES-GCM
    (NIST SP 800-38D, 7.1).
    """
    # deferred: only TLS needs it
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    block, byte = divmod(at, 16)
    blocks = np.empty((count, 16), np.uint8)
    blocks[:, 12:] = np.frombuffer((2 + block).to_bytes(4, "big"), np.uint8)  # 1 makes the tag
    stream = np.empty((len(keys), count), np.uint8)
    for row, key, iv in zip(stream, keys, ivs, strict=True):
        blocks[:, :4] = np.frombuffer(iv[:4], np.uint8)
        blocks[:, 4:12] = _ends_of_nonces(iv, first, count)
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - each block is the counter of another record
        row[:] = np.frombuffer(encryptor.update(blocks.data), np.uint8)[byte::16]
    return stream


def chacha_bytes(
    keys: Sequence[bytes], ivs: Sequence[bytes], first: int, count: int, *, at: int
) -> ByteArray:
    """Returns [key, sequence number from ``first`` on]: byte ``at`` of the key stream of
    ChaCha20-Poly1305 (RFC 8439, 2.3 and 2.8).
    """
    block, byte = divmod(at, 64)
    blocks = np.empty((16, len(keys), count), np.uint32)
    blocks[:4] = _CONSTANT[:, np.newaxis, np.newaxis]
    blocks[4:12] = np.frombuffer(b"".join(keys), "<u4").reshape(-1, 8, 1).transpose(1, 0, 2)
    blocks[12] = 1 + block  # 0 makes the tag
    for number, iv in enumerate(ivs):
        blocks[13, number] = np.frombuffer(iv[:4], "<u4")
        blocks[14:, number] = _ends_of_nonces(iv, first, count).view("<u4").T
    start = blocks.reshape(16, -1)
    spare = np.empty((4, start.shape[1]), np.uint32)

    def turn(rows: Words, bits: int) -> None:
        np.right_shift(rows, 32 - bits, out=spare)
        np.left_shift(rows, bits, out=rows)
        np.bitwise_or(rows, spare, out=rows)

    def quarter_rounds(a: Words, b: Words, c: Words, d: Words) -> None:
        for to, more, turned, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            np.add(to, more, out=to)
            np.bitwise_xor(turned, to, out=turned)
            turn(turned, bits)

    a, b, c, d = start.copy().reshape(4, 4, -1)
    for _ in range(10):
        quarter_rounds(a, b, c, d)
        b, c, d = b[[1, 2, 3, 0]], c[[2, 3, 0, 1]], d[[3, 0, 1, 2]]
        quarter_rounds(a, b, c, d)
        b, c, d = b[[3, 0, 1, 2]], c[[2, 3, 0, 1]], d[[1, 2, 3, 0]]
    word, byte_in_word = divmod(byte, 4)
    key_bytes: ByteArray = (
        ((a, b, c, d)[word // 4][word % 4] + start[word]) >> np.uint32(8 * byte_in_word)
    ).astype(np.uint8)
    return key_bytes.reshape(-1, count)


def _ends_of_nonces(iv: bytes, first: int, count: int) -> ByteArray:
    """Returns the last 8 bytes of the nonces, which differ (RFC 8446, 5.3)."""
    numbers = np.arange(first, first + count, dtype=np.uint64) ^ np.uint64(
        int.from_bytes(iv[4:], "big")
    )
    return numbers.astype(">u8").view(np.uint8).reshape(count, 8)
