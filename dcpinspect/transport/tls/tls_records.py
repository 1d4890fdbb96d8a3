"""Records of TLS: their types and headers, and where whole ones stand in a row."""

from __future__ import annotations

import re

CHANGE_CIPHER, ALERT, HANDSHAKE_RECORD, APPLICATION = 20, 21, 22, 23
TLS12, TLS13 = 0x0303, 0x0304
"""Versions, as handshakes say them."""
HEADER = 5
MOST_RECORD = HEADER + (1 << 14) + 2048
"""Size in bytes of the longest record (RFC 5246, 6.2.3)."""
RECORD = re.compile(rb"[\x14-\x17]\x03[\x01-\x03]")
ANY_RECORD = re.compile(rb"[\x15-\x17]\x03\x03")


def record_end(data: bytes | bytearray, start: int) -> int:
    """Returns where a record ends whose header begins at a place, as the header says it."""
    return start + HEADER + int.from_bytes(data[start + 3 : start + HEADER], "big")


def whole_records(data: bytearray) -> list[tuple[int, int]]:
    """Returns start and end of the whole records of application data in a row of records: the first
    row that reaches the end of the data.
    """
    seen: set[int] = set()  # places of rows that end before the end of the data
    match = ANY_RECORD.search(data)
    while match is not None:
        record_start, rows = match.start(), []
        while (
            record_start not in seen
            and RECORD.match(data, record_start)
            and record_start + HEADER <= len(data)
        ):
            seen.add(record_start)
            end = record_end(data, record_start)
            if end - record_start > MOST_RECORD:
                break
            if (
                end <= len(data)
                and data[record_start] == APPLICATION
                and end - record_start > HEADER + 16
            ):
                rows.append((record_start, end))
            record_start = end
        if rows and record_start + HEADER > len(data):
            return rows
        match = ANY_RECORD.search(data, match.start() + 1)
    return []
