"""Why requests are rolled back: each cause by its smallest example."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.flags import STRICT
from dcpinspect.streams.rollback import CAUSES, Asked, Log, VbucketFacts, explain_rollback

NEW, OLD, FOREIGN = 0xB, 0xA, 0xF
LOG: Log = ((NEW, 100), (OLD, 0))


@pytest.mark.parametrize(
    ("asked", "rollback", "log", "cause", "resume"),
    [
        (Asked(0, 0, 0, FOREIGN, STRICT), 0, LOG, "strict-uuid", OLD),
        (Asked(50, 50, 50, FOREIGN, 0), 0, LOG, "unknown-uuid", OLD),
        (Asked(150, 150, 150, OLD, 0), 100, LOG, "leading-consumer", NEW),
        (Asked(150, 150, 150, NEW, 0), 120, LOG, "leading-consumer", NEW),
        (Asked(110, 90, 120, OLD, 0), 90, LOG, "snapshot-mismatch", OLD),
        (Asked(110, 90, 120, NEW, 0), 90, LOG, "snapshot-mismatch", OLD),
        (Asked(50, 40, 60, OLD, 0), 0, LOG, "purge", OLD),
        (Asked(150, 140, 160, NEW, 0), 0, LOG, "purge", OLD),
        (Asked(150, 150, 150, OLD, 0), 7, LOG, "unknown", OLD),
        (Asked(150, 150, 150, OLD, 0), 7, None, "unknown", None),
        (Asked(2**63 + 5, 2**63 + 5, 2**63 + 5, OLD, 0), 2**63, ((NEW, 2**63), (OLD, 0)), "leading-consumer", NEW),
    ],
)
def test_the_first_cause_that_holds(asked: Asked, rollback: int, log: Log | None, cause: str, resume: int | None) -> None:
    found = explain_rollback(asked, rollback, log)
    assert (found.cause, found.resume_uuid) == (cause, resume)
    assert found.cause in CAUSES


def test_a_snapshot_that_is_complete_or_not_begun_counts_as_its_own_seqno() -> None:
    """A client at the end of its snapshot, or at its start, is in the middle of none."""
    assert explain_rollback(Asked(120, 90, 120, OLD, 0), 100, LOG).cause == "leading-consumer"
    assert explain_rollback(Asked(120, 120, 200, OLD, 0), 100, LOG).cause == "leading-consumer"


def test_the_purge_seqno_is_told_where_it_is_known() -> None:
    assert "purge seqno 45 " in explain_rollback(Asked(50, 40, 60, OLD, 0), 0, LOG, VbucketFacts(45)).text


def test_a_server_may_have_lost_the_end_of_its_newest_branch() -> None:
    """From a snapshot that began at 0 it would roll back to 0 as well; seqnos of that branch say that it has not."""
    asked = Asked(150, 0, 160, NEW, 0)
    assert explain_rollback(asked, 0, LOG, VbucketFacts(None, 159)).text.endswith(
        "or the server lost the end of this branch; nothing captured shows that it has 160"
    )
    assert explain_rollback(asked, 0, LOG, VbucketFacts(None, 160)).text.endswith(
        "the server has this branch up to 160, so it did not lose its end"
    )
    assert explain_rollback(Asked(150, 140, 160, NEW, 0), 0, LOG).text == "tombstones up to the purge seqno are gone"
