"""Legal servers and clients at random: what the conversations are like, and that the tables made of
them are true.

A failing seed is told again and again with fewer choices; what is printed is the smallest
conversation found that still fails.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.builders import Recorded
from tests.catalogue import each, first_of
from tests.doubled import passed_on, said_of, translated, written
from tests.findings.checked import checked
from tests.model.dice import Dice, shrunk
from tests.model.expect import Tables
from tests.model.facts import Heard
from tests.model.judge import COMPLETE, DAMAGED, complaint, conversation, truth
from tests.model.packets import laid
from tests.model.play import play
from tests.model.reading import Capture, read

MANY = 60
"""Conversations in which everything has to occur that the generator knows."""
SEEDS = [
    *range(3),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 6)),
    *first_of(range(6, 12), 0),
]


@cache
def told(seed: int) -> tuple[Capture, list[Heard], Tables]:
    dice = Dice(seed)
    play(dice)
    capture = conversation("whole", dice.choices)
    heard = read(capture).heard
    return capture, heard, truth(capture, heard)


def test_a_seed_tells_the_same_conversation_again() -> None:
    assert play(Dice(5)).script() == play(Dice(5)).script()


def test_choices_tell_the_same_conversation_as_the_seed_they_come_from() -> None:
    dice = Dice(6)
    tape = play(dice)
    assert play(Dice(choices=dice.choices)).script() == tape.script()


def test_fewer_choices_are_found_that_still_fail() -> None:
    dice = Dice(7)
    play(dice)

    def has_two_markers(choices: object) -> bool:
        assert isinstance(choices, list)
        return (
            Counter(said.name for said in play(Dice(choices=choices)).said)["dcp_snapshot_marker"]
            >= 2
        )

    smallest = shrunk(dice.choices, has_two_markers, tries=300)
    assert has_two_markers(smallest)
    assert len(play(Dice(choices=smallest)).said) < len(play(Dice(7)).said) / 4


@pytest.mark.slow
def test_every_message_of_a_conversation_is_in_its_packets() -> None:
    for seed in range(20):
        capture, heard, _ = told(seed)
        assert Counter(id(one.said) for one in heard) == Counter(map(id, capture.tape.said))


@pytest.mark.slow
def test_the_conversations_show_every_kind_of_snapshot_and_gap() -> None:
    seen: dict[str, Counter[str]] = {
        name: Counter()
        for name in ("state", "convention", "type", "layout", "cause", "end_reason", "answer")
    }
    for seed in range(MANY):
        _, _, tables = told(seed)
        for name in ("streams", "snapshots", "gaps"):
            for record in tables.table(name):
                for key in seen.keys() & record.keys():
                    seen[key][str(record[key])] += 1
    assert seen["state"].keys() >= {
        "complete",
        "complete-seqno-advanced",
        "complete-oso",
        "continued",
        "open",
        "cut",
        "incomplete",
        "unknown",
    }
    assert seen["convention"].keys() >= {
        "memory-1",
        "memory-2",
        "memory-3",
        "disk-1",
        "disk-later",
        "disk-3-first-event",
    }
    assert seen["type"].keys() == {"memory", "disk", "oso", "unknown"}
    assert seen["layout"].keys() >= {"upr", "v1", "v2.0", "v2.2"}
    assert seen["cause"].keys() >= {
        "deduplicated",
        "filtered",
        "seqno-advanced",
        "invisible",
        "oso",
        "snapshot-tail",
        "rollback",
        "unexplained",
    }
    assert seen["end_reason"].keys() >= {
        "ok",
        "closed",
        "state-changed",
        "too-slow",
        "rollback",
        "filter-empty",
        "connection-closed",
    }
    assert seen["answer"].keys() >= {"accepted", "rollback", "refused", "unanswered"}


@pytest.mark.slow
@each("seed", range(20))
def test_a_legal_server_gives_nothing_that_looks_like_a_fault(seed: int) -> None:
    _, _, tables = told(seed)
    assert [
        record for record in tables.table("snapshots") if record["convention"] == "irregular"
    ] == []
    gaps = tables.table("gaps")
    # The first generation's marker has no range, so nothing can be said about what is missing in
    # it.
    assert [
        gap for gap in gaps if gap["cause"] == "unexplained" and gap["_snapshot"].end is not None
    ] == []
    assert [gap for gap in gaps if gap["cause"] == "resumed"] == []


@pytest.mark.parametrize("damage", COMPLETE)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_tables_of_a_capture_are_those_of_the_conversation_and_a_check_finds_nothing(
    damage: str, seed: int
) -> None:
    wrong = complaint(damage, seed)
    assert wrong is None, wrong


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_conversation_that_a_capture_shows_twice_is_told_as_if_it_were_shown_once(
    seed: int, tmp_path: Path
) -> None:
    packets = [Recorded(one.data, one.wire, one.time_ns) for one in told(seed)[0].packets]
    alone = said_of(written(tmp_path, packets))
    for twice in (translated(packets, delay_ns=40), passed_on(packets, delay_ns=40)):
        assert said_of(written(tmp_path, twice)) == alone


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_capture_lacks_makes_nothing_wrong_and_accuses_nobody(
    damage: str, seed: int
) -> None:
    wrong = complaint(damage, seed)
    assert wrong is None, wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "seed"),
    [
        ("begun", 64),
        ("doubled", 120),
        ("cut", 42),
        ("lossy", 30),
        ("lossy", 42),
        ("lossy", 1288),
        ("lossy", 1443),
        ("lossy", 3051),
        ("lossy", 5008),
        ("snaplen", 72),
        ("snaplen", 78),
        ("snaplen", 81),
        ("snaplen", 64),
        ("snaplen", 248),
        ("lossy", 50),
        ("lossy", 66),
        ("lossy", 201),
        ("lossy", 1275),
        ("lossy", 1279),
        ("one-sided", 169),
        ("begun", 159),
        ("whole", 5018),
        ("whole", 4082),
        ("whole", 4208),
        ("whole", 4287),
        ("disturbed", 40),
        ("disturbed", 92),
        ("disturbed", 127),
        ("cut", 4016),
        ("cut", 4113),
        ("lossy", 4079),
        ("lossy", 4187),
        ("lossy", 4224),
        ("lossy", 4263),
        ("snaplen", 4230),
        ("snaplen", 183),
        ("lossy", 639),
        ("lossy", 688),
        ("lossy", 740),
    ],
)
def test_what_was_misread_once_is_not_again(damage: str, seed: int) -> None:
    wrong = complaint(damage, seed, times=3 if damage in DAMAGED else 1)
    assert wrong is None, wrong


@pytest.mark.parametrize(
    ("seed", "begins", "loss", "rule"),
    [(61, 0.7, 0.0, "stream-already-open"), (9, 0.2, 0.03, "first-marker-start")],
    ids=["answers and an end read before their request", "answers lost under one opaque"],
)
def test_no_server_is_accused_of_what_was_read_out_of_order(
    seed: int, begins: float, loss: float, rule: str
) -> None:
    captured, rng = laid(play(Dice(seed))).packets, random.Random(seed)
    left = [packet for packet in captured[int(len(captured) * begins) :] if rng.random() > loss]
    checker, engine = checked(left, (), [rule])
    assert checker.findings(engine.links, engine.coverage) == []


@pytest.mark.deep
@pytest.mark.parametrize("first", range(0, 3000, 100))
@pytest.mark.parametrize("damage", [*COMPLETE, *DAMAGED])
def test_thousands_of_conversations(damage: str, first: int) -> None:
    for seed in range(first, first + 100):
        wrong = complaint(damage, seed, times=3 if damage in DAMAGED else 1)
        assert wrong is None, f"seed {seed}, {damage}\n{wrong}"
