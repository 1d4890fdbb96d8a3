"""Rules about noops, by which producers and consumers know that the other one is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dcpinspect.findings.collector import duration
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import Occurrence, Place
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import Finished, RuleSet
from dcpinspect.protocol.message import Severity
from dcpinspect.streams import noops as n
from dcpinspect.streams.connections import noop_interval
from dcpinspect.streams.links import Link
from dcpinspect.streams.noops import Kept
from dcpinspect.streams.places import AT_TIME
from dcpinspect.streams.server_reports import At

RULES = (
    Rule(
        "noop-unanswered",
        "noop",
        "warning",
        "a noop has no answer within its interval, 5 s at most; an error where the producer closes the connection then",
        "answered with another opaque; within 2 s, or ten times the slowest answer before; after a hole of the consumer",
        "answer noops at once, outside of the path that data takes",
        reports=("couchbaselabs/dcp-documentation#26", "couchbaselabs/dcp-documentation#35"),
        needs=("noops",),
    ),
    Rule(
        "noop-overlap",
        "noop",
        "warning",
        "a noop is sent while the one before has no answer",
        "an answer that comes later by no more than any answer took before the second noop; after a hole of the consumer",
        "a server fault: note its version",
        needs=("noops",),
    ),
    Rule(
        "noop-opaque",
        "noop",
        "warning",
        "a noop is answered with another opaque",
        "after a hole, or a capture's beginning inside the connection, while the noop may still get its own answer",
        "repeat the opaque's four bytes as they are: a server closes the connection when it gets another opaque",
        reports=("gocbcore 5518977",),
        needs=("noops",),
    ),
    Rule(
        "silent-connection",
        "noop",
        "warning",
        "noops are on, their interval is known, and the producer sends nothing for more than two of them",
        "within 2 s; while a noop waits for its answer, or got one with another opaque; at the end of the capture; after a hole of the"
        " producer",
        "treat the connection as dead: close it and connect again",
        needs=("noops",),
    ),
)


def findings(finished: Finished) -> Iterator[Occurrence]:
    """All occurrences."""
    context, noops, is_whole = finished.context, finished.context.tracker.noops, finished.is_whole
    if noops is None:
        return
    for link in context.links:
        kept = noops.kept.get(link.number) or Kept()
        peer = noops.peers[link.number].tolist() if link.number < len(noops.peers) else None
        if peer is None or peer[n.P_PRODUCER] < 0:
            continue
        yield from _unanswered(context, link, kept, peer, is_whole=is_whole)
        yield from _overlaps(context, link, kept, peer, is_whole=is_whole)
        for event in kept.opaques.told:
            times = _times(event, kept.opaques.told, kept.opaques.count)
            yield _other_opaque(context, link, event[n.T_A], event[n.T_B], event[n.T_PLACE :], event[n.T_OTHER :], times)
        yield from _silences(context, link, kept, peer, is_whole=is_whole)


def _of(rule: str, severity: Severity, message: str, places: Sequence[Place], count: int, until_ns: int = 0) -> Occurrence:
    return Occurrence(rule, severity, message, places[0].connection, tuple(places), count=count, last_time_ns=until_ns)


def _times(event: list[int], told: Sequence[list[int]], count: int) -> int:
    """How often the first of those that are told stands for: itself, and those that are not."""
    return count - len(told) + 1 if event is told[0] else 1


def _hex(opaque: int) -> str:
    return f"0x{opaque:08x}"


def _other_opaque(
    context: Context, link: Link, asked: int, answered: int, noop: Sequence[int], answer: Sequence[int], times: int
) -> Occurrence:
    places = (context.said(link.number, At(*answer[:4]), of_consumer=True), context.said(link.number, At(*noop[:4])))
    return _of("noop-opaque", "warning", f"noop {_hex(asked)} answered with opaque {_hex(answered)}", places, times)


def _unanswered(context: Context, link: Link, kept: Kept, peer: list[int], *, is_whole: bool) -> Iterator[Occurrence]:
    until, patience = context.until_ns(link), max(peer[n.P_LIMIT], 10 * peer[n.P_SLOWEST])
    is_read = is_whole and link.lost_at_end[1 - peer[n.P_PRODUCER]] is None
    is_closed = link.closed in ("fin", "rst") and link.closed_by == peer[n.P_PRODUCER]
    for at, opaque in ((n.P_OPEN, peer[n.P_OPEN_OPAQUE]), (n.P_OLDER, peer[n.P_OLDER_OPAQUE])):
        waited = until - peer[at + AT_TIME]
        is_oldest = at == n.P_OLDER or not peer[n.P_OLDER]
        if is_read and peer[at] and waited > patience and is_oldest and peer[n.P_VAGUE]:
            yield _other_opaque(context, link, opaque, peer[n.P_VAGUE_OPAQUE], peer[at:], peer[n.P_VAGUE :], 1)
        elif is_read and peer[at] and waited > patience:
            then = ", then the producer closed the connection" if is_closed else ""
            message = f"noop {_hex(opaque)} unanswered for {duration(waited / 1e9)}{then}"
            severity: Severity = "error" if is_closed else "warning"
            yield _of("noop-unanswered", severity, message, [context.said(link.number, At(*peer[at:][:4]))], 1, until)
    told = kept.unanswered.told
    for event in told:
        until_ns = event[n.T_OTHER + AT_TIME] if event[n.T_OTHER] else None
        if context.may_lack(link.number, 1 - peer[n.P_PRODUCER], event[n.T_PLACE + AT_TIME], until_ns):
            continue  # perhaps known only later
        places = [context.said(link.number, At(*event[n.T_PLACE :][:4]))]
        if event[n.T_OTHER]:
            places.append(context.said(link.number, At(*event[n.T_OTHER :][:4]), of_consumer=True))
        message = f"noop {_hex(event[n.T_A])} unanswered for {duration(event[n.T_TIME] / 1e9)}"
        yield _of("noop-unanswered", "warning", message, places, _times(event, told, kept.unanswered.count))


def _overlaps(context: Context, link: Link, kept: Kept, peer: list[int], *, is_whole: bool) -> Iterator[Occurrence]:
    pairs = [(event[n.T_A], event[n.T_B], event[n.T_PLACE :], event[n.T_OTHER :]) for event in kept.overlaps.told]
    count = kept.overlaps.count
    is_read = is_whole and link.lost_at_end[1 - peer[n.P_PRODUCER]] is None
    if is_read and peer[n.P_IS_DOUBLE] and context.until_ns(link) > peer[n.P_EXCUSED]:
        pairs.append((peer[n.P_OPEN_OPAQUE], peer[n.P_OLDER_OPAQUE], peer[n.P_OPEN :], peer[n.P_OLDER :]))
        count += 1
    for number, (opaque, older, place, other) in enumerate(pairs):
        message = f"noop {_hex(opaque)} sent while {_hex(older)} had no answer"
        places = [context.said(link.number, At(*place[:4])), context.said(link.number, At(*other[:4]))]
        yield _of("noop-overlap", "warning", message, places, count - len(pairs) + 1 if number == 0 else 1)


def _silences(context: Context, link: Link, kept: Kept, peer: list[int], *, is_whole: bool) -> Iterator[Occurrence]:
    interval = noop_interval(context.session(link.number))
    every = f", noop every {interval:g} s" if interval is not None else ""
    until = context.until_ns(link)
    silence = until - max(peer[n.P_HEARD + AT_TIME], peer[n.P_ANSWER_TIME])
    is_heard = bool(peer[n.P_HEARD]) and peer[n.P_HEARD] >= peer[n.P_SINCE] and not peer[n.P_UNSEEN]
    is_read = is_whole and link.lost_at_end[peer[n.P_PRODUCER]] is None
    if is_read and is_heard and not peer[n.P_OPEN] and not peer[n.P_IS_WAITING] and silence > peer[n.P_SILENCE]:
        message = f"nothing for {duration(silence / 1e9)}{every}"
        yield _of("silent-connection", "warning", message, [context.said(link.number, At(*peer[n.P_HEARD :][:4]))], 1, until)
    told = kept.silences.told
    for event in told:
        if context.may_lack(link.number, peer[n.P_PRODUCER], event[n.T_PLACE + AT_TIME], event[n.T_OTHER + AT_TIME]):
            continue  # perhaps known only later
        places = [context.said(link.number, At(*event[at:][:4])) for at in (n.T_PLACE, n.T_OTHER)]
        message = f"nothing for {duration(event[n.T_TIME] / 1e9)}{every}"
        yield _of("silent-connection", "warning", message, places, _times(event, told, kept.silences.count))


RULE_SET = RuleSet(RULES, findings=findings)
