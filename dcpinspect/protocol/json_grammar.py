"""JSON by its grammar (RFC 8259), without the limits that parsers may set: numbers of any size, any
depth, lone surrogates.
"""

from __future__ import annotations

import re

_BLANKS = rb"[ \t\n\r]*+"
_PLAIN = rb'[^"\\\x00-\x1f]*+'
_STRING = rb'"' + _PLAIN + rb'(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})' + _PLAIN + rb')*+"'
_NUMBER = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?"

_VALUE = re.compile(_BLANKS + rb"(?:[\[{]|true|false|null|" + _STRING + rb"|" + _NUMBER + rb")")
_KEY = re.compile(_BLANKS + _STRING + _BLANKS + rb":")
_NOTHING = re.compile(_BLANKS + rb"[\]}]")
_NEXT = re.compile(_BLANKS + rb"[,\]}]")
_REST = re.compile(_BLANKS)

_COMMA, _OPEN_ARRAY, _OPEN_OBJECT = b",[{"


def is_json_text(text: bytes) -> bool:
    """Returns whether all of ``text`` is one JSON value in UTF-8. A few steps for each value, one
    byte of memory for each level.
    """
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    at, open_brackets = 0, bytearray()
    while at >= 0:
        depth = len(open_brackets)
        at = _begin(text, at, open_brackets)
        if at >= 0 and len(open_brackets) == depth:
            at = _close(text, at, open_brackets)
            if at >= 0 and not open_brackets:
                return _REST.fullmatch(text, at) is not None
        if at >= 0 and open_brackets[-1] == _OPEN_OBJECT:
            at = _end(_KEY.match(text, at))
    return False


def _end(match: re.Match[bytes] | None) -> int:
    return -1 if match is None else match.end()


def _begin(text: bytes, at: int, open_brackets: bytearray) -> int:
    """Returns where the value at ``at`` ends; where its inside begins if it has one, noted in
    ``open_brackets``; -1 for no value.
    """
    at = _end(_VALUE.match(text, at))
    if at < 0 or (kind := text[at - 1]) not in (_OPEN_ARRAY, _OPEN_OBJECT):
        return at
    nothing = _end(_NOTHING.match(text, at))
    if nothing < 0:
        open_brackets.append(kind)
        return at
    return nothing if text[nothing - 1] == kind + 2 else -1


def _close(text: bytes, at: int, open_brackets: bytearray) -> int:
    """Returns where it goes on behind a value: behind a comma, or at the end of the outermost
    value. What ends before is taken off ``open_brackets``. -1 for neither.
    """
    while open_brackets:
        at = _end(_NEXT.match(text, at))
        if at < 0 or text[at - 1] == _COMMA:
            return at
        if text[at - 1] != open_brackets.pop() + 2:
            return -1
    return at
