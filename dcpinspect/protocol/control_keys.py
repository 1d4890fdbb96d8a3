"""DCP control keys (opcode 0x5e): what a consumer may set, and what happens then.

Source: kv_engine ``DcpProducer::control`` and the release tags 5.0 to 8.0. The consumer sends a
control to the producer, which always answers it; an unknown key is answered EINVAL. A setting only
counts if its answer is SUCCESS.
"""

from __future__ import annotations

import re

from dcpinspect.lazy_dataclass import dataclass

_PLAIN = re.compile(r"true|false|[0-9]{1,20}(?:\.[0-9]{1,20})?", re.ASCII)
"""Booleans and numbers."""


@dataclass(frozen=True, slots=True)
class ControlKey:
    """One key of DCP control."""

    key: str
    values: str
    """What may be set, in words."""
    default: str
    since: str
    """First server release, or the range of releases, that knows the key."""
    doc: str
    failure: str = ""
    """How a server refuses; empty if it does not refuse."""
    words: tuple[str, ...] = ()
    """Words that may be set, besides booleans and numbers."""
    is_name: bool = False
    """Whether the value is a name."""

    def takes(self, value: str) -> bool:
        """Returns whether a value is one of the protocol's own: a boolean, a number, or a word of
        this key.
        """
        return not self.is_name and (value in self.words or _PLAIN.fullmatch(value) is not None)


CONTROL_KEYS = (
    ControlKey(
        "connection_buffer_size",
        "u32 decimal string; 0 turns flow control off",
        "0 (flow control off)",
        "3.0",
        "Flow-control window in bytes for the whole connection. May be changed later; setting "
        "0 zeroes the producer's outstanding counter. Of 2^32 or more, servers before 7.6 keep "
        "the lower 32 bits and answer SUCCESS. A consumer of a development build of 8.5 asked "
        "for 2^32.",
        "EINVAL if not a number; from 7.6 on, if 2^32 or more",
    ),
    ControlKey(
        "stream_buffer_size",
        "-",
        "-",
        "3.0",
        "Per-stream window of the original design.",
        "always NOT_SUPPORTED (0x83)",
    ),
    ControlKey(
        "enable_noop",
        '"true"; any other value means off and still succeeds',
        "off",
        "3.0",
        "Turns the producer's noop probe on. Mandatory (server default) before a stream "
        "request on a connection with INCLUDE_XATTRS or Collections, else the stream request "
        "fails NOT_SUPPORTED.",
    ),
    ControlKey(
        "set_noop_interval",
        "seconds as a decimal string; fractions accepted since 7.6; must be >= the server's "
        "connection-manager interval (default 0.1 s in 8.5; 1 s and an integer multiple of it "
        "up to 7.2)",
        "20 s",
        "3.0.1",
        "Interval between noops. The documented 20..10800 limit is not enforced by current code.",
        "EINVAL below the minimum",
    ),
    ControlKey(
        "set_priority",
        "high | medium | low",
        "medium",
        "4.0",
        "Scheduling weight of the connection.",
        "EINVAL for other values",
        words=("high", "medium", "low"),
    ),
    ControlKey(
        "enable_ext_metadata",
        "true | false",
        "off",
        "3.x-6.6",
        "Extended metadata at the end of values (nmeta > 0). Dropped from 7.0 on.",
        "EINVAL since 7.0",
    ),
    ControlKey(
        "enable_value_compression",
        "true | false",
        "off",
        "3.x-5.1",
        "Old name of value compression.",
        "EINVAL since 5.5",
    ),
    ControlKey(
        "force_value_compression",
        '"true"; other values mean off',
        "off",
        "5.5",
        "Compress every value with snappy before sending. Needs the Snappy HELLO feature.",
        "EINVAL without snappy",
    ),
    ControlKey(
        "supports_cursor_dropping",
        '"true"; other values mean off',
        'on, except for connections whose name contains "replication"',
        "4.5",
        "Producer may drop the stream's cursor (fall back to disk) when the consumer is slow.",
    ),
    ControlKey(
        "supports_cursor_dropping_vulcan",
        '"true"; other values mean off',
        "as supports_cursor_dropping",
        "5.5",
        "Same switch under a second name.",
    ),
    ControlKey(
        "supports_hifi_MFU",
        '"true"; other values mean off',
        "off",
        "5.5",
        "The nru byte of mutations carries an 8-bit frequency count instead of a 2-bit NRU value.",
    ),
    ControlKey(
        "send_stream_end_on_client_close_stream",
        '"true"; other values succeed and change nothing (cannot be switched off)',
        "off",
        "5.5",
        "Producer sends Stream End (status 1) after a client Close Stream.",
    ),
    ControlKey(
        "enable_expiry_opcode",
        '"true" | other',
        "off",
        "6.5",
        "Expiries come as 0x59 instead of 0x58. Since 7.0 the control succeeds but has an "
        "effect only if the open flags had INCLUDE_DELETE_TIMES; in 6.5/6.6 it also switched "
        "delete times on.",
    ),
    ControlKey(
        "enable_stream_id",
        '"true" only',
        "off",
        "6.5",
        'Several streams per vbucket; every stream request must carry "sid" and every stream '
        "message then uses magic 0x08 with frame id 2. One-way. A server that is the consumer "
        "never asks for it, and from 8.5 on refuses messages with a stream-id (EINVAL).",
        "EINVAL for other values; NOT_SUPPORTED if sync writes are on",
    ),
    ControlKey(
        "enable_sync_writes",
        '"true" only',
        "off",
        "6.5",
        "Consumer understands prepare/commit/abort. Together with consumer_name it becomes "
        "full sync replication (seqno acks) and raises the marker version to 2.0.",
        "EINVAL for other values; NOT_SUPPORTED if stream-id is on",
    ),
    ControlKey(
        "consumer_name",
        "non-empty string",
        '""',
        "6.5",
        "Name of the replica for durability accounting.",
        "EINVAL if empty",
        is_name=True,
    ),
    ControlKey(
        "backfill_order",
        "round-robin | sequential",
        "round-robin",
        "6.6",
        "Order of disk backfills over vbuckets.",
        "EINVAL for other values",
        words=("round-robin", "sequential"),
    ),
    ControlKey(
        "include_deleted_user_xattrs",
        '"true"',
        "as set by open flag 0x100",
        "6.6",
        "A question, not a setting: succeeds only if the connection was opened with "
        "IncludeDeletedUserXattrs.",
        "EINVAL if the open flag was not set",
    ),
    ControlKey(
        "enable_out_of_order_snapshots",
        '"true" | "true_with_seqno_advanced"',
        "off",
        "7.0",
        "Backfills may be sent as OSO snapshots; the second value adds a Seqno Advanced before "
        "the OSO end when the last transmitted seqno is below the end of the scan.",
        "EINVAL for other values",
        words=("true_with_seqno_advanced",),
    ),
    ControlKey(
        "v7_dcp_status_codes",
        '"true" only',
        "off",
        "7.0",
        "Status 0x0a / 0x0b may be used between the peers instead of 0x01 / 0x02.",
        "EINVAL for other values",
    ),
    ControlKey(
        "flatbuffers_system_events",
        '"true" only',
        "off",
        "7.2",
        "System events carry version 2 (FlatBuffers) values, and modify-collection events are "
        "sent.",
        "EINVAL for other values",
    ),
    ControlKey(
        "change_streams",
        '"true" only',
        "off",
        "7.2",
        "History snapshots (flags 0x10 / 0x20) may be sent.",
        "EINVAL for other values; NOT_SUPPORTED if the storage cannot keep history",
    ),
    ControlKey(
        "max_marker_version",
        '"2.2" only',
        "1.0 (2.0 with sync replication)",
        "8.0",
        "Largest snapshot marker layout the consumer accepts.",
        "EINVAL for other values; NOT_SUPPORTED without Collections",
    ),
    ControlKey(
        "cache_transfer",
        "any value",
        "-",
        "8.5",
        "A question: does this producer offer cache transfer?",
        "NOT_SUPPORTED if switched off",
    ),
)

_BY_KEY = {control.key: control for control in CONTROL_KEYS}


def control_key(key: str) -> ControlKey | None:
    """Returns the control key of this name, or None."""
    return _BY_KEY.get(key)
