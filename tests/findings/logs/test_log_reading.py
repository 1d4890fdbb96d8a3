from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from dcpinspect.errors import CaptureError
from dcpinspect.findings.logs.log_events import LogEvent
from dcpinspect.findings.logs.log_reading import LogReading
from tests.findings.logs.written import failovers, line, producer, rollback, seqnos


def read(path: Path, text: str | bytes) -> tuple[LogReading, list[LogEvent]]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    reading = LogReading(str(path))
    return reading, list(reading)


def test_a_log_and_statistics_may_be_in_one_file(tmp_path: Path) -> None:
    text = "\n".join(
        [
            rollback(3),
            "",
            failovers(3, (0xB2, 900)),
            seqnos(3, 900),
            line("58: HELO [x]"),
            producer("Something new"),
        ]
    )
    reading, found = read(tmp_path / "all.log", text)
    assert [one.event for one in found] == ["rollback", "failover-log", "vbucket-seqnos"]
    assert (reading.events, reading.unknown, reading.others, reading.foreign) == (3, 1, 1, 0)


def test_what_could_not_be_used_is_counted(tmp_path: Path) -> None:
    reading, found = read(
        tmp_path / "a\x1b.log",
        b"\xff\x00\n" + b"x" * 100_000 + b"\n" + producer("Something new").encode(),
    )
    assert found == []
    assert reading.summary == (
        f"{tmp_path}/a\\x1b.log: 3 lines, 0 records, 1 about DCP in no known form, 1 that are "
        "no lines of a log, 1 too long to be read"
    )


def test_statistics_in_json_are_a_document(tmp_path: Path) -> None:
    stats = {"vb_3:0:id": 178, "vb_3:0:seq": 900, "vb_3:num_entries": 1}
    _, found = read(tmp_path / "stats.json", orjson.dumps(stats, option=orjson.OPT_INDENT_2))
    assert [(one.event, one.failover_log) for one in found] == [("failover-log", [(178, 900)])]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b'{"vb_3:0:id": ', "is no JSON"),
        (b'{"a": 1}', "no statistics"),
        (b"[" * 100_000, "is no JSON"),
        (b'{"\xff": 1}', "is no JSON"),
    ],
)
def test_other_documents_are_refused(tmp_path: Path, text: bytes, what: str) -> None:
    with pytest.raises(CaptureError, match=what):
        read(tmp_path / "other.json", text)


def test_any_bytes_give_counts_and_no_fault(tmp_path: Path) -> None:
    from random import Random

    random = Random(20)
    lines = [
        rollback(3),
        failovers(3, (1, 0)),
        seqnos(3, 5),
        producer("Handling slow stream; state_ : x"),
    ]
    for _ in range(300):
        text = bytearray("\n".join(lines).encode())
        for _ in range(random.randint(1, 30)):
            text[random.randrange(len(text))] = random.choice(b'\n\x00\xff{}():,0 9"vb')
        reading, found = read(tmp_path / "any.log", bytes(text).lstrip(b"{["))
        assert reading.events == len(found)
        assert reading.lines >= reading.unknown + reading.others + reading.foreign
