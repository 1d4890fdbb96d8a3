"""DCP stream request (0x53) and its answers: failover log, or a rollback seqno."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.flags import ENDLESS, STREAM_FLAGS
from dcpinspect.protocol.layouts.failover_log import FAILOVER_LOG
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.protocol_words import stream_options
from dcpinspect.protocol.statuses import Status

_SPEC = "dcp/documentation/commands/stream-request.md"

_COMMON = (
    Field("flags", 0, FieldKind.U32, "how to stream", "flags", flags=STREAM_FLAGS),
    Field("reserved", 4, FieldKind.U32, "must be zero", "reserved", reserved=True),
    Field(
        "start_seqno",
        8,
        FieldKind.SEQNO,
        "highest seqno the consumer has; the stream begins after it",
        "start seqno",
    ),
    Field(
        "end_seqno",
        16,
        FieldKind.SEQNO,
        "the stream ends once this seqno was sent",
        "end seqno",
        values={ENDLESS: "no end"},
    ),
    Field(
        "vbucket_uuid",
        24,
        FieldKind.UUID,
        "branch of the history the consumer's data is from; 0: none",
        "vb UUID",
    ),
)

_ROLLBACK = Field(
    "rollback_seqno", 0, FieldKind.SEQNO, "the consumer must discard everything above", "rollback #"
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

LAYOUTS = (
    Layout(
        Opcode.DCP_STREAM_REQ,
        "request",
        "v1",
        _SPEC,
        extras=(
            *_COMMON,
            Field(
                "snapshot_start_seqno",
                32,
                FieldKind.SEQNO,
                "start of the snapshot the consumer is in",
                "snapshot start seqno",
            ),
            Field(
                "snapshot_end_seqno",
                40,
                FieldKind.SEQNO,
                "end of the snapshot the consumer is in",
                "snapshot end seqno",
            ),
        ),
        value=(STREAM_OPTIONS,),
        value_required=False,
    ),
    Layout(
        Opcode.DCP_STREAM_REQ,
        "request",
        "upr",
        "UPR transport specification, stream request",
        extras=(
            *_COMMON,
            Field(
                "high_seqno",
                32,
                FieldKind.SEQNO,
                "high seqno when the vbucket uuid was made",
                "high seqno",
            ),
        ),
        legacy=True,
        note="the first specification's 40 bytes, without the snapshot; 48 since 3.0",
    ),
    Layout(
        Opcode.DCP_STREAM_REQ,
        "response",
        "v1",
        _SPEC,
        value=(FAILOVER_LOG,),
        status=(Status.SUCCESS,),
    ),
    Layout(
        Opcode.DCP_STREAM_REQ,
        "response",
        "v1",
        _SPEC,
        value=(_ROLLBACK,),
        status=(Status.ROLLBACK,),
    ),
    Layout(
        Opcode.DCP_STREAM_REQ,
        "response",
        "upr",
        "UPR transport specification, stream request",
        extras=(_ROLLBACK,),
        status=(Status.ROLLBACK,),
        legacy=True,
        note="rollback seqno in the extras; servers send it in the value",
    ),
)
