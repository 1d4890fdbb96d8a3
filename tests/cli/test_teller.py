"""A finding is told once, when it has stood for some time, and not too often; whatever shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.cli import teller
from dcpinspect.cli.teller import AT_ONCE, HOUR_NS, AnnouncedFindings, Scene, Teller, TellingStyle
from dcpinspect.findings.finding import Finding
from dcpinspect.output.export.target import Target
from dcpinspect.reading.reading import Reading
from tests.streams.told import capture, opened

SAMPLES = Path(__file__).parents[2] / "sample_captures"


class Kept(Target):
    """Output that is kept in memory."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, data: bytes | memoryview) -> int:
        """Takes whole lines."""
        self.lines += bytes(data).splitlines()
        return len(data)


def faulty(tmp_path: Path, count: int) -> Path:
    """So many vbuckets that go backwards, one after the other."""
    talk = opened()
    for vbucket in range(count):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        stream.mutation(5, "k")
        stream.mutation(2, "l")
    path = tmp_path / "faulty.pcap"
    path.write_bytes(capture(talk))
    return path


def scene(path: Path) -> Scene:
    with Reading([str(path)]) as reading:
        reading.check()
        for _ in reading:
            pass
        return Scene.from_reading(reading)


@pytest.fixture(autouse=True)
def _always_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teller, "EVERY_S", 0.0)
    monkeypatch.setattr(teller, "SHARE", 0)


def test_what_was_told_is_not_told_again_by_who_goes_on_later() -> None:
    seen, known, out = scene(SAMPLES / "loop.pcap"), AnnouncedFindings(), Kept()
    tells = Teller(
        out, TellingStyle(is_text=False, severity="warning", settle_ns=5), announced=known
    )
    assert tells.check_when_due(lambda: seen, 1)
    assert out.lines == []
    assert tells.waiting_since_ns is not None
    assert tells.check_when_due(lambda: seen, 6)
    assert tells.waiting_since_ns is None
    assert "rollback-loop" in {json.loads(line)["rule"] for line in out.lines}
    assert sum(tells.counts.values()) == len(out.lines)
    again = Teller(
        out,
        TellingStyle(is_text=False, severity="warning"),
        announced=AnnouncedFindings.from_rows(json.loads(json.dumps(known.rows()))),
    )
    again.end(seen, 7, is_whole=False)
    assert not again.counts


def test_a_clock_that_is_set_back_keeps_no_finding_back() -> None:
    seen, out = scene(SAMPLES / "loop.pcap"), Kept()
    tells = Teller(out, TellingStyle(is_text=False, severity="warning", settle_ns=5))
    assert tells.check_when_due(lambda: seen, HOUR_NS)
    assert out.lines == []
    assert tells.check_when_due(lambda: seen, 1)
    assert "rollback-loop" in {json.loads(line)["rule"] for line in out.lines}


def test_lines_of_a_kind_are_few_within_an_hour(tmp_path: Path) -> None:
    out = Kept()
    tells = Teller(out, TellingStyle())
    for count in range(1, AT_ONCE + 3):
        assert tells.check_when_due(lambda count=count: scene(faulty(tmp_path, count)), 1)  # type: ignore[misc]
    assert len(out.lines) == AT_ONCE
    assert tells.summary[-1] == "2 more of the same kinds"
    assert tells.check_when_due(lambda: scene(faulty(tmp_path, AT_ONCE + 3)), HOUR_NS + 1)
    assert len(out.lines) == AT_ONCE + 1
    assert b"; 2 more like it were not told; " in out.lines[-1]


def test_a_finding_is_remembered_with_its_severity_and_how_often_it_had_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (one,) = findings(1)
    known = AnnouncedFindings()
    assert known.is_worse(one)
    assert (known.before(one), known.has_grown(one)) == (0, False)
    known.add(replace(one, severity="warning", count=3))
    assert not known.is_worse(replace(one, severity="note"))
    assert known.is_worse(one)
    assert [known.has_grown(replace(one, count=count)) for count in (3, 29, 30)] == [
        False,
        False,
        True,
    ]
    known.add(replace(one, count=30))
    assert not known.is_worse(one)
    assert not known.has_grown(replace(one, count=299))
    monkeypatch.setattr(teller, "MOST", 2)
    others = [replace(one, vbuckets=(number,)) for number in (100, 101)]
    for other in others:
        known.add(other)
    assert [known.is_worse(other) for other in (one, *others)] == [True, False, False]


def findings(count: int) -> list[Finding]:
    with Reading([str(SAMPLES / "loop.pcap")]) as reading:
        reading.check()
        list(reading)
        return reading.findings()[:count]
