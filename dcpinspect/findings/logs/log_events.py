"""The records of ``log_events``: what one line of the server's log, or several of its statistics,
say of a stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.flags import STREAM_END_REASONS
from dcpinspect.tables.column_kinds import columns
from dcpinspect.tables.record_tables import Records, RecordTable
from dcpinspect.text import escape, words_of

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor


LEVELS = ("trace", "debug", "info", "notice", "warning", "error", "critical", "fatal")
EVENTS = words_of(
    "connection-opened stream-created stream-closed stream-refused rollback slow-stream "
    "buffer-full backfill-scheduled backfill-complete disk-snapshot disconnect "
    "connection-destroyed stream-requested stream-sent end-received rollback-received takeover "
    "cursor-registered backfill-state cache-transfer window-state request-refused message-refused "
    "connection-removed other vbucket-state failover-entry stream-state failover-log vbucket-seqnos"
)
"""Kinds of records. The last two come from statistics, ``stream-state`` from both, all others from
lines of the log.
"""
PRODUCER = "eq_dcpq:"
"""Prefix that the server puts before the DCP name of a client."""
_WORDS = re.compile(
    r"-|<=|a|ackedBytes|active|ago|ahead|already|and|at|backfilling|because|been|changed|common|consumer|could|DCP|dead|deletions|doesn't|end|exist|exists|failed|failover|for|found|greater|has|have|highSeqno|history|idle|in|in-memory|is|it|larger|last|manifest|message|miss|no|not|of|pending|PRODUCER|producer|purge|purged|reading|Received|received|replica|request|required|requires|rollback|s|seconds|seqno|shutdown|slow|snap|snapshot|snapshotStart|start|stream|table|takeover-send|takeover-wait|than|the|this|timeout|to|too|transitory|uid|unclean|up|upper|UUID|vb|vBucket|vbucket|was|were"
    + "|"
    + "|".join(STREAM_END_REASONS.values())
)
"""Words that the server uses for reasons and states. Any other word of a reason may name somebody.
"""
_TOKEN = re.compile(r"[^\s(){}\[\],;.:][^\s(){}\[\],;]*?(?=[.:]?(?:[\s(){}\[\],;]|$))")
_NUMBER = re.compile(r"\d{1,20}(?:[mun]?s)?")
ROLES = ("producer", "consumer", "notifier")

LOG_EVENTS = RecordTable(
    "log_event",
    columns(
        """
        file text: the log
        line i64: line of the log, from 1
        time time: time that the line begins with, by the clock of the server; null for statistics
        level word: level of the line
        event word: what the line says
        versions text: versions of the server that write this form of the line
        conn_id i64: the server's own number of the connection
        bucket text: bucket
        role word: role of the server on this connection
        name text: DCP name, as the server calls the connection
        vbucket i64: vbucket
        sid i64: DCP stream-id
        start_seqno u64: seqno asked to start after; where a backfill or a branch of the history
            begins
        end_seqno u64: seqno to end at
        requested_end u64: seqno asked to end at
        snapshot_start u64: start of the snapshot that the client was in, or that is sent from disk
        snapshot_end u64: its end
        vbucket_uuid hex64: branch of the history that is spoken of
        rollback_seqno u64: seqno that the server told to roll back to
        last_seqno u64: greatest seqno that was sent, or read from disk
        high_seqno u64: high seqno of the vbucket
        purge_seqno u64: tombstones up to here may be gone
        failover_log log: branches of the history, newest first
        state text: state of the stream, or of the vbucket
        reason text: why, in the words of the log; for the end of a stream as in the table of
            streams
        text text: the line without time, level and names; null for statistics
        """,
        level=LEVELS,
        event=EVENTS,
        role=ROLES,
        requested_end=("no end",),
    ),
    version=2,
)
"""The table of records of logs and statistics. No message makes them, so no capture has them."""
MOST_EVENTS = 1 << 18
"""Greatest number of records that are kept."""


@dataclass(slots=True)
class LogEvent:
    """One record. Its fields are the columns of ``LOG_EVENTS``, which explain them."""

    file: str
    line: int
    event: str
    time: int | None = None
    level: str | None = None
    versions: str | None = None
    conn_id: int | None = None
    bucket: str | None = None
    role: str | None = None
    name: str | None = None
    vbucket: int | None = None
    sid: int | None = None
    start_seqno: int | None = None
    end_seqno: int | None = None
    requested_end: int | None = None
    snapshot_start: int | None = None
    snapshot_end: int | None = None
    vbucket_uuid: int | None = None
    rollback_seqno: int | None = None
    last_seqno: int | None = None
    high_seqno: int | None = None
    purge_seqno: int | None = None
    failover_log: list[tuple[int, int]] | None = None
    state: str | None = None
    reason: str | None = None
    text: str | None = None


NUMBERS = {
    column.name: column.kind
    for column in LOG_EVENTS.columns
    if column.kind in ("i64", "u64", "hex64")
}
"""The columns of whole numbers, with their kinds."""
_ESCAPED = frozenset(("file", "bucket", "name", "state", "reason", "text"))


def redacted(event: LogEvent, redactor: Redactor) -> LogEvent:
    """Returns the record with substitutes for names, and for texts that may hold names."""

    def redacted_text(text: str | None) -> str | None:
        return None if text is None else redactor.text(text)

    prefix = PRODUCER if event.name is not None and event.name.startswith(PRODUCER) else ""
    name = None if event.name is None else prefix + redactor.text(event.name.removeprefix(prefix))

    def word(match: re.Match[str]) -> str:
        if _WORDS.fullmatch(match[0]) or _NUMBER.fullmatch(match[0]):
            return match[0]
        return redactor.text(match[0])

    reason, state = (
        None if text is None else _TOKEN.sub(word, text) for text in (event.reason, event.state)
    )
    return replace(
        event,
        bucket=redacted_text(event.bucket),
        name=name,
        reason=reason,
        state=state,
        text=redacted_text(event.text),
    )


def event_records(events: Iterable[LogEvent], limit: int = MOST_EVENTS) -> Records:
    """Returns the table of events in order; of more than ``limit``, the first."""
    first_events = list(islice(events, limit))
    columns: dict[str, list[Any]] = {}
    for field in fields(LogEvent):
        values = [getattr(event, field.name) for event in first_events]
        columns[field.name] = (
            [None if value is None else escape(value) for value in values]
            if field.name in _ESCAPED
            else values
        )
    return Records(
        LOG_EVENTS,
        {column.name: columns[column.name] for column in LOG_EVENTS.columns},
        len(first_events),
    )
