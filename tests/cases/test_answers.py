"""The first answer: what ``check`` says of the samples, and of many clients that have the same
trouble.

What it says of each case is checked where the case is told: a screen, a verdict in words, no
contradicting advice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.cli.main import main
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.protocol.statuses import Status
from tests.advice import contradictions
from tests.builders import Recorded, pcap
from tests.damage import Packet
from tests.encode import encode
from tests.output.render.test_finding_text import finding
from tests.peers.truth import SAMPLES
from tests.streams.told import Told, opened, packets

OLD = 0xA
CAPTURES = [path for path in sorted(SAMPLES.glob("*.pcap*")) if "large" not in path.name]
VERDICTS = {
    "any.pcap": "no errors or warnings: 4 vbuckets were ended early · 2 other notes · 79",
    "capture-loss.pcap": (
        "no errors or warnings: 1 connection has capture loss · 4 vbuckets were ended"
    ),
    "loop.pcap": "1 client loops since 12:01:00 UTC · 2 notes",
    "lossy.pcap": "no errors or warnings: 4 vbuckets were ended early · 2 other notes · 300",
    "midstream.pcap": "nothing wrong: 75 messages, 4 streams, 96.2 % of bytes decoded · 2 notes",
    "orphans.pcap": "3 vbuckets receive nothing since 12:01:00 UTC · 4 notes",
    "rollback.pcap": "no errors or warnings: 3 vbuckets were rolled back · 3 other notes · 161",
    "snapshots.pcap": (
        "no errors or warnings: 2 vbuckets were ended early · 1 vbucket fell back to disk"
    ),
    "tour.pcapng": "4 vbuckets were refused · 1 vbucket was requested twice · 2 vbuckets were ended",
    "upr.pcap": "2 vbuckets have messages that break the protocol · 1 vbucket has a failover log",
}


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_a_sample_is_answered_on_one_screen_with_a_verdict(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("dcpinspect.cli.check.height", lambda: 25)
    main(["check", str(path), "--fail-on", "never"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert lines[0] == VERDICTS[path.name]


@pytest.mark.parametrize(
    ("one", "other", "is_said"),
    [
        ("resume at 50 with uuid 0x1", "start again from 0", True),
        ("nothing is left to do, the client followed the rollback", "resume at 50", True),
        ("do not reopen it with this filter", "reopen the stream where it ended", True),
        ("resume at 50 with uuid 0x1", "report it with this message", False),
        ("resume at 50", "resume at 50", False),
    ],
)
def test_advice_that_nobody_can_follow_together_is_noticed(
    one: str, other: str, is_said: bool
) -> None:
    first, second = (
        finding(rule=rule, next=advice, clients=("a",))
        for rule, advice in (("rollback", one), ("stream-refused", other))
    )
    assert bool(contradictions([first, second])) is is_said
    assert contradictions([first, replace(second, clients=("b",))]) == []
    assert contradictions([first, replace(second, vbuckets=(8,))]) == []


# -- many clients with one fault
# -------------------------------------------------------------------------------------


def looping(number: int) -> Told:
    """A client that asks for three vbuckets again and again, from seqnos of its own, and is rolled
    back.
    """
    talk = opened("mirror:1")
    talk.host = f"10.11.{number // 250}.{1 + number % 250}"
    talk.sasl_plain("mirror", "secret")
    for _ in range(3):
        for vbucket in (7, 8, 9):
            talk.stream(vbucket, start=150 + number, uuid=OLD, rollback=100)
    return talk


def crowd(path: Path, count: int) -> Path:
    """A capture of as many of them, one after the other."""
    captured: list[Packet] = packets(*(looping(number) for number in range(count)))
    path.write_bytes(
        pcap(
            [Recorded(packet.data, packet.wire, packet.time_ns) for packet in captured],
            magic=0xA1B23C4D,
        )
    )
    return path


@pytest.mark.parametrize("count", [64, pytest.param(400, marks=pytest.mark.deep)])
def test_a_fault_that_many_clients_share_is_one_entry(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(crowd(tmp_path / "crowd.pcap", count))
    assert main(["check", path, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (loop,) = [
        one for one in found if one["effect_of"] is None and one["rule"] != "credentials-in-clear"
    ]
    assert (loop["rule"], loop["severity"], len(loop["clients"]), len(loop["connections"])) == (
        "rollback-loop",
        "error",
        count,
        count,
    )
    assert len(loop["cases"]) == 3 * count
    assert {case["facts"]["requested start"] for case in loop["cases"]} == set(
        range(150, 150 + count)
    )
    assert SEVERITIES.index(loop["severity"]) == 0
    (clear,) = [one for one in found if one["rule"] == "credentials-in-clear"]
    assert len(clear["cases"]) == count
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("dcpinspect.cli.check.height", lambda: 25)
    assert main(["check", path]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{count:,} clients loop since ")
    assert lines[0].endswith(" UTC · 1 note")
    assert len(lines) <= 25
    at = next(
        place for place, line in enumerate(lines) if line.startswith("· credentials-in-clear")
    )
    assert lines.index("", at) - at <= 4, "what, who and when, and what to do"
    assert f"    and {3 * count - 3:,} more (--all)" in [line[2:] for line in lines]
    assert main(["check", path, "--all"]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert (
        sum(len(row) == 6 and row[2].isdecimal() and row[4] == "3" for row in rows) == 3 * count
    ), "every case has its line"
    assert len([line for line in lines if line.startswith("✖")]) == 1


def asked(**parts: Any) -> Told:
    talk = opened("mirror:1")
    talk.stream(7, **parts)
    return talk


def rolled_back(number: int) -> Told:
    return asked(start=150 + number, uuid=OLD, rollback=100)


def refused(number: int) -> Told:
    return asked(start=number, status=Status.EACCESS)


def above_its_end(number: int) -> Told:
    return asked(start=50 + number, end=40, status=Status.ERANGE)


def other_opaque(number: int) -> Told:
    talk = opened("mirror:1", enable_noop="true", set_noop_interval="20")
    talk.send("server", encode("dcp_noop", opaque=9 + number))
    talk.answer("dcp_noop", 0x1000 + number, by="client")
    return talk


def stalled(number: int) -> Told:
    talk = opened("mirror:1", connection_buffer_size=str(60 + number % 7))
    stream = talk.stream(7)
    stream.snapshot(0, 100, "memory")
    stream.mutation(5, "k")
    talk.high_seqnos({9: 1})
    talk.wait(10)
    talk.high_seqnos({9: 1})
    return talk


def outside(number: int) -> Told:
    """A gap up to a seqno that the snapshot does not have."""
    talk = opened("mirror:1")
    stream = talk.stream(7)
    stream.snapshot(0, 100 + number, "memory")
    stream.mutation(5, "a")
    stream.mutation(2000 + number, "b")
    return talk


def owed(number: int) -> Told:
    talk = opened("mirror:1", connection_buffer_size="1000000")
    stream = talk.stream(88)
    stream.snapshot(0, 17 + number, "memory")
    stream.mutation(17 + number, "k")
    talk.high_seqnos({88: 5000})
    talk.wait(41)
    talk.noop()
    return talk


def standing(number: int) -> Told:
    talk = opened("mirror:1")
    stream = talk.stream(88)
    stream.snapshot(0, 5000 + number, "disk")
    stream.mutation(17 + number, "k")
    talk.wait(41)
    talk.noop()
    return talk


def anew(number: int) -> Told:
    talk = opened("mirror:1")
    for _ in range(6 + number):
        stream = talk.stream(7, log=((0xA, 0),))
        stream.snapshot(0, 9, "disk")
        stream.mutation(4, "k")
        stream.close()
    return talk


FAULTS: dict[str, tuple[Callable[[int], Told], str]] = {
    "rollback": (rolled_back, "1 vbucket of {} clients was rolled back"),
    "stream-refused": (refused, "1 vbucket of {} clients was refused"),
    "bad-stream-range": (above_its_end, "1 vbucket of {} clients was refused"),
    "noop-opaque": (other_opaque, "{} connections answer noops wrongly"),
    "flow-control-stall": (stalled, "{} connections have stalled since 22:13:20 UTC"),
    "seqno-outside-snapshot": (
        outside,
        "1 vbucket of {} clients has messages that break the protocol",
    ),
    "server-owes-seqno": (owed, "1 vbucket of {} clients waits for seqnos since 22:13:20 UTC"),
    "snapshot-stalled": (
        standing,
        "1 vbucket of {} clients stands still inside a snapshot since 22:13:20 UTC",
    ),
    "reconnect-loop": (anew, "{} clients begin again and again"),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", FAULTS)
def test_so_is_every_other_fault_whatever_numbers_it_has(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hundreds of clients are above: what puts cases together is the same for all rules."""
    one, verdict = FAULTS[rule]
    count = 64
    talks = [one(number) for number in range(count)]
    for number, talk in enumerate(talks):
        talk.host = f"10.11.{number // 250}.{1 + number % 250}"
    path = tmp_path / "crowd.pcap"
    path.write_bytes(
        pcap(
            [Recorded(packet.data, packet.wire, packet.time_ns) for packet in packets(*talks)],
            magic=0xA1B23C4D,
        )
    )
    main(["check", str(path), "--format", "json"])
    (found,) = [one for one in json.loads(capsys.readouterr().out) if one["effect_of"] is None]
    assert (
        found["rule"],
        len(found["clients"]),
        len(found["connections"]),
        len(found["cases"]),
    ) == (rule, count, count, count)
    # at 80 columns, the longest advice leaves the cases no room
    monkeypatch.setenv("COLUMNS", "120" if rule == "flow-control-stall" else "80")
    monkeypatch.setattr("dcpinspect.cli.check.height", lambda: 25)
    main(["check", str(path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == verdict.format(f"{count:,}")
    assert "…" not in lines[2], "what they have in common is a sentence"
    assert f"      and {count - 3:,} more (--all)" in lines
    assert len(lines) <= 25
