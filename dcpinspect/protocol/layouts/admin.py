"""Administration of buckets, storage, scans, snapshots and interfaces."""

from dcpinspect.protocol.layout_text import layouts
from dcpinspect.protocol.protocol_words import Words

_NAMED = {
    "force": {"shown": Words(frozenset({b"force=true", b"force=false"}))},
    "verbs": {"shown": Words(frozenset({b"define", b"delete", b"list", b"tls"}))},
    "settings": {
        "shown_members": (
            *("host", "port", "family", "tls", "system", "tag", "type"),
            *("minimum version", "client cert auth"),
        )
    },
    "source": {
        "shown_members": (
            "bucket",
            "host",
            "port",
            "fsync_interval",
            "write_size",
            "allow_fail_fast",
        )
    },
}

# Settings of a bucket are like those of a new one, which may hold its token; the answer has each of
# them with its value. IFCONFIG with "tls" has the password of the private key. GET_FILE_FRAGMENT
# answers with any file of the manifest, those with keys included (kv_engine manifest.cc: deks).
LAYOUTS = layouts(
    """
    COMPACT_DB request
        extras purge_before_time u64 (purge before ts): purge deletions older than this
        extras purge_before_seqno u64: purge deletions below this seqno
        extras drop_deletes u8: 1: drop all deletions
        extras pad1 u8 (pad): unused
        extras file_id u16: file
        extras pad2 u32 (pad): unused
    COMPACT_DB response
    SET_BUCKET_DATA_LIMIT_EXCEEDED request
        extras limit_status status (status): status that writers get
        key text: bucket
    SET_BUCKET_DATA_LIMIT_EXCEEDED response
    SET_BUCKET_THROTTLE_PROPERTIES request
        spec: Throttling.md
        key text: bucket
        value json: limits
    SET_BUCKET_THROTTLE_PROPERTIES response
        spec: Throttling.md
    DELETE_BUCKET request
        key text: bucket
        value? text &force: whether to force it
    DELETE_BUCKET response
    PAUSE_BUCKET RESUME_BUCKET request
        key? text: bucket
    PAUSE_BUCKET RESUME_BUCKET response
    VALIDATE_BUCKET_CONFIG SET_BUCKET_CONFIG request
        value secret: settings of a bucket
    VALIDATE_BUCKET_CONFIG SET_BUCKET_CONFIG response
        value secret: settings of a bucket
    RANGE_SCAN_CREATE request
        value json: what to scan
    RANGE_SCAN_CREATE response
        value scan_id bytes public size=16: id of the scan
    RANGE_SCAN_CONTINUE request
        extras scan_id bytes public size=16: id of the scan
        extras item_limit u32: items at most, 0: no limit
        extras time_limit_ms u32 (time limit): milliseconds at most, 0: no limit
        extras byte_limit u32: bytes at most, 0: no limit
    RANGE_SCAN_CONTINUE response
        spec: range_scans/range_scan_continue.md
        extras scan_result u32 (flags) [0 keys, 1 documents]: what the value holds
        value? bytes: keys, each after its LEB128 length; or documents, each 25 bytes of metadata
            before them
    RANGE_SCAN_CANCEL request
        extras scan_id bytes public size=16: id of the scan
    RANGE_SCAN_CANCEL response
    GET_CMD_TIMER request
        extras command command (opcode): command whose times are asked for
        key? text: bucket
    GET_CMD_TIMER response
        value json: histogram
    ADJUST_TIMEOFDAY request
        extras time_offset u64 (offset): how far to move the clock
        extras time_type u8 (type): which clock
    ADJUST_TIMEOFDAY response
    IFCONFIG request
        spec: NetworkInterface.md
        key text &verbs: define, delete, list or tls
        value? secret &settings: an interface, or settings of TLS with a password
    IFCONFIG response
        spec: NetworkInterface.md
        value? json: interfaces, or settings of TLS
    PREPARE_SNAPSHOT request
        spec: Snapshots.md
        value? json: format of files that the client can read
    PREPARE_SNAPSHOT response
        spec: Snapshots.md
        value json: manifest: the files of the snapshot
    RELEASE_SNAPSHOT request
        spec: Snapshots.md
        key? text: UUID of the snapshot; none: the vbucket's
    RELEASE_SNAPSHOT response
        spec: Snapshots.md
    DOWNLOAD_SNAPSHOT request
        spec: Snapshots.md
        value secret &source: where to fetch the snapshot from, with password and passphrase
    DOWNLOAD_SNAPSHOT response
        spec: Snapshots.md
    GET_FILE_FRAGMENT request
        spec: Snapshots.md
        key text: UUID of the snapshot
        value json: which part of which file
    GET_FILE_FRAGMENT response
        spec: Snapshots.md
        value? secret: bytes of a file: documents, or keys that encrypt them
    """,
    "BinaryProtocol.md",
    _NAMED,
    columns=False,
)
