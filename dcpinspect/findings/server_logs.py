"""Rules about the server's own log: it says why the server did what a capture shows, or not."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from dcpinspect.findings import connection_rules, opens, request_rules
from dcpinspect.findings.closing import SERVER
from dcpinspect.findings.context import ALL, Context, occurrence
from dcpinspect.findings.finding import SEVERITY_OF, Finding, FindingKey, Occurrence, Whose
from dcpinspect.findings.history_rules import ADVICE
from dcpinspect.findings.rule import SEVERITIES, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.findings.sequence_rules import FAULT
from dcpinspect.protocol.flags import STREAM_END_REASONS
from dcpinspect.protocol.message import Severity
from dcpinspect.streams.records import Stream
from dcpinspect.streams.transitions import DRAINING
from dcpinspect.streams.words import A_REFUSED, by_side
from dcpinspect.text import escape

if TYPE_CHECKING:  # only those who have logs need to read them
    from dcpinspect.findings.collector import Collector
    from dcpinspect.findings.logs.log_events import LogEvent
    from dcpinspect.findings.logs.log_evidence import LogEvidence

WARNED = frozenset(("too-slow", "backfill-failed", "rollback", "lost-privileges"))
"""Ends of streams that somebody has to look at."""
TOLD = WARNED | {"state-changed", "filter-empty"}
"""Ends of streams that are told at all; the others follow from what the client did."""

_DISCONNECTS = {
    "idle": "a message has not been received",
    "not-acknowledged": "ackedBytes has not changed",
    "name-clash": "the same name as a new connection",
    "no-memory": "no memory",
}
"""Causes of disconnects, and what the log says of them."""

MANY, REPEATED, ROUND_NS = 3, "repeated", 100_000_000
"""Number of rollbacks of the same request that are a loop, the cause of it, and the time between
two of them at least: requests of several stream-ids, which lines do not have, come at once.
"""
_LIKE = {
    "out of sequence": "seqno-not-increasing",
    "expected snapshot range": "seqno-outside-snapshot",
    "Erroneous snapshot marker": "marker-behind",
}
"""The rule about packets that finds the same in a message, by words of the server's reason."""
_CAUSES = "purge unknown-uuid consumer-ahead unknown"
CLOCKS_NS = 60_000_000_000
"""How far the clocks of a log and of a capture may be apart for a line to be about the capture."""

RULES = rules(
    f"""
    server-rollback log warning
        fires: the server's log has a rollback of a stream request, with the reason; a note if the
            capture has it, too; an error if the same request was rolled back {MANY} times or more
        unless: requests that the server accepted
        next: read the reason, 'dcpinspect log FILE' has the request with it; a client has to
            discard what is above the rollback seqno, and to resume there
        causes: {_CAUSES} {REPEATED}
        whose: normal for {_CAUSES}, client for {REPEATED}
        cost: purge: back; unknown-uuid: back; consumer-ahead: back; unknown: back;
            {REPEATED}: client, loops, loop, lasts
    server-refused log warning unknown
        fires: the server's log has a stream request that failed, or a message of another node that
            the server refused as its consumer, with the reason; a note for other requests, as
            controls
        unless: refusals that the capture has, where the answer is looked at
        next: change what the reason names; a client needs the newest cluster map for a vbucket that
            moved
        cost: refused; {"; ".join(f"{rule}: wrong-data" for rule in _LIKE.values())}
    server-ended log warning
        fires: the server's log has the end of a stream for a reason that the client did not give; a
            note for state-changed and filter-empty
        unless: ends that the capture has, where they are looked at
        next: look up the reason with 'dcpinspect explain'; a client has to resume the stream where
            it ended
        causes: {" ".join(tuple(sorted(TOLD)))}
        whose: client for too-slow filter-empty lost-privileges, normal for state-changed rollback,
            server for backfill-failed
        cost: vbucket, was ended by the server, were ended by the server, usual
    server-slow-stream log warning client
        fires: the server's log calls a stream slow, or says that it waits for the consumer to free
            its window; told under flow-control-stall if the capture has that then; a note if the
            capture calls the stream slow, too
        next: find out why the client is slow, and give it more processor time; it has to read and
            acknowledge more, or its window is too small
        causes: slow-stream buffer-full
        cost: client, is slow by the server's log, are slow by the server's log
    server-disconnect log warning
        fires: the server's log says that it closes a connection. Reasons are the idle timeout,
            bytes that are not acknowledged, a new connection of the same name, no memory, or a
            message that it did not expect; told under name-clash if the capture has that
        next: look for what stops the client, and for another one of the same name; a client has to
            answer noops and acknowledge bytes also while it is busy, and to give each connection a
            name of its own
        causes: {" ".join(_DISCONNECTS)} unexpected
        whose: client for idle not-acknowledged name-clash, server for no-memory
        cost: client, was disconnected by the server, were disconnected by the server
    """
)


@dataclass(frozen=True)
class CapturedConnections:
    """The connections of a capture, by the names that the server's log has for them."""

    context: Context
    so_far: Collector
    """What the rules before these have found."""

    @cached_property
    def connections(self) -> Mapping[str, list[int]]:
        """Connections by name, in order of their first packets."""
        from dcpinspect.findings.logs.log_events import PRODUCER  # deferred: there are logs

        connections_of_name: dict[str, list[int]] = defaultdict(list)
        for link in sorted(self.context.links, key=lambda candidate: candidate.first_ns):
            name = self.context.session(link.number).name
            if name is not None:
                connections_of_name[PRODUCER + name].append(link.number)
        return connections_of_name

    @cached_property
    def streams(self) -> Mapping[tuple[int, int], list[Stream]]:
        """Streams by connection and vbucket."""
        streams_of: dict[tuple[int, int], list[Stream]] = defaultdict(list)
        for stream in self.context.streams:
            streams_of[stream.connection, stream.vbucket].append(stream)
        return streams_of

    @cached_property
    def slow(self) -> Mapping[int, list[tuple[FindingKey, Finding]]]:
        """Full windows and slow streams that the capture shows, by connection."""
        slow_of: dict[int, list[tuple[FindingKey, Finding]]] = defaultdict(list)
        for key, case in self.so_far.occurrences_of(("flow-control-stall", "slow-stream")):
            slow_of[case.connections[0]].append((key, case))
        return slow_of

    @cached_property
    def rollbacks(self) -> Mapping[tuple[int | None, ...], list[int]]:
        """Streams answered with a rollback, by vbucket, uuid, start, snapshot and seqno."""
        streams_of_request: dict[tuple[int | None, ...], list[int]] = defaultdict(list)
        streams = self.context.streams
        for number, rollback in self.context.rollbacks.everything():
            request = rollback.asked
            if request is None:
                continue
            key = (
                streams[number].vbucket,
                request.uuid,
                request.start,
                request.snapshot_start,
                request.snapshot_end,
                rollback.to,
            )
            streams_of_request[key].append(number)
        for numbers in streams_of_request.values():
            numbers.sort(key=lambda number: streams[number].answered.time)
        return streams_of_request

    def connections_at(self, event: LogEvent) -> list[int]:
        """Returns the connections with the event's name that had packets when the line was written,
        latest last.
        """
        by_number = self.context.by_number
        return [
            number
            for number in self.connections.get(event.name or "", ())
            if _is_at(event, by_number[number].first_ns, by_number[number].last_ns)
        ]

    def streams_at(self, event: LogEvent) -> list[Stream]:
        """Returns the streams of the event's vbucket on these connections that were there when the
        line was written.
        """
        by_number = self.context.by_number
        return [
            stream
            for number in self.connections_at(event)
            for stream in self.streams.get(
                (number, -1 if event.vbucket is None else event.vbucket), ()
            )
            if _is_at(
                event,
                stream.opened.time,
                by_number[number].last_ns if stream.state <= DRAINING else stream.latest.time,
            )
        ]

    def connection_of(self, event: LogEvent) -> int:
        """Returns the connection that the line is about; 0 for none.

        The lines that are asked for are those that the capture does not have. So it does not have
        the connection of an answer or an end either, nor that of a disconnect before its packets.
        A disconnect is of one that the server closed, if there is one. A client may use the same
        name on all nodes.
        """
        if event.event in ("rollback", "stream-refused", "stream-closed"):
            return 0
        numbers = (
            self.connections_at(event)
            if event.vbucket is None
            else [stream.connection for stream in self.streams_at(event)]
        )
        if event.event == "disconnect":
            by_number = self.context.by_number
            numbers = sorted(
                (number for number in numbers if _is_at(event, by_number[number].last_ns, ALL)),
                key=lambda number: (
                    by_number[number].closed_by == SERVER,
                    -abs(by_number[number].last_ns - (event.time or 0)),
                ),
            )
        return numbers[-1] if numbers else 0

    def told_as(self, event: LogEvent, connection: int, cause: str | None) -> FindingKey | None:
        """Returns the key of the capture's finding about what the line says; None for none."""
        if cause == "name-clash":
            key = self.so_far.explained.get(connection)
            return key if key is not None and key[0] == cause else None
        if event.event not in ("slow-stream", "buffer-full"):
            return None
        return next(
            (
                key
                for key, case in self.slow.get(connection, ())
                if event.vbucket in (*case.vbuckets, None) or not case.vbuckets
                if _is_at(event, case.first_time_ns, case.last_time_ns)
            ),
            None,
        )

    def has(self, event: LogEvent) -> bool:
        """Returns whether the capture has what the line says: the end or the refusal of a stream,
        and of what is said of other messages, the stream or the connection.
        """
        if event.event == "stream-closed":
            return any(
                STREAM_END_REASONS.get(stream.reason) == event.reason
                for stream in self.streams_at(event)
            )
        if event.event == "stream-refused":
            return any(stream.answer == A_REFUSED for stream in self.streams_at(event))
        return bool(self.connections_at(event) if event.vbucket is None else self.streams_at(event))


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, if logs are given beside a capture."""
    if finished.evidence is not None:
        captured = CapturedConnections(finished.context, finished.so_far)
        yield from occurrences(finished.evidence, captured)


def occurrences(
    evidence: LogEvidence, captured: CapturedConnections | None
) -> Iterator[Occurrence]:
    """Yields all occurrences; ``captured``: what the capture has, if there is one."""
    return _Log(evidence, captured).occurrences()


@dataclass(frozen=True)
class _Log:
    """The rules over what logs say, beside a capture or alone."""

    evidence: LogEvidence
    captured: CapturedConnections | None

    def occurrences(self) -> Iterator[Occurrence]:
        events = self.evidence.events
        yield from self._rollbacks()
        yield from self._refusals()
        for event in events["stream-closed"]:
            if event.reason in TOLD and not self._is_looked_at(event):
                severity: Severity = "warning" if event.reason in WARNED else "note"
                yield self._occurrence(
                    event,
                    "server-ended",
                    f"the server ended a stream: {event.reason}",
                    severity,
                    cause=event.reason,
                    next_=request_rules.AFTER_END[event.reason],
                )
        for event in events["slow-stream"]:
            behind = _behind(event)
            message = (
                "the server calls a stream "
                f"slow{f', {behind:,} seqnos behind' if behind is not None else ''}"
            )
            yield self._occurrence(
                event,
                "server-slow-stream",
                message,
                cause="slow-stream",
                shared="the server calls streams slow",
            )
        for event in events["buffer-full"]:
            message = f"the server waited {_text(event.reason)} for the client to free its window"
            yield self._occurrence(event, "server-slow-stream", message, cause="buffer-full")
        for event in events["disconnect"]:
            cause = next(
                (cause for cause, says in _DISCONNECTS.items() if says in (event.reason or "")),
                "unexpected",
            )
            message = f"the server closes the connection: {_text(event.reason)}"
            yield self._occurrence(
                event, "server-disconnect", message, cause=cause, next_=_NEXT.get(cause)
            )

    def _refusals(self) -> Iterator[Occurrence]:
        """Yields what the server refused. For some messages it writes a second line, about the
        error that the first explains.
        """
        events = self.evidence.events
        severity: Severity
        for kind, noun, severity in (
            ("stream-refused", "stream", "warning"),
            ("request-refused", "request", "note"),
        ):
            for event in events[kind]:
                if self._is_looked_at(event):
                    continue
                message = f"the server refused a {noun}: {_text(event.reason)}"
                refused = self._occurrence(
                    event, "server-refused", message, severity, cause=_slug(event.reason)
                )
                whose, advice = next(
                    (to_do for words, to_do in _TO_DO.items() if words in (event.reason or "")),
                    ("unknown", None),
                )
                yield replace(refused, whose=whose, next=advice)
        before = None
        for event in events["message-refused"]:
            is_second = (
                before is not None
                and "Got error" in (event.reason or "")
                and _is_at_once(before, event)
            )
            before = event
            if not is_second and not self._is_looked_at(event):
                like = next(
                    (rule for words, rule in _LIKE.items() if words in (event.reason or "")), None
                )
                message = f"the server refused a message: {_text(event.reason)}"
                refused = self._occurrence(
                    event, "server-refused", message, cause=like or _slug(event.reason)
                )
                yield refused if like is None else replace(refused, whose="client", next=_NOT_TAKEN)

    def _is_looked_at(self, event: LogEvent) -> bool:
        """Returns whether the rules of the capture look at what the line says."""
        return self.captured is not None and self.captured.has(event)

    def _rollbacks(self) -> Iterator[Occurrence]:
        """Yields rollbacks. A rollback in the log and one in the capture are the same if vbucket,
        uuid, start, snapshot and seqno are equal.
        """
        # loaded by who made the evidence
        from dcpinspect.findings.logs.log_evidence import cause_of

        captured = self.captured
        remaining = (
            {key: iter(numbers) for key, numbers in captured.rollbacks.items()}
            if captured is not None
            else {}
        )
        rollbacks = self.evidence.events["rollback"]
        rounds: dict[tuple[object, ...], tuple[int, int]] = {}
        for event in sorted(rollbacks, key=lambda event: event.time or 0):
            count, since_ns = rounds.get(_request_of(event), (0, 0))
            time_ns = event.time or 0
            if time_ns - since_ns >= ROUND_NS:
                rounds[_request_of(event)] = count + 1, time_ns
        for event in rollbacks:
            cause = cause_of(event.reason or "")
            message = (
                f"the server rolled back from {event.start_seqno} to {event.rollback_seqno}: "
                f"{_text(event.reason)}"
            )
            shared = f"rolled back by the server: {_SHARED[cause]}"
            logged = self._occurrence(event, "server-rollback", message, cause=cause, shared=shared)
            logged = replace(logged, reason=str(event.start_seqno))
            number = next(remaining.get(_request_of(event)[1], iter(())), None)
            if number is None or captured is None:
                if rounds.get(_request_of(event), (0, 0))[0] >= MANY:
                    next_ = ADVICE["repeated"]
                    logged = replace(logged, severity="error", cause=REPEATED, next=next_)
                yield logged
                continue
            answered_ns = captured.context.streams[number].answered.time
            ahead = (event.time or answered_ns) - answered_ns
            noted = occurrence(
                captured.context,
                number,
                "server-rollback",
                f"the server's log has the reason of this rollback: {_text(event.reason)} "
                f"({self.evidence.position(event)})",
                (captured.context.answer(number), captured.context.request(number)),
                cause=cause,
                shared=f"the server's log has the reason of these rollbacks: {_SHARED[cause]}",
                facts={"clock of the log": f"{ahead / 1e9:+.3f} s", **logged.facts},
                severity="note",
            )
            yield replace(noted, reason=logged.reason)

    def _occurrence(
        self,
        event: LogEvent,
        rule: str,
        message: str,
        severity: Severity | None = None,
        *,
        cause: str | None = None,
        shared: str | None = None,
        next_: str | None = None,
    ) -> Occurrence:
        captured = self.captured
        connection = captured.connection_of(event) if captured is not None else 0
        told_as = captured.told_as(event, connection, cause) if captured is not None else None
        if told_as is not None:  # it is no worse than what the capture shows of it
            severity = max(SEVERITY_OF[rule], told_as[1], key=SEVERITIES.index)
        return Occurrence(
            rule,
            f"{message} ({self.evidence.position(event)})",
            connection or self.evidence.client_number(event.name or event.file),
            (),
            event.vbucket,
            event.sid,
            cause,
            next_,
            shared=shared or message,
            seqnos=tuple(
                seqno for seqno in (event.start_seqno, event.rollback_seqno) if seqno is not None
            ),
            time_ns=event.time or 0,
            client=escape(event.name) if event.name is not None else None,
            facts={
                **({"start": event.start_seqno} if event.start_seqno is not None else {}),
                **({"rollback": event.rollback_seqno} if event.rollback_seqno is not None else {}),
                "log": self.evidence.position(event),
            },
            effect_of=told_as,
            severity=severity or SEVERITY_OF[rule],
        )


_RULES = (*request_rules.RULES, *connection_rules.RULES, *opens.RULES)
_NEXT = {rule.id: rule.next for rule in _RULES}
_TO_DO: Mapping[str, tuple[Whose, str | None]] = {
    "larger than the end seqno": ("client", request_rules.END_FIRST),
    "seqno is required": ("client", _NEXT["bad-stream-range"]),
    "already exists": ("client", _NEXT["duplicate-stream-request"]),
    "noop is mandatory": ("client", _NEXT["noop-required"]),
    "vbucket doesn't exist": ("normal", None),
    "ctrl parameter": ("unknown", _NEXT["control-rejected"]),
}
"""Who has to act on a refusal, and how, by words of its reason."""
_NOT_TAKEN = by_side(FAULT, 0)
"""What to do about these: the server is the consumer of what a client sends."""
_SHARED = {
    "purge": "tombstones were purged since",
    "unknown-uuid": "no history in common",
    "consumer-ahead": "the client is ahead of the branch point, or of the server",
    "unknown": "see the reason of each",
}


def _request_of(event: LogEvent) -> tuple[tuple[str | None, ...], tuple[int, ...]]:
    """Returns who asked, and for what, with the seqno to which the server rolled it back.

    Not in which file: a server goes on with its log in another one.
    """
    request = (
        event.vbucket,
        event.vbucket_uuid,
        event.start_seqno,
        event.snapshot_start,
        event.snapshot_end,
        event.rollback_seqno,
    )
    return (event.bucket, event.name), tuple(-1 if value is None else value for value in request)


def _is_at(event: LogEvent, first_ns: int, last_ns: int) -> bool:
    """Returns whether a line may have been written between two times of a capture."""
    return event.time is None or first_ns - CLOCKS_NS <= event.time <= last_ns + CLOCKS_NS


def _text(reason: str | None) -> str:
    return escape(reason or "no reason")


def _slug(reason: str | None) -> str:
    """Returns a reason without its numbers, to be used as a cause."""
    return re.sub(r"[^a-z]+", "-", (reason or "").lower()).strip("-")[:60]


def _is_at_once(before: LogEvent, event: LogEvent) -> bool:
    """Returns whether two lines are about the same vbucket of a connection, and the server wrote
    one right after the other.
    """
    is_same = (before.file, before.name, before.vbucket) == (event.file, event.name, event.vbucket)
    return is_same and (event.time or 0) - (before.time or 0) < 1_000_000


def _behind(event: LogEvent) -> int | None:
    if event.high_seqno is None or event.last_seqno is None or event.high_seqno < event.last_seqno:
        return None
    return event.high_seqno - event.last_seqno


RULE_SET = RuleSet(RULES, findings=findings)
