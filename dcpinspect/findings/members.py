"""What members of a client's group received, or may have received, of the vbuckets that the client
did without for a while.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Set
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers
from dcpinspect.streams.consumers import vbuckets_beside
from dcpinspect.streams.failover_logs import shared_up_to
from dcpinspect.streams.grouping import Groups, NameNumbers
from dcpinspect.streams.records import GREATEST, LEAST
from dcpinspect.streams.verdicts import PATIENCE_NS

if TYPE_CHECKING:
    from dcpinspect.findings.context import Context

MOST_BETWEEN = 64
"""Greatest number of streams, opened while a client was away, that are asked whether they received
what it skipped; and of streams that were opened before.
"""
_AWAY_NS = 10_000_000_000
"""A member that is away for so long loses its vbuckets to others: the timeout of Kafka's consumers."""


class Members:
    """The members of groups, and when each had its vbuckets."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._in_order: dict[int, tuple[RowNumbers, RowNumbers]] = {}
        self._of_client: dict[str, tuple[list[int], list[int]]] = {}
        self._has_only_some: dict[str, bool | None] = {}
        self._divisions: dict[str, tuple[RowNumbers, RowNumbers]] = {}
        self._streams_of_group: dict[int, RowNumbers] = {}

    def are_of_group(self, connection: int, other: int) -> bool:
        """Returns whether two connections are of members of one group: programs that share the
        vbuckets of a bucket, by the part of their DCP names that is the same.
        """
        names = self._context.names.of
        are_strangers = names[other] in self._strangers.get(names[connection], ())
        return self._may_be_of_group(connection, other) and not are_strangers

    def _may_be_of_group(self, connection: int, other: int) -> bool:
        groups = self._group_numbers.of
        return bool(groups[connection] >= 0 and groups[connection] == groups[other])

    def vbuckets_of_others(self, connection: int, since_ns: int) -> set[int]:
        """Returns the vbuckets of which other members of a client's group had a stream at a time or
        later. ``connection``: one of the client's.
        """
        context, group = self._context, int(self._group_numbers.of[connection])
        if group not in self._streams_of_group:
            connections = np.flatnonzero((self._group_numbers.of == group) & (group >= 0)).tolist()
            of_group = [NO_ROWS, *map(context.streams_of, connections)]
            self._streams_of_group[group] = np.concatenate(of_group)
        streams, client = context.streams, int(context.names.of[connection])
        numbers = self._streams_of_group[group]
        numbers = numbers[context.conduct.until_ns[numbers] >= since_ns]
        consumers = context.names.of[streams.connection[numbers]]
        is_of_other = ~np.isin(consumers, [client, *self._strangers.get(client, ())])
        return set(streams.vbucket[numbers[is_of_other]].tolist())

    @cached_property
    def _group_numbers(self) -> NameNumbers:
        """The groups of the connections, by their names only."""
        sessions = self._context.tracker.conversation.sessions
        names = {
            number: (sessions[number].group, sessions[number].bucket)
            for number in self._context.by_number.keys() & sessions.keys()
            if sessions[number].group
        }
        return NameNumbers(names, len(self._context.tracker.state.connections))

    @cached_property
    def _strangers(self) -> Mapping[int, Set[int]]:
        """By number of a consumer: others of the name of its group that have most vbuckets at the
        same time as it. They are another program, as members of a group share vbuckets.
        """
        context, streams, groups = self._context, self._context.streams, self._group_numbers.of
        names = NameNumbers(
            {
                number: (int(groups[number]), int(context.names.of[number]))
                for number in np.flatnonzero(groups >= 0).tolist()
            },
            len(groups),
        )
        beside = vbuckets_beside(names, context.by_number, context.tracker.state.known_tables)
        if not len(beside):
            return {}
        pairs, shared = np.unique(beside[:, :2], axis=0, return_counts=True)
        name = names.of[streams.connection]
        held = np.stack([name, streams.vbucket], axis=1)[context.granted & (name >= 0)]
        counts = np.bincount(np.unique(held, axis=0)[:, 0], minlength=len(names.words))
        strangers: dict[int, set[int]] = defaultdict(set)
        for pair in pairs[3 * shared > counts[pairs].sum(axis=1)].tolist():
            first, second = (names.words[number][1] for number in pair)
            strangers[first].add(second)
            strangers[second].add(first)
        return strangers

    def received(self, old: int, new: int) -> bool:
        """Returns whether other members of a client's group received all that its stream ``new``
        leaves out behind ``old``, on streams that they had in between.

        A connection whose beginning was not captured may be a member's. So may be one that had most
        vbuckets beside the client for a while, as a stand-by has.
        """
        context, streams = self._context, self._context.streams
        sight, logs = context.sight, context.logs
        before, after = streams[old], streams[new]
        start, log = after.request.start, logs.entries(after.log)
        # on another branch, the client has nothing that it could resume from
        reached = before.position if before.position < start else LEAST
        between = self._between(new, before.at.time, after.opened.time)
        for number in sorted(between, key=streams.request.start.__getitem__):
            member = streams[number]
            is_named, connection = context.owners[member.connection].is_named, member.connection
            if (
                context.names.of[connection] == context.names.of[after.connection]
                or (is_named and not self._may_be_of_group(after.connection, connection))
                or not context.granted[number]
                or not member.has_position
                or (
                    member.request.is_captured
                    and member.request.start > max(before.position, reached)
                )
            ):
                continue
            may_have_more = connection in sight.incomplete and sight.may_move(
                connection, member, context.snapshots
            )
            position = GREATEST if may_have_more else member.position
            if len({logs.newest(number), logs.newest(new)} - {None}) > 1:
                common = shared_up_to(logs.entries(member.log), log)
                position = LEAST if common is None else min(position, common + LEAST)
            reached = max(reached, position)
        return bool(reached >= start)

    def _between(self, stream: int, since_ns: int, until_ns: int) -> list[int]:
        """Returns streams of the vbucket of a stream that there were in that time: the last ones
        that were opened before it, and the first ones in it.
        """
        group = int(self._groups.of[stream])
        if group not in self._in_order:
            numbers = np.array(self._groups[group], dtype=np.int64)
            times = self._context.streams.opened.time[numbers]
            order = np.argsort(times, kind="stable")
            self._in_order[group] = times[order], numbers[order]
        times, numbers = self._in_order[group]
        begin = int(np.searchsorted(times, since_ns, "left"))
        behind = int(np.searchsorted(times, until_ns, "right"))
        nearby = numbers[max(0, begin - MOST_BETWEEN) : min(behind, begin + MOST_BETWEEN)]
        there: list[int] = nearby[self._context.conduct.until_ns[nearby] >= since_ns].tolist()
        return there

    @cached_property
    def _groups(self) -> Groups:
        return Groups([self._context.streams.vbucket, self._context.streams.sid])

    def may_have_received(self, old: int, new: int) -> bool:
        """Returns whether a client had given up a vbucket between two of its streams, so that
        another member may have had it where nobody captured.

        It had closed the stream for a while; or it came back, had what it asked for, and went on
        for a while without the vbucket; or it was away for long, and shares vbuckets with others.
        """
        before, after = (self._context.streams[number] for number in (old, new))
        if before.closed_row >= 0 and after.opened.time - before.finished.time > PATIENCE_NS:
            return True
        client = self._context.clients[after.connection]
        if client not in self._of_client:
            self._of_client[client] = self._starts_and_pauses(client)
        starts_ns, pauses_ns = self._of_client[client]
        start = bisect_left(starts_ns, before.latest.time)
        if start == len(starts_ns):
            return False
        pause = bisect_left(pauses_ns, starts_ns[start])
        return pause < len(pauses_ns) and pauses_ns[pause] < after.opened.time

    def has_only_some(self, client: str) -> bool | None:
        """Returns whether neither a client nor another member of its group asked for some vbuckets
        that its nodes have, so that it may share them with others that were not captured; None if
        no list says what its nodes have.
        """
        if client not in self._has_only_some:
            context, numbers = self._context, self._context.consumers.of_name[client]
            requests = np.concatenate([context.streams_of(number) for number in numbers])
            vbuckets = set(context.streams.vbucket[requests].tolist())
            vbuckets |= self.vbuckets_of_others(numbers[0], LEAST)
            here = [
                self._listed[self._server_of(number)]
                for number in numbers
                if len(context.streams_of(number))
            ]
            has_all = False if here and all(here) else None
            self._has_only_some[client] = any(listed - vbuckets for listed in here) or has_all
        return self._has_only_some[client]

    def may_have_given(self, client: str, vbucket: int, time_ns: int) -> bool:
        """Returns whether a client may have given a vbucket that it lost to a member that was not
        captured: it may have only some vbuckets, and just then gave up others, or took new ones.
        """
        if self.has_only_some(client) is False:
            return False
        times, vbuckets = self._divided(client)
        first, end = np.searchsorted(times, (time_ns - PATIENCE_NS, time_ns + PATIENCE_NS + 1))
        return bool((vbuckets[first:end] != vbucket).any())

    def _divided(self, client: str) -> tuple[RowNumbers, RowNumbers]:
        """Returns when a client closed a stream that it did not ask for again, or asked for a
        vbucket for the first time after it had asked for no new one for a while, in order; and the
        vbuckets.
        """
        if client not in self._divisions:
            context, streams = self._context, self._context.streams
            numbers = context.consumers.of_name[client]
            requests = np.concatenate([context.streams_of(number) for number in numbers])
            previous = context.of_client.previous[requests]
            given_up = requests[(streams.closed_row[requests] >= 0) & ~np.isin(requests, previous)]
            first = requests[previous < 0]
            first = first[np.argsort(streams.opened.time[first], kind="stable")]
            taken = first[1:][np.diff(streams.opened.time[first]) > _AWAY_NS]
            times = np.append(streams.closed_time[given_up], streams.opened.time[taken])
            vbuckets = streams.vbucket[np.append(given_up, taken)].astype(np.int64)
            order = np.argsort(times, kind="stable")
            self._divisions[client] = times[order], vbuckets[order]
        return self._divisions[client]

    def _starts_and_pauses(self, client: str) -> tuple[list[int], list[int]]:
        """Returns when a client began a connection, and had no other; and when it did so after it
        was away for long, or was granted a stream, and asked for no other for a while.
        """
        context, streams = self._context, self._context.streams
        numbers = context.consumers.of_name[client]
        links = sorted(map(context.by_number.__getitem__, numbers), key=attrgetter("first_ns"))
        until_ns = list(accumulate((link.heard_until_ns for link in links), max))
        starts = [
            (link.first_ns, link.first_ns - others_until_ns)
            for link, others_until_ns in zip(links[1:], until_ns, strict=False)
            if others_until_ns < link.first_ns
        ]
        requests = np.concatenate([context.streams_of(number) for number in numbers])
        requests = requests[np.argsort(streams.opened.time[requests], kind="stable")]
        until_of = {link.number: link.heard_until_ns for link in links}
        times = streams.opened.time[requests]
        heard_ns = np.array([until_of[number] for number in streams.connection[requests].tolist()])
        is_pause = np.diff(times) > _AWAY_NS  # others connect to their nodes one after the other
        is_pause &= (heard_ns - times > PATIENCE_NS)[:-1] & context.granted[requests[:-1]]
        pauses_ns: list[int] = times[:-1][is_pause].tolist()
        # who has had all vbuckets once, and gave some away, shares them, too
        if self.has_only_some(client) is not False or len(self._divided(client)[0]):
            pauses_ns += [time_ns for time_ns, away_ns in starts if away_ns > _AWAY_NS]
        return [time_ns for time_ns, _ in starts], sorted(pauses_ns)

    def _server_of(self, connection: int) -> tuple[str, str | None]:
        context = self._context
        return context.by_number[connection].server, context.session(connection).bucket

    @cached_property
    def _listed(self) -> Mapping[tuple[str, str | None], set[int]]:
        """By server and bucket: the vbuckets that it said to have itself, on any connection."""
        listed = defaultdict[tuple[str, str | None], set[int]](set)
        for number, link in self._context.by_number.items():
            for listing in self._context.session(number).listings:
                listed[self._server_of(number)].update(
                    vbucket
                    for vbucket, named in listing.nodes.items()
                    if link.node(named) == link.server or (named and named == listing.own)
                )
        return listed
