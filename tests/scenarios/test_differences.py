"""Conversations at random, compared with what is left of them: whatever a capture lacks, no side is
blamed for it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.diff.pairs import compared
from tests.model.dice import Dice
from tests.model.judge import conversation, damaged
from tests.model.packets import write_pcap
from tests.model.play import play


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "seed"),  # each of them once showed a wrong claim
    [
        ("begun", 2),
        ("begun", 30),
        ("cut", 3),
        ("cut", 37),
        ("snaplen", 4),
        ("lossy", 5),
        ("one-sided", 66),
    ],
)
def test_what_a_capture_lacks_is_no_difference(damage: str, seed: int, tmp_path: Path) -> None:
    dice = Dice(seed)
    play(dice)
    capture = conversation("lossy", dice.choices)
    left = damaged(capture, damage, random.Random(seed))
    whole, part = (
        write_pcap(tmp_path / "a.pcap", capture.packets),
        write_pcap(tmp_path / "b.pcap", left.packets),
    )
    assert [row for row in compared(whole, part).rows if row["verdict"] == "different"] == []
    assert [row for row in compared(part, whole).rows if row["verdict"] == "different"] == []
