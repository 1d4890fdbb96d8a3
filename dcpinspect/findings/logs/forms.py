"""The forms of the lines about DCP that the server writes, taken from its public source (kv_engine,
the tags v5.0.0 to v8.0.2, and 8.5).

Until 7.6 a line is text. From 8.0 on it is a fixed message followed by its values as JSON. A form
must match the whole line; a line that matches no form is counted, and never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.flags import STREAM_END_REASONS
from dcpinspect.text import entries, words_of

END_REASONS = {
    "The stream ended due to all items being streamed": STREAM_END_REASONS[0],
    "The stream closed early due to a close stream message": STREAM_END_REASONS[1],
    "The stream closed early because the vbucket state changed": STREAM_END_REASONS[2],
    "The stream closed early because the conn was disconnected": STREAM_END_REASONS[3],
    "The stream was closed early because it was too slow": STREAM_END_REASONS[4],
    "The stream closed early due to backfill failure": STREAM_END_REASONS[5],
    "The stream closed early because the vbucket rollback'ed": STREAM_END_REASONS[6],
    "The stream closed because all of the filtered collections were deleted": STREAM_END_REASONS[7],
    "The stream closed because required privileges were lost": STREAM_END_REASONS[8],
}
"""Words of this program for the server's sentences, which are the same in all versions."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """The form of a line of text; groups of the pattern have the names of columns."""

    event: str
    versions: str
    word: str
    """A text that every such line contains."""
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class LineKind:
    """A kind of lines that is told by how the line begins, with its values or without."""

    event: str
    versions: str
    """Versions that write it as text. All from 8.0 on write it with its values as JSON."""
    pattern: re.Pattern[str]
    """The whole line of text, with its values."""
    message: re.Pattern[str]
    """The message alone, as from 8.0 on."""


_PARTS = dict(
    entries(
        r"""
        STREAM: with start seqno <start_seqno> and end seqno <end_seqno>; requested end seqno was
            <requested_end>
        SNAPSHOT: snapshot:\{<snapshot_start>,<snapshot_end>\}
        CREATING: ¦Creating¦ (?:takeover )?stream <STREAM>
        DISK: Sending disk snapshot with start
        ENTRY: created ¦new failover entry¦ with uuid:<vbucket_uuid> and seqno:<start_seqno>
        NUMBER: [ ]?(?:\d{1,20}|none|--)
        ASKED: opaque_:\d+, start_seqno_:<start_seqno>, end_seqno_:<end_seqno>,
            vb_uuid:<vbucket_uuid>, snap_start_seqno_:<snapshot_start>,
            snap_end_seqno_:<snapshot_end>, last_seqno:<last_seqno>(?:, stream_req_value:.*)?
        AGAIN: opaque \d+, start seq no <start_seqno>, end seq no <end_seqno>, snap start seqno
            <snapshot_start>,(?: and)? snap end seqno <snapshot_end>(?:, and vb manifest uid .*)?
        CURSOR: registerCursor|scheduleBackfill_UNLOCKED register cursor|notifyEmptyBackfill:?
            Re-registering dropped cursor
        SENT: \d+ items sent from backfill phase, \d+ items sent from memory phase, <last_seqno> was
            last seqno sent
        DEAD: last_?[sS]eqno(?: is |:)<last_seqno>, un[aA]cked_?[bB]ytes(?: is |:)\d+, status(?: is
            |:)(?P<reason>.+)
        """
    )
)
"""Parts of patterns, by what stands for them."""


def _lines(text: str) -> Iterator[tuple[str, str, tuple[str, str, str]]]:
    """Yields event and versions of each entry, and what stands before, between and behind its bars.
    Without bars, all of it is between them.
    """
    for head, form in entries(text):
        event, versions = head.split()
        while re.search("<[A-Z]+>", form):
            form = re.sub("<([A-Z]+)>", lambda match: _PARTS[match[1]], form)
        before, is_marked, after = form.partition("¦")
        between, _, behind = after.partition("¦")
        yield event, versions, (before, between, behind) if is_marked else ("", form, "")


def _pattern(text: str) -> re.Pattern[str]:
    """Returns a pattern in which ``<name>`` stands for a number of that column."""
    return re.compile(re.sub(r"(?<!\?P)<(\w+)>", r"(?P<\1>\\d{1,20})", text))


DCP = "DCP ("
"""Begins the names that lines of text have."""

TEXT_FORMS = tuple(
    TextForm(event, versions, pieces[1], _pattern("".join(pieces)))
    for event, versions, pieces in _lines(
        r"""
        stream-created 5.0–6.0: <CREATING>
        stream-created 6.5–6.6: <CREATING>, collections-manifest uid:\S{1,40}, sid:\w{1,10}
        stream-created 7.0: <CREATING>, collections-filter-size:\d+ sid:\w{1,10}
        stream-created 7.1–7.2: <CREATING>, <SNAPSHOT> collections-filter-size:\d+ sid:\w{1,10}
        stream-created 7.6: <CREATING>, flags:[0-9a-f]{1,8}, <SNAPSHOT> filter:\{\w{1,20},
            size:\d+\}, sid:\w{1,10}
        stream-closed 5.0–7.6: ¦Stream closing¦, sent until seqno <last_seqno> remaining items \d+,
            reason: (?P<reason>.+)
        rollback 5.0–7.6: Stream request ¦requires rollback¦ to seqno:<rollback_seqno> because
            (?P<reason>.+?)\. Client requested seqnos:\{<start_seqno>,<end_seqno>\}
            snapshot:\{<snapshot_start>,<snapshot_end>\} uuid:<vbucket_uuid>
        stream-refused 5.0–7.6: S¦tream request failed¦ because (?P<reason>the start seqno
            \(<start_seqno>\) is larger than the vb highSeqno \(<high_seqno>\)), stream request
            flags is [^,]{1,100}, vb_uuid <vbucket_uuid>, snapStartSeqno <snapshot_start>,
            snapEndSeqno <snapshot_end>; should have rolled back instead
        stream-refused 5.0–7.6: S¦tream request failed¦ because (?P<reason>the start seqno
            \(<start_seqno>\) is larger than the end seqno \(<end_seqno>\)), stream request flags
            [^,]{1,100}, vb_uuid <vbucket_uuid>, snapStartSeqno <snapshot_start>, snapEndSeqno
            <snapshot_end>; should have rolled back instead
        stream-refused 5.0–7.6: S¦tream request failed¦ because (?P<reason>the snap start seqno
            \(<snapshot_start>\) <= start seqno \(<start_seqno>\) <= snap end seqno
            \(<snapshot_end>\) is required)
        stream-refused 5.0–7.6: S¦tream request failed¦ ?(?:because )?(?P<reason>.+)
        slow-stream 5.0–7.6: ¦Handling slow stream¦; state_ : (?P<state>[\w -]{1,40}), lastReadSeqno
            : \d+, lastSentSeqno : <last_seqno>(?:, vBucketHighSeqno : <high_seqno>)?(?:,
            curChkSeqno: \d+)?, isBackfillTaskRunning : (?:True|False)
        disconnect 5.0–7.6: ¦Disconnecting because¦ (?P<reason>a message has not been received for
            .+)
        disconnect 8.0–: ¦Disconnecting because¦ (?P<reason>ackedBytes has not changed for \d+
            seconds)\. lastCheckedAckedBytes:.+
        connection-destroyed 7.0–7.6: ¦Destroying connection¦\. (?P<reason>.+)
        backfill-scheduled 5.0–7.6: ¦Scheduling backfill¦ from <start_seqno> to <end_seqno>,
            (?:uid:\d+, )?reschedule flag : (?:True|False)
        backfill-complete 5.0–7.0: (?:OSO )?¦Backfill complete¦, \d+ items read from disk, \d+ from
            memory, last(?: seqno read: |ReadSeqno:)<last_seqno>, ?pendingBackfill ?:
            ?(?:True|False)
        backfill-complete 7.1–7.6: (?:OSO )?¦Backfill complete¦\. \d+ items consisting of \d+ bytes
            read from disk, \d+ items from memory, lastReadSeqno:<last_seqno>,?
            lastSentSeqnoAdvance:.+
        disk-snapshot 5.0–6.0: ¦<DISK>¦ seqno <snapshot_start> and end seqno <snapshot_end>
        disk-snapshot 6.5–7.1: ActiveStream::markDiskSnapshot: ¦<DISK>¦ <snapshot_start>, end
            <snapshot_end>, and high completed <NUMBER>, max visible <NUMBER>
        disk-snapshot 7.2–7.6: ActiveStream::markDiskSnapshot: ¦<DISK>¦:<snapshot_start>,
            end:<snapshot_end>, flags:.+
        disk-snapshot 6.5–7.6: ActiveStream::snapshot: ¦<DISK>¦ seqno <snapshot_start>, end seqno
            <snapshot_end>, and high completed seqno <NUMBER>
        vbucket-state 5.0–6.0: VBucket::setState: ¦transitioning¦ vbucket:<vbucket> from:\w+
            to:(?P<state>\w+)
        vbucket-state 6.5–7.6: VBucket::setState: ¦transitioning¦ vb:<vbucket> with high
            seqno:<high_seqno> from:\w+ to:(?P<state>\w+)(?: meta:.+)?
        failover-entry 5.0–: KVBucket::setVBucketState: vb:<vbucket> <ENTRY>
        failover-entry 6.5–: Warmup(?:\([^)]{1,100}\))?::createVBuckets: vb:<vbucket> <ENTRY> due to
            (?P<reason>unclean shutdown|manifest uid)
        connection-opened 5.0–7.6: ¦DCP connection opened¦ successfully\. (?P<reason>.+)
        """
    )
)
"""Forms of lines of text, the word between bars; the first that matches is used. An en dash without an end means: up to
the newest version looked at.
"""

KINDS = tuple(
    LineKind(event, versions, _pattern("".join(pieces)), _pattern(pieces[1]))
    for event, versions, pieces in _lines(
        r"""
        stream-created 5.0–6.6: ¦stream created¦ with start seqno <start_seqno> and end seqno
            <end_seqno>
        stream-state 5.0–7.6: ¦\w+Stream::transitionState: (?:\(vb <vbucket>\) )?Transitioning¦ from
            \S+ to (?P<state>\S+)
        stream-state 5.0–6.0: ¦State changed to¦ (?P<state>\w+), closing (?:active|passive) stream!
        stream-state 5.0–6.0: ¦Rollback occurred¦,closing .+
        stream-state 5.0–7.6: ¦Destructing stream¦\. last_seqno is <last_seqno>, unAckedBytes is
            \d+\.
        stream-state 8.5–: PassiveStream::setupForNewStreamRequest
        stream-requested 5.0–7.6: ¦Attempting to add (?:takeover )?stream¦: <ASKED>
        stream-requested 5.0–7.6: ¦Attempting to reconnect stream¦ with <AGAIN>
        cursor-registered 6.0–7.6: ¦ActiveStream::(?:<CURSOR>)¦ (?:with )?name "[^"]*",?
            .*?(?:nextSeqno|seqno):<start_seqno>\}?
        stream-sent 5.0–7.6: ¦Stream closed¦, <SENT>
        stream-closed 5.0–7.6: ¦Setting stream to dead state¦, <DEAD>
        end-received 5.0–7.6: ¦End stream received¦ with reason (?P<reason>.+)
        takeover 6.5–7.6: ¦Vbucket marked as dead¦, last sent seqno\: <last_seqno>, high seqno\:
            <high_seqno>
        takeover 5.0–7.6: (?:Receive|Unexpected|.*not present during) ack for set vbucket
            .+|ActiveStream::takeoverSend: .+
        window-state 5.0–7.6: .+ paused connection .+ DcpProducer::BufferLog is (?P<state>full|no
            longer full);.+
        disk-snapshot 7.2–7.6: ActiveStream::backfillReceived(?:\(seqno:\d+\))?: Sending pending
            disk snapshot with .+
        disk-snapshot 7.0–7.6: ActiveStream::markOSODiskSnapshot: Sent snapshot begin marker.*
        backfill-scheduled 7.0–7.6: ¦Scheduling OSO backfill¦ for .+
        backfill-state 5.0–7.6: (?:Skipping|Rescheduling|Deferring|Aborting|Did not schedule|Failed
            to schedule) (?:OSO ?)?(?:scheduleB|b)ackfill.*
        backfill-state 5.0–7.6: Backfill (?:is pending|for .+|task .+)|Deleting the backfill,
            .+|Merging backfill and .+|Alloc error when .+
        backfill-state 5.0–7.6: (?:DCPBackfill|BackfillManager|ActiveStream::complete\w*Backfill).+
        backfill-state 5.0–7.6: ActiveStream::mark\w*DiskSnapshot(?: not sending|, vbucket|:
            vbucket|: Unexpected|: HPS).+
        backfill-state 5.0–7.6: (?:isSeqnoAdvancedNeededBackFill|processItems)\(\) .+|DCP
            backfilling task temporarily suspended .+
        cache-transfer 8.0–: (?:Creating )?CacheTransfer.+|PassiveStream::processCacheTransferEnd
        stream-refused 6.5–7.6: ¦Stream request for¦ vb:<vbucket> failed (?:because )?(?P<reason>.+)
        stream-refused 6.5–7.6: ¦Stream¦ \(?sid:\w+\)? request failed because (?P<reason>.+)
        stream-refused 5.0–7.6: noop is mandatory for v5 features .+|Couldn't add failover log to
            stream request.+
        stream-refused 5.0–7.6: (?:switchToActiveStream: |Stream request ).*[fF]ailed .+
        request-refused 5.0–7.6: The ctrl parameter .+|Invalid ctrl parameter.*|Rejected control
            because .+
        request-refused 7.6: (?:Attempt to set DCP control|Got non-success status for
            DcpControl)(?!.*disconnecting).*
        request-refused 5.0–7.6: (?:Add stream|Get Failover Log|closeStream
            request|seqno_acknowledge) failed because .+|Cannot (?:add|close) stream because .+|Add
            stream for opaque .+|Failing to add passive stream, .+
        request-refused 5.0–7.6: Attempting to release .+ greater than bytesOutstanding.*|DCP
            connections with .+ must .+
        message-refused 5.0–7.6: Erroneous .+|Invalid (?:sequence number|abort-seqno)
            ?\(0\).*|Invalid snapshot marker received, .+|End stream received (?:with
            opaque|but).+|PassiveStream::process(?:\w+
            .*exception|CacheTransfer:|BufferedMessages:).*
        message-refused 5.0–7.6: (?:DcpConsumer::\w+: )?(?:\(vb:\d+\) )?Value cannot contain a
            body.*|(?:PassiveStream::\w+: )?(?:\(?vb:\d+\)? )?Got error .+|Received response with
            opaque.+|No opaque found for add stream response.*|Trying to add stream, but none
            exists.*
        disconnect 5.0–7.6: Disconnecting (?P<reason>(?:because|existing|the connection)
            .+)|Disconnecting\. .+
        disconnect 5.0–7.6: .+(?:, | - )disconnecting(?:\. .+)?|Processor task indicating
            disconnection .+|DcpProducer::handleResponse disconnecting,
            .+|ActiveStream::handleDcpProducerException: .+
        rollback-received 5.0–7.6: ¦Received rollback request\. Rolling back¦ to
            seqno:<rollback_seqno>
        rollback-received 5.0–7.6: Received rollback request(?: with|\. Rollback to
            0).+|(?:\(vb:\d+\) )?handleRollbackResponse.*|Cannot avoid rollback to 0, .+|Rollback
            failed on the vbucket|Aborting rollback task .+
        connection-removed 5.0–7.6: ¦Removing connection¦ (?P<reason>.+)
        other 5.0–: producer will disconnect if stuck as .+|changing flow control buffer
            size.*|always_buffer_operations:.+|Invalid CAS .+|Connection created|Conn flow control
            buffer is .+|std::bad_alloc while .+
        other 5.0–7.6: (?:Active|Passive)?Stream::addStats:
            .+|(?:ActiveStream|DcpProducer)::?(?:add\w*Stats|get\w+|handleResponse
            received).*|Failed to (?:register cursor|snappy ).*|(?:Producer could not be
            locked|Consumer name not found for producer) when ?attempting .+
        other 5.0–7.6: PassiveStream resuming after no-memory
            backoff|PassiveStream::acceptStream\(\): .+|Could not ack seqno .+|Stream request start
            seqno .+ at the beginning of a snapshot .+
        """
    )
)
"""Kinds of lines with DCP's names before or after them as JSON; the first match is used."""


@dataclass(frozen=True, slots=True)
class JsonForm:
    """A fixed message, and the columns for the values that follow it, by their keys."""

    event: str
    columns: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None
    """Column ``reason`` of such lines, if the message itself states it."""


_REQUEST = "start_seqno end_seqno vb_uuid=vbucket_uuid high_seqno"
_CREATED = "start_seqno end_seqno requested_end_seqno=requested_end"
_REFUSED = "Stream request failed "
_HIGH = "vb highSeqno"


def _columns(text: str) -> dict[str, str]:
    """Returns the column of each key; one word stands for both."""
    pairs = (word.partition("=") for word in words_of(text))
    return {key: column or key for key, _, column in pairs}


JSON_VERSIONS = "8.0–"
JSON_FORMS: Mapping[str, JsonForm] = {
    **{
        message: JsonForm(event, _columns(columns))
        for (event, _, columns), message in (
            (head.partition(" "), message)
            for head, message in entries(
                f"""
        stream-created {_CREATED}: Creating stream
        stream-created {_CREATED}: Creating ActiveStream stream
        stream-closed last_sent_seqno=last_seqno status=reason: Stream closing
        rollback {_REQUEST} rollback_seqno rollback_reason=reason: Stream request requires rollback
            to seqno
        slow-stream state last_sent_seqno=last_seqno high_seqno: Handling slow stream
        buffer-full since_last_paused=reason: Waited for the consumer to free up space in the buffer
            window
        buffer-full duration=reason: Wait time so far for the consumer to free up space in the
            buffer window
        connection-destroyed paused_details=reason: Destroying connection
        backfill-scheduled backfill_start_seqno=start_seqno backfill_end_seqno=end_seqno: Scheduling
            backfill
        backfill-complete last_read_seqno=last_seqno: Backfill complete
        disk-snapshot purge_seqno: ActiveStream::markDiskSnapshot: Sending disk snapshot
        disk-snapshot: ActiveStream::snapshot: Sending disk snapshot
        vbucket-state high_seqno to=state: VBucket::setState: transitioning
        connection-opened description=reason: DCP connection opened successfully
                """
            )
        )
    },
    "Disconnecting because a message has not been received for the DCP idle timeout": JsonForm(
        "disconnect", reason="a message has not been received for the DCP idle timeout"
    ),
    **{
        f"{_REFUSED}{word} {reason}": JsonForm("stream-refused", _columns(_REQUEST), reason)
        for word, reason in entries(
            f"""
            because: this vbucket doesn't exist
            because: memory usage is above quota
            because: the stream was not created
            due to: vbucket state
            because: the start seqno is larger than the end seqno; Incorrect params passed by the
                DCP client
            because: the start seqno is larger than the end seqno; should have rolled back instead
            because: the start seqno is larger than the {_HIGH}; should have rolled back
                instead
            because: the snap start seqno <= start seqno <= snap end seqno is required
            because: a valid stream-ID is required
            because: a stream-ID is present but not required
            for: filtered collections + sync-writes
            because: a stream already exists for this vbucket
            because: this vbucket is currently receiving its initial disk snapshot
            """
        )
    },
}
"""Forms by message. Names of connection, vbucket, stream-id, snapshot have the same keys."""

KIND_COLUMNS = _columns(
    f"{_REQUEST} rollback_seqno purge_seqno last_seqno last_sent_seqno=last_seqno "
    "next_seqno=start_seqno to=state state"
)
"""Columns for the values of all lines that only ``KINDS`` knows."""
KIND_REASONS: Mapping[str, str] = {
    "stream-closed": "status",
    "end-received": "status",
    "connection-removed": "description",
}
"""Keys of the values that are the reason, by event. All others that say why have their whole text
for it, which is in ``SAYING``.
"""
SAYING = frozenset(
    words_of(
        "stream-refused request-refused message-refused disconnect rollback-received "
        "backfill-state cache-transfer takeover window-state other"
    )
)
