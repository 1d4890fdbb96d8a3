"""Positions that clients ask to resume from: which of them no server gave, so that the client's
checkpoint is wrong and not the history.
"""

from __future__ import annotations

from collections.abc import Sequence

from dcpinspect.findings.context import Context, plain
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams.consumers import MOST_EARLIER
from dcpinspect.streams.records import LEAST

OTHER_VBUCKET, NEVER_GIVEN, NEVER_RECEIVED, OLDER_BRANCH = CAUSES = (
    "uuid-of-another-vbucket",
    "uuid-never-given",
    "start-never-received",
    "uuid-of-an-older-branch",
)
"""Causes of rollbacks that are the client's."""
WRONG_UUIDS = (OTHER_VBUCKET, NEVER_GIVEN)
_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class WrongPosition:
    """What is wrong with a position that a client asked to resume from."""

    cause: str
    text: str
    shared: str
    """The text without what is true of one vbucket only."""
    received: int | None = None
    """Last seqno that the client received, where it asked from a higher one."""
    uuid: int | None = None
    """The branch of what the client received, where it named an older one."""

    @property
    def next(self) -> str:
        """What the client has to change."""
        if self.cause == NEVER_RECEIVED:
            return "store a seqno only once everything up to it was received"
        if self.cause == OLDER_BRANCH:
            return (
                "store the uuid of the newest entry of the failover log at or below the seqno, not "
                "of an older one"
            )
        return (
            "store the uuid together with the seqno, from the failover log of the vbucket's own "
            "stream"
        )


def wrong_position(context: Context, number: int, cause: str) -> WrongPosition | None:
    """Returns what is wrong with the position of a request that was rolled back; None where nothing
    is, or nobody can tell.

    ``cause``: the cause of the rollback, by the server's log.
    """
    if cause in ("unknown-uuid", "strict-uuid"):
        return _wrong_uuid(context, number)
    if cause not in ("leading-consumer", "snapshot-mismatch"):
        return None
    received, start = (
        context.consumers.received_before(number),
        context.streams[number].request.start,
    )
    if received is None:
        return None
    if received >= start:
        return _older_branch(context, number)
    if cause == "snapshot-mismatch" or _may_be_a_members(context, number):
        return None
    return WrongPosition(
        NEVER_RECEIVED,
        f"the consumer had received only up to {plain(received)}",
        "the consumers had not received that much",
        plain(received),
    )


def _may_be_a_members(context: Context, number: int) -> bool:
    """Returns whether another member of the client's group received, or may have received, what
    the client's streams before did not bring.
    """
    streams, members = context.streams, context.members
    earlier = context.of_client.before(number, MOST_EARLIER)
    old = max(filter(streams.has_position.__getitem__, earlier), key=streams.position.__getitem__)
    return members.received(old, number) or members.may_have_received(old, number)


def _older_branch(context: Context, number: int) -> WrongPosition | None:
    """Returns what is wrong with a request that names an older branch than that of the items up to
    its start, which the server would have accepted with the right one.
    """
    streams, row = context.streams, context.streams[number]
    start, uuid = plain(row.request.start), row.request.uuid & _MASK
    earlier = context.of_client.before(number, MOST_EARLIER)
    source = next((stream for stream in earlier if context.granted[stream]), None)
    if (
        source is None
        or streams.has_position[source] == 0
        or streams.position[source] < row.request.start
        or not _has_nothing_older(context, earlier)
    ):
        return None
    sent = context.sent(number)
    count = sent.count_before(int(row.opened.time), int(row.opened.row), side="left")
    logs = [sent[index] for index in range(count)]
    log = next((log for log in logs if log.at.row == streams.answered.row[source]), None)
    of_server = context.rollbacks.stream_rollback(number).log
    right = log.newest_below(start) if log is not None else None
    if (
        log is None
        or of_server is None
        or right in (None, uuid)
        or right != of_server.newest_below(start)
        or not log.has(uuid)
        or _had_on_branch(context, earlier, start, uuid)
        or context.conduct.may_have_heard(row.connection, log.at.time_ns, row.opened.time)
    ):
        return None
    return WrongPosition(
        OLDER_BRANCH,
        f"the consumer's items up to {start} are of branch 0x{right:016x}, and it named the older branch "
        f"0x{uuid:016x}",
        "the consumers named older branches than those of their items",
        uuid=right,
    )


def _had_on_branch(context: Context, earlier: Sequence[int], seqno: int, uuid: int) -> bool:
    """Returns whether a client had received a seqno of a branch: it may have stored that then."""
    streams = context.streams
    return any(
        streams.has_position[stream]
        and plain(streams.position[stream]) >= seqno
        and context.logs.newest(stream) == uuid
        for stream in earlier
    )


def _has_nothing_older(context: Context, earlier: Sequence[int]) -> bool:
    """Returns whether nothing that a client has is older than the capture: it began from 0 on one
    of its earlier streams, and later ones begin where it was by then, or below.
    """
    streams, reached = context.streams, None
    for stream in filter(context.granted.__getitem__, reversed(earlier)):
        start = streams[stream].request.start
        if not streams.request.is_captured[stream] or start > (
            LEAST if reached is None else reached
        ):
            return False
        position = streams[stream].position if streams.has_position[stream] else start
        reached = position if reached is None else max(reached, position)
    return reached is not None


def _wrong_uuid(context: Context, number: int) -> WrongPosition | None:
    row, logs = context.streams[number], context.logs
    vbucket, uuid, connection = int(row.vbucket), int(row.request.uuid) & _MASK, int(row.connection)
    if not uuid or logs.names(vbucket, uuid):
        return None
    other_vbuckets = logs.vbuckets_of(uuid)
    if other_vbuckets:
        owners = (
            f"vbucket {other_vbuckets[0]}"
            if len(other_vbuckets) == 1
            else f"{len(other_vbuckets):,} other vbuckets"
        )
        return WrongPosition(
            OTHER_VBUCKET, f"it is the uuid of {owners}", "they are uuids of other vbuckets"
        )
    sent, request_place = context.sent(number), (int(row.opened.time), int(row.opened.row))
    before = sent.count_before(*request_place, side="left")
    received = context.consumers.received_before(number)
    if not before or not sent.are_whole or received is None:
        return None
    if not _has_nothing_older(context, context.of_client.before(number, MOST_EARLIER)):
        return None  # it may be older than the capture, when the vbucket had another history
    if context.conduct.may_have_heard(connection, sent[0].at.time_ns, request_place[0]):
        return None
    return WrongPosition(
        NEVER_GIVEN,
        "the consumer had the log, and no producer gave it this uuid",
        "no producer gave the consumers these uuids",
    )
