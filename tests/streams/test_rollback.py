"""Why requests are rolled back: each cause by its smallest example."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.flags import STRICT
from dcpinspect.streams.rollback import (
    CAUSES,
    Log,
    RequestedRange,
    UndecidedError,
    VbucketFacts,
    explain_rollback,
    predicted_rollback,
)

NEW, OLD, FOREIGN = 0xB, 0xA, 0xF
LOG: Log = ((NEW, 100), (OLD, 0))


@pytest.mark.parametrize(
    ("asked", "rollback", "log", "cause", "resume"),
    [
        (RequestedRange(0, 0, 0, FOREIGN, STRICT), 0, LOG, "strict-uuid", OLD),
        (RequestedRange(50, 50, 50, FOREIGN, 0), 0, LOG, "unknown-uuid", OLD),
        (RequestedRange(50, 50, 50, 0, 0), 0, LOG, "no-uuid", OLD),
        (RequestedRange(150, 150, 150, OLD, 0), 100, LOG, "leading-consumer", NEW),
        (RequestedRange(150, 150, 150, NEW, 0), 120, LOG, "leading-consumer", NEW),
        (RequestedRange(110, 90, 120, OLD, 0), 90, LOG, "snapshot-mismatch", OLD),
        (RequestedRange(110, 90, 120, NEW, 0), 90, LOG, "snapshot-mismatch", OLD),
        (RequestedRange(50, 40, 60, OLD, 0), 0, LOG, "purge", OLD),
        (RequestedRange(150, 140, 160, NEW, 0), 0, LOG, "purge", OLD),
        (RequestedRange(150, 150, 150, OLD, 0), 7, LOG, "unknown", OLD),
        (RequestedRange(150, 150, 150, OLD, 0), 7, None, "unknown", None),
        (
            RequestedRange(2**63 + 5, 2**63 + 5, 2**63 + 5, OLD, 0),
            2**63,
            ((NEW, 2**63), (OLD, 0)),
            "leading-consumer",
            NEW,
        ),
    ],
)
def test_the_first_cause_that_holds(
    asked: RequestedRange, rollback: int, log: Log | None, cause: str, resume: int | None
) -> None:
    found = explain_rollback(asked, rollback, log)
    assert (found.cause, found.resume_uuid) == (cause, resume)
    assert found.cause in CAUSES


@pytest.mark.parametrize(
    ("asked", "rollback", "high", "cause"),
    [
        (RequestedRange(0, 0, 0, FOREIGN, STRICT), 0, None, "strict-uuid"),
        (RequestedRange(0, 0, 0, FOREIGN, 0), 0, None, "unknown"),
        (RequestedRange(500, 500, 500, OLD, 0), 300, 300, "leading-consumer"),
        (RequestedRange(310, 290, 320, OLD, 0), 290, 300, "snapshot-mismatch"),
        (RequestedRange(500, 500, 500, OLD, 0), 200, 300, "unknown"),
        (RequestedRange(500, 500, 500, OLD, 0), 300, None, "unknown"),
        (RequestedRange(500, 500, 500, OLD, 0), 0, 300, "unknown"),
    ],
)
def test_without_a_log_the_request_or_the_high_seqno_may_tell(
    asked: RequestedRange, rollback: int, high: int | None, cause: str
) -> None:
    found = explain_rollback(asked, rollback, None, VbucketFacts(high=high))
    assert (found.cause, found.resume_uuid) == (cause, None)


def test_a_snapshot_that_is_complete_or_not_begun_counts_as_its_own_seqno() -> None:
    """A client at the end of its snapshot, or at its start, is in the middle of none."""
    assert (
        explain_rollback(RequestedRange(120, 90, 120, OLD, 0), 100, LOG).cause == "leading-consumer"
    )
    assert (
        explain_rollback(RequestedRange(120, 120, 200, OLD, 0), 100, LOG).cause
        == "leading-consumer"
    )


def test_the_purge_seqno_is_told_where_it_is_known() -> None:
    assert (
        "purge seqno 45 "
        in explain_rollback(RequestedRange(50, 40, 60, OLD, 0), 0, LOG, VbucketFacts(45)).text
    )


def test_a_server_may_have_lost_the_end_of_its_newest_branch() -> None:
    """From a snapshot that began at 0 it would roll back to 0 as well; seqnos of that branch say
    that it has not.
    """
    asked = RequestedRange(150, 0, 160, NEW, 0)
    assert explain_rollback(asked, 0, LOG, VbucketFacts(None, 159)).text.endswith(
        "or the producer lost the end of this branch; nothing captured shows that it has 160"
    )
    assert explain_rollback(asked, 0, LOG, VbucketFacts(None, 160)).text.endswith(
        "the producer has this branch up to 160, so the end of the branch is not lost"
    )
    assert (
        explain_rollback(RequestedRange(150, 140, 160, NEW, 0), 0, LOG).text
        == "tombstones up to the purge seqno are gone"
    )


@given(
    start=st.integers(0, 9),
    low=st.integers(0, 9),
    high=st.integers(0, 9),
    uuid=st.sampled_from([0xA, 0xB, 0xC, 0xF]),
    flags=st.sampled_from([0, STRICT]),
    branches=st.lists(st.integers(1, 8), unique=True, max_size=2),
    server=st.integers(0, 12),
    purge=st.integers(0, 4),
)
def test_a_rollback_that_is_predicted_has_the_cause_that_would_explain_it(
    start: int,
    low: int,
    high: int,
    uuid: int,
    flags: int,
    branches: list[int],
    server: int,
    purge: int,
) -> None:
    if not low <= start <= high:
        return
    log = [*zip((0xC, 0xB), sorted(branches, reverse=True), strict=False), (0xA, 0)]
    asked = RequestedRange(start, low, high, uuid, flags)
    found = predicted_rollback(asked, log, high=max(server, log[0][1]), purge=purge)
    if found is None:
        return
    seqno, cause = found
    assert seqno <= start
    explained = explain_rollback(asked, seqno, log, VbucketFacts(purge)).cause
    # which one it was, nobody can tell from the seqno 0
    at_zero = {"purge", "leading-consumer", "snapshot-mismatch", "unknown-uuid", "no-uuid"}
    assert explained in (cause, "unknown") or (seqno == 0 and {explained, cause} <= at_zero)


def test_what_depends_on_an_unknown_high_seqno_is_not_predicted() -> None:
    asked = RequestedRange(150, 150, 150, NEW, 0)
    with pytest.raises(UndecidedError):
        predicted_rollback(asked, LOG, high=None)
    with pytest.raises(UndecidedError):
        predicted_rollback(asked, LOG, high=140, is_exact=False)
    assert predicted_rollback(asked, LOG, high=150, is_exact=False) is None
    assert predicted_rollback(asked, LOG, high=140) == (140, "leading-consumer")
    assert predicted_rollback(RequestedRange(150, 150, 150, OLD, 0), LOG, high=None) == (
        100,
        "leading-consumer",
    )
