"""Commands about streams: DCP add stream (0x51), close stream (0x52), stream request (0x53) with its
answers, the failover log (0x54, and 0x96 on a plain connection), and stream end (0x55).
"""

from dcpinspect.protocol.fields import Field, FieldKind, RecordList
from dcpinspect.protocol.flags import ENDLESS, STREAM_END_REASONS, STREAM_FLAGS
from dcpinspect.protocol.layout_text import fields, layouts
from dcpinspect.protocol.protocol_words import stream_options

FAILOVER_LOG = RecordList(
    "failover_log",
    fields(
        """
        uuid uuid (vb UUID): names a branch of the history
        seqno seqno (vb seqno): seqno at which the branch began
        """
    ),
    "branches, the newest first",
    "entry",
)
STREAM_OPTIONS = Field(
    "value",
    0,
    FieldKind.JSON,
    "filter and options: uid, sid, collections, scope, purge_seqno, cts",
    "Value",
    stream_id="sid",
    shown=stream_options,
)
_NAMED = {
    "how": {"flags": STREAM_FLAGS},
    "endless": {"values": {ENDLESS: "no end"}},
    "options": STREAM_OPTIONS,
    "log": FAILOVER_LOG,
    "reasons": {
        # 3 is never sent; current producers send 6 as 2
        "values": STREAM_END_REASONS,
        "first_generation": {1: 2},  # "State Changed (0x01)" of the UPR transport specification
    },
}

LAYOUTS = (
    *layouts(
        """
    DCP_ADD_STREAM request
        extras flags u32 &how: how to stream
    DCP_ADD_STREAM response
        extras stream_opaque opaque (opaque): opaque of the stream's later messages
        status: any
    """,
        "dcp/documentation/commands/add-stream.md",
        _NAMED,
    ),
    *layouts(
        """
    DCP_CLOSE_STREAM request
    DCP_CLOSE_STREAM response
    """,
        "dcp/documentation/commands/close-stream.md",
    ),
    *layouts(
        """
    common
        extras flags u32 &how: how to stream
        extras reserved u32 reserved: must be zero
        extras start_seqno seqno: highest seqno the consumer has; the stream begins after it
        extras end_seqno seqno &endless: the stream ends once this seqno was sent
        extras vbucket_uuid uuid (vb UUID): branch of the history the consumer's data is from; 0:
            none
    DCP_STREAM_REQ request
        use: common
        extras snapshot_start_seqno seqno: start of the snapshot the consumer is in
        extras snapshot_end_seqno seqno: end of the snapshot the consumer is in
        value?: *options
    DCP_STREAM_REQ request upr legacy
        spec: UPR transport specification, stream request
        use: common
        extras high_seqno seqno: high seqno when the vbucket uuid was made
        note: the first specification's 40 bytes, without the snapshot; 48 since 3.0
    DCP_STREAM_REQ response
        value: *log
        status: SUCCESS
    DCP_STREAM_REQ response
        value rollback_seqno seqno (rollback #): the consumer must discard everything above
        status: ROLLBACK
    DCP_STREAM_REQ response upr legacy
        spec: UPR transport specification, stream request
        extras rollback_seqno seqno (rollback #): the consumer must discard everything above
        note: rollback seqno in the extras; servers send it in the value
        status: ROLLBACK
    """,
        "dcp/documentation/commands/stream-request.md",
        _NAMED,
    ),
    *layouts(
        """
    DCP_GET_FAILOVER_LOG GET_FAILOVER_LOG request
    DCP_GET_FAILOVER_LOG GET_FAILOVER_LOG response
        value: *log
    """,
        "dcp/documentation/commands/failover-log.md",
        _NAMED,
    ),
    *layouts(
        """
    DCP_STREAM_END request
        extras end_reason u32 (flag) words &reasons: why the stream ended
    DCP_STREAM_END response
    """,
        "dcp/documentation/commands/stream-end.md",
        _NAMED,
    ),
)
