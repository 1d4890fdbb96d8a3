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


def whole_records(data: bytearray) -> list[tuple[int, int]]:
    """Returns start and end of the whole records of application data in a row of records: the first row that reaches the end of the
    data."""
    seen: set[int] = set()  # places of rows that end before the end of the data
    found = ANY_RECORD.search(data)
    while found is not None:
        at, rows = found.start(), []
        while at not in seen and RECORD.match(data, at) and at + HEADER <= len(data):
            seen.add(at)
            end = at + HEADER + int.from_bytes(data[at + 3 : at + 5], "big")
            if end - at > MOST_RECORD:
                break
            if end <= len(data) and data[at] == APPLICATION and end - at > HEADER + 16:
                rows.append((at, end))
            at = end
        if rows and at + HEADER > len(data):
            return rows
        found = ANY_RECORD.search(data, found.start() + 1)
    return []
