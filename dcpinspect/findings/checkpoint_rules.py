"""Rules about checkpoints of consumers: whether a server would let them go on from there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dcpinspect.findings.context import Context, plain
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.streams.failover_logs import KnownLog, log_place
from dcpinspect.streams.rollback import UndecidedError
from dcpinspect.streams.words import by_side
from dcpinspect.text import escape

if TYPE_CHECKING:  # only those who have logs need to read them
    from dcpinspect.findings.logs.checkpoint_files import Checkpoint
    from dcpinspect.findings.logs.log_evidence import LogEvidence, ResumeForecast

RULES = rules(
    """
    checkpoint-rollback log warning normal
        fires: a stream request from the checkpoint has to roll back, by the vbucket's failover log,
            its high seqno and its purge seqno; or the server's log has that it was rolled back
            before
        unless: checkpoints on the newest branch where the high seqno is not known; streams of
            collections that have nothing above the seqno
        next: expect that items are sent again; the client has to undo what it has above the seqno,
            and to resume there
        causes: strict-uuid unknown-uuid no-uuid leading-consumer snapshot-mismatch purge
            consumer-ahead unknown
        cost: vbucket, will be rolled back, will be rolled back
    checkpoint-range log error client
        fires: the seqno of a checkpoint is outside its snapshot
        next: remove this checkpoint, because servers answer ERANGE; the client's author has to find
            out how it came to be saved
        cost: vbucket, has a checkpoint that servers refuse, have checkpoints that servers refuse
    checkpoint-unchecked log note capture
        fires: nothing that was given decides whether a checkpoint can be resumed from
        next: add the failover logs and seqnos of the vbuckets with --log: the output of cbstats
            failovers and of cbstats vbucket-seqno
    """
)


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, if checkpoints are given beside a capture."""
    if finished.evidence is not None and finished.evidence.checkpoints:
        _learn(finished.evidence, finished.context)
        yield from occurrences(finished.evidence)


def occurrences(evidence: LogEvidence) -> Iterator[Occurrence]:
    """Yields all occurrences."""
    for checkpoint in evidence.checkpoints:
        if not checkpoint.is_in_snapshot:
            message = (
                f"seqno {checkpoint.seqno} is outside the snapshot "
                f"{checkpoint.snapshot_start}–{checkpoint.snapshot_end}"
            )
            yield _occurrence(
                evidence,
                checkpoint,
                "checkpoint-range",
                f"{message} of its checkpoint",
                "seqnos outside the snapshots of their checkpoints",
            )
            continue
        try:
            resumed = evidence.resumed(checkpoint)
        except UndecidedError:
            history = evidence.history_of(checkpoint)
            reason = (
                "the failover log is not known"
                if history is None
                else "the high seqno is not known"
            )
            yield _occurrence(
                evidence,
                checkpoint,
                "checkpoint-unchecked",
                f"the checkpoint could not be checked: {reason}",
                None,
            )
            continue
        if resumed is not None:
            yield _rolled(evidence, resumed)


def _rolled(evidence: LogEvidence, resumed: ResumeForecast) -> Occurrence:
    checkpoint = resumed.checkpoint
    message = (
        f"resuming from {checkpoint.seqno} will be rolled back to {resumed.to}: "
        f"{escape(by_side(resumed.text))} (by {escape(resumed.source)})"
    )
    above = f"what the client has above {resumed.to}" if resumed.to else "all that the client has"
    branch = "" if resumed.resume_uuid is None else f" with uuid 0x{resumed.resume_uuid:016x}"
    return _occurrence(
        evidence,
        checkpoint,
        "checkpoint-rollback",
        message,
        f"resuming from these checkpoints will be rolled back to {resumed.to}",
        cause=resumed.cause,
        to=resumed.to,
        next_=(
            f"expect that items are sent again; the client has to undo {above}, and to resume at "
            f"{resumed.to}{branch}"
        ),
    )


def _occurrence(
    evidence: LogEvidence,
    checkpoint: Checkpoint,
    rule: str,
    message: str,
    shared: str | None,
    *,
    cause: str | None = None,
    to: int | None = None,
    next_: str | None = None,
) -> Occurrence:
    client = f"{checkpoint.consumer} ({escape(checkpoint.file)})"
    return Occurrence(
        rule,
        message,
        evidence.client_number(client),
        (),
        checkpoint.vbucket,
        None,
        cause,
        next_,
        shared=shared,
        seqnos=(checkpoint.seqno, *(() if to is None else (to,))),
        client=client,
        facts={
            "seqno": checkpoint.seqno,
            "snapshot": f"{checkpoint.snapshot_start}–{checkpoint.snapshot_end}",
            **({"rollback": to} if to is not None else {}),
            "uuid": f"0x{checkpoint.uuid:016x}",
        },
    )


def _learn(evidence: LogEvidence, context: Context) -> None:
    """Adds the histories that the capture shows, where no file has them: the latest failover log of
    each vbucket.
    """
    from dcpinspect.findings.logs.log_evidence import LogHistory  # loaded by who made the evidence

    latest: dict[tuple[int, str | None], KnownLog] = {}
    for vbucket, log in context.logs.everything():
        key = vbucket, context.session(log.connection).bucket
        if log.entries and (key not in latest or log_place(log) > log_place(latest[key])):
            latest[key] = log
    streams = context.streams
    reached: dict[tuple[int, int], int] = {}
    for number in np.flatnonzero(streams.seen > 0).tolist():
        uuid = context.logs.newest(number)
        if uuid is not None:
            branch = streams[number].vbucket, uuid
            reached[branch] = max(reached.get(branch, 0), plain(streams[number].last))
    for (vbucket, bucket), log in latest.items():
        high = reached.get((vbucket, log.entries[0][0]))
        evidence.know(
            vbucket, bucket, LogHistory(log.entries, f"row {log.at.row} of the capture", high)
        )


RULE_SET = RuleSet(RULES, findings=findings)
