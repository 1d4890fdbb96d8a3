"""Whether values that are compressed or have xattrs are sound, for many documents at once.

As in ``json_check``, the kernel accepts less than the library and the parser do. What it accepts is sound beyond doubt. What it refuses
(large documents, many xattrs, damage) is left to them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcpinspect.kernels.kernel import Octets, be32, copy, inline, kernel, octet
from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.json_check import is_json
from dcpinspect.protocol.snappy import MAX_RATIO

MAX_INFLATED = 1 << 20
"""Greatest size in bytes of an inflated document."""
MAX_XATTRS = 16
"""Greatest number of pairs in a section: their keys are compared each with each."""

_JSON, _SNAPPY, _XATTR = int(datatypes.JSON), int(datatypes.SNAPPY), int(datatypes.XATTR)

Numbers = npt.NDArray[np.int64]


def are_sound(
    data: npt.NDArray[np.uint8], start: Numbers, size: Numbers, datatype: npt.NDArray[np.uint8], *, is_bodyless: bool
) -> npt.NDArray[np.bool_] | None:
    """Returns, for each place and size, True if the value there is what its datatype says, and needs no second look.

    ``is_bodyless``: a document body must not be there. None if machine code does not pay: then look at each value one by one.
    """
    if not check_documents.is_compiled:
        return None
    found = np.zeros(len(start), np.uint8)
    start, size, kinds = (np.ascontiguousarray(column, dtype=np.int64) for column in (start, size, datatype))
    check_documents(data, start, size, kinds, np.empty(MAX_INFLATED, np.uint8), int(is_bodyless), found)
    return found.view(np.bool_)


@inline
def inflated(text: Octets, end: int, out: Octets) -> int:
    """Inflates a snappy block. Returns its size, or -1 if it is no block or ``out`` is too small. One step for each byte of ``out``."""
    size = 0
    at = 0
    while True:
        if at == end or at == 4:
            return -1
        byte = octet(text, at)
        size |= (byte & 0x7F) << (7 * at)
        at += 1
        if byte < 0x80:
            break
    if size > len(out) or size > end * MAX_RATIO:
        return -1
    done = 0
    while at < end:
        tag = octet(text, at)
        at += 1
        kind = tag & 3
        if kind == 0:
            count = (tag >> 2) + 1
            if count > 60:
                width = count - 60
                if width > 3 or at + width > end:
                    return -1
                count = 1
                for i in range(width):
                    count += octet(text, at + i) << (8 * i)
                at += width
            if at + count > end or done + count > size:
                return -1
            copy(out, done, text, at, count)
            at += count
        else:
            if kind == 1:
                if at + 1 > end:
                    return -1
                count = 4 + ((tag >> 2) & 7)
                back = ((tag >> 5) << 8) | octet(text, at)
                at += 1
            else:
                width = 2 if kind == 2 else 4
                if at + width > end:
                    return -1
                count = 1 + (tag >> 2)
                back = 0
                for i in range(width):
                    back |= octet(text, at + i) << (8 * i)
                at += width
            if back == 0 or back > done or done + count > size:
                return -1
            for i in range(count):
                out[done + i] = out[done + i - back]
        done += count
    return size if done == size else -1


@inline
def xattrs_end(text: Octets, end: int) -> int:
    """Returns where the body behind a section of xattrs begins; -1 if the section is not sound. One step for each byte, and for each pair
    of keys."""
    if end < 4:
        return -1
    stop = 4 + be32(text, 0)
    if stop > end:
        return -1
    at = 4
    pairs = 0
    while at < stop:
        if at + 4 > stop or pairs == MAX_XATTRS:
            return -1
        behind = at + 4 + be32(text, at)
        if behind > stop:
            return -1
        nul = at + 4
        while nul < behind and text[nul] != 0:
            nul += 1
        if nul == at + 4 or nul >= behind - 1:  # no key, or no second NUL
            return -1
        for i in range(nul + 1, behind):
            if (text[i] == 0) != (i == behind - 1):
                return -1
        # the key was there before
        other = 4
        while other < at:
            same = 0
            while text[other + 4 + same] == text[at + 4 + same] and text[at + 4 + same] != 0:
                same += 1
            if text[other + 4 + same] == 0 and text[at + 4 + same] == 0:
                return -1
            other += 4 + be32(text, other)
        pairs += 1
        at = behind
    return stop


@inline
def is_sound(text: Octets, end: int, datatype: int, is_bodyless: int) -> bool:
    """Returns whether a value that is not compressed is what its datatype says."""
    at = 0
    if datatype & _XATTR:
        at = xattrs_end(text, end)
        if at < 0:
            return False
    if at == end:
        return True
    if is_bodyless:
        return False
    return is_json(text[at:end], end - at) if datatype & _JSON else True


@kernel("void(octets, int64[::1], int64[::1], int64[::1], uint8[::1], int64, uint8[::1])")
def check_documents(
    data: Octets, start: Numbers, size: Numbers, datatype: Numbers, scratch: Octets, is_bodyless: int, found: Octets
) -> None:
    """Sets ``found`` to 1 for each place where a sound value stands."""
    for i in range(len(start)):
        text = data[start[i] : start[i] + size[i]]
        if datatype[i] & _SNAPPY:
            end = inflated(text, size[i], scratch)
            if end >= 0:
                found[i] = 1 if is_sound(scratch, end, datatype[i], is_bodyless) else 0
        else:
            found[i] = 1 if is_sound(text, size[i], datatype[i], is_bodyless) else 0


@kernel("void(octets, int64[::1], int64[::1], uint8[::1], int64[::1])")
def inflate_documents(data: Octets, start: Numbers, size: Numbers, out: Octets, sizes: Numbers) -> None:
    """Inflates values one behind the other; ``sizes`` become their sizes in ``out``, -1 for values that are left to the library.

    One step for each byte of ``out``.
    """
    at = 0
    for i in range(len(start)):
        sizes[i] = inflated(data[start[i] : start[i] + size[i]], size[i], out[at:])
        at += max(sizes[i], 0)
