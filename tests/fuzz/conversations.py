"""Fuzzing of what is said of messages: any messages of one connection, through rows, tables,
findings and every form of text.
"""

from __future__ import annotations

import csv
import io
import json
import random
import tempfile
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import bidirectional, category

import numpy as np

from dcpinspect.capture.open import open_capture
from dcpinspect.findings.finding import Finding
from dcpinspect.output.export.formats import Csv, NdJson, Text
from dcpinspect.output.export.json_table import plain_json
from dcpinspect.output.export.message_writers import WriterOptions
from dcpinspect.output.export.target import Target
from dcpinspect.output.render.finding_text import report_lines
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.record_tables import Records
from dcpinspect.text import one_line
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
    (Text(), WriterOptions(verbose=True, hex_grid=1)),
    (NdJson(), WriterOptions()),
    (Csv(), WriterOptions()),
    None,
)
"""Of messages; None: what is said of findings."""


@cache
def pieces() -> tuple[bytes, ...]:
    """The streams that are opened first of all, then every message that the tests know."""
    asked, granted = damage.opening()
    return (
        *asked[:4],
        *granted[:4],
        *(damage.event(n, n % 3, b"v" * n) for n in range(1, 9)),
        *(one.data for one in ALL),
    )


def said(program: bytes) -> list[list[tuple[int, bytes]]]:
    """Direction and bytes of each message, by connection: two bytes say which, one how many places
    are changed, two each where and what with.
    """
    made: list[list[tuple[int, bytes]]] = [[]]
    at = 0
    while at + 2 < len(program) and len(made[-1]) < 24:
        choice, changes = int.from_bytes(program[at : at + 2], "big"), program[at + 2] & 7
        if choice == _NEXT:
            made.append([])
            at += 3
            continue
        piece = bytearray(pieces()[(choice >> 1) % len(pieces())])
        at += 3
        for place, value in zip(
            program[at : at + 2 * changes : 2], program[at + 1 : at + 2 * changes : 2], strict=False
        ):
            if (
                value >= 0xF0
            ):  # a text of the same length in its place, or as much of it as there is room for
                text = TEXTS[value % len(TEXTS)]
                piece[place : place + len(text)] = text[: max(0, len(piece) - place)]
            else:
                piece[place % len(piece)] = value
        at += 2 * changes
        made[-1].append((choice & 1, bytes(piece)))
    return made


_NEXT = 0xFFFF
"""In place of a message: another connection begins."""


def joined(programs: Sequence[bytes]) -> bytes:
    """One that says what they say, side by side."""
    return b"\xff\xff\0".join(programs)


class Kept(Target):
    """What was written, in memory."""

    is_stream = False

    def __init__(self) -> None:
        self.text = bytearray()

    def write(self, data: bytes | memoryview) -> int:
        """Keeps it."""
        self.text += data
        return len(data)

    def tell(self) -> int:
        """How much that is."""
        return len(self.text)


def assert_escaped(text: str) -> None:
    """Every character can be seen, and none steers what shows it."""
    for line in text.split("\n"):
        plain = line.rstrip(" ").lstrip(" ")
        assert one_line(plain) == plain, ascii(line)


def assert_steers_nothing(text: str) -> None:
    """Controls, line separators and marks of reading order are not there. JSON may hold what is
    only invisible, and tabs.
    """
    steering = [
        one
        for one in set(text) - {"\n", "\t"}
        if category(one) in ("Cc", "Zl", "Zp") or bidirectional(one) in _ORDER
    ]
    assert not steering, ascii(steering)


_ORDER = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def check(program: bytes) -> set[Hashable]:
    """As ``check_all``."""
    return check_all([program])[0]


def check_all(programs: Sequence[bytes]) -> list[set[Hashable]]:
    """Rows, tables and findings are the same in buffers of any size, and what is said of them has
    no character that is not escaped.

    All are one capture: most of the time that a reading of few messages takes is the same for many.
    What there was to see is told of each. Of many at once either buffers are compared, or one form
    of text is looked at; which depends on the bytes.
    """
    content, owners = capture(programs)
    size = len(content) // 4 + zlib.crc32(content) % (len(content) // 2)  # two to four buffers
    is_one = len(programs) == 1
    has_text = is_one or bool(zlib.crc32(content, 2) & 1)
    with tempfile.NamedTemporaryFile(dir=IN_MEMORY) as file:
        Path(file.name).write_bytes(content)
        read = _read(file.name, size)
        if is_one or not has_text:
            assert _read(file.name, 1 << 20).told == read.told
        if has_text:
            for form in FORMS if is_one else (FORMS[zlib.crc32(content, 1) % len(FORMS)],):
                _check_text(read, file.name, form)
    return _seen(read, owners, len(programs))


def capture(programs: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """A pcap file of all that is said, and of each connection whose it is."""
    talks: list[damage.Talk] = []
    owners: list[int] = []
    for owner, program in enumerate(programs):
        for spoken in said(program):
            number = len(talks)
            talk = damage.Talk(
                50_000 + number,
                mss=200 + 2 * len(program),
                hosts=(f"10.0.{number % 3}.1", "10.0.0.2"),
            )
            talk.handshake()
            for direction, data in spoken:
                talk.stream(direction, data)
            talks.append(talk)
            owners.append(owner)
    packets = sorted((one for talk in talks for one in talk.packets), key=lambda one: one.time_ns)
    return builders.pcap(
        [builders.Recorded(one.data, one.wire, one.time_ns, one.link_type) for one in packets]
    ), owners


@dataclass(frozen=True, slots=True)
class _Read:
    """What a reading says."""

    reading: Reading
    batches: list[MessageBatch]
    findings: list[Finding]
    tables: dict[str, Records]
    """All of them, with findings."""

    @property
    def told(self) -> tuple[list[Any], list[Any]]:
        """Rows, and the records of tables."""
        rows = [row for batch in self.batches for row in damage.rows_in(batch)]
        return rows, [
            plain_json(one) for name in sorted(self.tables) for one in self.tables[name].records()
        ]


def _read(path: str, size: int) -> _Read:
    with Reading(open_capture(path, batch_bytes=size)) as reading:
        reading.check()
        batches = list(reading)
        _, findings, tables = reading.worked_out()
    for direction in reading.coverage.everything:
        assert (
            direction.unique
            == direction.decoded
            + sum(direction.skipped.values())
            + direction.unfinished
            + direction.not_decodable
        )
    return _Read(reading, batches, findings, tables)


def _check_text(
    read: _Read, path: str, form: tuple[Text | NdJson | Csv, WriterOptions] | None
) -> None:
    if form is None:
        assert_escaped("\n".join(report_lines(read.findings, [path], lambda text, _: text)))
        return
    target = Kept()
    writer = form[0].messages(target, form[1], lambda: read.reading.first_time_ns)
    for batch in read.batches:
        writer.write(batch, np.arange(len(batch)))
    writer.end()
    text = target.text.decode()
    if isinstance(
        form[0], Csv
    ):  # a file of it has what the wire held; a terminal is sent it escaped
        assert len({len(row) for row in csv.reader(io.StringIO(text, newline=""))}) == 1
    elif isinstance(form[0], NdJson):
        assert_steers_nothing(text)
        assert all(json.loads(line) for line in text.splitlines())
    else:
        assert_escaped(text)


def _seen(read: _Read, owners: Sequence[int], count: int) -> list[set[Hashable]]:
    found: list[set[Hashable]] = [set() for _ in range(count)]
    rows = [0] * count
    for one in read.findings:
        for connection in one.connections:
            found[owners[connection - 1]].add((one.rule, one.severity))
    for batch in read.batches:
        for index, (connection, opcode) in enumerate(
            zip(batch.connection.tolist(), batch.decoded.opcode.tolist(), strict=True)
        ):
            found[owners[connection - 1]].add((opcode, batch.problem_of(index) is None))
            rows[owners[connection - 1]] += 1
    for seen, number in zip(found, rows, strict=True):
        seen.add(number.bit_length())
    return found


def program(rng: random.Random) -> bytes:
    """A few messages, most of them as they should be."""
    made = bytearray()
    for _ in range(rng.randrange(1, 10)):
        changes = rng.choice((0, 0, 1, 3))
        made += (
            rng.randbytes(2)
            + bytes([changes])
            + bytes(
                rng.choice((rng.randrange(256), 0xF0 | rng.randrange(16)))
                for _ in range(2 * changes)
            )
        )
    return bytes(made)
