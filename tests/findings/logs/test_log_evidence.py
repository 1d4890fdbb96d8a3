from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.findings.logs.checkpoint_files import Checkpoint
from dcpinspect.findings.logs.log_evidence import LogEvidence, LogHistory, cause_of
from dcpinspect.streams.rollback import UndecidedError
from tests.findings.logs.written import failovers, rollback, seqnos

OLD, NEW, FOREIGN = 0xA1, 0xB2, 0xF0
AT_1000 = Checkpoint("ck.json", "go-dcp", 417, 1000, OLD, 1000, 1000)


def evidence(path: Path, *texts: str) -> LogEvidence:
    path.write_text("\n".join(texts))
    return LogEvidence.read([str(path)], [])


def test_a_checkpoint_above_the_branch_point_is_rolled_back_to_it(tmp_path: Path) -> None:
    found = evidence(tmp_path / "stats", failovers(417, (NEW, 900), (OLD, 0))).resumed(AT_1000)
    assert found is not None
    assert (found.to, found.cause, found.resume_uuid, found.source) == (
        900,
        "leading-consumer",
        NEW,
        str(tmp_path / "stats"),
    )


def test_a_checkpoint_on_the_newest_branch_needs_the_high_seqno(tmp_path: Path) -> None:
    log = failovers(417, (OLD, 0))
    with pytest.raises(UndecidedError):
        evidence(tmp_path / "a", log).resumed(AT_1000)
    assert evidence(tmp_path / "b", log, seqnos(417, 1000)).resumed(AT_1000) is None
    found = evidence(tmp_path / "c", log, seqnos(417, 950)).resumed(AT_1000)
    assert found is not None
    assert (found.to, found.cause) == (950, "leading-consumer")


def test_seqnos_of_another_branch_say_nothing(tmp_path: Path) -> None:
    with pytest.raises(UndecidedError):
        evidence(tmp_path / "stats", failovers(417, (OLD, 0)), seqnos(417, 950, uuid=NEW)).resumed(
            AT_1000
        )


def test_purged_tombstones_roll_back_to_0(tmp_path: Path) -> None:
    found = evidence(
        tmp_path / "stats", failovers(417, (OLD, 0)), seqnos(417, 2000, purge=1001)
    ).resumed(AT_1000)
    assert found is not None
    assert (found.to, found.cause) == (0, "purge")


def test_what_the_server_did_before_it_does_again(tmp_path: Path) -> None:
    found = evidence(tmp_path / "memcached.log", rollback()).resumed(AT_1000)
    assert found is not None
    assert (found.to, found.cause) == (900, "consumer-ahead")
    for other in (
        replace(AT_1000, seqno=999),
        replace(AT_1000, uuid=NEW),
        replace(AT_1000, vbucket=1),
        replace(AT_1000, bucket="x"),
    ):
        with pytest.raises(UndecidedError):
            evidence(tmp_path / "memcached.log", rollback()).resumed(other)


def test_buckets_are_told_apart_by_name_or_by_uuid() -> None:
    both = LogEvidence()
    both.know(417, "beer", LogHistory([(OLD, 0)], "stats", 2000, is_exact=True))
    both.know(417, "travel", LogHistory([(NEW, 0)], "stats", 2000, is_exact=True))
    assert both.resumed(AT_1000) is None
    assert both.resumed(replace(AT_1000, bucket="travel")) is not None
    for other in (replace(AT_1000, uuid=FOREIGN), replace(AT_1000, bucket="wine")):
        with pytest.raises(UndecidedError):
            both.resumed(other)


def test_the_first_file_that_has_a_history_counts(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    paths[0].write_text(failovers(417, (NEW, 900), (OLD, 0)))
    paths[1].write_text(failovers(417, (OLD, 0)))
    found = LogEvidence.read([str(path) for path in paths], []).resumed(AT_1000)
    assert found is not None
    assert found.to == 900


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("purge seqno (45) is greater than start seqno - could miss purged deletions", "purge"),
        (
            (
                "vBucket UUID not found in failover table, consumer and producer have no common "
                "history"
            ),
            "unknown-uuid",
        ),
        ("consumer ahead of producer - producer upper at 900", "consumer-ahead"),
        ("something new", "unknown"),
    ],
)
def test_reasons_of_the_server_have_causes(reason: str, cause: str) -> None:
    assert cause_of(reason) == cause


def test_histories_of_any_number_of_buckets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpinspect.findings.logs.log_evidence.MOST_BUCKETS", 2)
    known = LogEvidence()
    for bucket in ("a", "b", "c"):
        known.know(417, bucket, LogHistory([(OLD, 0)], "stats", 2000, is_exact=True))
    assert known.history_of(replace(AT_1000, bucket="b")) is not None
    assert known.history_of(replace(AT_1000, bucket="c")) is None
