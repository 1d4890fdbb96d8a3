"""Snappy raw blocks, with a bound on what they may inflate to."""

from __future__ import annotations

from dcpinspect.protocol.header import MAX_BODY

MAX_RATIO = 22
"""A copy of three bytes yields 64 at most, so a block that claims a greater ratio is refused."""


class SnappyError(ValueError):
    """The bytes are not a snappy block, or claim more than a document may hold."""


def inflated_size(data: bytes | memoryview) -> int:
    """Returns the uncompressed length that the preamble declares.

    Raises SnappyError if there is no preamble or the length exceeds 30 MiB.
    """
    import cramjam  # deferred: most captures have no compressed values to show

    if not data:
        raise SnappyError("has no length preamble")
    try:
        size: int = cramjam.snappy.decompress_raw_len(data)
    except cramjam.DecompressionError:
        raise SnappyError("has no length preamble") from None
    if size > MAX_BODY:
        raise SnappyError(f"claims {size} bytes, more than the 30 MiB a document may have")
    if size > len(data) * MAX_RATIO:
        raise SnappyError(f"claims {size} bytes, more than a block of {len(data)} can hold")
    return size


def decode_snappy(data: bytes | memoryview) -> bytes:
    """Returns the uncompressed bytes.

    Raises SnappyError; never allocates more than 30 MiB.
    """
    import cramjam

    size = inflated_size(data)
    inflated = bytearray(size)
    try:
        done = cramjam.snappy.decompress_raw_into(data, inflated) if size or len(data) > 1 else 0
    except cramjam.DecompressionError as error:
        raise SnappyError(
            f"is not a snappy block ({str(error).removeprefix('snappy: ')})"
        ) from None
    if done != size:
        raise SnappyError(f"inflates to {done} bytes where {size} were declared")
    return bytes(inflated)
