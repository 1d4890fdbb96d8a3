"""The keys of every table made from messages. Within a version, keys are only added."""

from __future__ import annotations

from dcpinspect.protocol.flags import END_FLAGS, SNAPSHOT_FLAGS, STREAM_FLAGS
from dcpinspect.streams import words as w
from dcpinspect.streams.rollback import CAUSES as ROLLBACK_CAUSES
from dcpinspect.streams.transitions import SNAPSHOT_STATES
from dcpinspect.tables.column_kinds import columns
from dcpinspect.tables.record_tables import RecordTable

_CONNECTION = "connection i64: TCP connection, from 1 in order of first packet"
_OF_STREAM = f"""
{_CONNECTION}
vbucket i64: vbucket
sid i64: DCP stream-id; null where the connection has none
stream i64: which stream of the connection, vbucket and stream-id, from 1
"""

_FINDINGS = """
findings counts: findings by severity, without those that another one explains; null without a check
"""
SEVERITIES = ("error", "warning", "note")
NO_END = ("no end",)
"""The word for the greatest seqno, where it stands for no end."""

CONNECTIONS = RecordTable(
    "connection",
    columns(
        _CONNECTION,
        """
        client text: address of the side that opened the connection
        origin text: address of the client that a PROXY header names; null without one
        server text: address of the side that accepted it
        name text: DCP name, from the open
        agent text: agent of the client, from HELLO
        role word: role of the TCP server; null if unknown
        bucket text: bucket that was selected
        features words: features that HELLO granted; null if unknown
        controls controls: requested settings, with the status of the answer; null if there is none
        window_bytes i64: flow-control window; 0 is off, null not known
        outstanding_bytes i64: bytes counted and not acknowledged, at least 0; null if unknown
        counted_bytes i64: bytes that flow control counts, since the window was set
        acked_bytes i64: bytes that the consumer acknowledged since then
        noop_interval_s seconds: interval between noops that was granted
        verdict word: verdict of the connection
        closed_by word: side that closed it; null if it is open, or if unknown
        starts word: where the capture begins
        tls text: version, cipher suite, and what became of the records; null without TLS
        holes i64: ranges of bytes that are not in the capture
        skipped_bytes i64: captured bytes that were skipped up to the next message, without those of
            TLS and other protocols
        streams i64: all streams, also refused ones
        first_time time: time of the first packet
        last_time time: latest time of a packet
        copy_of i64: connection that shows the same conversation, and counts in its place; null if
            this one counts
        """,
        _FINDINGS,
        role=w.ROLES,
        verdict=w.CONNECTION_VERDICTS,
        closed_by=("client", "server"),
        findings=SEVERITIES,
        starts=("handshake", "mid-stream"),
    ),
)

STREAMS = RecordTable(
    "stream",
    columns(
        _OF_STREAM,
        f"""
        opaque i64: opaque of the stream's messages
        requested_start u64: seqno asked to start after; null if the request was not captured
        requested_end u64: seqno asked to end at; with the flags {" and ".join(END_FLAGS)}, the server
            ends it at another one
        vbucket_uuid hex64: branch of the history that the client named
        snapshot_start u64: start of the snapshot that the client was in
        snapshot_end u64: its end
        request_flags words: flags of the request: {", ".join(bit.name for bit in STREAM_FLAGS)}
        filter object: value of the request
        collections text: collections, or scope, that the request names, by name and id as far as
            the capture tells names
        answer word: what the server answered
        status text: name of the answer's status
        rollback_seqno u64: rollback seqno of the answer
        failover_log log: branches of the history, newest first
        verdict word: verdict of the stream; stalled if a finding says so, where findings are counted
        end_reason text: why it ended: a reason of the stream end, connection-closed or unknown
        items i64: event messages while the stream was open, faulty ones too, unless they were
            refused
        cached_items i64: items of cache transfers, which have no order and are in no snapshot; null
            for none
        first_seqno u64: first seqno received
        last_seqno u64: greatest seqno received, by an event or SeqnoAdvanced
        snapshots i64: snapshots that the capture shows
        gaps i64: gaps
        gap_seqnos i64: seqnos in gaps
        open_row i64: row of the request, or of the first message
        end_row i64: row of the stream end, or of the answer that closed the stream
        first_time time: time of the request, or of the first message
        last_time time: time of the latest message
        """,
        _FINDINGS,
        requested_end=NO_END,
        findings=SEVERITIES,
        answer=w.ANSWERS,
        verdict=w.STREAM_VERDICTS,
    ),
    version=2,
)

SNAPSHOTS = RecordTable(
    "snapshot",
    columns(
        _OF_STREAM,
        f"""
        index i64: which snapshot of the stream, from 1
        start_seqno u64: as the marker has it; null for an OSO snapshot
        end_seqno u64: as the marker has it
        type word: where its items come from
        flags words: flags of the marker: {", ".join(bit.name for bit in SNAPSHOT_FLAGS)}
        layout word: generation of the marker
        convention word: which rule for start seqnos the marker follows
        items i64: event messages
        first_seqno u64: first seqno received in it
        last_seqno u64: greatest seqno received in it
        max_visible_seqno u64: greatest seqno that is not hidden from the client
        high_completed_seqno u64: greatest seqno that was committed or aborted
        purge_seqno u64: tombstones up to here may be gone
        high_prepared_seqno u64: greatest prepared seqno
        state word: state of the snapshot
        lost_seqnos u64: seqnos of its range in gaps with the cause capture-loss; null for none
        row i64: row of the marker
        time time: time of the marker
        until_time time: time up to which it ran: of the next marker, else of the latest message of
            the stream
        """,
        type=w.SNAPSHOT_TYPES,
        layout=w.SNAPSHOT_LAYOUTS,
        convention=w.CONVENTIONS,
        state=SNAPSHOT_STATES,
    ),
)

GAPS = RecordTable(
    "gap",
    columns(
        _OF_STREAM,
        """
        after_seqno u64: last seqno before the gap
        before_seqno u64: first seqno after the gap
        width u64: seqnos that the stream did not deliver between the two
        cause word: why
        evidence text: what shows it
        rows numbers: rows that show it
        first_time time: time of the message before it
        last_time time: time of the message behind it
        """,
        cause=w.CAUSES,
    ),
)

ROLLBACKS = RecordTable(
    "rollback",
    columns(
        _OF_STREAM,
        f"""
        client text: one client over all its connections, by address and name
        requested_start u64: seqno asked to start after; null if the request was not captured
        snapshot_start u64: start of the snapshot that the client was in; null in nothing; this is
            the form of the first specification
        snapshot_end u64: its end
        vbucket_uuid hex64: branch of the history that the client named
        request_flags words: flags of the request: {", ".join(bit.name for bit in STREAM_FLAGS)}
        rollback_seqno u64: rollback seqno of the answer; null if it was not captured
        failover_log log: branches of the server's history, newest first, from the log nearest to
            the answer; null if there is none
        purge_seqno u64: greatest purge seqno of a marker of the vbucket; null if there is none
        cause word: why it was rolled back
        explanation text: evidence of the cause in words
        resume_start u64: start of the request that would work: the rollback seqno, or the last
            seqno that the client received, if that is lower; null if the rollback seqno was not
            captured
        resume_uuid hex64: its uuid: the newest branch that began at or below the start; null
            without a failover log
        resume_snapshot_start u64: start of its snapshot: the client's own around the start, if it
            has the items up to there
        resume_snapshot_end u64: its end
        request_row i64: row of the request
        answer_row i64: row of the answer
        log_row i64: row of the answer with the failover log
        time time: time of the answer
        """,
        cause=ROLLBACK_CAUSES,
    ),
)

VBUCKETS = RecordTable(
    "vbucket",
    columns(
        """
        client text: one client over all its connections, by address and name
        vbucket i64: vbucket
        verdict word: verdict of its newest stream, without requests that were refused while it
            has a stream; orphaned if it ended or was refused, and the client did not request it
            again; stalled if a finding says so
        before_end word: how a vbucket stood that ended, as maps show it; null without a check, if
            it has not ended, or reached the requested end, and if it is not known
        connections numbers: connections that asked for it
        streams i64: all streams, also refused ones
        requested_end u64: of the newest stream
        first_seqno u64: least seqno received, of all streams
        last_seqno u64: greatest seqno of the newest stream that received any
        high_seqno u64: high seqno that the server sent last, which later items may exceed; null if it
            sent none
        behind u64: seqnos from the last that was received, else from the requested start, up to the
            high seqno; null without one, or where later items exceed it
        items i64: event messages of all its streams
        cached_items i64: items of cache transfers of all its streams; null for none
        bytes i64: bytes of all its streams that flow control counts
        gaps counts: gaps by cause
        gap_seqnos counts: seqnos in gaps of all its streams, by cause: a seqno counts for each
            stream that lacks it
        snapshots i64: snapshots
        rollbacks i64: requests answered with a rollback
        """,
        _FINDINGS,
        """
        first_time time: time of the first request, or of the first message
        last_time time: time of the latest message
        """,
        verdict=w.VBUCKET_VERDICTS,
        before_end=w.STOOD,
        requested_end=NO_END,
        gaps=w.CAUSES,
        gap_seqnos=w.CAUSES,
        findings=SEVERITIES,
    ),
    version=2,
)

INFO = RecordTable(
    "info",
    columns(
        """
        files objects: captures: name, format, packets, connections that begin there
        first_time time: time of the first packet
        last_time time: latest time of a packet
        packets i64: packets read
        packet_classes counts: packets by what became of them
        dropped_packets i64: packets that were lost before they were captured, as the captures
            themselves say
        truncated_packets i64: packets that the snapshot length cut
        messages i64: messages
        rows i64: messages with those of copies; so many rows has ``read``
        connections i64: connections that carry messages or stand on a port looked at, each
            conversation once
        copies i64: connections besides, that show the conversation of one of these once more
        mid_stream numbers: connections with bytes whose TCP handshake is not in the capture
        one_direction numbers: connections of which the capture has the packets of one side only
        unopened objects: connections that were not opened or not used: client, server, how
            (unanswered, refused, silent, or what an ICMP error says), connections
        below words: sentences about trouble below DCP: sides that do not read their sockets,
            headers of proxies, HTTP
        streams i64: streams
        answers counts: streams by answer
        clients objects: clients, with address, DCP name up to its first colon or a uuid at its end,
            whether they sent an open, agent, connections, requested vbuckets
        servers objects: servers, with address, version if it is in the capture, and connections
        buckets words: buckets that were selected
        vbuckets numbers: vbuckets with a request or a stream
        captured_bytes i64: bytes of TCP payload that were not captured before
        decoded_bytes i64: those in messages
        skipped_bytes i64: those in no whole message, nor of another protocol
        foreign_bytes i64: those of HTTP and of memcached's text protocol
        late_bytes i64: those that came too late to be read; most of them are in missing_bytes, too
        missing_bytes i64: bytes that were not in the capture when they were needed
        holes i64: holes
        tls_overhead_bytes i64: those of TLS itself, where it was decrypted: headers, handshakes,
            records that could not be opened
        unopened_records i64: records of TLS that are lost in part, or that no key opens, where
            others were decrypted
        decrypted_connections numbers: connections of TLS that were decrypted
        tls_bytes i64: bytes of TLS that were not decrypted
        tls_connections numbers: connections of TLS that were not decrypted
        tls_next text: what to do to read them
        problems i64: damaged places of the files
        left_out words: files of directories that could not be read
        next text: the command to run next
        """,
        answers=w.ANSWERS,
    ),
)
"""The columns of the record about a whole reading: one record, and no table of SQL."""

ALL = (CONNECTIONS, STREAMS, SNAPSHOTS, GAPS, ROLLBACKS, VBUCKETS)

BY_TABLE = {f"{table.name}s": table for table in ALL}
"""The contracts by the names of their tables, as commands and SQL use them."""
