"""The rule about where a client resumed a stream: it has to be where its stream before had come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from dcpinspect.findings.clients import MOVED
from dcpinspect.findings.context import Context, occurrence, plain
from dcpinspect.findings.finding import MessagePlace, Occurrence
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.flags import CACHE_TRANSFER, FROM_LATEST
from dcpinspect.protocol.message import Severity
from dcpinspect.streams import words as w
from dcpinspect.streams.consumers import MOST_EARLIER
from dcpinspect.streams.failover_logs import shared_up_to
from dcpinspect.streams.gaps_between_streams import resumed_gaps
from dcpinspect.streams.grouping import Groups
from dcpinspect.streams.records import GREATEST, LEAST, Gaps
from dcpinspect.streams.server_reports import HIGH, LATEST, Reports
from dcpinspect.streams.transitions import ENDED
from dcpinspect.streams.verdicts import PATIENCE_NS

RULES = rules(
    """
    resume-skipped stream warning
        fires: a stream starts above the last seqno that the consumer received for the vbucket. It
            is a note if they may have been received where nobody captured. The consumer had closed
            the stream, or the vbucket had left the node, for more than 2 s in between; or it came
            back to the node with a new branch; or the consumer had closed all connections, and
            went on without the vbucket on new ones for more than 10 s. So it is if the consumer,
            which shares, or may share, the vbuckets of its nodes with others, was away for more
            than 10 s. It stays a warning if SET_VBUCKET commands of the capture made that branch, and the vbucket
            was active again within 2 s. It is also a note if the same program on the same host had
            streamed to a finite end under another name. So it is if the stream starts at the high
            seqno that the consumer was just told. Or a stream starts above where its branch began,
            and the consumer's items up to its start are of another branch; a note if that was more
            than 2 s ago
        unless: another consumer; connections of two names, side by side or in turn; seqnos that
            another member of the consumer's group received in between; capture loss
        next: let the consumer read the skipped seqnos again, because it does not have them; its
            author has to look at how it writes checkpoints: it stored a position that it had not
            received
        causes: not-received not-captured from-latest other-branch
        whose: consumer for not-received other-branch, unknown for not-captured from-latest
        cost: vbucket, skipped seqnos, skipped seqnos, loss
        fields: start_seqno
    """
)

_MASK = 2**64 - 1
_ACTIVE = 1
"""The number of the vbucket state "active"."""


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields gaps between two streams of a client."""
    context = finished.context
    streams = context.streams
    by_place = np.argsort(streams.at.row, kind="stable")
    places_of = streams.at.row[by_place]
    names, listings = _Names(context), _Listings(context)
    gaps = finished.tables.all_gaps.of_cause(w.RESUMED)
    for index, gap in enumerate((*gaps, *_of_programs(context))):
        number, after, before = gap.stream, plain(gap.after), plain(gap.before)
        old = int(by_place[np.searchsorted(places_of, gap.begins.row)])
        is_renamed = index >= len(gaps)
        if is_renamed and not _is_renamed(context, old, number):
            continue
        if names.are_two(old, number):
            continue
        if context.members.received(old, number):
            continue
        evidence = [context.request(number), context.stream_place(streams[old], streams[old].at)]
        start = before - 1
        width = start - after
        advice, is_elsewhere, sets = _elsewhere(context, old, number)
        skipped_text = (
            f"{width} seqno{'s' if width > 1 else ''} "
            f"{'not in this capture' if is_elsewhere else 'skipped'}"
        )
        message = f"resumed at {start}, received only to {after}: {skipped_text}"
        severity: Severity
        severity, cause = ("note", "not-captured") if is_elsewhere else ("warning", "not-received")
        if is_renamed and not is_elsewhere:
            severity, advice = "note", _RENAMED
        if (listing := listings.at_start(old, number)) is not None:
            severity, cause, advice, sets = "note", "from-latest", _FROM_LATEST, [listing]
            message = f"{message}; {start} is the high seqno that the server told it"
        seqnos, evidence = (start, after), [*evidence, *sets]
        yield occurrence(
            context,
            number,
            "resume-skipped",
            message,
            evidence,
            cause=cause,
            next_=advice,
            seqnos=seqnos,
            severity=severity,
        )
    yield from _on_other_branches(context)


def _on_other_branches(context: Context) -> Iterator[Occurrence]:
    """Yields streams that begin on another branch than that of the items up to their start."""
    streams, request, names = context.streams, context.streams.request, context.names.of
    is_source = context.granted & (names[streams.connection] >= 0)
    in_order = np.argsort(streams.opened.time, kind="stable")
    groups = Groups(
        [names[streams.connection], streams.vbucket, streams.sid], in_order[is_source[in_order]]
    )
    before = groups.previous
    resumes = (
        (before >= 0) & (streams.log >= 0) & (request.is_captured != 0) & (request.start > LEAST)
    )
    resumes &= (request.uuid != 0) & (request.flags & (FROM_LATEST | CACHE_TRANSFER) == 0)
    resumes[resumes] = streams.log[resumes] != streams.log[before[resumes]]
    # the seqnos behind the request count, too, if no item has them
    begins = np.where(request.is_captured != 0, request.start, GREATEST)
    for number in np.flatnonzero(resumes).tolist():
        stream, start = streams[number], int(request.start[number])
        source = next(
            (
                earlier
                for earlier in groups.before(number, MOST_EARLIER)
                if request.flags[earlier] & FROM_LATEST
                or (streams.seen[earlier] and min(streams.first[earlier], begins[earlier]) <= start)
            ),
            None,
        )
        # from-latest begins anew where the vbucket is, whatever the client had before
        if source is None or not streams.seen[source] or streams.log[source] < 0:
            continue
        if not _is_resumed_from(context, source, number):
            continue
        since_ns, opened_ns = _stood_until_ns(context, source, number), int(stream.opened.time)
        if context.conduct.may_have_heard(
            int(stream.connection), since_ns, opened_ns
        ) or context.members.received(source, number):
            continue
        yield from _on_another_branch(
            context, source, number, may_be_away=opened_ns - since_ns > PATIENCE_NS
        )


def _on_another_branch(
    context: Context, source: int, number: int, *, may_be_away: bool
) -> Iterator[Occurrence]:
    """Yields the occurrence of a stream on another branch than that of its ``source``, which
    brought the items up to its start. ``may_be_away``: others may have brought more since.
    """
    streams, start = context.streams, plain(context.streams.request.start[number])
    logs = [context.logs.entries(int(streams.log[which])) for which in (source, number)]
    common = shared_up_to(*logs)
    branch = next((uuid for uuid, begin in logs[0] if begin < start), 0)
    requested_uuid = int(streams.request.uuid[number]) & _MASK
    if common is None or common >= start or requested_uuid == branch:
        return
    missing = f"{start}" if common + 1 == start else f"{common + 1}–{start}"
    yield occurrence(
        context,
        number,
        "resume-skipped",
        f"resumed at {start} on branch 0x{requested_uuid:016x}, but the items {missing} that it has "
        f"are of branch 0x{branch:016x}",
        (
            context.request(number),
            context.answer(number),
            context.stream_place(streams[source], streams[source].at),
        ),
        cause="not-captured" if may_be_away else "other-branch",
        next_=_BRANCH
        if may_be_away
        else f"let the consumer ask again from {common}, because it lacks {missing} of this "
        "branch; its author has to store the uuid of the branch that the items came on, with "
        "which the producer rolls it back",
        seqnos=(start, common),
        shared="resumed at seqnos up to which they have items of another branch",
        severity="note" if may_be_away else "warning",
    )


def _is_resumed_from(context: Context, old: int, new: int) -> bool:
    """Returns whether a stream begins at a seqno up to which an earlier one of the same bucket had
    come before.
    """
    before, after, origins = context.streams[old], context.streams[new], context.logs.origins
    return bool(
        before.has_position
        and before.in_oso < 0
        and before.position >= after.request.start
        and before.latest.time < after.opened.time
        and origins[int(before.connection)][1] == origins[int(after.connection)][1]
    )


def _stood_until_ns(context: Context, old: int, new: int) -> int:
    """Returns until when a client had nothing but what a stream brought: until it ended, or a later
    request from as far was rolled back.
    """
    streams = context.streams
    before, start = streams[old], streams.request.start[new]
    link = context.by_number[before.connection]
    closed_ns = before.closed_time if before.closed_row >= 0 else link.last_ns
    ends = [before.finished.time or closed_ns]
    ends += [
        streams[between].answered.time
        for between in context.of_client.before(new, MOST_EARLIER)
        if streams.answer[between] == w.A_ROLLBACK and streams.request.start[between] >= start
    ]
    return min(max(ends), streams[new].opened.time)


def _of_programs(context: Context) -> Gaps:
    """Returns gaps between the streams of one program on one host, whatever its connections are
    named; none where all have one name.
    """
    programs = dict(context.owners)
    for number, owner in context.owners.items():
        session = context.session(number)
        if owner.is_named and session.name and session.agent and not session.is_replication:
            programs[number] = replace(owner, name=f"{owner.host} {session.agent}@{session.bucket}")
    names = {(programs[number].name, owner.name) for number, owner in context.owners.items()}
    if len({program for program, _ in names}) == len(names):
        return Gaps.zeros(0)
    by_number, unread = context.by_number, context.unread_requests
    return resumed_gaps(
        context.streams, context.snapshots, programs, by_number, unread, context.sight
    )


def _is_renamed(context: Context, old: int, new: int) -> bool:
    """Returns whether a client had all that it asked for, and its program goes on under a name that
    was not used for the vbucket.
    """
    before, after, of_client = context.streams[old], context.streams[new], context.of_client
    has_all = (
        before.request.is_captured != 0
        and before.request.end < GREATEST
        and before.position >= before.request.end
    )
    clients = {context.clients[stream.connection] for stream in (before, after)}
    if (
        not has_all
        or len(clients) == 1
        or of_client.before(new, 1)
        or of_client[int(of_client.of[old])][-1] != old
    ):
        return False
    since_ns, until_ns = int(before.at.time), int(after.opened.time)
    return not any(
        context.unread_requests.asked_between(client, before.vbucket, since_ns, until_ns)
        for client in clients
    )


_RENAMED = (
    "nothing is wrong if two consumers on this host have the same agent; else the consumer's author "
    "has to look at how it writes checkpoints"
)
_FROM_LATEST = (
    "nothing, if the consumer means to read only what is new; else its author has to look at how it "
    "takes up a stored position"
)
_LEFT = (
    "look at the other nodes: the vbucket was on one of them in between, and the capture may "
    "lack what the consumer received there"
)
_BRANCH = (
    "look at the other nodes: one of them was promoted in between, and the capture may lack "
    "what the consumer received there"
)
_GROUP = (
    "look at the group's other members: the consumer did without the vbucket for a while, and "
    "one of them may have received these seqnos meanwhile"
)


_HERE = (
    "let the consumer read the skipped seqnos again; no other node can have sent them, because the "
    "vbucket stayed on this node, where its state changed {}; the consumer's author has to look at "
    "how it writes checkpoints"
)
_AWAY = "look where the vbucket was active in between; it changed its state on this node {}"


def _elsewhere(context: Context, old: int, new: int) -> tuple[str | None, bool, list[MessagePlace]]:
    """Returns what to look at, whether seqnos between two streams of a client may have been
    received where nobody captures, and the messages that moved the vbucket.
    """
    before, after = context.streams[old], context.streams[new]
    is_later = after.opened.time - before.finished.time > PATIENCE_NS
    if context.members.may_have_received(old, new):
        return _GROUP, True, []
    if context.by_number[before.connection].server != context.by_number[after.connection].server:
        return None, False, []
    has_left = before.state == ENDED and before.reason == MOVED
    branches = context.logs.newest(old), context.logs.newest(new)
    is_promoted = None not in branches and branches[0] != branches[1]
    if has_left or is_promoted:
        changes, may_be_away = _changed_here(
            context, old, new, before.finished.time if has_left else 0
        )
        if changes:
            rows = [str(message_place.row) for message_place in changes]
            when = (
                f"{len(rows):,} times, from row {rows[0]} to row {rows[-1]}"
                if len(rows) > 2
                else f"in row{'s' if len(rows) > 1 else ''} {' and '.join(rows)}"
            )
            evidence = changes if len(changes) < 3 else [changes[0], changes[-1]]
            return (_AWAY if may_be_away else _HERE).format(when), may_be_away, evidence
    if is_later and has_left:
        return _LEFT, True, []
    return (_BRANCH, True, []) if is_promoted else (None, False, [])


def _changed_here(
    context: Context, old: int, new: int, since_ns: int
) -> tuple[list[MessagePlace], bool]:
    """Returns the commands that set the state of a vbucket on its server between two streams, and
    whether another node may have had it meanwhile. There are none unless they made the vbucket
    active as often as its log has new branches.

    ``since_ns``: since when the vbucket is not active, 0 for active.
    """
    before, after = context.streams[old], context.streams[new]
    server = context.by_number[after.connection].server
    origin = context.logs.origins[after.connection]
    sets, is_sure = [], True
    for link in context.links:
        session = context.session(link.number)
        if link.server == server and (
            session.bucket is None or context.logs.origins[link.number] == origin
        ):
            state_changes = [
                change
                for change in session.states.get(after.vbucket, ())
                if before.at.time < change.at.time_ns < after.opened.time
            ]
            sets += [
                (change, context.report_place(link.number, change.at)) for change in state_changes
            ]
            is_sure &= not state_changes or context.logs.origins[link.number] == origin
    sets.sort(key=lambda change: change[0].at.time_ns)
    longest_ns = activations = 0
    for (state, _), set_place in sets:
        if state == _ACTIVE and since_ns:
            longest_ns = max(longest_ns, set_place.time_ns - since_ns)
            since_ns = 0
            activations = activations + 1
        elif state != _ACTIVE:
            since_ns = since_ns or set_place.time_ns
    branches = [uuid for uuid, _ in context.logs.entries(after.log)] if after.log >= 0 else []
    newest_uuid = context.logs.newest(old)
    if (
        since_ns
        or not activations
        or activations < (branches.index(newest_uuid) if newest_uuid in branches else len(branches))
    ):
        return [], True
    changes = [set_place for _, set_place in sets]
    return changes, not is_sure or longest_ns > PATIENCE_NS


class _Names:
    """Names of connections that begin alike, and whether they are those of one client or of two,
    such as two replications of XDCR.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    @cached_property
    def _spans(self) -> dict[tuple[str, str, str | None], tuple[int, int]]:
        """By server, client and name: when its first connection began, and its latest."""
        spans: dict[tuple[str, str, str | None], tuple[int, int]] = {}
        for number, link in self._context.by_number.items():
            key = self._key(number)
            first, last = spans.get(key, (link.first_ns, link.first_ns))
            spans[key] = min(first, link.first_ns), max(last, link.first_ns)
        return spans

    def _key(self, connection: int) -> tuple[str, str, str | None]:
        context = self._context
        return (
            context.by_number[connection].server,
            context.clients.get(connection, ""),
            context.session(connection).name,
        )

    def are_two(self, old: int, new: int) -> bool:
        """Returns whether two streams belong to two clients: connections to one node have different
        names, and are open at the same time or come in turn.
        """
        before, after = (self._context.streams[number].connection for number in (old, new))
        keys = [self._key(number) for number in (before, after)]
        links = [self._context.by_number[number] for number in (before, after)]
        if keys[0][0] != keys[1][0] or None in (keys[0][2], keys[1][2]) or keys[0][2] == keys[1][2]:
            return False
        is_beside = links[1].first_ns < self._context.streams[old].latest.time
        return (
            is_beside
            or self._spans[keys[0]][1] > links[1].first_ns
            or self._spans[keys[1]][0] < links[0].first_ns
        )


class _Listings:
    """High seqnos that clients were told, by vbucket and seqno."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @cached_property
    def _reports(self) -> Reports:
        reports = self._context.tracker.conversation.reports
        highs: Reports = reports[(reports.kind == HIGH) | (reports.kind == LATEST)]
        return highs

    @cached_property
    def _rows(self) -> dict[tuple[int, int], list[int]]:
        rows: dict[tuple[int, int], list[int]] = defaultdict(list)
        pairs = zip(self._reports.vbucket.tolist(), self._reports.value.tolist(), strict=True)
        for row, pair in enumerate(pairs):
            rows[pair].append(row)
        return rows

    def at_start(self, old: int, new: int) -> MessagePlace | None:
        """Returns the message that told a client, on the connection of its stream, the seqno from
        which it starts, after its stream before had received all it has; None if there is none.
        """
        before, after = self._context.streams[old], self._context.streams[new]
        for row in self._rows.get((after.vbucket, after.request.start), ()):
            report = self._reports[row]
            if (
                report.connection == after.connection
                and before.at.time < report.place.time <= after.opened.time
            ):
                return self._context.report_place(report.connection, report.place)
        return None


RULE_SET = RuleSet(RULES, findings=findings)
