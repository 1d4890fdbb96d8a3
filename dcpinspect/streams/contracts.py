"""The keys of every table that is made of messages. Keys are only ever added within a version."""

from __future__ import annotations

from dcpinspect.protocol.flags import SNAPSHOT_FLAGS, STREAM_FLAGS
from dcpinspect.streams import words as w
from dcpinspect.streams.rollback import CAUSES as ROLLBACK_CAUSES
from dcpinspect.streams.transitions import SNAPSHOT_STATES
from dcpinspect.tables.records import RecordColumn, RecordTable

_C = RecordColumn

_CONNECTION = _C("connection", "number", "TCP connection, from 1 in order of first packet")
_VBUCKET = _C("vbucket", "number", "vbucket")
_SID = _C("sid", "number", "DCP stream-id; null where the connection has none")
_STREAM = _C("stream", "number", "which stream of the connection, vbucket and stream-id, from 1")

CONNECTIONS = RecordTable(
    "connection",
    (
        _CONNECTION,
        _C("client", "text", "address of the side that opened the connection"),
        _C("server", "text", "address of the side that accepted it"),
        _C("name", "text", "DCP name, from the open"),
        _C("agent", "text", "who the client says it is, from HELLO"),
        _C("role", "word", "what the TCP server is; null while nothing tells", w.ROLES),
        _C("bucket", "text", "bucket that was selected"),
        _C("features", "words", "features that HELLO granted; null where that is not known"),
        _C("controls", "controls", "settings asked for, with the name of the answer's status; null while there is none"),
        _C("window_bytes", "number", "flow-control window; 0 is off, null not known"),
        _C("outstanding_bytes", "number", "bytes counted and not acknowledged; null where something is not known"),
        _C("counted_bytes", "number", "bytes that flow control counts, since the window was set"),
        _C("acked_bytes", "number", "bytes that the consumer acknowledged since then"),
        _C("noop_interval_s", "seconds", "interval between noops that was granted"),
        _C("verdict", "word", "how the connection is", w.CONNECTION_VERDICTS),
        _C("closed_by", "word", "who closed it; null while it is open, or where nothing tells", ("client", "server")),
        _C("starts", "word", "where the capture begins", ("handshake", "mid-stream")),
        _C("holes", "number", "stretches of bytes that the capture lacks"),
        _C("skipped_bytes", "number", "captured bytes that are in no message"),
        _C("streams", "number", "streams, whatever became of them"),
        _C("first_time", "time", "time of the first packet"),
        _C("last_time", "time", "latest time of a packet"),
    ),
)

STREAMS = RecordTable(
    "stream",
    (
        _CONNECTION,
        _VBUCKET,
        _SID,
        _STREAM,
        _C("opaque", "number", "opaque of the stream's messages"),
        _C("requested_start", "u64", "seqno asked to start after; null where the request was not captured"),
        _C("requested_end", "u64", "seqno asked to end at; 18446744073709551615 is no end"),
        _C("vbucket_uuid", "hex64", "branch of the history that the client named"),
        _C("snapshot_start", "u64", "start of the snapshot that the client was in"),
        _C("snapshot_end", "u64", "its end"),
        _C("request_flags", "words", "flags of the request: " + ", ".join(bit.name for bit in STREAM_FLAGS)),
        _C("filter", "object", "value of the request"),
        _C("collections", "text", "collections, or scope, that the request names, by name and id as far as the capture tells names"),
        _C("answer", "word", "what the server answered", w.ANSWERS),
        _C("status", "text", "name of the answer's status"),
        _C("rollback_seqno", "u64", "seqno that the server told to roll back to"),
        _C("failover_log", "log", "branches of the history, newest first"),
        _C("verdict", "word", "how the stream is", w.STREAM_VERDICTS),
        _C("end_reason", "text", "why it ended: a reason of the stream end, or connection-closed"),
        _C("items", "number", "event messages while the stream was open, faulty ones too"),
        _C("first_seqno", "u64", "first seqno received"),
        _C("last_seqno", "u64", "greatest seqno received, by an event or SeqnoAdvanced"),
        _C("snapshots", "number", "snapshots that the capture shows"),
        _C("gaps", "number", "gaps"),
        _C("gap_seqnos", "number", "seqnos in these gaps"),
        _C("open_row", "number", "row of the request, or of the first message"),
        _C("end_row", "number", "row of the stream end, or of the answer that closed the stream"),
        _C("first_time", "time", "time of the request, or of the first message"),
        _C("last_time", "time", "time of the latest message"),
    ),
)

SNAPSHOTS = RecordTable(
    "snapshot",
    (
        _CONNECTION,
        _VBUCKET,
        _SID,
        _STREAM,
        _C("index", "number", "which snapshot of the stream, from 1"),
        _C("start_seqno", "u64", "as the marker has it; null for an out-of-order snapshot"),
        _C("end_seqno", "u64", "as the marker has it"),
        _C("type", "word", "where its items come from", w.SNAPSHOT_TYPES),
        _C("flags", "words", "flags of the marker: " + ", ".join(bit.name for bit in SNAPSHOT_FLAGS)),
        _C("layout", "word", "generation of the marker", w.SNAPSHOT_LAYOUTS),
        _C("convention", "word", "which of the rules for start seqnos the marker follows", w.CONVENTIONS),
        _C("items", "number", "event messages"),
        _C("first_seqno", "u64", "first seqno received in it"),
        _C("last_seqno", "u64", "greatest seqno received in it"),
        _C("max_visible_seqno", "u64", "greatest seqno that is not hidden from the client"),
        _C("high_completed_seqno", "u64", "greatest seqno that was committed or aborted"),
        _C("purge_seqno", "u64", "tombstones up to here may be gone"),
        _C("high_prepared_seqno", "u64", "greatest prepared seqno"),
        _C("state", "word", "whether it was received whole", SNAPSHOT_STATES),
        _C("row", "number", "row of the marker"),
        _C("time", "time", "time of the marker"),
        _C("until_time", "time", "time up to which it ran: of the next marker, else of the latest message of the stream"),
    ),
)

GAPS = RecordTable(
    "gap",
    (
        _CONNECTION,
        _VBUCKET,
        _SID,
        _STREAM,
        _C("after_seqno", "u64", "seqno accounted for before the gap"),
        _C("before_seqno", "u64", "next seqno accounted for"),
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
        _C("client", "text", "one consumer over all its connections: address and name"),
        _C("requested_start", "u64", "seqno asked to start after"),
        _C("snapshot_start", "u64", "start of the snapshot that the client was in; null in the form of the first specification"),
        _C("snapshot_end", "u64", "its end"),
        _C("vbucket_uuid", "hex64", "branch of the history that the client named"),
        _C("request_flags", "words", "flags of the request: " + ", ".join(bit.name for bit in STREAM_FLAGS)),
        _C("rollback_seqno", "u64", "seqno that the server told to roll back to"),
        _C("failover_log", "log", "branches of the server's history, newest first, as told nearest to the answer; null where none was"),
        _C("purge_seqno", "u64", "greatest purge seqno that a marker of the vbucket told; null where none did"),
        _C("cause", "word", "why it was rolled back", ROLLBACK_CAUSES),
        _C("explanation", "text", "the same in words"),
        _C("resume_start", "u64", "start of the request that would work"),
        _C("resume_uuid", "hex64", "its uuid: the newest branch that began at or below the start; null without a failover log"),
        _C("resume_snapshot_start", "u64", "start of its snapshot: the client's own around the start, if it has the items up to there"),
        _C("resume_snapshot_end", "u64", "its end"),
        _C("request_row", "number", "row of the request"),
        _C("answer_row", "number", "row of the answer"),
        _C("log_row", "number", "row of the answer that told the failover log"),
        _C("time", "time", "time of the answer"),
    ),
)

VBUCKETS = RecordTable(
    "vbucket",
    (
        _C("client", "text", "one consumer over all its connections: address and name"),
        _VBUCKET,
        _C("verdict", "word", "how its newest stream is; orphaned: it ended, and the client forgot it", w.VBUCKET_VERDICTS),
        _C("connections", "numbers", "connections that asked for it"),
        _C("streams", "number", "streams, whatever became of them"),
        _C("requested_end", "u64", "of the newest stream"),
        _C("first_seqno", "u64", "first seqno received"),
        _C("last_seqno", "u64", "greatest seqno of the newest stream that received any"),
        _C("high_seqno", "u64", "newest seqno that the server told; null where it did not"),
        _C("items", "number", "event messages of all its streams"),
        _C("bytes", "number", "bytes of all its streams that flow control counts"),
        _C("gaps", "counts", "gaps by cause", w.CAUSES),
        _C("gap_seqnos", "counts", "seqnos in these gaps, by cause", w.CAUSES),
        _C("snapshots", "number", "snapshots"),
        _C("rollbacks", "number", "requests answered with a rollback"),
        _C("findings", "counts", "findings by severity; null where nobody looked for any", ("error", "warning", "note")),
        _C("first_time", "time", "time of the first request, or of the first message"),
        _C("last_time", "time", "time of the latest message"),
    ),
)

INFO = RecordTable(
    "info",
    (
        _C("files", "objects", "captures: name, format, packets"),
        _C("first_time", "time", "time of the first packet"),
        _C("last_time", "time", "latest time of a packet"),
        _C("packets", "number", "packets read"),
        _C("packet_classes", "counts", "packets by what became of them"),
        _C("dropped_packets", "number", "packets that were lost before they were captured, as the captures themselves say"),
        _C("truncated_packets", "number", "packets that the snapshot length cut"),
        _C("messages", "number", "messages"),
        _C("connections", "number", "connections that carry messages or stand on a port looked at"),
        _C("mid_stream", "numbers", "connections whose TCP handshake is not in the capture"),
        _C("streams", "number", "streams"),
        _C("answers", "counts", "streams by answer", w.ANSWERS),
        _C("clients", "objects", "who asks: address, DCP name up to its first colon, agent, connections, vbuckets asked for"),
        _C("servers", "objects", "who answers: address, version where an answer to the command version told it, connections"),
        _C("buckets", "words", "buckets that were selected"),
        _C("vbuckets", "numbers", "vbuckets that a stream was asked for, or came, of"),
        _C("captured_bytes", "number", "bytes of TCP payload that were not captured before"),
        _C("decoded_bytes", "number", "those in messages"),
        _C("skipped_bytes", "number", "those in no message, nor of another protocol"),
        _C("missing_bytes", "number", "bytes that are not in the capture, beside those"),
        _C("holes", "number", "stretches of missing bytes"),
        _C("tls_bytes", "number", "bytes of TLS, which is not decrypted"),
        _C("tls_connections", "numbers", "connections that carry TLS"),
        _C("problems", "number", "damaged places of the files"),
        _C("next", "text", "the command to run next"),
    ),
)
"""What is in a reading: one record. It is no table of SQL."""

ALL = (CONNECTIONS, STREAMS, SNAPSHOTS, GAPS, ROLLBACKS, VBUCKETS)

BY_TABLE = {f"{table.name}s": table for table in ALL}
"""The contracts by the names of their tables, which are those of commands and of SQL."""
