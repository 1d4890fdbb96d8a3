"""The xattr section that a value with datatype bit 0x04 begins with.

Source: kv_engine ``docs/Document.md``. There is a u32 section length (not counting itself), then
pairs: u32 pair length, key, NUL, value, NUL. Values are JSON; keys are longer than the documented
15 bytes in practice.
"""

from __future__ import annotations

from struct import unpack_from
from typing import NamedTuple


class Xattr(NamedTuple):
    """One pair, at ``offset`` of the value with ``size`` bytes, its length word included."""

    key: bytes
    value: bytes
    offset: int
    size: int


class XattrSection(NamedTuple):
    """The xattr section of a value."""

    pairs: tuple[Xattr, ...]
    body_offset: int
    """Where the document body begins."""
    problem: str | None = None
    """Why the rest of the section could not be read, and where; None if it could."""
    problem_offset: int = 0


def decode_xattrs(value: bytes) -> XattrSection:
    """Returns the xattr section at the start of ``value``; damage ends it early and is named."""
    if len(value) < 4:
        return XattrSection((), len(value), f"{len(value)} bytes do not hold a section length", 0)
    (size,) = unpack_from(">I", value)
    end = 4 + size
    problem = None
    if end > len(value):
        problem = f"section of {size} bytes exceeds the {len(value) - 4} that follow"
        end = len(value)
    pairs: list[Xattr] = []
    seen: set[bytes] = set()
    pair_start = 4
    while pair_start < end and problem is None:
        if pair_start + 4 > end:
            problem = f"{end - pair_start} bytes are left where a pair length needs 4"
            break
        (pair,) = unpack_from(">I", value, pair_start)
        stop = pair_start + 4 + pair
        if stop > end:
            problem = f"pair of {pair} bytes exceeds the {end - pair_start - 4} that are left"
            break
        pair_pieces = value[pair_start + 4 : stop].split(b"\0")
        if len(pair_pieces) != 3 or pair_pieces[2] or not pair_pieces[0]:
            problem = "pair is not key, NUL, value, NUL"
            break
        if pair_pieces[0] in seen:
            problem = f"key {pair_pieces[0]!r} occurs twice"
        seen.add(pair_pieces[0])
        pairs.append(Xattr(pair_pieces[0], pair_pieces[1], pair_start, 4 + pair))
        pair_start = stop
    return XattrSection(tuple(pairs), end, problem, pair_start)
