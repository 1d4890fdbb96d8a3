"""Fuzzing of what is said of messages: any messages of one connection, through rows, tables, findings and every form of text."""

from __future__ import annotations

import csv
import io
import json
import random
import tempfile
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import bidirectional, category

import numpy as np

from dcpinspect.capture.open import open_capture
from dcpinspect.escape import one_line
from dcpinspect.export.atomic import AtomicFile
from dcpinspect.export.formats import Csv, NdJson, Text
from dcpinspect.export.json_table import plain_json
from dcpinspect.export.message_writers import Wishes
from dcpinspect.export.target import Target
from dcpinspect.reading import Reading
from dcpinspect.render.findings import report_lines
from tests import builders, damage
from tests.fuzz.captures import IN_MEMORY
from tests.protocol.vectors import ALL

TEXTS = (
    b"\x1b]0;x\x07",
    b"\r\n\x00\x7f",
    "\u202e\u2028\u200b\ufeff".encode(),
    b"\xff\xfe\xc3",
    b"\"\\,';|`",
    b"<b>&[red]",
    b"=1+1",
    b"\xed\xa0\x80",
)
"""What must not be printed as it is, or must be quoted."""
FORMS = (
    (Text(), Wishes(verbose=True, hex_grid=1)),
    (NdJson(), Wishes()),
    (Csv(), Wishes()),
)


@cache
def pieces() -> tuple[bytes, ...]:
    """The streams that are opened first of all, then every message that the tests know."""
    asked, granted = damage.opening()
    return (*asked[:4], *granted[:4], *(damage.event(n, n % 3, b"v" * n) for n in range(1, 9)), *(one.data for one in ALL))


def said(program: bytes) -> list[tuple[int, bytes]]:
    """Direction and bytes of each message: two bytes say which, one how many places are changed, two each where and what with."""
    made: list[tuple[int, bytes]] = []
    at = 0
    while at + 2 < len(program) and len(made) < 24:
        choice, changes = int.from_bytes(program[at : at + 2], "big"), program[at + 2] & 7
        piece = bytearray(pieces()[(choice >> 1) % len(pieces())])
        at += 3
        for place, value in zip(program[at : at + 2 * changes : 2], program[at + 1 : at + 2 * changes : 2], strict=False):
            if value >= 0xF0:  # a text of the same length in its place, or as much of it as there is room for
                text = TEXTS[value % len(TEXTS)]
                piece[place : place + len(text)] = text[: max(0, len(piece) - place)]
            else:
                piece[place % len(piece)] = value
        at += 2 * changes
        made.append((choice & 1, bytes(piece)))
    return made


@cache
def nowhere() -> AtomicFile:
    return AtomicFile("/dev/null")


class Kept(Target):
    """What was written, in memory."""

    def __init__(self) -> None:
        super().__init__(nowhere())
        self.text = bytearray()

    def write(self, data: bytes | memoryview) -> int:
        """Keeps it."""
        self.text += data
        return len(data)


def assert_escaped(text: str) -> None:
    """Every character can be seen, and none steers what shows it."""
    for line in text.split("\n"):
        plain = line.rstrip(" ").lstrip(" ")
        assert one_line(plain) == plain, ascii(line)


def assert_steers_nothing(text: str) -> None:
    """What terminals act on is not there: controls, line separators, marks of reading order. JSON may hold what is only invisible."""
    steering = [one for one in set(text) - {"\n"} if category(one) in ("Cc", "Zl", "Zp") or bidirectional(one) in _ORDER]
    assert not steering, ascii(steering)


_ORDER = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def check(program: bytes) -> set[Hashable]:
    """Rows, tables and findings are the same in buffers of any size, and what is said of them has no character that is not escaped."""
    talk = damage.Talk(mss=200 + 2 * len(program))
    talk.handshake()
    for direction, data in said(program):
        talk.stream(direction, data)
    packets = [builders.Recorded(one.data, one.wire, one.time_ns, one.link_type) for one in talk.packets]
    found: set[Hashable] = set()
    with tempfile.NamedTemporaryFile(dir=IN_MEMORY) as file:
        Path(file.name).write_bytes(builders.pcap(packets))
        told = [_told(file.name, size, found) for size in (1 << 20, 600)]
    assert told[0] == told[1]
    return found


def _told(path: str, size: int, found: set[Hashable]) -> list[list[Any]]:
    with Reading(open_capture(path, batch_bytes=size)) as reading:
        reading.check()
        batches = list(reading)
        _, findings, tables = reading.worked_out()
    rows = [row for batch in batches for row in damage.rows_in(batch)]
    for direction in reading.coverage.everything:
        assert direction.unique == direction.decoded + sum(direction.skipped.values()) + direction.unfinished + direction.not_decodable
    lines = list(report_lines(findings, [path], lambda text, _: text))
    records = [plain_json(one) for name in sorted(tables) for one in tables[name].records()]
    if not found:
        for form, wishes in FORMS:
            target = Kept()
            writer = form.messages(target, wishes, lambda: reading.first_time_ns)
            for batch in batches:
                writer.write(batch, np.arange(len(batch)))
            writer.end()
            text = target.text.decode()
            if isinstance(form, Csv):  # a file of it has what the wire held; a terminal is sent it escaped
                assert len({len(row) for row in csv.reader(io.StringIO(text, newline=""))}) == 1
            elif isinstance(form, NdJson):
                assert_steers_nothing(text)
                assert all(json.loads(line) for line in text.splitlines())
            else:
                assert_escaped(text)
        assert_escaped("\n".join(lines))
    found |= {(one.rule, one.severity) for one in findings}
    for batch in batches:
        found |= {(int(batch.decoded.opcode[i]), batch.problem_of(i) is None) for i in range(len(batch))}
    found.add(len(rows).bit_length())
    return [rows, lines, records]


def program(rng: random.Random) -> bytes:
    """A few messages, most of them as they should be."""
    made = bytearray()
    for _ in range(rng.randrange(1, 10)):
        changes = rng.choice((0, 0, 1, 3))
        made += (
            rng.randbytes(2)
            + bytes([changes])
            + bytes(rng.choice((rng.randrange(256), 0xF0 | rng.randrange(16))) for _ in range(2 * changes))
        )
    return bytes(made)
