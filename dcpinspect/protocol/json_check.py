"""Whether bytes are JSON, for many documents at once.

A kernel that accepts less than a parser does: what it accepts is JSON beyond doubt, what it refuses (deep
nesting, surrogates in escapes, numbers of 40 digits, characters that terminals act on) is for the parser.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcpinspect.kernel import Ints, Octets, inline, kernel
from dcpinspect.protocol.utf8 import sequence_size

MAX_DEPTH = 60
"""Open arrays and objects fit the bits of one number."""
MAX_NUMBER = 40
"""Letters of a number; longer ones may be out of a parser's range."""

_ESCAPES = np.array([byte in b'"\\/bfnrt' for byte in range(256)], dtype=np.uint8)
"""Letters that may follow a backslash, besides u and its digits."""


def are_json(data: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """For each place and size: True when JSON, and nothing that wants a second look, stands there."""
    found = np.zeros(len(start), np.uint8)
    check_json(len(start), data, np.ascontiguousarray(start), np.ascontiguousarray(size), found)
    return found.view(np.bool_)


@inline
def string_end(text: Octets, at: int, end: int) -> int:
    """The place behind the string whose first letter is at ``at``; -1 when it is none."""
    while at < end:
        byte = text[at]
        if 92 < byte < 0x7F:  # most letters
            at += 1
            continue
        if byte == 34:
            return at + 1
        if byte < 0x20 or byte == 0x7F:
            return -1
        if byte >= 0x80:
            wide = sequence_size(text, at, end)
            if wide == 0:
                return -1
            at += wide
        elif byte != 92:
            at += 1
        else:
            if at + 1 >= end:
                return -1
            letter = text[at + 1]
            if letter == 117:
                if at + 6 > end:
                    return -1
                code = 0
                for i in range(at + 2, at + 6):
                    digit = text[i]
                    if 48 <= digit <= 57:
                        code = code * 16 + digit - 48
                    elif 97 <= (digit | 32) <= 102:
                        code = code * 16 + (digit | 32) - 87
                    else:
                        return -1
                if 0xD800 <= code <= 0xDFFF:
                    return -1
                at += 6
            elif (
                letter == 34
                or letter == 92
                or letter == 47
                or letter == 98
                or letter == 102
                or letter == 110
                or letter == 114
                or letter == 116
            ):
                at += 2
            else:
                return -1
    return -1


@inline
def digits_end(text: Octets, at: int, end: int) -> int:
    """The place behind the digits at ``at``."""
    while at < end and 48 <= text[at] <= 57:
        at += 1
    return at


@inline
def number_end(text: Octets, at: int, end: int) -> int:
    """The place behind the number at ``at``; -1 when it is none or too long."""
    start = at
    if at < end and text[at] == 45:
        at += 1
    first = at
    at = digits_end(text, at, end)
    if at == first or (text[first] == 48 and at > first + 1):
        return -1
    if at < end and text[at] == 46:
        first = at + 1
        at = digits_end(text, first, end)
        if at == first:
            return -1
    if at < end and (text[at] == 101 or text[at] == 69):
        first = at + 1
        if first < end and (text[first] == 43 or text[first] == 45):
            first += 1
        at = digits_end(text, first, end)
        if at == first or at > first + 2:
            return -1
    return at if at - start <= MAX_NUMBER else -1


@inline
def blanks_end(text: Octets, at: int, end: int) -> int:
    """The place behind blanks."""
    while at < end and (text[at] == 32 or text[at] == 10 or text[at] == 13 or text[at] == 9):
        at += 1
    return at


@inline
def scalar_end(text: Octets, at: int, end: int) -> int:
    """The place behind a string, number, true, false or null; -1 when there is none."""
    byte = text[at]
    if byte == 34:
        return string_end(text, at + 1, end)
    if byte == 116:  # true
        return at + 4 if at + 4 <= end and text[at + 1] == 114 and text[at + 2] == 117 and text[at + 3] == 101 else -1
    if byte == 102:  # false
        is_false = at + 5 <= end and text[at + 1] == 97 and text[at + 2] == 108 and text[at + 3] == 115 and text[at + 4] == 101
        return at + 5 if is_false else -1
    if byte == 110:  # null
        return at + 4 if at + 4 <= end and text[at + 1] == 117 and text[at + 2] == 108 and text[at + 3] == 108 else -1
    return number_end(text, at, end)


@inline
def key_end(text: Octets, at: int, end: int) -> int:
    """The place behind a key, its colon and blanks; -1 when there is none."""
    at = blanks_end(text, at, end)
    if at >= end or text[at] != 34:
        return -1
    at = string_end(text, at + 1, end)
    if at < 0:
        return -1
    at = blanks_end(text, at, end)
    return at + 1 if at < end and text[at] == 58 else -1


@inline
def is_json(text: Octets, end: int) -> bool:
    """Whether all of ``text`` is one JSON value. One step a byte."""
    at, depth, objects = 0, 0, 0  # bit n of objects: the n-th open bracket is a brace
    while True:
        # A value begins here.
        at = blanks_end(text, at, end)
        if at >= end:
            return False
        byte = text[at]
        if byte == 123 or byte == 91:
            if depth == MAX_DEPTH:
                return False
            is_object = 1 if byte == 123 else 0
            objects = objects * 2 + is_object
            depth += 1
            at = blanks_end(text, at + 1, end)
            if at < end and text[at] == (125 if is_object == 1 else 93):
                at += 1
                objects //= 2
                depth -= 1
            elif is_object == 1:
                at = key_end(text, at, end)
                if at < 0:
                    return False
                continue
            else:
                continue
        else:
            at = scalar_end(text, at, end)
            if at < 0:
                return False
        # A value ended here.
        while True:
            at = blanks_end(text, at, end)
            if depth == 0:
                return at == end
            if at >= end:
                return False
            byte = text[at]
            at += 1
            if byte == 44:
                if objects % 2 == 1:
                    at = key_end(text, at, end)
                    if at < 0:
                        return False
                break
            if byte != (125 if objects % 2 == 1 else 93):
                return False
            objects //= 2
            depth -= 1


@kernel("void(octets, int64[::1], int64[::1], uint8[::1])", cost=60)  # a document of 500 bytes
def check_json(data: Octets, start: Ints, size: Ints, found: Octets) -> None:
    """Sets ``found`` to 1 for each place where JSON stands. One step a byte."""
    for i in range(len(start)):
        found[i] = 1 if is_json(data[start[i] : start[i] + size[i]], size[i]) else 0
