"""Administration of buckets, storage and scans: the extras that have numbers in them."""

from __future__ import annotations

from functools import partial

from dcpinspect.protocol.fields import Field, Kind, Layout
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "BinaryProtocol.md"

_SCAN_ID = Field("scan_id", 0, Kind.BYTES, "id of the scan", "scan id", size=16, private=False)


_layout = partial(Layout, generation="v1", spec=_SPEC, columns=False)

LAYOUTS = (
    _layout(
        Opcode.COMPACT_DB,
        "request",
        extras=(
            Field("purge_before_time", 0, Kind.U64, "purge deletions older than this", "purge before ts"),
            Field("purge_before_seqno", 8, Kind.U64, "purge deletions below this seqno", "purge before seqno"),
            Field("drop_deletes", 16, Kind.U8, "1: drop all deletions", "drop deletes"),
            Field("pad1", 17, Kind.U8, "unused", "pad"),
            Field("file_id", 18, Kind.U16, "file", "file id"),
            Field("pad2", 20, Kind.U32, "unused", "pad"),
        ),
    ),
    _layout(Opcode.COMPACT_DB, "response"),
    _layout(
        Opcode.SET_BUCKET_DATA_LIMIT_EXCEEDED,
        "request",
        extras=(Field("limit_status", 0, Kind.STATUS, "status that writers get", "status"),),
        key=Field("key", 0, Kind.TEXT, "bucket", "Key"),
    ),
    _layout(Opcode.RANGE_SCAN_CREATE, "request", value=(Field("value", 0, Kind.JSON, "what to scan", "Value", private=True),)),
    _layout(Opcode.RANGE_SCAN_CREATE, "response", value=(_SCAN_ID,)),
    _layout(
        Opcode.RANGE_SCAN_CONTINUE,
        "request",
        extras=(
            _SCAN_ID,
            Field("item_limit", 16, Kind.U32, "items at most, 0: no limit", "item limit"),
            Field("time_limit_ms", 20, Kind.U32, "milliseconds at most, 0: no limit", "time limit"),
            Field("byte_limit", 24, Kind.U32, "bytes at most, 0: no limit", "byte limit"),
        ),
    ),
    _layout(Opcode.RANGE_SCAN_CANCEL, "request", extras=(_SCAN_ID,)),
    _layout(Opcode.RANGE_SCAN_CANCEL, "response"),
    _layout(
        Opcode.GET_CMD_TIMER,
        "request",
        extras=(Field("command", 0, Kind.COMMAND, "command whose times are asked for", "opcode"),),
        key=Field("key", 0, Kind.TEXT, "bucket", "Key"),
        key_required=False,
    ),
    _layout(Opcode.GET_CMD_TIMER, "response", value=(Field("value", 0, Kind.JSON, "histogram", "Value"),)),
    _layout(
        Opcode.ADJUST_TIMEOFDAY,
        "request",
        extras=(
            Field("time_offset", 0, Kind.U64, "how far to move the clock", "offset"),
            Field("time_type", 8, Kind.U8, "which clock", "type"),
        ),
    ),
    _layout(Opcode.ADJUST_TIMEOFDAY, "response"),
)
