"""Administration of buckets, storage, scans, snapshots and interfaces."""

from __future__ import annotations

from functools import partial

from dcpinspect.protocol.fields import Field, FieldKind, Layout, MessageSide
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.protocol_words import Words

_SPEC = "BinaryProtocol.md"
_SNAPSHOTS = "Snapshots.md"

_SIDES: tuple[MessageSide, ...] = ("request", "response")
_BUCKET = Field("key", 0, FieldKind.TEXT, "bucket", "Key")
_SCAN_ID = Field("scan_id", 0, FieldKind.BYTES, "id of the scan", "scan id", size=16, private=False)


_layout = partial(Layout, generation="v1", spec=_SPEC, columns=False)

LAYOUTS = (
    _layout(
        Opcode.COMPACT_DB,
        "request",
        extras=(
            Field(
                "purge_before_time",
                0,
                FieldKind.U64,
                "purge deletions older than this",
                "purge before ts",
            ),
            Field(
                "purge_before_seqno",
                8,
                FieldKind.U64,
                "purge deletions below this seqno",
                "purge before seqno",
            ),
            Field("drop_deletes", 16, FieldKind.U8, "1: drop all deletions", "drop deletes"),
            Field("pad1", 17, FieldKind.U8, "unused", "pad"),
            Field("file_id", 18, FieldKind.U16, "file", "file id"),
            Field("pad2", 20, FieldKind.U32, "unused", "pad"),
        ),
    ),
    _layout(Opcode.COMPACT_DB, "response"),
    _layout(
        Opcode.SET_BUCKET_DATA_LIMIT_EXCEEDED,
        "request",
        extras=(Field("limit_status", 0, FieldKind.STATUS, "status that writers get", "status"),),
        key=_BUCKET,
    ),
    _layout(Opcode.SET_BUCKET_DATA_LIMIT_EXCEEDED, "response"),
    _layout(
        Opcode.SET_BUCKET_THROTTLE_PROPERTIES,
        "request",
        spec="Throttling.md",
        key=_BUCKET,
        value=(Field("value", 0, FieldKind.JSON, "limits", "Value"),),
    ),
    _layout(Opcode.SET_BUCKET_THROTTLE_PROPERTIES, "response", spec="Throttling.md"),
    _layout(
        Opcode.DELETE_BUCKET,
        "request",
        key=_BUCKET,
        value=(
            Field(
                "value",
                0,
                FieldKind.TEXT,
                "whether to force it",
                "Value",
                shown=Words(frozenset({b"force=true", b"force=false"})),
            ),
        ),
        value_required=False,
    ),
    _layout(Opcode.DELETE_BUCKET, "response"),
    *(
        layout
        for opcode in (Opcode.PAUSE_BUCKET, Opcode.RESUME_BUCKET)
        for layout in (
            _layout(opcode, "request", key=_BUCKET, key_required=False),
            _layout(opcode, "response"),
        )
    ),
    # Settings like those of a new bucket, which may hold its token; the answer has each of them
    # with its value.
    *(
        _layout(
            opcode,
            side,
            value=(Field("value", 0, FieldKind.SECRET, "settings of a bucket", "Value"),),
        )
        for opcode in (Opcode.VALIDATE_BUCKET_CONFIG, Opcode.SET_BUCKET_CONFIG)
        for side in _SIDES
    ),
    _layout(
        Opcode.RANGE_SCAN_CREATE,
        "request",
        value=(Field("value", 0, FieldKind.JSON, "what to scan", "Value"),),
    ),
    _layout(Opcode.RANGE_SCAN_CREATE, "response", value=(_SCAN_ID,)),
    _layout(
        Opcode.RANGE_SCAN_CONTINUE,
        "request",
        extras=(
            _SCAN_ID,
            Field("item_limit", 16, FieldKind.U32, "items at most, 0: no limit", "item limit"),
            Field(
                "time_limit_ms",
                20,
                FieldKind.U32,
                "milliseconds at most, 0: no limit",
                "time limit",
            ),
            Field("byte_limit", 24, FieldKind.U32, "bytes at most, 0: no limit", "byte limit"),
        ),
    ),
    _layout(
        Opcode.RANGE_SCAN_CONTINUE,
        "response",
        spec="range_scans/range_scan_continue.md",
        extras=(
            Field(
                "scan_result",
                0,
                FieldKind.U32,
                "what the value holds",
                "flags",
                values={0: "keys", 1: "documents"},
            ),
        ),
        value=(
            Field(
                "value",
                0,
                FieldKind.BYTES,
                "keys, each after its LEB128 length; or documents, each 25 bytes of metadata "
                "before them",
                "Value",
            ),
        ),
        value_required=False,
    ),
    _layout(Opcode.RANGE_SCAN_CANCEL, "request", extras=(_SCAN_ID,)),
    _layout(Opcode.RANGE_SCAN_CANCEL, "response"),
    _layout(
        Opcode.GET_CMD_TIMER,
        "request",
        extras=(
            Field("command", 0, FieldKind.COMMAND, "command whose times are asked for", "opcode"),
        ),
        key=_BUCKET,
        key_required=False,
    ),
    _layout(
        Opcode.GET_CMD_TIMER,
        "response",
        value=(Field("value", 0, FieldKind.JSON, "histogram", "Value"),),
    ),
    _layout(
        Opcode.ADJUST_TIMEOFDAY,
        "request",
        extras=(
            Field("time_offset", 0, FieldKind.U64, "how far to move the clock", "offset"),
            Field("time_type", 8, FieldKind.U8, "which clock", "type"),
        ),
    ),
    _layout(Opcode.ADJUST_TIMEOFDAY, "response"),
    # With "tls", the value has the password of the private key.
    _layout(
        Opcode.IFCONFIG,
        "request",
        spec="NetworkInterface.md",
        key=Field(
            "key",
            0,
            FieldKind.TEXT,
            "define, delete, list or tls",
            "Key",
            shown=Words(frozenset({b"define", b"delete", b"list", b"tls"})),
        ),
        value=(
            Field(
                "value",
                0,
                FieldKind.SECRET,
                "an interface, or settings of TLS with a password",
                "Value",
                told=(
                    "host",
                    "port",
                    "family",
                    "tls",
                    "system",
                    "tag",
                    "type",
                    "minimum version",
                    "client cert auth",
                ),
            ),
        ),
        value_required=False,
    ),
    _layout(
        Opcode.IFCONFIG,
        "response",
        spec="NetworkInterface.md",
        value=(Field("value", 0, FieldKind.JSON, "interfaces, or settings of TLS", "Value"),),
        value_required=False,
    ),
    _layout(
        Opcode.PREPARE_SNAPSHOT,
        "request",
        spec=_SNAPSHOTS,
        value=(
            Field("value", 0, FieldKind.JSON, "format of files that the client can read", "Value"),
        ),
        value_required=False,
    ),
    _layout(
        Opcode.PREPARE_SNAPSHOT,
        "response",
        spec=_SNAPSHOTS,
        value=(Field("value", 0, FieldKind.JSON, "manifest: the files of the snapshot", "Value"),),
    ),
    _layout(
        Opcode.RELEASE_SNAPSHOT,
        "request",
        spec=_SNAPSHOTS,
        key=Field("key", 0, FieldKind.TEXT, "UUID of the snapshot; none: the vbucket's", "Key"),
        key_required=False,
    ),
    _layout(Opcode.RELEASE_SNAPSHOT, "response", spec=_SNAPSHOTS),
    _layout(
        Opcode.DOWNLOAD_SNAPSHOT,
        "request",
        spec=_SNAPSHOTS,
        value=(
            Field(
                "value",
                0,
                FieldKind.SECRET,
                "where to fetch the snapshot from, with password and passphrase",
                "Value",
                told=("bucket", "host", "port", "fsync_interval", "write_size", "allow_fail_fast"),
            ),
        ),
    ),
    _layout(Opcode.DOWNLOAD_SNAPSHOT, "response", spec=_SNAPSHOTS),
    _layout(
        Opcode.GET_FILE_FRAGMENT,
        "request",
        spec=_SNAPSHOTS,
        key=Field("key", 0, FieldKind.TEXT, "UUID of the snapshot", "Key"),
        value=(Field("value", 0, FieldKind.JSON, "which part of which file", "Value"),),
    ),
    # Any file of the manifest, those with keys included (kv_engine manifest.cc: deks).
    _layout(
        Opcode.GET_FILE_FRAGMENT,
        "response",
        spec=_SNAPSHOTS,
        value=(
            Field(
                "value",
                0,
                FieldKind.SECRET,
                "bytes of a file: documents, or keys that encrypt them",
                "Value",
            ),
        ),
        value_required=False,
    ),
)
