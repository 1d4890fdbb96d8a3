"""Numbers, hexadecimal digits and times as text, for kernels that write many rows."""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import ByteArray
from dcpinspect.kernels.kernel import copy, kernel_function, octet, put

TENTHS_TO = 1 << 31
_NULL, _NONE, _UTC = (np.frombuffer(text, np.uint8) for text in (b"null", b"none", b" UTC"))


@kernel_function
def put_constant(out: ByteArray, at: int, text: ByteArray) -> int:
    """Writes all of a text; returns the place behind it."""
    copy(out, at, text, 0, len(text))
    return at + len(text)


@kernel_function
def tenth(value: int) -> int:
    """Returns a tenth of a number from 0 to ``TENTHS_TO``, rounded down. A division that handles
    signs takes a third more time.
    """
    return value * 0xCCCC_CCCD >> 35


@kernel_function
def put_fraction(out: ByteArray, at: int, value: int, digits: int) -> int:
    """Writes a number of at most nine digits with leading zeros; returns the place behind it."""
    for i in range(digits):
        tenths = tenth(value)
        out[at + digits - 1 - i] = 48 + value - 10 * tenths
        value = tenths
    return at + digits


@kernel_function
def put_number(out: ByteArray, offset: int, high: int, low: int) -> int:
    """Writes high * 10^9 + low in decimal; returns the place behind it. Halves keep unsigned 64
    bits within signed arithmetic.
    """
    start, value = offset, high if high > 0 else low
    while True:
        tenths = tenth(value) if value < TENTHS_TO else value // 10
        out[offset] = 48 + value - 10 * tenths
        value = tenths
        offset += 1
        if value == 0:
            break
    for i in range((offset - start) // 2):
        out[start + i], out[offset - 1 - i] = out[offset - 1 - i], out[start + i]
    return put_fraction(out, offset, low, 9) if high > 0 else offset


@kernel_function
def put_unsigned(out: ByteArray, at: int, value: int, width: int) -> int:
    """Writes the unsigned number whose 64 bits ``value`` has, at the right end of a column of less
    than 19 letters, which grows if needed.

    Returns the place behind it.
    """
    if width > 0:
        column, index, remaining = out[at : at + width], width, value
        while index > 0 and remaining >= 0:
            index -= 1
            tenths = tenth(remaining) if remaining < TENTHS_TO else remaining // 10
            put(column, index, 48 + remaining - 10 * tenths)
            remaining = tenths
            if remaining == 0:
                for i in range(index):
                    column[i] = 32
                return at + width
    half = (value >> 1) & 0x7FFF_FFFF_FFFF_FFFF
    return put_number(out, at, half // 500_000_000, half % 500_000_000 * 2 + (value & 1))


@kernel_function
def put_integer(out: ByteArray, at: int, value: int) -> int:
    """Writes a signed integer in decimal; returns the place behind it."""
    if value < 0:
        out[at] = 45
        # the least number stays negative, but its bits are the right unsigned number
        return put_unsigned(out, at + 1, -value, 0)
    return put_number(out, at, value // 1_000_000_000, value % 1_000_000_000)


@kernel_function
def wire_number(data: ByteArray, start: int, size: int) -> int:
    """Returns the bits of a big-endian number of the wire."""
    value = 0
    for i in range(size):
        value = value << 8 | octet(data, start + i)
    return value


@kernel_function
def hex_digit(value: int) -> int:
    """Returns the letter of a hexadecimal digit."""
    # measured: an array of letters takes five times as long
    return 48 + value + (39 if value > 9 else 0)


@kernel_function
def put_hex(out: ByteArray, at: int, data: ByteArray, start: int, size: int) -> int:
    """Writes bytes as hexadecimal digits; returns the place behind them."""
    # slices, so that no index can be negative: this takes a third of the time of data[start + i]
    source, target = data[start : start + size], out[at : at + 2 * size]
    for i in range(size):
        target[2 * i] = hex_digit(source[i] >> 4)
        target[2 * i + 1] = hex_digit(source[i] & 15)
    return at + 2 * size


@kernel_function
def put_hex64(out: ByteArray, at: int, value: int) -> int:
    """Writes 64 bits as hexadecimal digits in quotes; returns the place behind them."""
    out[at], out[at + 1], out[at + 2] = 34, 48, 120
    for i in range(16):
        out[at + 3 + i] = hex_digit((value >> (60 - 4 * i)) & 15)
    out[at + 19] = 34
    return at + 20


@kernel_function
def put_two(out: ByteArray, at: int, value: int) -> int:
    """Writes two digits; returns the place behind them."""
    out[at] = 48 + value // 10
    out[at + 1] = 48 + value % 10
    return at + 2


@kernel_function
def put_seconds(out: ByteArray, offset: int, seconds: int, separator: int) -> int:
    """Writes date, separator and time of seconds since 1970; returns the place behind them."""
    days, second_of_day = seconds // 86400, seconds % 86400
    # the date of a day number, by eras of 400 years that begin on 1 March
    shifted = days + 719468
    era = shifted // 146097
    day_of_era = shifted - era * 146097
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_index = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_index + 2) // 5 + 1
    month = month_index + 3 if month_index < 10 else month_index - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    offset = put_two(out, offset, year // 100)
    offset = put_two(out, offset, year % 100)
    out[offset] = 45
    offset = put_two(out, offset + 1, month)
    out[offset] = 45
    offset = put_two(out, offset + 1, day)
    out[offset] = separator
    offset = put_two(out, offset + 1, second_of_day // 3600)
    out[offset] = 58
    offset = put_two(out, offset + 1, second_of_day // 60 % 60)
    out[offset] = 58
    return put_two(out, offset + 1, second_of_day % 60)


@kernel_function
def put_time(out: ByteArray, offset: int, time_ns: int, separator: int) -> int:
    """Writes a capture time with nine digits, and ``separator`` between date and time of day;
    returns the place behind it.
    """
    offset = put_seconds(out, offset, time_ns // 1_000_000_000, separator)
    out[offset] = 46
    return put_fraction(out, offset + 1, time_ns % 1_000_000_000, 9)


@kernel_function
def put_right(out: ByteArray, at: int, width: int) -> int:
    """Moves what stands behind the last blank to the right end of a column of this width; returns
    the place behind it.
    """
    start, columns = at, 0
    while out[start - 1] != 32:
        start -= 1
        columns += 1 if out[start] < 0x80 or out[start] >= 0xC0 else 0
    missing = width - columns
    if missing <= 0:
        return at
    for i in range(at - start):
        out[at + missing - 1 - i] = out[at - 1 - i]
    for i in range(missing):
        out[start + i] = 32
    return at + missing


@kernel_function
def put_elapsed(out: ByteArray, offset: int, time_ns: int, width: int) -> int:
    """Writes nanoseconds as seconds with six digits, at the right end of a column that is behind a
    blank; returns the place behind them.
    """
    micros = abs(time_ns) // 1000
    if time_ns >= 0:
        offset = put_unsigned(out, offset, micros // 1_000_000, width - 7)
        out[offset] = 46
        return put_fraction(out, offset + 1, micros % 1_000_000, 6)
    out[offset] = 45
    offset = put_integer(out, offset + 1, micros // 1_000_000)
    out[offset] = 46
    return put_right(out, put_fraction(out, offset + 1, micros % 1_000_000, 6), width)


@kernel_function
def put_epoch(out: ByteArray, offset: int, time_ns: int) -> int:
    """Writes a time as seconds since 1970 with nine digits; returns the place behind them."""
    offset = put_integer(out, offset, time_ns // 1_000_000_000)
    out[offset] = 46
    return put_fraction(out, offset + 1, time_ns % 1_000_000_000, 9)


@kernel_function
def put_millis(out: ByteArray, offset: int, time_ns: int) -> int:
    """Writes rounded nanoseconds as milliseconds with three digits; returns the place behind."""
    micros = (time_ns + 500) // 1000
    offset = put_integer(out, offset, micros // 1000)
    out[offset] = 46
    return put_fraction(out, offset + 1, micros % 1000, 3)


@kernel_function
def put_wire_time(out: ByteArray, offset: int, data: ByteArray, start: int) -> int:
    """Writes the time in four bytes of the message, or none; returns the place behind it."""
    seconds = wire_number(data, start, 4)
    if seconds == 0:
        return put_constant(out, offset, _NONE)
    return put_constant(out, put_seconds(out, offset, seconds, 32), _UTC)


@kernel_function
def put_cas_time(out: ByteArray, offset: int, data: ByteArray, start: int, is_remark: int) -> int:
    """Writes when a CAS was made, as a JSON string, or null if it contains no time; with
    ``is_remark``, in brackets, or nothing.

    Returns the place behind it. See ``meanings.cas_time``.
    """
    high, low = 0, 0
    for i in range(8):
        # the last two bytes are a counter, not part of the time
        byte = data[start + i] if i < 6 else 0
        low = low * 256 + byte
        high = high * 256 + low // 1_000_000_000
        low %= 1_000_000_000
    if high < 1_200_000_000 or high >= 4_102_444_800:
        return offset if is_remark else put_constant(out, offset, _NULL)
    if is_remark:
        out[offset] = 32
        offset += 1
    out[offset] = 40 if is_remark else 34
    offset = put_seconds(out, offset + 1, high, 32)
    if low > 0:
        out[offset] = 46
        offset = put_fraction(out, offset + 1, low // 1_000_000, 3)
    offset = put_constant(out, offset, _UTC)
    out[offset] = 41 if is_remark else 34
    return offset + 1


@kernel_function
def put_remark(out: ByteArray, offset: int, data: ByteArray, start: int, size: int) -> int:
    """Writes a number of the message in brackets, unless of one digit; returns the place behind."""
    above = 0
    for i in range(size - 1):
        above |= data[start + i]
    if above == 0 and data[start + size - 1] <= 9:
        return offset
    out[offset], out[offset + 1] = 32, 40
    offset = put_unsigned(out, offset + 2, wire_number(data, start, size), 0)
    out[offset] = 41
    return offset + 1


@kernel_function
def put_offsets(out: ByteArray, offset: int, field_offset: int, size: int, width: int) -> int:
    """Writes ``(4)``, ``(2,3)``, ``(8-11)`` or ``()``, and blanks up to ``width`` letters; returns
    the place behind them.
    """
    start = offset
    out[offset] = 40
    offset += 1
    if size > 0:
        offset = put_integer(out, offset, field_offset)
    if size > 1:
        out[offset] = 44 if size == 2 else 45
        offset = put_integer(out, offset + 1, field_offset + size - 1)
    out[offset] = 41
    offset += 1
    while offset < start + width:
        out[offset] = 32
        offset += 1
    return offset
