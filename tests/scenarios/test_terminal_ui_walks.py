"""The walks of docs/tui.md, key by key, from opening a capture to the cause of its trouble."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen


@dataclass(frozen=True, slots=True)
class Step:
    """Keys, and what the screen shows after them."""

    keys: Sequence[str]
    """Names of the keys in Textual."""
    typed: str
    """The keys as people read them."""
    text: str
    seen: Sequence[str]
    """Words that the screen shows."""


@dataclass(frozen=True, slots=True)
class Walk:
    """One capture, and one question about it."""

    capture: str
    """Name of a sample capture."""
    question: str
    steps: Sequence[Step]


WALKS = (
    Walk(
        "rollback.pcap",
        "After a failover, how far did the client have to roll back?",
        (
            Step(
                ("colon", *"rollback", "enter"),
                "`:` `rollback` `Enter`",
                "The first three of six notes are rollbacks, one for each cause. The first is "
                "about vbucket 7. The client rolled back as"
                " the server asked.",
                ("· 6", "asked for seqno 60, rolled back to 50", "nothing is left to do"),
            ),
            Step(
                ("enter",),
                "`Enter`",
                "The request, with the cursor on its start seqno. It asks from 60.",
                ("row 99", "start seqno", "from 60"),
            ),
            Step(
                ("right_square_bracket",),
                "`]`",
                "The next message is the answer. It sends the client back to 50.",
                ("row 100", "to 50"),
            ),
            Step(
                ("v",),
                "`v`",
                "On the timeline, `R` marks the rollback seqno. The next stream begins there.",
                ("vb 7", "R"),
            ),
            Step(
                ("backspace", "backspace"),
                "`Backspace` twice",
                "Back to the message, then to the finding.",
                ("row 99",),
            ),
        ),
    ),
    Walk(
        "loop.pcap",
        "Why does this client make no progress?",
        (
            Step(
                ("colon", *"rollback-loop", "enter"),
                "`:` `rollback-loop` `Enter`",
                "The finding of this rule. The client was rolled back four times to 0, and the "
                "same items were sent"
                " again. The finding says what to set on the connection.",
                ("rolled back 4 times to 0", "max_marker_version"),
            ),
            Step(
                ("v",),
                "`v`",
                "On all connections but the first, the client is rolled back to 0 (`R`) and starts "
                "again. The server resets each one (`C`) before the disk snapshot is complete.",
                ("rollback to 0", "disk snapshot 0–90", "connection closed"),
            ),
            Step(("e",), "`e`", "The findings about it.", ("rollback",)),
        ),
    ),
    Walk(
        "orphans.pcap",
        "Some vbuckets went silent. Which ones, and which side forgot them?",
        (
            Step(
                ("2", "n"),
                "`2` `n`",
                "Of nine vbuckets, 48 has the worst error. 42 is the next with one.",
                ("✖ 42 orphaned", "✖ orphaned-vbucket"),
            ),
            Step(
                ("enter",),
                "`Enter`",
                "Its stream ended because the vbucket moved, and no other stream followed.",
                ("stream end: state-changed", "never reopened"),
            ),
            Step(
                ("e",),
                "`e`",
                (
                    "The finding says that other streams were reopened at once, and this one was "
                    "not. The client missed the event."
                ),
                ("orphaned-vbucket",),
            ),
            Step(
                ("right_square_bracket",),
                "`]`",
                "The next message of the evidence.",
                ("Evidence, 4 of 5",),
            ),
        ),
    ),
)

PAGE = Path(__file__).parents[2] / "docs" / "tui.md"


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.capture)
def test_the_keys_show_what_the_page_says(walk: Walk) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        for step in walk.steps:
            await press(app, pilot, *step.keys)
            seen = " ".join(screen(app).split())
            assert [words for words in step.seen if words not in seen] == [], f"after {step.typed}"

    play(walk.capture, scene)


def test_the_page_names_every_key() -> None:
    text = PAGE.read_text("utf-8")
    for walk in WALKS:
        for number, step in enumerate(walk.steps, 1):
            assert f"{number}. {step.typed} - {step.text}" in text
