"""DCP control keys (opcode 0x5e): what a consumer may set, and what happens then.

Source: kv_engine ``DcpProducer::control`` and the release tags 5.0 to 8.0. The consumer sends a
control to the producer, which always answers it; an unknown key is answered EINVAL. A setting only
counts if its answer is SUCCESS.
"""

from __future__ import annotations

import re

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import groups, words_of

_PLAIN = re.compile(r"true|false|[0-9]{1,20}(?:\.[0-9]{1,20})?", re.ASCII)
"""Booleans and numbers."""


@dataclass(frozen=True, slots=True)
class ControlKey:
    """One key of DCP control."""

    key: str
    since: str
    """First server release, or the range of releases, that knows the key."""
    values: str
    """What may be set, in words."""
    default: str
    doc: str
    failure: str = ""
    """How a server refuses; empty if it does not refuse."""
    words: str = ""
    """Words that may be set, besides booleans and numbers."""
    is_name: str = ""
    """Not empty if the value is a name."""

    def takes(self, value: str) -> bool:
        """Returns whether a value is one of the protocol's own: a boolean, a number, or a word of
        this key.
        """
        return not self.is_name and (
            value in words_of(self.words) or _PLAIN.fullmatch(value) is not None
        )


CONTROL_KEYS = tuple(
    ControlKey(*head.split(), **lines)
    for head, lines in groups(
        """
    connection_buffer_size 3.0
        values: u32 decimal string; 0 turns flow control off
        default: 0 (flow control off)
        doc: Flow-control window in bytes for the whole connection. May be changed later; setting 0
            zeroes the producer's outstanding counter. Of 2^32 or more, servers before 7.6 keep the
            lower 32 bits and answer SUCCESS. A consumer of a development build of 8.5 asked for
            2^32.
        failure: EINVAL if not a number; from 7.6 on, if 2^32 or more
    stream_buffer_size 3.0
        values: -
        default: -
        doc: Per-stream window of the original design.
        failure: always NOT_SUPPORTED (0x83)
    enable_noop 3.0
        values: "true"; any other value means off and still succeeds
        default: off
        doc: Turns the producer's noop probe on. Mandatory (server default) before a stream request
            on a connection with INCLUDE_XATTRS or Collections, else the stream request fails
            NOT_SUPPORTED.
    set_noop_interval 3.0.1
        values: seconds as a decimal string; fractions accepted since 7.6; must be >= the server's
            connection-manager interval (default 0.1 s in 8.5; 1 s and an integer multiple of it up
            to 7.2)
        default: 20 s
        doc: Interval between noops. The documented 20..10800 limit is not enforced by current code.
        failure: EINVAL below the minimum
    set_priority 4.0
        values: high | medium | low
        default: medium
        doc: Scheduling weight of the connection.
        failure: EINVAL for other values
        words: high medium low
    enable_ext_metadata 3.x-6.6
        values: true | false
        default: off
        doc: Extended metadata at the end of values (nmeta > 0). Dropped from 7.0 on.
        failure: EINVAL since 7.0
    enable_value_compression 3.x-5.1
        values: true | false
        default: off
        doc: Old name of value compression.
        failure: EINVAL since 5.5
    force_value_compression 5.5
        values: "true"; other values mean off
        default: off
        doc: Compress every value with snappy before sending. Needs the Snappy HELLO feature.
        failure: EINVAL without snappy
    supports_cursor_dropping 4.5
        values: "true"; other values mean off
        default: on, except for connections whose name contains "replication"
        doc: Producer may drop the stream's cursor (fall back to disk) when the consumer is slow.
    supports_cursor_dropping_vulcan 5.5
        values: "true"; other values mean off
        default: as supports_cursor_dropping
        doc: Same switch under a second name.
    supports_hifi_MFU 5.5
        values: "true"; other values mean off
        default: off
        doc: The nru byte of mutations carries an 8-bit frequency count instead of a 2-bit NRU
            value.
    send_stream_end_on_client_close_stream 5.5
        values: "true"; other values succeed and change nothing (cannot be switched off)
        default: off
        doc: Producer sends Stream End (status 1) after a client Close Stream.
    enable_expiry_opcode 6.5
        values: "true" | other
        default: off
        doc: Expiries come as 0x59 instead of 0x58. Since 7.0 the control succeeds but has an effect
            only if the open flags had INCLUDE_DELETE_TIMES; in 6.5/6.6 it also switched delete
            times on.
    enable_stream_id 6.5
        values: "true" only
        default: off
        doc: Several streams per vbucket; every stream request must carry "sid" and every stream
            message then uses magic 0x08 with frame id 2. One-way. A server that is the consumer
            never asks for it, and from 8.5 on refuses messages with a stream-id (EINVAL).
        failure: EINVAL for other values; NOT_SUPPORTED if sync writes are on
    enable_sync_writes 6.5
        values: "true" only
        default: off
        doc: Consumer understands prepare/commit/abort. Together with consumer_name it becomes full
            sync replication (seqno acks) and raises the marker version to 2.0.
        failure: EINVAL for other values; NOT_SUPPORTED if stream-id is on
    consumer_name 6.5
        values: non-empty string
        default: ""
        doc: Name of the replica for durability accounting.
        failure: EINVAL if empty
        is_name: yes
    backfill_order 6.6
        values: round-robin | sequential
        default: round-robin
        doc: Order of disk backfills over vbuckets.
        failure: EINVAL for other values
        words: round-robin sequential
    include_deleted_user_xattrs 6.6
        values: "true"
        default: as set by open flag 0x100
        doc: A question, not a setting: succeeds only if the connection was opened with
            IncludeDeletedUserXattrs.
        failure: EINVAL if the open flag was not set
    enable_out_of_order_snapshots 7.0
        values: "true" | "true_with_seqno_advanced"
        default: off
        doc: Backfills may be sent as OSO snapshots; the second value adds a Seqno Advanced before
            the OSO end when the last transmitted seqno is below the end of the scan.
        failure: EINVAL for other values
        words: true_with_seqno_advanced
    v7_dcp_status_codes 7.0
        values: "true" only
        default: off
        doc: Status 0x0a / 0x0b may be used between the peers instead of 0x01 / 0x02.
        failure: EINVAL for other values
    flatbuffers_system_events 7.2
        values: "true" only
        default: off
        doc: System events carry version 2 (FlatBuffers) values, and modify-collection events are
            sent.
        failure: EINVAL for other values
    change_streams 7.2
        values: "true" only
        default: off
        doc: History snapshots (flags 0x10 / 0x20) may be sent.
        failure: EINVAL for other values; NOT_SUPPORTED if the storage cannot keep history
    max_marker_version 8.0
        values: "2.2" only
        default: 1.0 (2.0 with sync replication)
        doc: Largest snapshot marker layout the consumer accepts.
        failure: EINVAL for other values; NOT_SUPPORTED without Collections
    cache_transfer 8.5
        values: any value
        default: -
        doc: A question: does this producer offer cache transfer?
        failure: NOT_SUPPORTED if switched off
        """
    ).items()
)
"""Key and first release of each, and below them the other fields of ``ControlKey``."""

_BY_KEY = {control.key: control for control in CONTROL_KEYS}


def control_key(key: str) -> ControlKey | None:
    """Returns the control key of this name, or None."""
    return _BY_KEY.get(key)
