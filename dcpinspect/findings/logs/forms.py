"""The forms of the lines about DCP that the server writes, taken from its public source (kv_engine,
the tags v5.0.0 to v8.0.2, and 8.5).

Until 7.6 a line is text. From 8.0 on it is a fixed message followed by its values as JSON. A form
must match the whole line; a line that matches no form is counted, and never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.flags import STREAM_END_REASONS
from dcpinspect.text import words_of

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


def _pattern(text: str) -> re.Pattern[str]:
    """Returns a pattern in which ``<name>`` stands for a number of that column."""
    return re.compile(re.sub(r"(?<!\?P)<(\w+)>", r"(?P<\1>\\d{1,20})", text))


def _form(event: str, versions: str, word: str, pattern: str) -> TextForm:
    """Returns a form; the caller escapes the server's own braces, dots and parentheses."""
    return TextForm(event, versions, word, _pattern(pattern))


_STREAM = (
    "with start seqno <start_seqno> and end seqno <end_seqno>; requested end seqno was "
    "<requested_end>"
)
_SNAPSHOT = r"snapshot:\{<snapshot_start>,<snapshot_end>\}"
_CREATING = f"Creating (?:takeover )?stream {_STREAM}"
_DISK = "Sending disk snapshot with start"
_ENTRY = "created new failover entry with uuid:<vbucket_uuid> and seqno:<start_seqno>"
_NUMBER = r" ?(?:\d{1,20}|none|--)"

DCP = "DCP ("
"""Begins the names that lines of text have."""

TEXT_FORMS = (
    _form("stream-created", "5.0–6.0", "Creating ", _CREATING),
    _form(
        "stream-created",
        "6.5–6.6",
        "Creating ",
        _CREATING + r", collections-manifest uid:\S{1,40}, sid:\w{1,10}",
    ),
    _form(
        "stream-created",
        "7.0",
        "Creating ",
        _CREATING + r", collections-filter-size:\d+ sid:\w{1,10}",
    ),
    _form(
        "stream-created",
        "7.1–7.2",
        "Creating ",
        f"{_CREATING}, {_SNAPSHOT} " + r"collections-filter-size:\d+ sid:\w{1,10}",
    ),
    _form(
        "stream-created",
        "7.6",
        "Creating ",
        f"{_CREATING}, "
        + r"flags:[0-9a-f]{1,8}, "
        + f"{_SNAPSHOT} "
        + r"filter:\{\w{1,20}, size:\d+\}, sid:\w{1,10}",
    ),
    _form(
        "stream-closed",
        "5.0–7.6",
        "Stream closing",
        r"Stream closing, sent until seqno <last_seqno> remaining items \d+, reason: "
        r"(?P<reason>.+)",
    ),
    _form(
        "rollback",
        "5.0–7.6",
        "requires rollback",
        "Stream request requires rollback to seqno:<rollback_seqno> because (?P<reason>.+?)"
        r"\. Client requested seqnos:\{<start_seqno>,<end_seqno>\} "
        r"snapshot:\{<snapshot_start>,<snapshot_end>\} uuid:<vbucket_uuid>",
    ),
    _form(
        "stream-refused",
        "5.0–7.6",
        "tream request failed",
        r"Stream request failed because (?P<reason>the start seqno \(<start_seqno>\) is larger "
        r"than the vb highSeqno \(<high_seqno>\)),"
        r" stream request flags is [^,]{1,100}, vb_uuid <vbucket_uuid>, snapStartSeqno "
        r"<snapshot_start>, snapEndSeqno <snapshot_end>;"
        " should have rolled back instead",
    ),
    _form(
        "stream-refused",
        "5.0–7.6",
        "tream request failed",
        r"Stream request failed because (?P<reason>the start seqno \(<start_seqno>\) is larger "
        r"than the end seqno \(<end_seqno>\)),"
        r" stream request flags [^,]{1,100}, vb_uuid <vbucket_uuid>, snapStartSeqno "
        r"<snapshot_start>, snapEndSeqno <snapshot_end>;"
        " should have rolled back instead",
    ),
    _form(
        "stream-refused",
        "5.0–7.6",
        "tream request failed",
        r"Stream request failed because (?P<reason>the snap start seqno \(<snapshot_start>\) <= "
        r"start seqno \(<start_seqno>\) <= snap end seqno \(<snapshot_end>\) is required)",
    ),
    _form(
        "stream-refused",
        "5.0–7.6",
        "tream request failed",
        r"Stream request failed ?(?:because )?(?P<reason>.+)",
    ),
    _form(
        "slow-stream",
        "5.0–7.6",
        "Handling slow stream",
        r"Handling slow stream; state_ : (?P<state>[\w -]{1,40}), lastReadSeqno : \d+, "
        r"lastSentSeqno : <last_seqno>(?:, vBucketHighSeqno : <high_seqno>)?(?:, curChkSeqno: "
        r"\d+)?, isBackfillTaskRunning : (?:True|False)",
    ),
    _form(
        "disconnect",
        "5.0–7.6",
        "Disconnecting because",
        "Disconnecting because (?P<reason>a message has not been received for .+)",
    ),
    _form(
        "disconnect",
        "8.0–",
        "Disconnecting because",
        r"Disconnecting because (?P<reason>ackedBytes has not changed for \d+ seconds)\. "
        r"lastCheckedAckedBytes:.+",
    ),
    _form(
        "connection-destroyed",
        "7.0–7.6",
        "Destroying connection",
        r"Destroying connection\. (?P<reason>.+)",
    ),
    _form(
        "backfill-scheduled",
        "5.0–7.6",
        "Scheduling backfill",
        r"Scheduling backfill from <start_seqno> to <end_seqno>, (?:uid:\d+, )?reschedule flag "
        r": (?:True|False)",
    ),
    _form(
        "backfill-complete",
        "5.0–7.0",
        "Backfill complete",
        r"(?:OSO )?Backfill complete, \d+ items read from disk, \d+ from memory, last(?: seqno "
        r"read: |ReadSeqno:)<last_seqno>, ?pendingBackfill ?: ?(?:True|False)",
    ),
    _form(
        "backfill-complete",
        "7.1–7.6",
        "Backfill complete",
        r"(?:OSO )?Backfill complete\. \d+ items consisting of \d+ bytes read from disk, \d+ items "
        r"from memory, lastReadSeqno:<last_seqno>,? lastSentSeqnoAdvance:.+",
    ),
    _form(
        "disk-snapshot",
        "5.0–6.0",
        _DISK,
        f"{_DISK} seqno <snapshot_start> and end seqno <snapshot_end>",
    ),
    _form(
        "disk-snapshot",
        "6.5–7.1",
        _DISK,
        f"ActiveStream::markDiskSnapshot: {_DISK} <snapshot_start>, end <snapshot_end>, and high "
        f"completed {_NUMBER}, max visible {_NUMBER}",
    ),
    _form(
        "disk-snapshot",
        "7.2–7.6",
        _DISK,
        f"ActiveStream::markDiskSnapshot: {_DISK}:<snapshot_start>, end:<snapshot_end>, flags:.+",
    ),
    _form(
        "disk-snapshot",
        "6.5–7.6",
        _DISK,
        f"ActiveStream::snapshot: {_DISK} seqno <snapshot_start>, end seqno <snapshot_end>, "
        f"and high completed seqno {_NUMBER}",
    ),
    _form(
        "vbucket-state",
        "5.0–6.0",
        "transitioning",
        r"VBucket::setState: transitioning vbucket:<vbucket> from:\w+ to:(?P<state>\w+)",
    ),
    _form(
        "vbucket-state",
        "6.5–7.6",
        "transitioning",
        r"VBucket::setState: transitioning vb:<vbucket> with high seqno:<high_seqno> from:\w+ "
        r"to:(?P<state>\w+)(?: meta:.+)?",
    ),
    _form(
        "failover-entry",
        "5.0–",
        "new failover entry",
        f"KVBucket::setVBucketState: vb:<vbucket> {_ENTRY}",
    ),
    _form(
        "failover-entry",
        "6.5–",
        "new failover entry",
        r"Warmup(?:\([^)]{1,100}\))?::createVBuckets: vb:<vbucket> "
        + _ENTRY
        + " due to (?P<reason>unclean shutdown|manifest uid)",
    ),
    _form(
        "connection-opened",
        "5.0–7.6",
        "DCP connection opened",
        r"DCP connection opened successfully\. (?P<reason>.+)",
    ),
)
"""Forms of lines of text; the first that matches is used. An en dash without an end means: up to
the newest version looked at.
"""


_ASKED = (
    r"opaque_:\d+, start_seqno_:<start_seqno>, end_seqno_:<end_seqno>, vb_uuid:<vbucket_uuid>, "
    r"snap_start_seqno_:<snapshot_start>,"
    " snap_end_seqno_:<snapshot_end>, last_seqno:<last_seqno>(?:, stream_req_value:.*)?"
)
_AGAIN = (
    r"opaque \d+, start seq no <start_seqno>, end seq no <end_seqno>, snap start seqno "
    r"<snapshot_start>,(?: and)? snap end seqno"
    " <snapshot_end>(?:, and vb manifest uid .*)?"
)
_CURSOR = (
    "registerCursor|scheduleBackfill_UNLOCKED register cursor|notifyEmptyBackfill:? "
    "Re-registering dropped cursor"
)
_SENT = (
    r"\d+ items sent from backfill phase, \d+ items sent from memory phase, <last_seqno> was "
    r"last seqno sent"
)
_DEAD = (
    r"last_?[sS]eqno(?: is |:)<last_seqno>, un[aA]cked_?[bB]ytes(?: is |:)\d+, status(?: is "
    r"|:)(?P<reason>.+)"
)

KINDS = tuple(
    LineKind(event, versions, _pattern(message + values), _pattern(message))
    for event, versions, message, values in (
        (
            "stream-created",
            "5.0–6.6",
            "stream created",
            " with start seqno <start_seqno> and end seqno <end_seqno>",
        ),
        (
            "stream-state",
            "5.0–7.6",
            r"\w+Stream::transitionState: (?:\(vb <vbucket>\) )?Transitioning",
            r" from \S+ to (?P<state>\S+)",
        ),
        (
            "stream-state",
            "5.0–6.0",
            "State changed to",
            r" (?P<state>\w+), closing (?:active|passive) stream!",
        ),
        ("stream-state", "5.0–6.0", "Rollback occurred", ",closing .+"),
        (
            "stream-state",
            "5.0–7.6",
            "Destructing stream",
            r"\. last_seqno is <last_seqno>, unAckedBytes is \d+\.",
        ),
        ("stream-state", "8.5–", "PassiveStream::setupForNewStreamRequest", ""),
        ("stream-requested", "5.0–7.6", "Attempting to add (?:takeover )?stream", f": {_ASKED}"),
        ("stream-requested", "5.0–7.6", "Attempting to reconnect stream", f" with {_AGAIN}"),
        (
            "cursor-registered",
            "6.0–7.6",
            f"ActiveStream::(?:{_CURSOR})",
            r' (?:with )?name ".*",? .*?(?:nextSeqno|seqno):<start_seqno>\}?',
        ),
        ("stream-sent", "5.0–7.6", "Stream closed", f", {_SENT}"),
        ("stream-closed", "5.0–7.6", "Setting stream to dead state", f", {_DEAD}"),
        ("end-received", "5.0–7.6", "End stream received", " with reason (?P<reason>.+)"),
        (
            "takeover",
            "6.5–7.6",
            "Vbucket marked as dead",
            r", last sent seqno\: <last_seqno>, high seqno\: <high_seqno>",
        ),
        (
            "takeover",
            "5.0–7.6",
            "(?:Receive|Unexpected|.*not present during) ack for set vbucket "
            ".+|ActiveStream::takeoverSend: .+",
            "",
        ),
        (
            "window-state",
            "5.0–7.6",
            ".+ paused connection .+ DcpProducer::BufferLog is (?P<state>full|no longer full);.+",
            "",
        ),
        (
            "disk-snapshot",
            "7.2–7.6",
            r"ActiveStream::backfillReceived(?:\(seqno:\d+\))?: Sending pending disk snapshot "
            r"with .+",
            "",
        ),
        (
            "disk-snapshot",
            "7.0–7.6",
            "ActiveStream::markOSODiskSnapshot: Sent snapshot begin marker.*",
            "",
        ),
        ("backfill-scheduled", "7.0–7.6", "Scheduling OSO backfill", " for .+"),
        (
            "backfill-state",
            "5.0–7.6",
            "(?:Skipping|Rescheduling|Deferring|Aborting|Did not schedule|Failed to schedule) "
            "(?:OSO ?)?(?:scheduleB|b)ackfill.*",
            "",
        ),
        (
            "backfill-state",
            "5.0–7.6",
            "Backfill (?:is pending|for .+|task .+)|Deleting the backfill, .+|Merging backfill "
            "and .+|Alloc error when .+",
            "",
        ),
        (
            "backfill-state",
            "5.0–7.6",
            r"(?:DCPBackfill|BackfillManager|ActiveStream::complete\w*Backfill).+|ActiveStream::mark\w*DiskSnapshot(?: "
            r"not sending|, vbucket|: vbucket|: Unexpected|: "
            r"HPS).+|(?:isSeqnoAdvancedNeededBackFill|processItems)\(\) .+|DCP backfilling task "
            r"temporarily suspended .+",
            "",
        ),
        (
            "cache-transfer",
            "8.0–",
            "(?:Creating )?CacheTransfer.+|PassiveStream::processCacheTransferEnd",
            "",
        ),
        (
            "stream-refused",
            "6.5–7.6",
            "Stream request for",
            " vb:<vbucket> failed (?:because )?(?P<reason>.+)",
        ),
        (
            "stream-refused",
            "6.5–7.6",
            "Stream",
            r" \(?sid:\w+\)? request failed because (?P<reason>.+)",
        ),
        (
            "stream-refused",
            "5.0–7.6",
            "noop is mandatory for v5 features .+|Couldn't add failover log to stream request.+",
            "",
        ),
        (
            "stream-refused",
            "5.0–7.6",
            "(?:switchToActiveStream: |Stream request ).*[fF]ailed .+",
            "",
        ),
        (
            "request-refused",
            "5.0–7.6",
            "The ctrl parameter .+|Invalid ctrl parameter.*|Rejected control because .+",
            "",
        ),
        (
            "request-refused",
            "7.6",
            "(?:Attempt to set DCP control|Got non-success status for "
            "DcpControl)(?!.*disconnecting).*",
            "",
        ),
        (
            "request-refused",
            "5.0–7.6",
            "(?:Add stream|Get Failover Log|closeStream request|seqno_acknowledge) failed because "
            ".+|Cannot (?:add|close) stream because .+|Add stream for opaque .+|Failing to add "
            "passive stream, .+",
            "",
        ),
        (
            "request-refused",
            "5.0–7.6",
            "Attempting to release .+ greater than bytesOutstanding.*|DCP connections with .+ "
            "must .+",
            "",
        ),
        (
            "message-refused",
            "5.0–7.6",
            r"Erroneous .+|Invalid (?:sequence number|abort-seqno) ?\(0\).*|Invalid snapshot "
            r"marker received, .+"
            r"|End stream received (?:with opaque|but).+|PassiveStream::process(?:\w+ "
            r".*exception|CacheTransfer:|BufferedMessages:).*",
            "",
        ),
        (
            "message-refused",
            "5.0–7.6",
            r"(?:DcpConsumer::\w+: )?(?:\(vb:\d+\) )?Value cannot contain a "
            r"body.*|(?:PassiveStream::\w+: )?(?:\(?vb:\d+\)? )?Got error .+"
            "|Received response with opaque.+|No opaque found for add stream response.*|Trying "
            "to add stream, but none exists.*",
            "",
        ),
        (
            "disconnect",
            "5.0–7.6",
            r"Disconnecting (?P<reason>(?:because|existing|the connection) .+)|Disconnecting\. .+",
            "",
        ),
        (
            "disconnect",
            "5.0–7.6",
            r".+(?:, | - )disconnecting(?:\. .+)?|Processor task indicating disconnection "
            r".+|DcpProducer::handleResponse disconnecting, .+"
            r"|ActiveStream::handleDcpProducerException: .+",
            "",
        ),
        (
            "rollback-received",
            "5.0–7.6",
            r"Received rollback request\. Rolling back",
            " to seqno:<rollback_seqno>",
        ),
        (
            "rollback-received",
            "5.0–7.6",
            r"Received rollback request(?: with|\. Rollback to 0).+|(?:\(vb:\d+\) "
            r")?handleRollbackResponse.*|Cannot avoid rollback to 0, .+"
            "|Rollback failed on the vbucket|Aborting rollback task .+",
            "",
        ),
        ("connection-removed", "5.0–7.6", "Removing connection", " (?P<reason>.+)"),
        (
            "other",
            "5.0–",
            "producer will disconnect if stuck as .+|changing flow control buffer "
            "size.*|always_buffer_operations:.+|Invalid CAS .+"
            "|Connection created|Conn flow control buffer is .+|std::bad_alloc while .+",
            "",
        ),
        (
            "other",
            "5.0–7.6",
            r"(?:Active|Passive)?Stream::addStats: "
            r".+|(?:ActiveStream|DcpProducer)::?(?:add\w*Stats|get\w+|handleResponse "
            r"received).*"
            "|Failed to (?:register cursor|snappy ).*"
            "|(?:Producer could not be locked|Consumer name not found for producer) when "
            "?attempting .+",
            "",
        ),
        (
            "other",
            "5.0–7.6",
            r"PassiveStream resuming after no-memory backoff|PassiveStream::acceptStream\(\): "
            r".+|Could not ack seqno .+"
            "|Stream request start seqno .+ at the beginning of a snapshot .+",
            "",
        ),
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


_REQUEST = {
    "start_seqno": "start_seqno",
    "end_seqno": "end_seqno",
    "vb_uuid": "vbucket_uuid",
    "high_seqno": "high_seqno",
}
_CREATED = {
    "start_seqno": "start_seqno",
    "end_seqno": "end_seqno",
    "requested_end_seqno": "requested_end",
}
_REFUSED = "Stream request failed "
_HIGH = "vb highSeqno"

JSON_VERSIONS = "8.0–"
JSON_FORMS: Mapping[str, JsonForm] = {
    "Creating stream": JsonForm("stream-created", _CREATED),
    "Creating ActiveStream stream": JsonForm("stream-created", _CREATED),
    "Stream closing": JsonForm(
        "stream-closed", {"last_sent_seqno": "last_seqno", "status": "reason"}
    ),
    "Stream request requires rollback to seqno": JsonForm(
        "rollback", {**_REQUEST, "rollback_seqno": "rollback_seqno", "rollback_reason": "reason"}
    ),
    "Handling slow stream": JsonForm(
        "slow-stream",
        {"state": "state", "last_sent_seqno": "last_seqno", "high_seqno": "high_seqno"},
    ),
    "Waited for the consumer to free up space in the buffer window": JsonForm(
        "buffer-full", {"since_last_paused": "reason"}
    ),
    "Wait time so far for the consumer to free up space in the buffer window": JsonForm(
        "buffer-full", {"duration": "reason"}
    ),
    "Disconnecting because a message has not been received for the DCP idle timeout": JsonForm(
        "disconnect", reason="a message has not been received for the DCP idle timeout"
    ),
    "Destroying connection": JsonForm("connection-destroyed", {"paused_details": "reason"}),
    "Scheduling backfill": JsonForm(
        "backfill-scheduled",
        {"backfill_start_seqno": "start_seqno", "backfill_end_seqno": "end_seqno"},
    ),
    "Backfill complete": JsonForm("backfill-complete", {"last_read_seqno": "last_seqno"}),
    "ActiveStream::markDiskSnapshot: Sending disk snapshot": JsonForm(
        "disk-snapshot", {"purge_seqno": "purge_seqno"}
    ),
    "ActiveStream::snapshot: Sending disk snapshot": JsonForm("disk-snapshot"),
    "VBucket::setState: transitioning": JsonForm(
        "vbucket-state", {"high_seqno": "high_seqno", "to": "state"}
    ),
    "DCP connection opened successfully": JsonForm("connection-opened", {"description": "reason"}),
    **{
        f"{_REFUSED}{refusal}": JsonForm(
            "stream-refused",
            _REQUEST,
            refusal.removeprefix("because ").removeprefix("due to ").removeprefix("for "),
        )
        for refusal in (
            "because this vbucket doesn't exist",
            "because memory usage is above quota",
            "because the stream was not created",
            "due to vbucket state",
            "because the start seqno is larger than the end seqno; Incorrect params passed by "
            "the DCP client",
            "because the start seqno is larger than the end seqno; should have rolled back instead",
            f"because the start seqno is larger than the {_HIGH}; should have rolled back instead",
            "because the snap start seqno <= start seqno <= snap end seqno is required",
            "because a valid stream-ID is required",
            "because a stream-ID is present but not required",
            "for filtered collections + sync-writes",
            "because a stream already exists for this vbucket",
            "because this vbucket is currently receiving its initial disk snapshot",
        )
    },
}
"""Forms by message. Names of connection, vbucket, stream-id, snapshot have the same keys."""

KIND_COLUMNS: Mapping[str, str] = {
    **_REQUEST,
    **{
        "rollback_seqno": "rollback_seqno",
        "purge_seqno": "purge_seqno",
        "last_seqno": "last_seqno",
        "last_sent_seqno": "last_seqno",
    },
    **{"next_seqno": "start_seqno", "to": "state", "state": "state"},
}
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
