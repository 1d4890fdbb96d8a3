"""Puts logs, statistics and checkpoints together, for use with or without a capture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from dcpinspect.findings.logs.checkpoint_files import Checkpoint, read_checkpoints
from dcpinspect.findings.logs.log_events import MOST_EVENTS, LogEvent
from dcpinspect.findings.logs.log_reading import LogReading
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams.rollback import (
    Explanation,
    Log,
    RequestedRange,
    UndecidedError,
    VbucketFacts,
    explain_rollback,
    predicted_rollback,
)
from dcpinspect.text import short_names, words_of

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

MOST_BUCKETS = 64
"""Greatest number of buckets whose histories are kept; a cluster may have 30."""
KEPT = frozenset(
    words_of(
        "rollback stream-refused request-refused message-refused stream-closed slow-stream "
        "buffer-full disconnect"
    )
)
"""Kinds of events that rules look at one by one."""


@dataclass(frozen=True, slots=True)
class LogHistory:
    """What a server is known to have of a vbucket."""

    log: Log
    """Failover log of the vbucket, newest branch first; never empty."""
    source: str
    """Where the failover log comes from."""
    high: int | None = None
    """High seqno of the newest branch; if it is not exact, the least that it can be."""
    is_exact: bool = False
    purge: int = 0


@dataclass(frozen=True, slots=True)
class ResumeForecast:
    """What resuming from a checkpoint would lead to."""

    checkpoint: Checkpoint
    to: int
    """Seqno to roll back to."""
    cause: str
    text: str
    resume_uuid: int | None
    """Uuid of the branch to resume on, if the log shows it."""
    source: str


@dataclass(slots=True)
class LogEvidence:
    """Everything to look at that is not a capture."""

    logs: list[LogReading] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    events: dict[str, list[LogEvent]] = field(default_factory=lambda: defaultdict(list))
    """Events that rules look at, by kind; of very many only the first."""
    _spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Times of the first and last record of each log whose records have some, by path."""
    _lines: set[tuple[object, ...]] = field(default_factory=set)
    """What the lines of these events say. A file may be given twice, and once compressed."""
    _clients: dict[str, int] = field(default_factory=dict)
    _rolled: dict[tuple[int, int, int, int, int], LogEvent] = field(default_factory=dict)
    """Latest rollback of each request, which is given by vbucket, uuid, start and snapshot."""
    _histories: dict[int, dict[str | None, LogHistory]] = field(default_factory=dict)
    """Histories by vbucket and bucket."""
    _names: dict[str, str] = field(default_factory=dict)
    """Short names of the logs, by path."""

    @classmethod
    def read(
        cls, logs: Sequence[str], checkpoints: Sequence[str], redactor: Redactor | None = None
    ) -> LogEvidence:
        """Reads logs and checkpoints. Raises CaptureError if a file cannot be read. ``redactor``:
        replaces names.
        """
        evidence = cls(_names=dict(zip(logs, short_names(logs), strict=True)))
        for path in logs:
            evidence._add_log(LogReading(path, redactor))
        for path in checkpoints:
            evidence.checkpoints += [
                checkpoint if redactor is None else checkpoint.redacted(redactor)
                for checkpoint in read_checkpoints(path)
            ]
        return evidence

    def _add_log(self, reading: LogReading) -> None:
        self.logs.append(reading)
        seqnos: dict[tuple[str | None, int], LogEvent] = {}
        failover_logs: list[LogEvent] = []
        lines: list[tuple[object, ...]] = []
        for event in reading:
            if event.time is not None:
                first, last = self._spans.get(reading.path, (event.time, event.time))
                self._spans[reading.path] = min(first, event.time), max(last, event.time)
            if (
                event.event == "rollback"
                and (key := _request(event)) is not None
                and (key in self._rolled or len(self._rolled) < MOST_EVENTS)
            ):
                self._rolled[key] = event
            if (
                event.event == "vbucket-seqnos"
                and event.vbucket is not None
                and len(seqnos) < MOST_BUCKETS << 10
            ):
                seqnos[event.bucket, event.vbucket] = event
            elif event.event == "failover-log" and len(failover_logs) < MOST_BUCKETS << 10:
                failover_logs.append(event)
            elif (
                event.event in KEPT
                and len(self.events[event.event]) < MOST_EVENTS // len(KEPT)
                and (line := _line(event)) not in self._lines
            ):
                self.events[event.event].append(event)
                lines.append(line)
        self._lines.update(lines)
        for event in failover_logs:
            assert event.vbucket is not None
            assert event.failover_log is not None
            beside = seqnos.get((event.bucket, event.vbucket))
            is_same = beside is not None and beside.vbucket_uuid in (None, event.failover_log[0][0])
            self.know(
                event.vbucket,
                event.bucket,
                LogHistory(
                    event.failover_log,
                    reading.path,
                    beside.high_seqno if beside is not None and is_same else None,
                    is_exact=beside is not None and is_same and beside.high_seqno is not None,
                    purge=(beside.purge_seqno or 0) if beside is not None else 0,
                ),
            )

    def apart_from(self, bounds: tuple[int, int]) -> dict[str, tuple[int, int]]:
        """Returns first and last time of the logs, by path, that have none in common with a span."""
        since, until = bounds
        return {
            path: (first, last)
            for path, (first, last) in self._spans.items()
            if last < since or first > until
        }

    def position(self, event: LogEvent) -> str:
        """Returns where an event was written: a name that tells its log from the others, and the
        line.
        """
        return f"{self._names[event.file]}:{event.line}"

    def client_number(self, client: str) -> int:
        """Returns a number for a client's connection that no capture has: below 0, and always the
        same for the same name.
        """
        return -self._clients.setdefault(client, len(self._clients) + 1)

    def know(self, vbucket: int, bucket: str | None, history: LogHistory) -> None:
        """Adds a history, unless the bucket already has one."""
        buckets = self._histories.get(vbucket, {})
        if bucket not in buckets and len(buckets) >= MOST_BUCKETS:
            return
        self._histories.setdefault(vbucket, {}).setdefault(bucket, history)

    def history_of(self, checkpoint: Checkpoint) -> LogHistory | None:
        """Returns the history of the checkpoint's bucket; None if there is none, or if it cannot be
        known which one it is.
        """
        histories = self._histories.get(checkpoint.vbucket, {})
        if checkpoint.bucket in histories:
            return histories[checkpoint.bucket]
        candidates = (
            list(histories.values())
            if checkpoint.bucket is None
            else [histories[None]]
            if None in histories
            else []
        )
        if len(candidates) > 1:
            candidates = [
                history
                for history in candidates
                if any(uuid == checkpoint.uuid for uuid, _ in history.log)
            ]
        return candidates[0] if len(candidates) == 1 else None

    def resumed(self, checkpoint: Checkpoint) -> ResumeForecast | None:
        """Returns what the server would answer to resuming from a checkpoint; None if it would
        accept it.

        Raises UndecidedError if it cannot be known.
        """
        key = (
            checkpoint.vbucket,
            checkpoint.uuid,
            checkpoint.seqno,
            checkpoint.snapshot_start,
            checkpoint.snapshot_end,
        )
        before = self._rolled.get(key)
        history = self.history_of(checkpoint)
        requested = RequestedRange(
            checkpoint.seqno, checkpoint.snapshot_start, checkpoint.snapshot_end, checkpoint.uuid, 0
        )
        if (
            before is not None
            and before.rollback_seqno is not None
            and checkpoint.bucket in (None, before.bucket)
        ):
            rollback = explain_rollback(
                requested, before.rollback_seqno, history.log if history is not None else None
            )
            cause = cause_of(before.reason or "")
            text = f"the server has answered this request so before, because {before.reason}"
            return ResumeForecast(
                checkpoint, before.rollback_seqno, cause, text, rollback.resume_uuid, before.file
            )
        if history is None:
            raise UndecidedError
        prediction = predicted_rollback(
            requested,
            history.log,
            high=history.high,
            is_exact=history.is_exact,
            purge=history.purge,
        )
        if prediction is None:
            return None
        to, cause = prediction
        explained: Explanation = explain_rollback(
            requested,
            to,
            history.log,
            VbucketFacts(
                history.purge or None, history.high, history.high if history.is_exact else None
            ),
        )
        return ResumeForecast(
            checkpoint, to, cause, explained.text, explained.resume_uuid, history.source
        )

    @property
    def has_something(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self.checkpoints) or any(log.events for log in self.logs)


def cause_of(reason: str) -> str:
    """Returns the cause of a rollback for the reason that the server's log gives."""
    if reason.startswith("purge seqno ("):
        return "purge"
    if reason.startswith("vBucket UUID not found in failover table"):
        return "unknown-uuid"
    if reason.startswith("consumer ahead of producer"):
        return "consumer-ahead"
    return "unknown"


def _line(event: LogEvent) -> tuple[object, ...]:
    return event.time, event.conn_id, event.bucket, event.name, event.vbucket, event.text


def _request(event: LogEvent) -> tuple[int, int, int, int, int] | None:
    if event.vbucket is None or event.vbucket_uuid is None or event.start_seqno is None:
        return None
    if event.snapshot_start is None or event.snapshot_end is None:
        return None
    return (
        event.vbucket,
        event.vbucket_uuid,
        event.start_seqno,
        event.snapshot_start,
        event.snapshot_end,
    )
