"""Fuzzing of what is read as text: filters, logs of servers with statistics, and checkpoints."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Hashable
from functools import cache
from pathlib import Path

import numpy as np

from dcpinspect.errors import CaptureError, PlacedError
from dcpinspect.findings.logs.checkpoint_files import read_checkpoints
from dcpinspect.findings.logs.log_events import event_records
from dcpinspect.findings.logs.log_reading import LogReading
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import COLUMNS
from tests.findings.logs.written import failovers, json_line, producer, rollback, seqnos
from tests.fuzz.captures import IN_MEMORY
from tests.peers import truth

WORDS = (
    *(
        "(",
        ")",
        "and",
        "or",
        "not",
        "in",
        "between",
        "like",
        "escape",
        "is",
        "null",
        "true",
        "false",
        ",",
        "=",
        "<>",
        "<",
        ">=",
        "==",
        "-",
    ),
    *(
        "5",
        "0",
        "18446744073709551615",
        "18446744073709551616",
        "0x10",
        "1e9",
        "0.5",
        "'a%'",
        "'it''s'",
        "''",
        "x'00ff'",
        "x'0'",
        "'json'",
    ),
    *(
        "'2024-04-06'",
        "'dcp_mutation'",
        "'\u202e\x1b['",
        "\0",
        '"',
        ";",
        "--",
        "/*",
        "$1",
        "read_text('/etc/passwd')",
        "(select 1)",
        "@",
        "'",
    ),
    *(column.name for column in COLUMNS),
)
LINES = (
    *(
        rollback(),
        producer(
            "Stream closing, sent until seqno 12 remaining items 0, reason: The stream felt like it"
        ),
    ),
    *(
        producer("Stream request failed because no"),
        producer("Destroying connection. x", None),
        "2024",
        " vb_0:state: active",
    ),
    json_line(
        "Waited for the consumer to free up space in the buffer window",
        '"since_last_paused":"61 s"',
    ),
    *(
        failovers(3, (161, 4), (162, 0)),
        seqnos(3, 9),
        '{"vb_3:0:id":"161"}',
        " eq_dcpq:reader:stream_3_state: in-memory",
    ),
    *(
        '{"offsets":[{"partition":{"partition":"7"},"offset":{"bySeqno":50,"vbuuid":161}}]}',
        '{"ps":[{"a":1}]}',
        "[" * 300,
        "\x1b]0;x\x07",
    ),
)


@cache
def _batch() -> MessageBatch:
    """Messages to filter."""
    with Reading([str(truth.SAMPLES / "rollback.pcap")]) as reading:
        return next(iter(reading))


def check_filter(program: bytes) -> set[Hashable]:
    """A text is refused at a place in it, or gives rows; of a row a filter and its opposite do not
    hold both.
    """
    text = " ".join(WORDS[byte % len(WORDS)] for byte in program[:60])
    try:
        found = parse_filter(text)
    except PlacedError as error:
        return {_refused(error).split(" ")[0]}
    rows = np.arange(min(len(_batch()), 50))
    held = FilterRows(found).rows(_batch(), rows)
    other = FilterRows(parse_filter(f"not ({text})")).rows(_batch(), rows)
    assert not set(held.tolist()) & set(other.tolist())
    return {("rows", len(held).bit_length()), *((word, "read") for word in set(text.split()))}


def check_log(program: bytes) -> set[Hashable]:
    """A log or checkpoints are read, counted and shown without controls, or refused in one line."""
    content = bytearray()
    at = 0
    while at < len(program):
        line = bytearray(LINES[program[at] % len(LINES)].encode())
        for place, value in zip(
            program[at + 1 : at + 5 : 2], program[at + 2 : at + 5 : 2], strict=False
        ):
            if value < 0xC0:
                line[place % len(line)] = value
        content += line + b"\n"
        at += 5
    found: set[Hashable] = set()
    with tempfile.NamedTemporaryFile(dir=IN_MEMORY) as file:
        Path(file.name).write_bytes(content)
        for redactor in (None, Redactor()):
            reading = LogReading(file.name, redactor)
            try:
                events = list(reading)
            except CaptureError as error:
                found.add(_refused(error)[-20:])
                continue
            for record in event_records(events).records():
                found.add(record["event"])
                assert all(
                    value.isprintable() for value in record.values() if isinstance(value, str)
                ), record
        try:
            found.add(len(read_checkpoints(file.name)).bit_length())
        except CaptureError as error:
            found.add(_refused(error)[-20:])
    return found


def _refused(error: CaptureError | PlacedError) -> str:
    """What is said, which is one line, and escaped."""
    said = str(error)
    assert said.isprintable(), said
    return said


def program(rng: random.Random) -> bytes:
    """Any numbers do."""
    return rng.randbytes(rng.randrange(1, 30))


def sentence(rng: random.Random) -> bytes:
    """A filter, as it should be."""

    def word(text: str) -> int:
        return WORDS.index(text)

    made: list[int] = []
    for place in range(rng.randrange(1, 5)):
        made += [word(rng.choice(("and", "or")))] * bool(place) + [word("not")] * (
            rng.random() < 0.2
        )
        name = word(rng.choice(("vbucket", "opaque", "by_seqno", "key", "name", "cas", "status")))
        made += [
            name,
            word(rng.choice(("=", "<>", "<", ">="))),
            word(rng.choice(("5", "0", "'a%'", "'dcp_mutation'", "by_seqno"))),
        ]
    return bytes(made)
