"""Bytes of messages as text, for the kernel of rows: JSON, terminal text, xattrs, dumps."""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import ByteArray
from dcpinspect.kernels.kernel import be32, copy, kernel_function, octet, put
from dcpinspect.output.export.number_text import (
    hex_digit,
    put_constant,
    put_hex,
    put_integer,
    put_offsets,
)
from dcpinspect.protocol.utf8 import character_size, sequence_size

_NAME, _OFFSET, _SIZE, _HEX, _VALUE, _END, _INFLATED = (
    np.frombuffer(text, np.uint8)
    for text in (
        *(
            b'{"name":',
            b',"label":"xattr","offset":',
            b',"size":',
            b',"hex":"',
            b'","value":"',
            b'","meaning":null}',
        ),
        b'","meaning":null,"inflated":true}',
    )
)
"""Texts around the numbers and texts of an xattr among the fields."""
_BYTES = np.frombuffer(b" bytes)", np.uint8)
_LETTERS = np.frombuffer(b"btn fr", np.uint8)
"""Letters of the control characters from 8 to 13 that have one in JSON."""


@kernel_function
def put_sign(out: ByteArray, at: int, last: int) -> int:
    """Writes one of our signs of three bytes, which begin with the same two bytes as a dash;
    returns the place behind it.
    """
    out[at], out[at + 1], out[at + 2] = 0xE2, 0x80, last
    return at + 3


@kernel_function
def put_escape(out: ByteArray, at: int, letter: int, value: int, digits: int) -> int:
    """Writes a backslash, a letter and so many hex digits; returns the place behind them."""
    out[at], out[at + 1] = 92, letter
    for i in range(digits):
        out[at + 2 + i] = hex_digit(value >> (4 * (digits - 1 - i)) & 15)
    return at + 2 + digits


@kernel_function
def put_control(out: ByteArray, at: int, byte: int) -> int:
    """Writes a control character as strings of JSON have it; returns the place behind it."""
    if 8 <= byte <= 13 and byte != 11:
        out[at], out[at + 1] = 92, _LETTERS[byte - 8]
        return at + 2
    return put_escape(out, at, 117, byte, 4)


@kernel_function
def put_text(out: ByteArray, offset: int, text: ByteArray, is_string: int) -> int:
    """Writes UTF-8 text: as the inside of a JSON string, or JSON unchanged, but with blanks for
    line breaks.

    Returns the place behind it, or -1 if the text cannot be written here.
    """
    i, end = 0, len(text)
    while i < end:
        byte = octet(text, i)
        if 0x20 <= byte < 0x7F:
            if is_string and (byte == 34 or byte == 92):
                put(out, offset, 92)
                offset += 1
            put(out, offset, byte)
            offset += 1
            i += 1
        elif byte >= 0x80:
            wide = sequence_size(text, i, end)
            if wide == 0:
                return -1
            for k in range(wide):
                put(out, offset + k, octet(text, i + k))
            offset += wide
            i += wide
        elif byte == 0x7F:
            return -1
        elif is_string:
            offset = put_control(out, offset, byte)
            i += 1
        else:
            out[offset] = 32 if byte == 10 or byte == 13 else byte
            offset += 1
            i += 1
    return offset


@kernel_function
def put_plain(out: ByteArray, at: int, text: ByteArray, longest: int) -> int:
    """Writes a key, clipped to ``longest`` columns (0: whole); returns the place behind it, or -1
    if the key is not plain text.
    """
    size = len(text)
    for i in range(size):
        byte = text[i]
        if byte < 0x20 or byte > 0x7E or byte == 92:
            return -1
    if 0 < longest < size:
        copy(out, at, text, 0, longest - 1)
        return put_sign(out, at + longest - 1, 0xA6)
    copy(out, at, text, 0, size)
    return at + size


@kernel_function
def code_at(text: ByteArray, at: int, wide: int) -> int:
    """Returns the number of the character of ``wide`` bytes at ``at``."""
    code = octet(text, at) if wide == 1 else octet(text, at) & (0x7F >> wide)
    for k in range(1, wide):
        code = code << 6 | octet(text, at + k) & 0x3F
    return code


@kernel_function
def escaped_letters(code: int, is_shown: int) -> int:
    """Returns in how many letters a terminal shows a character."""
    if code == 92:
        return 2
    if is_shown:
        return 1
    return 4 if code < 0x80 else 6 if code < 0x10000 else 10


@kernel_function
def put_character(out: ByteArray, at: int, text: ByteArray, code: int, letters: int) -> int:
    """Writes the first character of ``text`` in so many letters; returns the place behind."""
    if letters == 1:
        for k in range(len(text)):
            put(out, at + k, octet(text, k))
        return at + len(text)
    if letters == 2:
        out[at], out[at + 1] = 92, 92
        return at + 2
    return put_escape(
        out, at, 120 if letters == 4 else 117 if letters == 6 else 85, code, letters - 2
    )


@kernel_function
def put_shown(out: ByteArray, offset: int, text: ByteArray, shown: ByteArray, limit: int) -> int:
    """Writes UTF-8 text as ``escape`` does, cut after ``limit`` letters; a cut text is followed by
    its length. ``shown``: whether characters stay.

    Returns the place behind it, or -1 if the text is not UTF-8, or has characters that ``shown``
    does not cover.
    """
    i, end, letters = 0, len(text), 0
    while i < end:
        byte = octet(text, i)
        if letters < limit and 0x20 <= byte < 0x7F and byte != 92:  # most letters
            put(out, offset, byte)
            offset += 1
            letters += 1
            i += 1
            continue
        wide = 1 if byte < 0x80 else character_size(text, i, end)
        code = code_at(text, i, wide)
        if wide == 0 or code >= len(shown):
            return -1
        if letters <= limit:
            more = escaped_letters(code, shown[code])
            if letters < limit:
                offset = put_character(out, offset, text[i : i + wide], code, more)
                offset -= max(letters + more - limit, 0)  # the cut is in the middle of an escape
            letters += more
        i += wide
    if letters > limit:
        offset = put_sign(out, offset, 0xA6)
        out[offset], out[offset + 1] = 32, 40
        offset = put_constant(out, put_integer(out, offset + 2, end), _BYTES)
    return offset


@kernel_function
def trimmed(out: ByteArray, offset: int) -> int:
    """Returns the place behind the last letter that is not a blank."""
    while out[offset - 1] == 32:
        offset -= 1
    return offset


@kernel_function
def put_xattrs(
    out: ByteArray,
    offset: int,
    section: ByteArray,
    section_offset: int,
    width: int,
    shown: ByteArray,
    limit: int,
) -> int:
    """Writes a line below for each pair of a valid section; ``section_offset``: where the section stands in the
    message, or 0 if it was compressed.

    Returns the place behind the lines, or -1 if a value is not text.
    """
    pair = 4
    while pair < len(section):
        long = 4 + be32(section, pair)
        out[offset] = 10
        begin = offset + 1
        for i in range(8):
            out[begin + i] = 32
        offset = begin + 8
        name = pair + 4
        while section[name] != 0:
            out[offset] = section[name]
            offset += 1
            name += 1
        while offset < begin + 5 + width:
            out[offset] = 32
            offset += 1
        out[offset] = 32
        if section_offset == 0:
            out[offset] = 126
            offset = put_offsets(out, offset + 1, pair, long, 6)
        else:
            offset = put_offsets(out, offset, section_offset + pair, long, 7)
        out[offset], out[offset + 1] = 58, 32
        offset = put_shown(out, offset + 2, section[name + 1 : pair + long - 1], shown, limit)
        if offset < 0:
            return -1
        offset = trimmed(out, offset)
        pair += long
    return offset


@kernel_function
def put_pairs(
    out: ByteArray, offset: int, section: ByteArray, section_offset: int, is_field: int
) -> int:
    """Writes the pairs of a section as ``put_xattrs`` does, but as JSON with commas: objects of
    fields, or names with values, which are JSON.
    """
    pair = 4
    while pair < len(section):
        long = 4 + be32(section, pair)
        name = pair + 4
        value = name
        while section[value] != 0:
            value += 1
        if pair > 4:
            out[offset] = 44
            offset += 1
        if is_field:
            offset = put_constant(out, offset, _NAME)
        out[offset] = 34
        offset = put_text(out, offset + 1, section[name:value], 1)
        if offset < 0:
            return -1
        out[offset] = 34
        offset += 1
        content = section[value + 1 : pair + long - 1]
        if is_field:
            offset = put_integer(out, put_constant(out, offset, _OFFSET), section_offset + pair)
            offset = put_integer(out, put_constant(out, offset, _SIZE), long)
            offset = put_hex(out, put_constant(out, offset, _HEX), section, pair, long)
            offset = put_text(out, put_constant(out, offset, _VALUE), content, 1)
        else:
            out[offset] = 58
            offset = put_text(out, offset + 1, content, 0)
        if offset < 0:
            return -1
        if is_field:
            offset = put_constant(out, offset, _INFLATED if section_offset == 0 else _END)
        pair += long
    return offset


@kernel_function
def put_eight(digits: ByteArray, letters: ByteArray, source: ByteArray, size: int) -> None:
    """Writes up to eight bytes as digits with blanks between, and as letters."""
    for i in range(size):
        byte = source[i]
        digits[3 * i], digits[3 * i + 1] = hex_digit(byte >> 4), hex_digit(byte & 15)
        letters[i] = byte if 0x20 <= byte < 0x7F else 46


@kernel_function
def put_dump(out: ByteArray, offset: int, data: ByteArray) -> int:
    """Writes bytes as a dump, 16 a line; returns the place behind it."""
    for line_start in range(0, len(data), 16):
        size = min(16, len(data) - line_start)
        row, source = out[offset : offset + 80], data[line_start : line_start + size]
        for i in range(64):
            row[i] = 32
        for i in range(8):
            row[4 + i] = hex_digit(line_start >> (28 - 4 * i) & 15)
        # with both numbers constant, the machine code writes all eight bytes at once
        if size == 16:
            put_eight(row[14:38], row[64:72], source[:8], 8)
            put_eight(row[39:63], row[72:80], source[8:16], 8)
        else:
            put_eight(row[14:38], row[64:72], source, min(size, 8))
            put_eight(row[39:63], row[72:80], source[8:], max(size - 8, 0))
        offset = trimmed(out, offset + 64 + size)
        out[offset] = 10
        offset += 1
    return offset


@kernel_function
def clipped(out: ByteArray, start: int, at: int, width: int) -> int:
    """Shortens a line to ``width`` columns, with an ellipsis; returns the place behind it.

    Continuation bytes of a character do not count.
    """
    cells, cut = 0, at
    for i in range(start, at):
        if out[i] < 0x80 or out[i] >= 0xC0:
            if cells == width - 1:
                cut = i
            cells += 1
    return at if cells <= width else put_sign(out, cut, 0xA6)
