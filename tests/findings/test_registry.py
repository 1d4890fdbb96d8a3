"""How rules are plugged in: one module, one line, and everything that asks for rules knows them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import pytest

import dcpinspect
from dcpinspect.cli.main import main
from dcpinspect.findings.costs import Cost
from dcpinspect.findings.finding import Candidates, Occurrence
from dcpinspect.findings.registry import ORDINARY, RULE_SETS, RULES, plug
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import ReadingEnd, RuleInput, RuleSet, Watcher
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.flow_control import FlowControl
from dcpinspect.tables.messages import MessageBatch
from tests import parted
from tests.findings.checked import findings
from tests.parted import Options, whole
from tests.peers.truth import SAMPLES
from tests.reading.test_joining import batches_of, check
from tests.streams.told import Told, capture, opened

PACKAGE = Path(dcpinspect.__file__).parent


def _prepares(batch: MessageBatch, _: int | None) -> Iterator[Candidates]:
    rows = np.flatnonzero(batch.decoded.opcode == Opcode.DCP_MUTATION)
    if len(rows):
        yield Candidates("tiny-look", rows, lambda row: f"a mutation of {batch.key_of(row)!r}")


class _Counted(Watcher):
    """Counts the messages of each connection."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def watch(self, fed: RuleInput) -> Iterable[Candidates]:
        for connection in fed.batch.connection.tolist():
            self.counts[connection] = self.counts.get(connection, 0) + 1
        return ()

    def findings(self, finished: ReadingEnd) -> Iterator[Occurrence]:
        for connection, count in sorted(self.counts.items()):
            if finished.is_whole:
                yield Occurrence("tiny-watch", f"{count} messages", connection, severity="note")

    @classmethod
    def joined(cls, parts: Sequence[Self], connections: Sequence[RowNumbers]) -> Self:
        whole = cls()
        for part, of in zip(parts, connections, strict=True):
            whole.counts |= {
                int(of[connection]): count for connection, count in part.counts.items()
            }
        return whole


def _flow(finished: ReadingEnd) -> Iterator[Occurrence]:
    flow = finished.context.tracker.flow
    for link in finished.context.links:
        assert isinstance(flow, FlowControl), "the rule has said that it needs it"
        yield Occurrence("tiny-end", f"from {link.client}", link.number, severity="warning")


TINY = RuleSet(
    (
        Rule("tiny-look", "stream", "note", "a mutation comes", "", "smile", whose="server"),
        Rule("tiny-watch", "stream", "note", "messages come", "", "count them", whose="normal"),
        Rule(
            "tiny-end",
            "session",
            "warning",
            "there is a connection",
            "",
            "close it",
            needs=("flow",),
            whose="client",
            cost=Cost("connection", "is there", "are there"),
        ),
    ),
    look=_prepares,
    watcher=_Counted,
    findings=_flow,
)


@pytest.fixture
def tiny() -> Iterator[Sequence[str]]:
    """A rule set that is plugged in for one test; gives its ids."""
    plug(TINY)
    ids = [rule.id for rule in TINY.rules]
    yield ids
    RULE_SETS.remove(TINY)
    for one in ids:
        del RULES[one]
        ORDINARY.remove(one)


def talk() -> Told:
    told = opened()
    stream = told.stream(7)
    stream.snapshot(0, 2, "memory")
    stream.mutation(1, "one")
    stream.mutation(2, "two")
    return told


def test_a_rule_that_is_plugged_in_is_told_by_check(
    tiny: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.pcap"
    path.write_bytes(capture(talk()))
    assert main(["check", str(path), "-f", "ndjson"]) == 0
    found = {
        one["rule"]: one
        for one in map(json.loads, capsys.readouterr().out.splitlines())
        if one["rule"] in tiny
    }
    assert [found[rule]["message"] for rule in tiny] == [
        "a mutation of b'one'",
        "9 messages",
        "from 10.0.0.1:50000",
    ]
    assert (
        found["tiny-look"]["count"],
        found["tiny-look"]["vbuckets"],
        found["tiny-look"]["next"],
    ) == (2, [7], "smile")
    assert main(["check", str(path), "--rule", "tiny-end"]) == 0
    told = capsys.readouterr().out
    assert "! tiny-end" in told
    assert "tiny-watch" not in told
    assert main(["check", str(path), "--no-rule", "tiny-end"]) == 0
    assert "tiny-end" not in capsys.readouterr().out
    assert main(["explain", "tiny-look"]) == 0
    assert "found when: a mutation comes" in capsys.readouterr().out


def test_what_it_keeps_travels_with_the_parts_of_a_reading(tiny: Sequence[str]) -> None:
    given, files = batches_of("loop.pcap")
    check(given, files, Options(list(tiny)), 3, random.Random("tiny"))
    (watched,) = [
        one
        for one in parted.findings(whole(given, files, Options(list(tiny))))
        if one.rule == "tiny-watch"
    ]
    assert len(watched.cases) > 2


def test_without_the_plug_nothing_is_told_of_it() -> None:
    assert not {one.rule for one in findings(talk(), rules=[*RULES])} & {
        rule.id for rule in TINY.rules
    }


def test_two_rules_cannot_have_one_id(tiny: Sequence[str]) -> None:
    before = len(RULE_SETS)
    with pytest.raises(ValueError, match=f"there are two rules {tiny[0]}"):
        plug(TINY)
    assert len(RULE_SETS) == before


def test_a_tracker_follows_only_what_the_rules_need() -> None:
    for rule, needed in (
        ("wrong-failover-entry", set()),
        ("cas-regress", {"contents"}),
        ("noop-overlap", {"noops"}),
        ("lint-ack-pace", {"flow"}),
    ):
        with Reading([str(SAMPLES / "loop.pcap")]) as reading:
            reading.check([rule])
            known = {
                name
                for name in ("contents", "flow", "noops", "histories")
                if getattr(reading.tracker, name) is not None
            }
        assert known == needed


def test_a_search_for_the_id_of_a_rule_leads_to_its_declaration_and_to_what_finds_it() -> None:
    """What finds it may be a layout, whose check is made with the division into fields."""
    places: dict[str, list[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        # in quotes, or in a heading of a text
        for name in (
            re.findall(
                r'(?<=")[\w-]+(?=")|^ +[\w-]+(?= \w+ (?:error|warning|note)\b)',
                path.read_text("utf-8"),
                re.MULTILINE,
            )
            if path.name != "explains.py"
            else ()
        ):
            name = name.strip()
            places.setdefault(name, []).append(path.relative_to(PACKAGE).parts[0])
    for rule in RULES:
        assert "findings" in places[rule], rule
        assert len(places[rule]) > 1, rule


def test_no_rule_asks_for_a_fuller_capture_and_says_that_nothing_is_to_be_done() -> None:
    asked = [one.id for one in RULES.values() if one.whose == "capture"]
    assert [id_ for id_ in asked if RULES[id_].next.startswith("nothing")] == []
