"""Runs of messages of one kind, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.output.render.conversation_text import FEW, Conversation
from tests.encode import encode
from tests.tables.build import batch


def told(*messages: bytes, folds: bool = True, cuts: tuple[int, ...] = ()) -> list[str]:
    made = batch(*messages)
    talk = Conversation(width=None, folds=folds)
    out: list[str] = []
    for rows in np.split(np.arange(len(made)), cuts):
        out += talk.lines(made, rows)
    return [*out, *talk.end()]


MUTATIONS = [
    encode("dcp_mutation", vbucket=number % 2, key=f"k{number}", by_seqno=10 + number)
    for number in range(9)
]


def test_a_long_run_is_one_line_with_its_vbuckets_and_seqnos() -> None:
    (line,) = told(*MUTATIONS)
    assert "9 × mutation  vb 0–1, seqnos 10–18, " in line
    assert line.endswith(f"{sum(map(len, MUTATIONS)):,} bytes")


def test_a_short_run_is_its_messages() -> None:
    assert len(told(*MUTATIONS[:FEW])) == FEW
    every = told(*MUTATIONS, folds=False)
    assert len(every) == 9
    assert "mutation  vb 1  seqno 11  k1" in every[1]


@pytest.mark.parametrize("cut", range(1, 11))
def test_where_batches_end_makes_no_difference(cut: int) -> None:
    messages = [*MUTATIONS, encode("dcp_noop"), MUTATIONS[0]]
    assert told(*messages, cuts=(cut,)) == told(*messages)


def test_a_vbucket_is_named_where_it_means_one() -> None:
    assert "vb" not in told(encode("dcp_noop"))[0]
    assert "vb 7" in told(encode("dcp_stream_req", vbucket=7))[0]
