"""JSON by its grammar (RFC 8259), without the limits that parsers may set: numbers of any size, any depth, lone surrogates."""

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
    """Returns whether all of ``text`` is one JSON value in UTF-8. A few steps for each value, one byte of memory for each level."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    at, opened = 0, bytearray()
    while True:
        found = _VALUE.match(text, at)
        if found is None:
            return False
        at = found.end()
        kind = text[at - 1]
        if kind in (_OPEN_ARRAY, _OPEN_OBJECT):
            nothing = _NOTHING.match(text, at)
            if nothing is None:
                opened.append(kind)
                if kind == _OPEN_ARRAY:
                    continue
                found = _KEY.match(text, at)
                if found is None:
                    return False
                at = found.end()
                continue
            at = nothing.end()
            if text[at - 1] != kind + 2:
                return False
        while True:
            if not opened:
                return _REST.fullmatch(text, at) is not None
            found = _NEXT.match(text, at)
            if found is None:
                return False
            at = found.end()
            if text[at - 1] == _COMMA:
                break
            if text[at - 1] != opened.pop() + 2:
                return False
        if opened[-1] == _OPEN_OBJECT:
            found = _KEY.match(text, at)
            if found is None:
                return False
            at = found.end()
