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


def test_a_run_has_one_status_and_says_where_rollbacks_lead() -> None:
    rollbacks = [
        encode(
            "dcp_stream_req",
            side="response",
            status=0x23,
            opaque=number,
            rollback_seqno=number * 10,
        )
        for number in range(1, FEW + 2)
    ]
    refusals = [
        encode("dcp_stream_req", side="response", status=0x22, opaque=number) for number in (7, 8)
    ]
    run, *few = told(*rollbacks, *refusals)
    assert f"{FEW + 1} × stream_req rollback, to 10–{FEW + 1}0, " in run
    assert [line.split()[2:4] for line in few] == [["stream_req", "erange"]] * 2


def test_a_run_of_requests_says_from_where() -> None:
    (line,) = told(
        *(encode("dcp_stream_req", vbucket=number, start_seqno=50 + number) for number in range(5))
    )
    assert "5 × stream_req v1  vb 0–4, from 50–54, " in line


def test_a_run_of_ends_has_one_reason_and_names_it() -> None:
    ends = [
        encode("dcp_stream_end", vbucket=number, end_reason=2 if number < 5 else 1)
        for number in range(10)
    ]
    moved, closed = told(*ends)
    assert "5 × stream_end  vb 0–4  state-changed, " in moved
    assert "5 × stream_end  vb 5–9  closed, " in closed


@pytest.mark.parametrize("width", [20, 60, 80])
def test_lines_wrap_and_lose_nothing(width: int) -> None:
    message = encode("dcp_mutation", key="a " * 70 + "end", by_seqno=7)
    made = batch(message)
    lines = [*Conversation(width=width, folds=False).lines(made, np.arange(1))]
    assert max(map(len, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(told(message)[0].split())


@pytest.mark.parametrize("cut", range(1, 11))
def test_where_batches_end_makes_no_difference(cut: int) -> None:
    messages = [*MUTATIONS, encode("dcp_noop"), MUTATIONS[0]]
    assert told(*messages, cuts=(cut,)) == told(*messages)


def test_a_vbucket_is_named_where_it_means_one() -> None:
    assert "vb" not in told(encode("dcp_noop"))[0]
    assert "vb 7" in told(encode("dcp_stream_req", vbucket=7))[0]
