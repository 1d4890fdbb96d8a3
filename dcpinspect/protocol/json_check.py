"""Whether bytes are JSON, for many documents at once.

The kernel accepts less than a parser does. What it accepts is JSON beyond doubt. What it refuses (deep nesting, surrogates in escapes,
numbers of 40 digits, characters that terminals act on) is left to the parser.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcpinspect.kernels.kernel import Ints, Octets, inline, kernel, octet
from dcpinspect.protocol.utf8 import sequence_size

MAX_DEPTH = 60
"""Greatest depth of open arrays and objects: they fit the bits of one number."""
MAX_NUMBER = 40
"""Greatest number of letters in a number; longer ones may be out of a parser's range."""

_VALUE, _FIRST_VALUE, _FIRST_KEY, _KEY, _COLON, _COMMA = range(6)
"""What may come next. _VALUE: a value. _FIRST_VALUE: a value or the end of an array. _FIRST_KEY: a key or the end of an object. _KEY: a
key. _COLON: a colon. _COMMA: a comma or an end."""


def are_json(data: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Returns, for each place and size, True if JSON, and nothing that needs a second look, is there."""
    found = np.zeros(len(start), np.uint8)
    check_json(data, np.ascontiguousarray(start), np.ascontiguousarray(size), found)
    return found.view(np.bool_)


@inline
def string_end(text: Octets, at: int, end: int) -> int:
    """Returns the place behind the string whose first letter is at ``at``; -1 if it is no string."""
    while at < end:
        byte = octet(text, at)
        if 34 < byte < 0x7F and byte != 92:  # most letters
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
            letter = octet(text, at + 1)
            if letter == 117:
                if at + 6 > end:
                    return -1
                code = 0
                for i in range(at + 2, at + 6):
                    digit = octet(text, i)
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
    """Returns the place behind the digits at ``at``."""
    while at < end and 48 <= octet(text, at) <= 57:
        at += 1
    return at


@inline
def number_end(text: Octets, at: int, end: int) -> int:
    """Returns the place behind the number at ``at``; -1 if it is no number or too long."""
    start = at
    if at < end and octet(text, at) == 45:
        at += 1
    first = at
    at = digits_end(text, at, end)
    if at == first or (octet(text, first) == 48 and at > first + 1):
        return -1
    if at < end and octet(text, at) == 46:
        first = at + 1
        at = digits_end(text, first, end)
        if at == first:
            return -1
    if at < end and (octet(text, at) == 101 or octet(text, at) == 69):
        first = at + 1
        if first < end and (octet(text, first) == 43 or octet(text, first) == 45):
            first += 1
        at = digits_end(text, first, end)
        if at == first or at > first + 2:
            return -1
    return at if at - start <= MAX_NUMBER else -1


@inline
def has_three(text: Octets, at: int, one: int, two: int, three: int) -> bool:
    """Returns whether these three letters are at ``at``."""
    return octet(text, at) == one and octet(text, at + 1) == two and octet(text, at + 2) == three


@inline
def literal_end(text: Octets, at: int, end: int) -> int:
    """Returns the place behind a number, true, false or null; -1 if there is none."""
    byte = octet(text, at)
    if byte == 116:  # true
        return at + 4 if at + 4 <= end and has_three(text, at + 1, 114, 117, 101) else -1
    if byte == 102:  # false
        return at + 5 if at + 5 <= end and has_three(text, at + 1, 97, 108, 115) and octet(text, at + 4) == 101 else -1
    if byte == 110:  # null
        return at + 4 if at + 4 <= end and has_three(text, at + 1, 117, 108, 108) else -1
    return number_end(text, at, end)


@inline
def is_json(text: Octets, end: int) -> bool:
    """Returns whether all of ``text`` is one JSON value. One step for each byte."""
    at, depth, objects = 0, 0, 0  # bit n of objects: the n-th open bracket is a brace
    state = _VALUE
    while at < end:
        byte = octet(text, at)
        if byte == 34:
            if state in (_COLON, _COMMA):
                return False
            at = string_end(text, at + 1, end)
            if at < 0:
                return False
            state = _COLON if state in (_KEY, _FIRST_KEY) else _COMMA
        elif byte == 58:
            if state != _COLON:
                return False
            at += 1
            state = _VALUE
        elif byte == 44:
            if state != _COMMA or depth == 0:
                return False
            at += 1
            state = _KEY if objects & 1 else _VALUE
        elif byte == 123 or byte == 91:
            if state not in (_VALUE, _FIRST_VALUE) or depth == MAX_DEPTH:
                return False
            at += 1
            depth += 1
            objects = objects * 2 + (1 if byte == 123 else 0)
            state = _FIRST_KEY if byte == 123 else _FIRST_VALUE
        elif byte == 125 or byte == 93:
            is_open = state in (_COMMA, _FIRST_KEY, _FIRST_VALUE)
            if not is_open or depth == 0 or byte != (125 if objects & 1 else 93):
                return False
            at += 1
            depth -= 1
            objects >>= 1
            state = _COMMA
        elif byte <= 32:
            if byte != 32 and byte != 10 and byte != 13 and byte != 9:
                return False
            at += 1
        else:
            at = literal_end(text, at, end) if state in (_VALUE, _FIRST_VALUE) else -1
            if at < 0:
                return False
            state = _COMMA
    return state == _COMMA and depth == 0


@kernel("void(octets, int64[::1], int64[::1], uint8[::1])")
def check_json(data: Octets, start: Ints, size: Ints, found: Octets) -> None:
    """Sets ``found`` to 1 for each place where JSON stands. One step for each byte."""
    for i in range(len(start)):
        found[i] = 1 if is_json(data[start[i] : start[i] + size[i]], size[i]) else 0
