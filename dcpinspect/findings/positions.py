"""Positions that clients ask to resume from: which of them no server gave, so that the client's
checkpoint is wrong and not the history.
"""

from __future__ import annotations

from dcpinspect.findings.clients import Clients
from dcpinspect.findings.context import Context, plain
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams import words as w
from dcpinspect.streams.consumers import MOST_EARLIER
from dcpinspect.streams.records import LEAST

OTHER_VBUCKET, NEVER_GIVEN, NEVER_RECEIVED = CAUSES = (
    "uuid-of-another-vbucket",
    "uuid-never-given",
    "start-never-received",
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

    @property
    def next(self) -> str:
        """What the client has to change."""
        if self.cause == NEVER_RECEIVED:
            return "store a seqno only once everything up to it was received"
        return (
            "store the uuid together with the seqno, from the failover log of the vbucket's own "
            "stream"
        )


def wrong_position(
    context: Context, clients: Clients, number: int, cause: str
) -> WrongPosition | None:
    """Returns what is wrong with the position of a request that was rolled back; None where nothing
    is, or nobody can tell.

    ``cause``: the cause of the rollback, by the server's log.
    """
    if cause in ("unknown-uuid", "strict-uuid"):
        return _wrong_uuid(context, clients, number)
    if cause != "leading-consumer":
        return None
    received, start = (
        context.consumers.received_before(number),
        int(context.streams.request.start[number]),
    )
    if received is None or received >= start:
        return None
    return WrongPosition(
        NEVER_RECEIVED,
        f"the consumer had received only up to {plain(received)}",
        "the consumers had not received that much",
        plain(received),
    )


def _wrong_uuid(context: Context, clients: Clients, number: int) -> WrongPosition | None:
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
    received, streams = context.consumers.received_before(number), context.streams
    earlier = context.of_client.before(number, MOST_EARLIER)
    has_nothing_older = bool(
        (
            (streams.answer[earlier] == w.A_ACCEPTED) & (streams.request.start[earlier] == LEAST)
        ).any()
    )
    if not before or not sent.are_whole or received is None or not has_nothing_older:
        return None  # it may be older than the capture, when the vbucket had another history
    if clients.may_have_heard(connection, sent[0].at.time_ns, request_place[0]):
        return None
    return WrongPosition(
        NEVER_GIVEN,
        "the consumer had the log, and no producer gave it this uuid",
        "no producer gave the consumers these uuids",
    )
