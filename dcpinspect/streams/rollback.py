"""Why a stream request was answered with a rollback: from what was asked, what was answered and the
failover log.

A server keeps, newest first, the branches of a vbucket's history: a uuid and the seqno at which the
branch began. A client's items above the seqno where its branch was left are not on the server.
Neither are items of a branch that the log does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dcpinspect.protocol.flags import STRICT

_SHARED = {
    "strict-uuid": "start 0 with a foreign uuid and the strict flag",
    "unknown-uuid": "no history in common, the uuids are not in the producer's logs",
    "no-uuid": (
        "seqnos were asked for without a vbucket uuid, so the producer cannot know their history"
    ),
    "leading-consumer": "the consumer is ahead of the branch point, or of the producer",
    "snapshot-mismatch": "the snapshot straddles the branch point, so roll back to its start",
    "purge": "tombstones up to the purge seqno are gone",
    "unknown": "no failover log in the capture explains it",
}
CAUSES = tuple(_SHARED)

Log = Sequence[tuple[int, int]]
"""(uuid, seqno) of each branch, newest first."""


@dataclass(frozen=True, slots=True)
class RequestedRange:
    """What a stream request asked for."""

    start: int
    snapshot_start: int
    snapshot_end: int
    uuid: int
    flags: int


@dataclass(frozen=True, slots=True)
class VbucketFacts:
    """What else the capture shows of the vbucket on that server."""

    purge_seqno: int | None = None
    """The purge seqno that a marker told; None: no marker told it."""
    greatest: int | None = None
    """The greatest seqno, or end of a marker, on the newest branch; None: not known."""
    high: int | None = None
    """The high seqno that the server told when it answered; None: not known."""
    had_uuid: int | None = None
    """Row of its latest log before the answer with the uuid that was asked for; None: none had it.
    """


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a request was rolled back, and what would have worked."""

    cause: str
    text: str
    resume_uuid: int | None
    """Uuid of the newest branch that began at or below where the client resumes; None without a log.
    """
    has_dropped: bool = False
    """Whether the server had the uuid in its log before."""

    @property
    def shared(self) -> str:
        """The explanation without what is true of one vbucket only."""
        return (
            "the uuids are no longer in the producer's logs"
            if self.has_dropped
            else _SHARED[self.cause]
        )


def newest_below(log: Log, seqno: int) -> int | None:
    """Returns the uuid of the newest branch that began at or below a seqno."""
    return max(
        (entry for entry in log if entry[1] <= seqno), key=lambda entry: entry[1], default=(None, 0)
    )[0]


def explain_rollback(
    request: RequestedRange | None,
    rollback: int | None,
    log: Log | None,
    seen: VbucketFacts = VbucketFacts(),
    received: int | None = None,
) -> Explanation:
    """The first cause that holds; ``request``, ``rollback``: None if not captured; ``log``: the
    nearest of the vbucket on that server; ``received``: the last seqno that the client received, if
    it is below ``rollback``.
    """
    if rollback is None:
        return Explanation("unknown", "the rollback seqno is not in the capture", None)
    resume = newest_below(log or (), rollback if received is None else received)
    if request is None:
        return Explanation("unknown", "what the request asked for is not in the capture", resume)
    if not log:
        return _without_log(request, rollback, seen)
    cause, text = _cause(request, rollback, log, seen)
    if cause == "leading-consumer" and received is None:
        text += ", so resume there with that branch's uuid"
    has_dropped = cause == "unknown-uuid" and seen.had_uuid is not None
    return Explanation(cause, text, resume, has_dropped)


def _without_log(request: RequestedRange, rollback: int, seen: VbucketFacts) -> Explanation:
    """Explains a rollback by the request itself, or by the high seqno that the server told."""
    if request.start == rollback == 0 and request.flags & STRICT and request.uuid:
        return Explanation("strict-uuid", _SHARED["strict-uuid"], None)
    log = ((request.uuid, 0),)
    if seen.high is not None:
        predicted = predicted_rollback(request, log, high=seen.high)
        if predicted is not None and predicted[0] == rollback:
            return Explanation(*_cause(request, rollback, log, seen), None)
    return Explanation("unknown", "the capture has no failover log that explains it", None)


class UndecidedError(LookupError):
    """Raised if a rollback depends on something that nobody knows."""


def predicted_rollback(
    request: RequestedRange, log: Log, *, high: int | None, is_exact: bool = True, purge: int = 0
) -> tuple[int, str] | None:
    """Returns the seqno that a server with this failover log would roll a request back to, and the
    cause; None: it would accept.

    The steps are those of ``FailoverTable::needsRollback`` in the server's source. ``high``: the
    high seqno of its newest branch. ``is_exact``: False if ``high`` is only the least possible.
    ``purge``: its purge seqno. Streams of some collections may be spared where tombstones were
    purged. Raises UndecidedError where too little is known.
    """
    if request.start == 0 and (not request.flags & STRICT or request.uuid == 0):
        return None
    if 0 < request.start < purge:
        return 0, "purge"
    entry_number = next(
        (number for number, (uuid, _) in enumerate(log) if uuid == request.uuid), None
    )
    if entry_number is None:
        return (
            0,
            "strict-uuid" if request.start == 0 else "unknown-uuid" if request.uuid else "no-uuid",
        )
    low, end = request.snapshot_start, request.snapshot_end
    if request.start == low:
        end = request.start
    upper = log[entry_number - 1][1] if entry_number else high
    if upper is not None and end <= upper:
        return None
    if upper is None or (not entry_number and not is_exact):
        raise UndecidedError
    if request.start == end:
        low = request.start
    return (upper, "leading-consumer") if upper < low else (low, "snapshot-mismatch")


def _cause(request: RequestedRange, rollback: int, log: Log, seen: VbucketFacts) -> tuple[str, str]:
    """Returns the cause, and what the capture shows of it: what a server would do with the high
    seqno that it told, else with the rollback seqno as its high seqno.
    """
    uuids = [uuid for uuid, _ in log]
    is_newest, is_known = request.uuid == uuids[0], request.uuid in uuids
    high, cause = next(
        (
            (high, predicted[1])
            for high in ((seen.high, rollback or None) if is_newest else (rollback,))
            if high is not None
            and (predicted := predicted_rollback(request, log, high=high))
            and predicted[0] == rollback
        ),
        (None, "purge" if rollback == 0 and is_known else "unknown"),
    )
    low, end = request.snapshot_start, request.snapshot_end
    if request.start in (low, end):
        low = end = request.start
    match cause:
        case "leading-consumer":
            where = "producer's high seqno" if is_newest else "branch point"
            return cause, f"the consumer is ahead of the {where} {rollback}"
        case "snapshot-mismatch":
            where = (
                "goes beyond the producer's high seqno"
                if is_newest
                else "straddles the branch point"
            )
            up_to = f" {high}" if is_newest and high == seen.high else ""
            return cause, f"the snapshot {low}–{end} {where}{up_to}, so roll back to its start"
        case "purge":
            return cause, _purge(low, end, seen, is_newest=is_newest)
        case "unknown-uuid" if seen.had_uuid is not None:
            return (
                cause,
                f"uuid 0x{request.uuid:016x} is no longer in the producer's log, which had it in "
                f"row {seen.had_uuid} and now begins at seqno {log[-1][1]}",
            )
        case "unknown-uuid":
            return (
                cause,
                f"no history in common, uuid 0x{request.uuid:016x} is not in the producer's log",
            )
        case "no-uuid":
            return (
                cause,
                f"seqno {request.start} was asked for without a vbucket uuid, so the producer "
                "cannot know its history",
            )
        case "unknown":
            return cause, "the producer's log does not explain it"
    return cause, _SHARED[cause]


def _purge(low: int, high: int, seen: VbucketFacts, *, is_newest: bool) -> str:
    upto = f" {seen.purge_seqno}" if seen.purge_seqno is not None else ""
    text = f"tombstones up to the purge seqno{upto} are gone"
    if not is_newest or low > 0:
        return text  # a server that lacks the end of its newest branch says how much it has
    if seen.greatest is not None and seen.greatest >= high:
        return (
            f"{text}; the producer has this branch up to {seen.greatest}, so the end of "
            "the branch is not lost"
        )
    return (
        f"{text}, or the producer lost the end of this branch; nothing captured shows that it "
        f"has {high}"
    )
