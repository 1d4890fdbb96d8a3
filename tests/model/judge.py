"""Conversations told, damaged, read and judged; and a failing one told again until nothing can be
left out of it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache

from tests.model.blame import unfounded
from tests.model.claims import Claims
from tests.model.compare import all_differences
from tests.model.dice import Dice, shrunk
from tests.model.expect import Tables
from tests.model.facts import Heard
from tests.model.packets import laid
from tests.model.play import play
from tests.model.reading import (
    Capture,
    begun,
    cut,
    disordered,
    disturbed,
    doubled,
    lossy,
    one_sided,
    read,
    snapped,
    whole,
)
from tests.model.tape import START_NS, Closed, Said

COMPLETE = ("whole", "in pieces", "disordered", "doubled", "cut before", "disturbed", "cut")
"""What can become of a capture, so that nothing is missing before its end: the tables have to be
exact.
"""
DAMAGED = ("begun", "lossy", "one-sided", "snaplen")
"""And so that something is: the tables must not say what is not so."""


def truth(capture: Capture, heard: Sequence[Heard]) -> Tables:
    """The tables of a capture in which nothing is missing between its first packet and its last."""
    addresses = [
        (f"{one.client[0]}:{one.client[1]}", f"{one.server[0]}:{one.server[1]}")
        for one in capture.tape.opened
    ]
    return Tables(heard, addresses, capture.ends, capture.last_ns)


def conversation(damage: str, choices: Sequence[int]) -> Capture:
    """The whole capture of the conversation with these choices."""
    return _laid(tuple(choices), damage in DAMAGED)


@lru_cache(4)  # a conversation is damaged in several ways, one after the other
def _laid(choices: tuple[int, ...], tells_opaques_apart: bool) -> Capture:
    tape = play(Dice(choices=choices), tells_opaques_apart=tells_opaques_apart)
    return whole(tape, laid(tape))


@lru_cache(4)
def _heard(choices: tuple[int, ...]) -> list[Heard]:
    """What the reading of the whole capture hears, of a conversation that is damaged."""
    return read(_laid(choices, True)).heard


@lru_cache(4)
def _choices(seed: int) -> tuple[int, ...]:
    """Those of the conversation that a seed gives."""
    dice = Dice(seed)
    play(dice)
    return tuple(dice.choices)


def damaged(capture: Capture, damage: str, rng: random.Random) -> Capture:
    """What is left of a capture."""
    count = len(capture.places)
    if damage == "disordered":
        return disordered(capture, rng)
    if damage == "doubled":
        return doubled(capture)
    if damage == "cut before":
        return doubled(capture, rng.choice([66, 80, 96, 128, 200, 400]))
    if damage == "disturbed":
        return disturbed(capture, rng)
    if damage == "one-sided":
        return one_sided(capture, rng.randrange(2))
    if damage == "snaplen":
        return snapped(capture, rng.choice([66, 80, 96, 128, 200, 400]))
    if damage == "cut":
        return cut(capture, rng.randrange(1, count))
    if damage == "begun":
        return begun(capture, rng.randrange(1, count))
    if damage == "lossy":
        lost: set[int] = set()
        for _ in range(rng.choice([1, 2, 5, 20])):
            start = rng.randrange(count)
            lost |= set(range(start, start + rng.choice([1, 1, 1, 3, 10])))
        return lossy(capture, lost)
    return capture


def judged(damage: str, choices: Sequence[int], seed: int) -> tuple[Capture, list[str]]:
    """A conversation after ``damage`` by ``seed``, and what its reading says that is not so."""
    capture = conversation(damage, choices)
    rng = random.Random(seed)
    left = damaged(capture, damage, rng)
    sizes = [rng.randrange(1, 40) for _ in range(100)] if damage == "in pieces" else []
    found = read(left, sizes, remembers=damage == "in pieces")
    if damage in COMPLETE:
        vanished = {
            one.connection for one in left.tape.entries if isinstance(one, Closed)
        } - left.ends.keys()
        return left, all_differences(truth(left, found.heard), found.tables) + unfounded(
            left.tape, found, vanished, is_whole=True
        )
    heard = _heard(tuple(choices))
    rows: dict[Said, int] = {one.said: one.row for one in heard}
    claims = Claims(truth(capture, heard), rows, left, found)
    return left, claims.wrong + unfounded(left.tape, found, left.cut_short, torn=claims.torn)


def complaint(
    damage: str, seed: int, *, times: int = 1, tries: int = 150, about: str = ""
) -> str | None:
    """None when all is well with the conversation of a seed; else the smallest one found that shows
    the same kind of fault, to read.

    ``times``: how many damages of it are judged. ``about``: only complaints with this text.
    """
    choices = _choices(seed)
    for time in range(times):
        wrong = [line for line in judged(damage, choices, seed * 1000 + time)[1] if about in line]
        if wrong:
            kind = wrong[0].split(" of ")[0].split(":")[0]
            return _smallest(damage, choices, seed * 1000 + time, about or kind, tries)
    return None


def _smallest(damage: str, choices: Sequence[int], seed: int, about: str, tries: int) -> str:
    def fails(fewer: Sequence[int]) -> bool:
        return any(about in line for line in judged(damage, fewer, seed)[1])

    capture, wrong = judged(damage, shrunk(choices, fails, tries), seed)
    return script(capture) + "\n" + "\n".join(line for line in wrong if about in line)


def script(capture: Capture) -> str:
    """What was said, with the rows of what was read; a star is a message that is there in part."""
    rows = {one.said: f"{one.row}{'' if one.is_whole else '*'}" for one in read(capture).heard}
    lines = []
    for entry in capture.tape.entries:
        row = rows.get(entry, "lost") if isinstance(entry, Said) else ""
        lines.append(f"{row:>5} {(entry.time_ns - START_NS) / 1e9:11.6f}  {entry}")
    return "\n".join(lines)
