"""The keys of every table made from messages. Within a version, keys are only added."""

from __future__ import annotations

from dcpinspect.protocol.flags import SNAPSHOT_FLAGS, STREAM_FLAGS
from dcpinspect.streams import words as w
from dcpinspect.streams.rollback import CAUSES as ROLLBACK_CAUSES
from dcpinspect.streams.transitions import SNAPSHOT_STATES
from dcpinspect.tables.column_kinds import Column
from dcpinspect.tables.record_tables import RecordTable

_C = Column

_CONNECTION = _C("connection", "i64", "TCP connection, from 1 in order of first packet")
_VBUCKET = _C("vbucket", "i64", "vbucket")
_SID = _C("sid", "i64", "DCP stream-id; null where the connection has none")
_STREAM = _C("stream", "i64", "which stream of the connection, vbucket and stream-id, from 1")

NO_END = ("no end",)
"""The word for the greatest seqno, where it stands for no end."""

CONNECTIONS = RecordTable(
    "connection",
    (
        _CONNECTION,
        _C("client", "text", "address of the side that opened the connection"),
        _C("server", "text", "address of the side that accepted it"),
        _C("name", "text", "DCP name, from the open"),
        _C("agent", "text", "agent of the client, from HELLO"),
        _C("role", "word", "role of the TCP server; null if unknown", w.ROLES),
        _C("bucket", "text", "bucket that was selected"),
        _C("features", "words", "features that HELLO granted; null if unknown"),
        _C(
            "controls",
            "controls",
            "requested settings, with the status of the answer; null if there is none",
        ),
        _C("window_bytes", "i64", "flow-control window; 0 is off, null not known"),
        _C("outstanding_bytes", "i64", "bytes counted and not acknowledged; null if unknown"),
        _C("counted_bytes", "i64", "bytes that flow control counts, since the window was set"),
        _C("acked_bytes", "i64", "bytes that the consumer acknowledged since then"),
        _C("noop_interval_s", "seconds", "interval between noops that was granted"),
        _C("verdict", "word", "verdict of the connection", w.CONNECTION_VERDICTS),
        _C(
            "closed_by",
            "word",
            "side that closed it; null if it is open, or if unknown",
            ("client", "server"),
        ),
        _C("starts", "word", "where the capture begins", ("handshake", "mid-stream")),
        _C(
            "tls", "text", "version, cipher suite, and what became of the records; null without TLS"
        ),
        _C("holes", "i64", "ranges of bytes that are not in the capture"),
        _C("skipped_bytes", "i64", "captured bytes that are in no message"),
        _C("streams", "i64", "all streams, also refused ones"),
        _C("first_time", "time", "time of the first packet"),
        _C("last_time", "time", "latest time of a packet"),
        _C(
            "copy_of",
            "i64",
            "connection that shows the same conversation, and counts in its place; null if "
            "this one counts",
        ),
    ),
)

STREAMS = RecordTable(
    "stream",
    (
        _CONNECTION,
        _VBUCKET,
        _SID,
        _STREAM,
        _C("opaque", "i64", "opaque of the stream's messages"),
        _C(
            "requested_start",
            "u64",
            "seqno asked to start after; null if the request was not captured",
        ),
        _C("requested_end", "u64", "seqno asked to end at", NO_END),
        _C("vbucket_uuid", "hex64", "branch of the history that the client named"),
        _C("snapshot_start", "u64", "start of the snapshot that the client was in"),
        _C("snapshot_end", "u64", "its end"),
        _C(
            "request_flags",
            "words",
            "flags of the request: " + ", ".join(bit.name for bit in STREAM_FLAGS),
        ),
        _C("filter", "object", "value of the request"),
        _C(
            "collections",
            "text",
            "collections, or scope, that the request names, by name and id as far as the "
            "capture tells names",
        ),
        _C("answer", "word", "what the server answered", w.ANSWERS),
        _C("status", "text", "name of the answer's status"),
        _C("rollback_seqno", "u64", "rollback seqno of the answer"),
        _C("failover_log", "log", "branches of the history, newest first"),
        _C("verdict", "word", "verdict of the stream", w.STREAM_VERDICTS),
        _C(
            "end_reason",
            "text",
            "why it ended: a reason of the stream end, connection-closed or unknown",
        ),
        _C("items", "i64", "event messages while the stream was open, faulty ones too"),
        _C("first_seqno", "u64", "first seqno received"),
        _C("last_seqno", "u64", "greatest seqno received, by an event or SeqnoAdvanced"),
        _C("snapshots", "i64", "snapshots that the capture shows"),
        _C("gaps", "i64", "gaps"),
        _C("gap_seqnos", "i64", "seqnos in these gaps"),
        _C("open_row", "i64", "row of the request, or of the first message"),
        _C("end_row", "i64", "row of the stream end, or of the answer that closed the stream"),
        _C("first_time", "time", "time of the request, or of the first message"),
        _C("last_time", "time", "time of the latest message"),
    ),
    version=2,
)

SNAPSHOTS = RecordTable(
    "snapshot",
    (
        _CONNECTION,
        _VBUCKET,
        _SID,
        _STREAM,
        _C("index", "i64", "which snapshot of the stream, from 1"),
        _C("start_seqno", "u64", "as the marker has it; null for an OSO snapshot"),
        _C("end_seqno", "u64", "as the marker has it"),
        _C("type", "word", "where its items come from", w.SNAPSHOT_TYPES),
        _C(
            "flags",
            "words",
            "flags of the marker: " + ", ".join(bit.name for bit in SNAPSHOT_FLAGS),
        ),
        _C("layout", "word", "generation of the marker", w.SNAPSHOT_LAYOUTS),
        _C("convention", "word", "which rule for start seqnos the marker follows", w.CONVENTIONS),
        _C("items", "i64", "event messages"),
        _C("first_seqno", "u64", "first seqno received in it"),
        _C("last_seqno", "u64", "greatest seqno received in it"),
        _C("max_visible_seqno", "u64", "greatest seqno that is not hidden from the client"),
        _C("high_completed_seqno", "u64", "greatest seqno that was committed or aborted"),
        _C("purge_seqno", "u64", "tombstones up to here may be gone"),
        _C("high_prepared_seqno", "u64", "greatest prepared seqno"),
        _C("state", "word", "state of the snapshot", SNAPSHOT_STATES),
        _C("row", "i64", "row of the marker"),
        _C("time", "time", "time of the marker"),
        _C(
            "until_time",
            "time",
            "time up to which it ran: of the next marker, else of the latest message of the stream",
        ),
    ),
)

GAPS = RecordTable(
    "gap",
    (
        _CONNECTION,
        _VBUCKET,
        _SID,
        _STREAM,
        _C("after_seqno", "u64", "last seqno before the gap"),
        _C("before_seqno", "u64", "first seqno after the gap"),
        _C("width", "u64", "seqnos that the stream did not deliver between the two"),
        _C("cause", "word", "why", w.CAUSES),
        _C("evidence", "text", "what shows it"),
        _C("rows", "numbers", "rows that show it"),
        _C("first_time", "time", "time of the message before it"),
        _C("last_time", "time", "time of the message behind it"),
    ),
)

ROLLBACKS = RecordTable(
    "rollback",
    (
        _CONNECTION,
        _VBUCKET,
        _SID,
        _STREAM,
        _C("client", "text", "one client over all its connections, by address and name"),
        _C(
            "requested_start",
            "u64",
            "seqno asked to start after; null if the request was not captured",
        ),
        _C(
            "snapshot_start",
            "u64",
            "start of the snapshot that the client was in; null in nothing; this is the form "
            "of the first specification",
        ),
        _C("snapshot_end", "u64", "its end"),
        _C("vbucket_uuid", "hex64", "branch of the history that the client named"),
        _C(
            "request_flags",
            "words",
            "flags of the request: " + ", ".join(bit.name for bit in STREAM_FLAGS),
        ),
        _C("rollback_seqno", "u64", "rollback seqno of the answer; null if it was not captured"),
        _C(
            "failover_log",
            "log",
            "branches of the server's history, newest first, from the log nearest to the "
            "answer; null if there is none",
        ),
        _C(
            "purge_seqno",
            "u64",
            "greatest purge seqno of a marker of the vbucket; null if there is none",
        ),
        _C("cause", "word", "why it was rolled back", ROLLBACK_CAUSES),
        _C("explanation", "text", "evidence of the cause in words"),
        _C(
            "resume_start",
            "u64",
            "start of the request that would work; null if the rollback seqno was not captured",
        ),
        _C(
            "resume_uuid",
            "hex64",
            "its uuid: the newest branch that began at or below the start; null without a "
            "failover log",
        ),
        _C(
            "resume_snapshot_start",
            "u64",
            "start of its snapshot: the client's own around the start, if it has the items up "
            "to there",
        ),
        _C("resume_snapshot_end", "u64", "its end"),
        _C("request_row", "i64", "row of the request"),
        _C("answer_row", "i64", "row of the answer"),
        _C("log_row", "i64", "row of the answer with the failover log"),
        _C("time", "time", "time of the answer"),
    ),
)

VBUCKETS = RecordTable(
    "vbucket",
    (
        _C("client", "text", "one client over all its connections, by address and name"),
        _VBUCKET,
        _C(
            "verdict",
            "word",
            "verdict of its newest stream; orphaned if it ended or was refused, and the client "
            "did not request it again; stalled if a finding says so",
            w.VBUCKET_VERDICTS,
        ),
        _C("connections", "numbers", "connections that asked for it"),
        _C("streams", "i64", "all streams, also refused ones"),
        _C("requested_end", "u64", "of the newest stream", NO_END),
        _C("first_seqno", "u64", "first seqno received"),
        _C("last_seqno", "u64", "greatest seqno of the newest stream that received any"),
        _C("high_seqno", "u64", "high seqno from the server; null if it sent none"),
        _C(
            "behind",
            "u64",
            "seqnos from the last that was received up to the high seqno; null without a high "
            "seqno",
        ),
        _C("items", "i64", "event messages of all its streams"),
        _C("bytes", "i64", "bytes of all its streams that flow control counts"),
        _C("gaps", "counts", "gaps by cause", w.CAUSES),
        _C("gap_seqnos", "counts", "seqnos in these gaps, by cause", w.CAUSES),
        _C("snapshots", "i64", "snapshots"),
        _C("rollbacks", "i64", "requests answered with a rollback"),
        _C(
            "findings",
            "counts",
            "findings by severity; null without a check",
            ("error", "warning", "note"),
        ),
        _C("first_time", "time", "time of the first request, or of the first message"),
        _C("last_time", "time", "time of the latest message"),
    ),
    version=2,
)

INFO = RecordTable(
    "info",
    (
        _C("files", "objects", "captures: name, format, packets"),
        _C("first_time", "time", "time of the first packet"),
        _C("last_time", "time", "latest time of a packet"),
        _C("packets", "i64", "packets read"),
        _C("packet_classes", "counts", "packets by what became of them"),
        _C(
            "dropped_packets",
            "i64",
            "packets that were lost before they were captured, as the captures themselves say",
        ),
        _C("truncated_packets", "i64", "packets that the snapshot length cut"),
        _C("messages", "i64", "messages"),
        _C(
            "connections",
            "i64",
            "connections that carry messages or stand on a port looked at, each conversation once",
        ),
        _C(
            "copies",
            "i64",
            "connections besides, that show the conversation of one of these once more",
        ),
        _C("mid_stream", "numbers", "connections whose TCP handshake is not in the capture"),
        _C(
            "one_direction",
            "numbers",
            "connections of which the capture has the packets of one side only",
        ),
        _C(
            "unopened",
            "objects",
            "connections that were not opened or not used: client, server, how (unanswered, "
            "refused, silent, or what an ICMP error says), connections",
        ),
        _C(
            "below",
            "words",
            "sentences about trouble below DCP: sides that do not read their sockets, headers "
            "of proxies, HTTP",
        ),
        _C("streams", "i64", "streams"),
        _C("answers", "counts", "streams by answer", w.ANSWERS),
        _C(
            "clients",
            "objects",
            "clients, with address, DCP name up to its first colon, whether they sent an open, "
            "agent, connections, requested vbuckets",
        ),
        _C(
            "servers",
            "objects",
            "servers, with address, version if it is in the capture, and connections",
        ),
        _C("buckets", "words", "buckets that were selected"),
        _C("vbuckets", "numbers", "vbuckets with a request or a stream"),
        _C("captured_bytes", "i64", "bytes of TCP payload that were not captured before"),
        _C("decoded_bytes", "i64", "those in messages"),
        _C("skipped_bytes", "i64", "those in no message, nor of another protocol"),
        _C("foreign_bytes", "i64", "those of HTTP and of memcached's text protocol"),
        _C(
            "late_bytes",
            "i64",
            "those that came too late to be read; most of them are in missing_bytes, too",
        ),
        _C("missing_bytes", "i64", "bytes that were not in the capture when they were needed"),
        _C("holes", "i64", "holes"),
        _C(
            "tls_overhead_bytes",
            "i64",
            "those of TLS itself, where it was decrypted: headers, handshakes, records that "
            "could not be opened",
        ),
        _C(
            "unopened_records",
            "i64",
            "records of TLS that are lost in part, or that no key opens, where others were "
            "decrypted",
        ),
        _C("decrypted_connections", "numbers", "connections of TLS that were decrypted"),
        _C("tls_bytes", "i64", "bytes of TLS that were not decrypted"),
        _C("tls_connections", "numbers", "connections of TLS that were not decrypted"),
        _C("tls_next", "text", "what to do to read them"),
        _C("problems", "i64", "damaged places of the files"),
        _C("next", "text", "the command to run next"),
    ),
)
"""The columns of the record about a whole reading: one record, and no table of SQL."""

ALL = (CONNECTIONS, STREAMS, SNAPSHOTS, GAPS, ROLLBACKS, VBUCKETS)

BY_TABLE = {f"{table.name}s": table for table in ALL}
"""The contracts by the names of their tables, as commands and SQL use them."""
