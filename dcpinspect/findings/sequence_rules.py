"""Rules about a message's place in its stream: what the tracker's kernel noticed while it followed
the messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcpinspect.arrays import unique
from dcpinspect.findings.collector import Collector
from dcpinspect.findings.context import Context, place_at, plain
from dcpinspect.findings.finding import Candidates, MessagePlace
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import RuleInput, RuleSet, Watcher
from dcpinspect.findings.strays import Strays
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.flags import ACTIVE_ONLY
from dcpinspect.protocol.message import Severity
from dcpinspect.streams.anomalies import CASES, OSO_FAULTS, OVERLAP, Case
from dcpinspect.streams.event_keys import SCOPES
from dcpinspect.streams.record_codes import NOOP
from dcpinspect.streams.records import Anomalies, Anomaly, Snapshot, Snapshots, Streams
from dcpinspect.streams.transitions import NOT_ACCEPTED
from dcpinspect.tables.collection_names import with_id
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import words_of

FAULT = (
    "report this message and the one before it with the producer's version; a consumer must not "
    "use it, and can reopen the stream from its last seqno"
)

RULES = rules(
    f"""
    role-violation session warning sender
        fires: the producer sends what consumers send, or the reverse
        unless: unknown roles; 0x51 and 0x52, which proxies send
        next: report it with the sender's version; a client may send only what its role has, which
            the flags of the open decide
        cost: connection, has a side that sends what the other should, have a side that sends what
            the other should
        fields: opcode
        silences: missing-response bad-stream-range
    stream-already-open stream warning producer
        fires: a stream request is accepted while a stream of its vbucket and stream-id is open
        unless: the consumer is closing the first
        next: {FAULT}
        cost: wrong-data
    rollback-above-start stream error producer
        fires: a rollback seqno is above the start of the request
        unless: requests from the latest seqno
        next: {FAULT}
        cost: wrong-data
        fields: rollback_seqno
    message-without-stream stream error producer
        fires: a message of a stream comes for a vbucket without a stream
        unless: captures that begin inside the connection; messages on their way when the stream was
            closed
        next: report this message with the producer's version; a consumer must not use it, and has
            no stream to reopen
        cost: wrong-data
        fields: vbucket
        silences: opaque-mismatch
    opaque-mismatch stream error producer
        fires: a message has another opaque than its stream
        unless: messages of the old stream after it was reopened
        next: {FAULT}
        cost: wrong-data
        fields: opaque
    message-after-stream-end stream error producer
        fires: a message comes after the end of its stream
        unless: a new stream; cache transfers
        next: {FAULT}
        cost: wrong-data
        fields: vbucket
        silences: message-without-stream opaque-mismatch
    event-before-marker snapshot error producer
        fires: an event comes before any snapshot marker of its stream
        unless: streams whose beginning was not captured; cache transfers; events of a marker that
            has the opaque of this stream and another vbucket; after a hole
        next: {FAULT}
        cost: wrong-data
        fields: by_seqno
        silences: seqno-below-request-start seqno-not-increasing seqno-outside-snapshot
            gap-unexplained
        in_stream: yes
    seqno-not-increasing snapshot error producer
        fires: a seqno is not above the one before it
        unless: OSO snapshots; after a hole
        next: report both rows with the failover log and the producer's version; a consumer that
            did not refuse it may have applied an older change over a newer one, and can reopen the stream
        cost: wrong-data
        fields: by_seqno
        silences: seqno-outside-snapshot
        in_stream: yes
    seqno-repeated-after-advanced snapshot warning producer
        fires: an event has a seqno that a SeqnoAdvanced already had
        next: operators have nothing to do, this is a known fault of servers; a consumer has to
            process the event
        reports: MB-62984
        cost: vbucket, has a seqno twice, have a seqno twice
        fields: by_seqno
        in_stream: yes
    seqno-outside-snapshot snapshot error producer
        fires: an event lies outside the range of its snapshot marker; a warning if it is a mutation,
            deletion or expiration above the greatest visible seqno of its marker
        unless: OSO snapshots; markers without a range; a greatest visible seqno of 0, or in merged
            snapshots of a replica; events of a marker that has the opaque of this stream and
            another vbucket; after a hole
        next: {FAULT}
        cost: wrong-data
        fields: by_seqno
        silences: gap-unexplained
        in_stream: yes
    seqno-below-request-start snapshot error producer
        fires: the first event is not above the start seqno of the request
        unless: OSO snapshots; streams whose request was not captured
        next: {FAULT}
        cost: wrong-data
        fields: by_seqno
        in_stream: yes
    marker-overlap snapshot warning producer
        fires: a marker begins before the end of the one before it; an error if only an active
            vbucket was requested, a note if the producer has the vbucket as a replica
        unless: a second marker with the same range and history; after an OSO snapshot or an
            incomplete one; replicas, which may merge snapshots; after a hole
        next: find out which node has the active vbucket, because a replica may merge snapshots,
            else report both rows with the producer's version; a consumer can go by the seqnos of the
            events
        cost: wrong-data
        fields: start_seqno
        in_stream: yes
    marker-behind snapshot error producer
        fires: a marker ends at or below the last seqno of its stream
        unless: a second marker with the same range and history; after a hole
        next: {FAULT}
        cost: wrong-data
        fields: end_seqno
        silences: marker-overlap snapshot-incomplete
        in_stream: yes
    oso-structure snapshot error producer
        fires: an OSO snapshot ends without a start, starts inside another, has a marker inside, or
            two events of one seqno
        unless: streams whose beginning was not captured; two events around a hole
        next: {FAULT}
        cost: wrong-data
        fields: flags
    seqno-ack-regress snapshot warning consumer
        fires: a replica acknowledges a lower seqno than before, or one above all prepares that it
            was sent
        unless: the same seqno again; a new stream; prepares that it had before; the end of a
            snapshot from disk; inside an OSO snapshot; after a hole; above all prepares, if the
            capture has nothing of the producer behind it
        next: look in the replica's log for a rollback, because durable writes depend on it; a
            consumer must acknowledge only what it has, and never less than before
        cost: wrong-data
        fields: prepared_seqno
    duplicate-key-in-snapshot snapshot error
        fires: a document comes twice in one snapshot, or its key is prepared again before the
            first prepare is committed or aborted; a note if there are too many keys to check
        unless: markers that allow a key twice; a prepare and its commit; merged snapshots of a
            replica; prepares from disk; a prepare in another snapshot, where a missing seqno or a snapshot
            from disk lies between; after a hole
        next: {FAULT}
        causes: keys-not-checked
        whose: producer, normal for keys-not-checked
        needs: contents
        cost: wrong-data
        fields: key
        in_stream: yes
    cas-regress snapshot warning
        fires: a later change of a document has a lower CAS; a note if its revision number is not
            the next one, because XDCR and restores write revision and CAS themselves
        unless: changes without a CAS; after a hole
        next: compare the clocks of the nodes, unless XDCR writes to a bucket that resolves
            conflicts by revision; a consumer has to order changes by seqno
        causes: older-revision later-revision
        whose: producer, normal for older-revision, unknown for later-revision
        needs: contents
        cost: vbucket, has a CAS that goes backwards, have a CAS that goes backwards
        fields: cas rev_seqno
        in_stream: yes
    commit-without-prepare snapshot warning producer
        fires: in a snapshot from memory, a commit or abort completes a prepare that its key does
            not have pending, or has no longer
        unless: prepares that the consumer had before; prepares from disk; after a hole
        next: {FAULT}
        needs: contents
        cost: wrong-data
        fields: prepared_seqno
        in_stream: yes
    collection-outside-filter snapshot warning producer
        fires: an event belongs to a collection that the stream request does not name
        unless: requests for a scope; system events
        next: {FAULT}
        needs: contents
        cost: wrong-data
        fields: collection_id key
        in_stream: yes
    event-for-unknown-collection snapshot note normal
        fires: an event comes before the event that creates its collection
        unless: streams that do not start at 0, or whose beginning was not captured; OSO snapshots;
            items from disk, where a later end of the collection may have replaced its beginning
        next: operators have nothing to do; a client that maps collections by these events has to
            ask for the manifest
        needs: contents
        fields: collection_id key
        in_stream: yes
    event-after-collection-end snapshot warning producer
        fires: an event belongs to a collection that has ended
        unless: a collection that was created again; OSO snapshots; after a hole
        next: {FAULT}
        needs: contents
        cost: wrong-data
        fields: collection_id key
        in_stream: yes
    name-taken snapshot warning producer
        fires: a collection is created with the name of another one of its scope that was not
            dropped, or a scope with that of another scope
        unless: OSO snapshots; a snapshot from disk between the two; after a hole
        next: {FAULT}
        needs: contents
        cost: wrong-data
        fields: key
        in_stream: yes
    manifest-uid-backwards snapshot warning producer
        fires: a system event has a lower manifest uid than the one before it
        unless: the same uid; OSO snapshots; after a hole
        next: find out whether the bucket was restored, else report the producer's version; a consumer
            has to ask for the manifest again
        needs: contents
        cost: wrong-data
        fields: manifest_uid
        in_stream: yes
    """
)


@dataclass(frozen=True, slots=True)
class _Anomaly:
    """One anomaly, with its message and its snapshot."""

    batch: MessageBatch
    index: int
    row: Anomaly
    streams: Streams
    snapshots: Snapshots

    @property
    def a(self) -> int:
        """Its first number."""
        return self.row.a

    @property
    def b(self) -> int:
        """Its second number."""
        return self.row.b

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot of the message; None for none."""
        return self.snapshots[self.row.snapshot] if self.row.snapshot >= 0 else None

    @property
    def owners(self) -> tuple[int, ...]:
        """The vbucket of the open stream of the connection that has ``a`` as its opaque; empty if
        there is none.
        """
        streams, row = self.streams, int(self.batch.row[self.index])
        is_its = (streams.connection == int(self.batch.connection[self.index])) & (
            streams.opaque == self.a
        )
        is_its &= (
            (streams.state != NOT_ACCEPTED)
            & (streams.begun_row < row)
            & ((streams.finished.row <= 0) | (streams.finished.row > row))
        )
        return tuple(streams.vbucket[is_its][-1:].tolist())

    @property
    def name(self) -> str:
        """The name of the command."""
        return self.batch.name_of(self.index).removeprefix("dcp_")

    @property
    def seqno(self) -> int:
        """``a`` as a seqno."""
        return plain(self.a)

    @property
    def other_seqno(self) -> int:
        """``b`` as a seqno."""
        return plain(self.b)

    @property
    def key(self) -> str:
        """Key of the document."""
        return (self.batch.key_of(self.index) or b"").decode(errors="backslashreplace")

    @property
    def collection(self) -> str:
        """``a`` as a collection, with the name that its own connection was told: what other
        connections were told may be in another capture.
        """
        connection, row = int(self.batch.connection[self.index]), int(self.batch.row[self.index])
        name = self.batch.names.known_collection(connection, self.a, row, is_own=True)
        return "collection " + (f"0x{self.a:x}" if name is None else with_id(name, self.a))

    @property
    def named(self) -> str:
        """What gets a name."""
        return "scope" if self.a >= SCOPES else "collection"

    @property
    def start(self) -> int:
        """Start of the snapshot."""
        return plain(self.snapshot.start) if self.snapshot is not None else 0

    @property
    def end(self) -> int:
        """End of the snapshot."""
        return plain(self.snapshot.end) if self.snapshot is not None else 0

    @property
    def by_seqno(self) -> int | None:
        """The seqno of the message."""
        return self.batch.number("by_seqno", self.index)

    @property
    def event(self) -> str:
        """The message by its name and seqno."""
        return self.name if self.by_seqno is None else f"{self.name} of seqno {self.by_seqno}"

    @property
    def owner(self) -> str:
        """Whose the opaque is, if it is that of a stream."""
        return "".join(
            f"; the opaque is that of vbucket {number}'s stream" for number in self.owners
        )

    @property
    def oso_fault(self) -> str:
        """What is wrong with an OSO snapshot."""
        return OSO_FAULTS[self.a]

    @property
    def sender(self) -> str:
        """The side that sent a message that is for the other side to send."""
        return "consumer" if self.a >= NOOP else "producer"

    def seqnos_of(self, case: Case) -> tuple[int, ...]:
        """Returns the seqnos of the finding."""
        seqnos = (getattr(self, name) for name in words_of(case.seqnos))
        return tuple(seqno for seqno in seqnos if seqno is not None)

    def contradicted_places(self, case: Case) -> tuple[MessagePlace, ...]:
        """Returns the places of earlier messages that the message contradicts."""
        row, evidence = self.row, []
        for kind in words_of(case.against):
            side, message = row.direction, row.other
            if kind == "marker":
                if self.snapshot is None:
                    continue
                message = self.snapshot.place
            elif kind == "end":
                message = self.streams[row.stream].finished
            elif kind in ("request", "other"):
                request_stream = self.streams[row.stream if kind == "request" else row.a]
                side, message = 1 - row.direction, request_stream.opened
                if not request_stream.request.is_captured:
                    continue
            # a hole may hold a request back until later messages were read
            if 0 < message.row < row.place.row:
                evidence.append(place_at(row.connection, side, message))
        return tuple(evidence)


class SeqnoOrder(Watcher):
    """Reports the anomalies that the tracker noticed."""

    def __init__(self) -> None:
        self._strays = Strays()

    def watch(self, fed: RuleInput) -> Iterator[Candidates]:
        """Returns the kernel's anomalies among the messages of the batch."""
        state = fed.tracker.state
        streams, snapshots = state.known_tables.streams, state.known_tables.snapshots
        anomalies = self._strays.without_explained(
            fed.batch, state.used(state.anomalies), streams, snapshots
        )
        return _anomalies(fed.batch, anomalies, streams, snapshots)

    def reconsider(self, context: Context, collector: Collector) -> None:
        """Softens overlaps of markers from replicas, which may merge snapshots; drops them where it
        is not known what the consumer asked.
        """
        collector.soften("marker-overlap", context.replicas)
        collector.drop("marker-overlap", context.blind)


def _anomalies(
    batch: MessageBatch, anomalies: Anomalies, streams: Streams, snapshots: Snapshots
) -> Iterator[Candidates]:
    """Yields candidates for the kernel's anomalies ``anomalies`` in this batch; ``streams`` and
    ``snapshots`` are its tables as they are now.
    """
    for code in unique(anomalies.code).tolist():
        case = CASES[code]
        anomalies_of_code = anomalies[anomalies.code == code]
        rows = batch.index_of(anomalies_of_code.place.row)
        severities: dict[Severity | None, list[int]] = {}
        for anomaly_index, severity in enumerate(_severities(code, anomalies_of_code, streams)):
            severities.setdefault(severity, []).append(anomaly_index)
        for severity, indices in severities.items():
            yield _candidates(
                batch, case, severity, anomalies_of_code[indices], rows[indices], streams, snapshots
            )


def _candidates(
    batch: MessageBatch,
    case: Case,
    severity: Severity | None,
    anomalies: Anomalies,
    rows: RowNumbers,
    streams: Streams,
    snapshots: Snapshots,
) -> Candidates:
    """Returns anomalies that are told as one case; ``rows``: the message of each."""
    first = {row: number for number, row in reversed(list(enumerate(rows.tolist())))}

    def anomaly(index: int) -> _Anomaly:
        return _Anomaly(batch, index, anomalies[first[index]], streams, snapshots)

    return Candidates(
        case.rule,
        rows,
        lambda index: case.says.format(anomaly(index)),
        severity,
        lambda index: anomaly(index).seqnos_of(case),
        lambda index: anomaly(index).contradicted_places(case),
        case.shared,
        case.cause,
        next=case.next,
        vbuckets=(lambda index: anomaly(index).owners) if "{0.owner}" in case.says else None,
    )


def _severities(code: int, anomalies: Anomalies, streams: Streams) -> list[Severity | None]:
    """Returns each anomaly's severity; None: the rule's."""
    if code != OVERLAP:
        return [CASES[code].severity] * len(anomalies)
    flags = streams.request.flags[anomalies.stream]
    return ["error" if only else None for only in ((flags & ACTIVE_ONLY) != 0).tolist()]


RULE_SET = RuleSet(
    RULES, watcher=SeqnoOrder, also=("cache-transfer-record", "bad-collection-prefix")
)
