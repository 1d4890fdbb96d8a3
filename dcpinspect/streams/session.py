"""What the two sides of a connection have said of it, and the texts that they said it with."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import orjson

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol import versions
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.datatype import SNAPPY
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.streams.collections import Manifest
from dcpinspect.streams.records import FILE_SHIFT, MessageRow
from dcpinspect.streams.server_reports import (
    ActiveVbuckets,
    HighSeqno,
    MessagePosition,
    ServerReport,
    StateSet,
)
from dcpinspect.tables.messages import MessageBatch

MOST_TEXT = 1 << 10
"""The greatest number of characters of a name that are remembered."""
COLLECTIONS = "Collections"
"""The feature of HELLO that a client needs to ask for some collections only."""
SYNC_WRITES = "enable_sync_writes"
"""The control without which the server hides prepares and aborts."""
FLATBUFFERS = "flatbuffers_system_events"
"""The control without which the server hides modify events."""
BETWEEN_NODES = ("replication:", "rebalance:")
"""How names of connections between nodes begin."""
_REPLICATION = "replication"
_UUID_END = re.compile(r"(?<=.)[-_][0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)
"""How names without a colon end that are never used again: go-dcp's, old Java clients', and those
of Sync Gateway.
"""
_ORDINAL_END = re.compile(r"(?<=.)-[0-9]{1,5}\Z")
FAILOVER_LOGS = (Opcode.DCP_GET_FAILOVER_LOG, Opcode.GET_FAILOVER_LOG)


class Said(NamedTuple):
    """Where a side said something."""

    direction: int
    at: MessagePosition


@dataclass(slots=True)
class Control:
    """One control, as last asked for."""

    value: str
    status: str | None
    """Name of the status of the answer; None while there is no answer."""
    request: Said
    """The request."""

    @property
    def row(self) -> int:
        """Row of the request."""
        return self.request.at.row


@dataclass(slots=True)
class Session:
    """What the two sides of one connection have said of it."""

    agent: str | None = None
    is_key_broken: bool = False
    """Whether the key of the last HELLO has members of JSON, but is no JSON object."""
    server_version: str | None = None
    """Version that the server told a client which asked; None: nobody asked."""
    features: tuple[str, ...] | None = None
    """Features granted by HELLO; None: not known."""
    features_asked: tuple[str, ...] = ()
    hello_row: int = 0
    hello_asked: Said | None = None
    """The request of the first HELLO."""
    bucket: str | None = None
    refused_bucket: str | None = None
    """The bucket that was last refused; None: no bucket was refused."""
    ordered_away: dict[str, MessagePosition] = field(default_factory=dict)
    """Where this connection asked for a bucket to be deleted, by its name; an empty name: for the
    node to be shut down. Without what was refused.
    """
    name: str | None = None
    name_size: int = 0
    """Size of the name in bytes."""
    service: str = ""
    """What the names of one client's connections share: the name up to a colon or to a uuid at its
    end, member ``a`` of its JSON, or where it replicates.
    """
    group: str = ""
    """What the services of a group's members share: all but a number at the end, as pods have."""
    begins_with_service: bool = False
    """Whether the name does; where texts are replaced, it does not show any more."""
    is_named_well: bool = False
    """Whether the name has the form service:unique, or is JSON that says as much."""
    is_replication: bool = False
    """Whether one node replicates to another on this connection, judged by its name."""
    open_flags: int | None = None
    consumer: int | None = None
    """Direction of the consumer's messages, by the flags of the open."""
    open_asked: Said | None = None
    open_status: int | None = None
    """Status of the answer to the open that counts: the first that succeeded, else the last."""
    controls: dict[str, Control] = field(default_factory=dict)
    accepted: dict[tuple[str, str], Said] = field(default_factory=dict)
    """The first accepted request for every pair of key and value."""
    high_seqnos_asked: MessagePosition | None = None
    """Place of the first request for the newest seqnos of all vbuckets."""
    is_cut: bool = False
    """Whether the capture lacks part of what was asked, or there were too many controls."""
    unread_requests: list[tuple[int, int]] = field(default_factory=list)
    """(vbucket, time) of each stream request whose extras are partly missing in the capture."""
    high_seqnos: dict[int, HighSeqno] = field(default_factory=dict)
    active: ActiveVbuckets | None = None
    """The newest list of vbuckets that the server called active."""
    cluster_map: ActiveVbuckets | None = None
    redirects: dict[int, str | None] = field(default_factory=dict)
    """The node that the map in an answer "not my vbucket" names, by the vbucket asked for; None
    where the map names no node for it.
    """
    manifest_uids: dict[int, str] = field(default_factory=dict)
    """The uid of the server's manifest in an answer "unknown collection" or "unknown scope", by the
    vbucket asked for.
    """
    reasons: dict[int, str] = field(default_factory=dict)
    """Who refused something with a reason, and that in quotes, by row of the answer and of what it
    refused.
    """
    replicas: dict[int, None] = field(default_factory=dict)
    """Vbuckets known to be replicas: the server listed them, or their producer set them to replica;
    a dict, as an empty set takes 150 bytes more, on every connection.
    """
    states: dict[int, list[StateSet]] = field(default_factory=dict)
    """What this connection set a vbucket to, outside of DCP, oldest first, by vbucket."""
    reports: dict[int, ServerReport] = field(default_factory=dict)
    """What the server said of a vbucket outside of its streams, by vbucket."""
    manifest: Manifest = field(default_factory=Manifest)
    waiting: dict[int, Any] = field(default_factory=dict)
    """What requests without an answer asked for, by row of the request."""

    @property
    def open_row(self) -> int:
        """Row of the open; 0 for none."""
        return 0 if self.open_asked is None else self.open_asked.at.row

    @property
    def listings(self) -> list[ActiveVbuckets]:
        """The lists in which the server said where vbuckets are active."""
        return [listing for listing in (self.active, self.cluster_map) if listing is not None]

    def waits_for(self, key: str | int) -> bool:
        """Whether a control, or a command of FAILOVER_LOGS, was sent and no answer was read."""
        return any(
            isinstance(expected, tuple) and expected[:1] == (key,)
            for expected in self.waiting.values()
        )

    def control(self, key: str) -> str | None:
        """Returns the value of a control if the server accepted it, else None."""
        setting = self.controls.get(key)
        return setting.value if setting is not None and setting.status == "success" else None

    @property
    def noop_interval(self) -> float | None:
        """The seconds between noops, as granted; None if none were."""
        value = self.control("set_noop_interval")
        try:
            seconds = float(value) if value is not None else 0.0
        except ValueError:
            return None
        return seconds if 0 < seconds < 1e9 else None

    @property
    def versions(self) -> versions.Versions:
        """The versions that the server may have, by what it said on this connection."""
        # a server that consumes asks for what it knows
        implied_status = "success" if self.consumer == 1 else None
        controls = (
            (key, control.value, implied_status or control.status)
            for key, control in self.controls.items()
        )
        return versions.possible_versions(
            self.server_version, self.features_asked, self.features, controls
        )

    @property
    def may_hide_seqnos(self) -> bool:
        """Whether the server may hide prepares and aborts from the client, or other collections."""
        return not self._sees_documents and self.versions.has(versions.SYNC_WRITES) is not False

    @property
    def sees_every_seqno(self) -> bool:
        """Whether the client can see every seqno of a vbucket: no collections, prepares, aborts or
        modify events are hidden from it.
        """
        return self._sees_documents and self.control(FLATBUFFERS) == "true"

    @property
    def _sees_documents(self) -> bool:
        return self.control(SYNC_WRITES) == "true" and COLLECTIONS in (self.features or ())


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A message that may change what holds on its connection: a HELLO, an open or a control, or the
    answer to one.
    """

    index: int
    """Row of the message in the batch."""
    connection: int
    opcode: int
    status: int | None
    """Status of an answer; None: the message is a request."""
    asked: Any
    """Names granted by a HELLO; flags of an open; key and value of a control. None for a control
    that cannot be read, and for an answer whose request was not captured.
    """


Fact = tuple[int, int, int]
"""Row of the batch, column of the table of connections, new value."""

MOST_WINDOW = (1 << 32) - 1
"""The largest flow-control window. Of greater numbers, servers before 7.6 keep the lower 32 bits
and answer SUCCESS; later servers answer EINVAL (kv_engine ``DcpProducer::control``,
``parseUint32``, ``safe_strtoul``).
"""
_MOST_DIGITS = 20


def window_asked(value: str) -> int | None:
    """Returns the flow-control window in bytes that a client asks for; None if it is no number."""
    return (
        int(value) if value.isdecimal() and value.isascii() and len(value) <= _MOST_DIGITS else None
    )


def place_of(batch: MessageBatch, row: int) -> MessagePosition:
    """Returns where a message stands."""
    frame = (int(batch.last_file[row]) << FILE_SHIFT) | int(batch.last_frame[row])
    return MessagePosition(
        int(batch.row[row]), int(batch.stream_offset[row]), frame, int(batch.time_ns[row])
    )


def put_places(
    place_table: MessageRow[IntArray],
    batch: MessageBatch,
    rows: RowNumbers | slice,
    indices: RowNumbers | slice = slice(None),
) -> None:
    """Writes where messages stand into a column of places; ``indices``: the rows of the column."""
    place_table.row[indices] = batch.row[rows]
    place_table.offset[indices] = batch.stream_offset[rows]
    place_table.time[indices] = batch.time_ns[rows]
    place_table.frame[indices] = (batch.last_file[rows] << FILE_SHIFT) | batch.last_frame[rows]


def readable(batch: MessageBatch) -> BoolArray:
    """Returns a mask of the messages that were captured whole."""
    is_readable = np.ones(len(batch), dtype=np.bool_)
    is_readable[batch.missing.row] = False
    return is_readable


def event_bytes(batch: MessageBatch, row: int) -> bytes:
    """Returns what a system event says without its seqno, which differs by vbucket."""
    start = int(batch.decoded.extras_at[row]) + 8
    end = int(batch.start[row]) + int(batch.length[row])
    return batch.data[start:end].tobytes()


def value_bytes(batch: MessageBatch, row: int) -> bytes:
    """Returns the value of a message as it was sent."""
    value = batch.decoded.value
    return batch.data[int(value.start[row]) : int(value.start[row] + value.size[row])].tobytes()


def document(batch: MessageBatch, row: int) -> bytes:
    """Returns the value of a message, decompressed; empty if it cannot be decompressed."""
    value = value_bytes(batch, row)
    try:
        return decode_snappy(value) if int(batch.decoded.datatype[row]) & SNAPPY else value
    except SnappyError:
        return b""


def text(raw: bytes) -> str:
    """Returns the text of a name that a peer gave; bytes that are no UTF-8 become escapes."""
    if raw and not raw.strip(b"\0"):  # what ``-w --redact`` leaves of a name
        return f"[{len(raw)} byte{'s' if len(raw) != 1 else ''} redacted]"
    return raw[:MOST_TEXT].decode(errors="backslashreplace")


def service_of(name: bytes) -> str:
    """Returns the part of a name that a client's connections share, as ``Session.service``."""
    name_object = json_object(name)
    if name_object is None:
        service, colon, nodes = text(name).partition(":")
        if not colon:
            return _UUID_END.sub("", service)
        # replication:PRODUCER->CONSUMER:BUCKET
        consumer = nodes.rpartition(":")[0].rpartition("->")[2]
        return f"{service} to {consumer}" if service == _REPLICATION and consumer else service
    return (member(name_object, "a") or member(name_object, "i") or text(name))[:MOST_TEXT]


def group_of(service: str) -> str:
    """Returns the part of a service that the members of its group share, as ``Session.group``."""
    return _ORDINAL_END.sub("", service)


def consumer_name_of(name: str) -> str:
    """Returns the part of a DCP name that stays the same over the connections of one consumer, as
    far as its form tells: of JSON, member ``i`` up to a slash.
    """
    name_object = json_object(name.encode())
    if name_object is None:
        return name
    return (member(name_object, "i") or name).partition("/")[0]


def member(document: dict[str, Any] | None, name: str) -> str | None:
    """Returns a text of a JSON object."""
    value = document.get(name) if document is not None else None
    return value if isinstance(value, str) else None


def json_object(raw: bytes) -> dict[str, Any] | None:
    """Returns the JSON object in ``raw``; None if there is none, or if its texts are invalid, such
    as half of a surrogate pair.
    """
    try:
        document = orjson.loads(raw)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
