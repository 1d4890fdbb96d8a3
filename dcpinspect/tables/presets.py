"""Built-in filters and sets of columns: ``--filter @errors``, ``--columns @seqnos``."""

from __future__ import annotations

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.opcodes import Opcode, Trait


@dataclass(frozen=True, slots=True)
class Preset:
    """A text with a name."""

    text: str
    """The text as a user would type it."""
    doc: str


_EVENTS = {op.name.lower(): Trait.KEY not in op.traits for op in Opcode if Trait.EVENT in op.traits}
"""Commands that are events, and whether they are about no document; those come last."""

FILTERS = {
    "changes": Preset(
        f"name in ({', '.join(repr(name) for name in sorted(_EVENTS, key=_EVENTS.__getitem__))})",
        "what has a seqno of its own: changes of documents and collections",
    ),
    "mutations": Preset("name = 'dcp_mutation'", "documents written"),
    "deletions": Preset(
        "name in ('dcp_deletion', 'dcp_expiration')", "documents deleted or expired"
    ),
    "durability": Preset(
        "name in ('dcp_prepare', 'dcp_commit', 'dcp_abort', 'dcp_seqno_acknowledged')",
        "synchronous writes",
    ),
    "markers": Preset(
        "name in ('dcp_snapshot_marker', 'dcp_oso_snapshot', 'dcp_seqno_advanced')",
        "begins and ends of snapshots",
    ),
    "streams": Preset(
        "name in ('dcp_add_stream', 'dcp_close_stream', 'dcp_stream_req', 'dcp_stream_end', "
        "'dcp_set_vbucket_state', 'dcp_get_failover_log')",
        "streams opened, refused, moved and closed",
    ),
    "rollbacks": Preset("status_name = 'rollback'", "stream requests with the answer rollback"),
    "control": Preset(
        "name in ('hello', 'sasl_list_mechs', 'sasl_auth', 'sasl_step', 'select_bucket', "
        "'dcp_open', 'dcp_control', 'dcp_noop', 'dcp_buffer_acknowledgement')",
        "setup of a connection, noops and flow control",
    ),
    "errors": Preset(
        "status_name not in ('success', 'auth_continue', 'range_scan_more', "
        "'range_scan_complete', 'subdoc_success_deleted')",
        "responses that refuse, as with --status error",
    ),
    "damaged": Preset(
        "problem is not null or missing_bytes > 0",
        "messages that break a rule or have missing bytes",
    ),
}
"""Filters over the messages table by name."""

COLUMN_SETS = {
    "place": Preset(
        "row,file,frame,last_frame,time,connection,direction,stream_offset,length,name,missing_bytes,problem",
        "where it was captured",
    ),
    "seqnos": Preset(
        "row,time,connection,name,vbucket,by_seqno,rev_seqno,start_seqno,end_seqno,snapshot_type,rollback_seqno,status_name",
        "seqnos and snapshots",
    ),
    "keys": Preset(
        "row,time,name,vbucket,collection_id,key,by_seqno,rev_seqno,cas,datatype,value_size",
        "documents",
    ),
    "requests": Preset(
        "row,time,connection,direction,side,name,vbucket,opaque,status_name,request_row,rtt_ns",
        "who asked what",
    ),
}
"""Sets of columns of the messages table by name."""
