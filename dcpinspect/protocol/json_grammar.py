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
    offset, open_brackets = 0, bytearray()
    while offset >= 0:
        depth = len(open_brackets)
        offset = _begin(text, offset, open_brackets)
        if offset >= 0 and len(open_brackets) == depth:
            offset = _close(text, offset, open_brackets)
            if offset >= 0 and not open_brackets:
                return _REST.fullmatch(text, offset) is not None
        if offset >= 0 and open_brackets[-1] == _OPEN_OBJECT:
            offset = _end(_KEY.match(text, offset))
    return False


def _end(match: re.Match[bytes] | None) -> int:
    return -1 if match is None else match.end()


def _begin(text: bytes, offset: int, open_brackets: bytearray) -> int:
    """Returns where the value at ``offset`` ends; where its inside begins if it has one, noted in
    ``open_brackets``; -1 for no value.
    """
    offset = _end(_VALUE.match(text, offset))
    if offset < 0 or (kind := text[offset - 1]) not in (_OPEN_ARRAY, _OPEN_OBJECT):
        return offset
    nothing = _end(_NOTHING.match(text, offset))
    if nothing < 0:
        open_brackets.append(kind)
        return offset
    return nothing if text[nothing - 1] == kind + 2 else -1


def _close(text: bytes, offset: int, open_brackets: bytearray) -> int:
    """Returns where it goes on behind a value: behind a comma, or at the end of the outermost
    value. What ends before is taken off ``open_brackets``. -1 for neither.
    """
    while open_brackets:
        offset = _end(_NEXT.match(text, offset))
        if offset < 0 or text[offset - 1] == _COMMA:
            return offset
        if text[offset - 1] != open_brackets.pop() + 2:
            return -1
    return offset
