"""The words of the tables are those of their contract, and the numbers that kernels write are their
places.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dcpinspect.streams import words as w
from dcpinspect.streams.transitions import COMPLETE_OSO, CUT, NOT_KNOWN, SNAPSHOT_STATES


@pytest.mark.parametrize(
    ("number", "word", "words"),
    [
        (w.A_UNANSWERED, "unanswered", w.ANSWERS),
        (w.A_ROLLBACK, "rollback", w.ANSWERS),
        (w.CONNECTION_CLOSED, "connection-closed", w.END_REASONS),
        (COMPLETE_OSO, "complete-oso", SNAPSHOT_STATES),
        (CUT, "cut", SNAPSHOT_STATES),
        (NOT_KNOWN, "unknown", SNAPSHOT_STATES),
        (w.LOSS, "capture-loss", w.CAUSES),
        (w.OUT_OF_ORDER, "oso", w.CAUSES),
        (w.TAIL, "snapshot-tail", w.CAUSES),
        (w.UNEXPLAINED, "unexplained", w.CAUSES),
    ],
)
def test_a_number_is_the_place_of_its_word(number: int, word: str, words: tuple[str, ...]) -> None:
    assert words[number] == word


def test_verdicts_of_vbuckets_are_those_of_streams_in_another_order() -> None:
    assert set(w.VBUCKET_VERDICTS) == {
        *w.STREAM_VERDICTS,
        "orphaned",
    }  # which is said of vbuckets only


def test_what_is_said_of_producer_and_consumer_names_the_ends_of_the_connection() -> None:
    text = "the producer's log; a consumer-refused, consumers, 'x'; \"consumer\" is a name"
    said = "the server's log; a consumer-refused, clients, 'x'; \"consumer\" is a name"
    assert w.by_side(text) == w.by_side(text, -1) == said
    assert w.by_side("the producer asked a consumer", 0) == "the client asked a server"


DOCUMENT = Path(__file__).parents[2] / "docs" / "streams.md"


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("`answer` of a stream", w.ANSWERS),
        ("`verdict` of a stream", w.STREAM_VERDICTS),
        ("`end_reason` of a stream", w.END_REASONS),
        ("`verdict` of a connection", w.CONNECTION_VERDICTS),
        ("`state` of a snapshot", SNAPSHOT_STATES),
        ("`convention` of a snapshot", w.CONVENTIONS),
        ("`cause` of a gap", w.CAUSES),
    ],
)
def test_every_word_is_explained_where_the_first_wins_in_this_order(
    heading: str, words: tuple[str, ...]
) -> None:
    section = DOCUMENT.read_text("utf-8").partition(f"### {heading}\n")[2].partition("\n#")[0]
    explained = re.findall(r"^\| `([a-z0-9-]+)` \|", section, re.MULTILINE)
    assert sorted(explained) == sorted(words)
    if "The first that holds" in section:
        assert explained == list(words)
