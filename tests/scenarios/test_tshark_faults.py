"""What tshark 4.0 gets wrong in this protocol, and we get right.

Each fault has a message, our reading of it, and a pattern that shows the fault in tshark's tree.
Newer versions may have been mended: there the pattern is only reported, as a property of the test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.command_statuses import refusal_meaning
from dcpinspect.protocol.message import Context, FieldValue, Message
from dcpinspect.protocol.opcodes import Opcode
from tests.catalogue import each
from tests.encode import encode, encode_document, encode_parts, encode_snappy
from tests.protocol import tshark
from tests.protocol.vectors import BY_ID, at_path

_COMPRESSED, _DATATYPE = encode_document(
    '{"a":1}' * 9, xattrs={"_sync": '{"cas":"0x0"}'}, snappy=True
)
_TOMBSTONE, _TOMBSTONE_TYPE = encode_document(b"", xattrs={"_sync": '{"cas":"0x0"}'}, snappy=True)
ON = Context("on")
_ABSENT = r"\A(?!.*{})"


@dataclass(frozen=True)
class Fault:
    """A message, how we read it, and how the fault shows."""

    data: bytes
    read: Callable[[Message], object]
    expected: object
    shows: str
    """Pattern in tshark's tree."""
    context: Context = ON


def _field(message: Message, path: str) -> FieldValue:
    field = at_path(message, path)
    assert field is not None
    return field


def value(path: str) -> Callable[[Message], object]:
    return lambda message: _field(message, path).value


def meaning(path: str) -> Callable[[Message], object]:
    return lambda message: _field(message, path).meaning


def rules(message: Message) -> object:
    return [problem.rule for problem in message.problems]


def key_and_collection(message: Message) -> object:
    return message.key, message.collection_id


def generation_and_rules(message: Message) -> object:
    return message.generation, rules(message)


FAULTS = {
    "rollback seqno is an empty string": Fault(
        BY_ID["syn-rollback-current"].data,
        value("rollback_seqno"),
        500,
        r"Status: Rollback.*Value: *\n.*Trailing stray",
    ),
    "rollback seqno in the extras is refused": Fault(
        BY_ID["seed004-09"].data, value("rollback_seqno"), 0, "Illegal Extras length, should be 0"
    ),
    "an answer's line has no status": Fault(
        encode("get", "response", status=1),
        meaning("status"),
        "key_enoent",
        r"Couchbase Protocol, Get Response, Opcode: 0x0\n",
    ),
    "an empty refusal must have a value": Fault(
        encode("stat", "response", status=0x24),
        rules,
        [],
        r"Statistics with status Access error \(0x24\) must have Value",
    ),
    "a status other than success is filed as undecoded": Fault(
        encode("dcp_stream_req", "response", status=0x22),
        meaning("status"),
        f"erange: {refusal_meaning(Opcode.DCP_STREAM_REQ, 0x22)}",
        r"Undecoded\): DCP Stream Request: Range error",
    ),
    "a stream end's reason is raw": Fault(
        encode("dcp_stream_end", end_reason=7),
        meaning("end_reason"),
        "filter-empty",
        "Unknown: 00000007",
    ),
    "a vbucket state is raw": Fault(
        encode("dcp_set_vbucket_state", state=2),
        meaning("state"),
        "replica; from a server before 3.0: pending",
        "Unknown: 02",
    ),
    "a stream request's flags have no names": Fault(
        BY_ID["syn-stream-req-json"].data, meaning("flags"), "active-only", r"Flags: 0x00000010\n"
    ),
    "a stream request's JSON is a string": Fault(
        BY_ID["syn-stream-req-json"].data,
        lambda message: message.value.encoding if message.value else None,
        "json",
        _ABSENT.format("JavaScript Object Notation"),
    ),
    "a stream request of 40 bytes is malformed": Fault(
        BY_ID["seed004-08"].data, value("high_seqno"), 0, r"Malformed Packet: Couchbase"
    ),
    "a v2.2 marker is malformed": Fault(
        BY_ID["syn-marker-v2.2"].data,
        value("high_prepared_seqno"),
        6,
        r"Malformed Packet: Couchbase",
    ),
    "a v2.2 marker of 44 bytes has a timestamp": Fault(
        BY_ID["syn-marker-v2.2-44"].data, value("purge_seqno"), 3, "PiTR timestamp: 3"
    ),
    "a marker without extras must have some": Fault(
        BY_ID["seed004-13"].data,
        generation_and_rules,
        ("upr", ["legacy-layout"]),
        "DCP Snapshot Marker Request must have Extras",
    ),
    "a marker's newer flags are ignored": Fault(
        encode("dcp_snapshot_marker", generation="v1", snapshot_type=0x32),
        meaning("snapshot_type"),
        "disk, history, may-duplicate-keys",
        r"Flags: 0x00000032, Disk\n",
    ),
    "an open's newer flags are ignored": Fault(
        encode("dcp_open", key="x", flags=0x345),
        meaning("flags"),
        (
            "producer, include-xattrs, no-value-with-underlying-datatype, "
            "include-deleted-user-xattrs, skip-deletes-in-initial-backfill"
        ),
        r"Flags: 0x00000345, Connection Type: Producer, Include XATTRs\n",
    ),
    "an open may not have a value": Fault(
        BY_ID["syn-open-consumer-json"].data, rules, [], "shall not have Value"
    ),
    "xattrs are looked for in compressed bytes": Fault(
        encode("dcp_mutation", key=b"k", collection=0, value=_COMPRESSED, datatype=_DATATYPE),
        lambda message: message.value.xattrs if message.value else None,
        ((b"_sync", b'{"cas":"0x0"}'),),
        r"Malformed Packet: Couchbase",
    ),
    "a tombstone's xattrs are looked for in compressed bytes": Fault(
        encode(
            "dcp_deletion",
            generation="v2",
            key=b"k",
            collection=0,
            value=_TOMBSTONE,
            datatype=_TOMBSTONE_TYPE,
        ),
        lambda message: (rules(message), message.value.xattrs if message.value else None),
        ([], ((b"_sync", b'{"cas":"0x0"}'),)),
        "Null byte not found",
    ),
    "a compressed tombstone may not have a value": Fault(
        encode(
            "dcp_deletion",
            generation="v2",
            key=b"k",
            collection=0,
            value=encode_snappy(b""),
            datatype=2,
        ),
        rules,
        [],
        "shall not have Value",
    ),
    "an open's name has a collection": Fault(
        encode("dcp_open", key="xdcr"),
        key_and_collection,
        (b"xdcr", None),
        "Collection ID: 0x00000078",
    ),
    "a system event's name has a collection": Fault(
        encode("dcp_system_event", generation="v0", event=3, version=0, key="app"),
        key_and_collection,
        (b"app", None),
        "Collection Logical Key: pp",
    ),
    "a key without collections has one": Fault(
        encode("dcp_commit", key="hello"),
        key_and_collection,
        (b"hello", None),
        "Collection Logical Key: ello",
        Context("off"),
    ),
    "plain JSON is text": Fault(
        BY_ID["syn-mutation-collection"].data,
        lambda message: message.value.encoding if message.value else None,
        "json",
        _ABSENT.format("JavaScript Object Notation"),
    ),
    "a system event's value is raw": Fault(
        BY_ID["syn-event-begin-v1"].data, value("max_ttl"), 72000, r"Value: *\n.*Trailing stray"
    ),
    "a system event without a key must have one": Fault(
        BY_ID["syn-event-end"].data, rules, [], "DCP System Event Request must have Key"
    ),
    "a modified collection is unknown and its FlatBuffer raw": Fault(
        encode(
            "dcp_system_event",
            generation="v2",
            event=5,
            version=2,
            key=b"c",
            manifest_uid=2,
            scope_id=8,
            collection_id=9,
        ),
        lambda message: (
            _field(message, "event").meaning,
            _field(message, "value.collection_id").value,
        ),
        ("modify-collection", 9),
        r"system_event_id: Unknown \(5\)",
    ),
    "cache transfer is unknown": Fault(
        BY_ID["syn-cache-transfer-2"].data,
        lambda message: message.name,
        "dcp_cache_transfer",
        r"Unknown opcode: 0x66",
    ),
    "cache transfer's end is unknown": Fault(
        encode("dcp_cache_transfer_end"),
        lambda message: message.name,
        "dcp_cache_transfer_end",
        r"Unknown opcode: 0x67",
    ),
    "0x70 is unknown": Fault(
        encode_parts(0x80, 0x70),
        lambda message: message.name,
        "get_fusion_storage_snapshot",
        r"Unknown opcode: 0x70",
    ),
    "0x79 is unknown": Fault(
        encode_parts(0x80, 0x79),
        lambda message: message.name,
        "create_fusion_namespace",
        r"Unknown opcode: 0x79",
    ),
    "0x96 is Sync": Fault(
        encode("get_failover_log"),
        lambda message: message.name,
        "get_failover_log",
        r"Opcode: Sync \(0x96\)",
    ),
    "an opaque is little-endian": Fault(
        encode("dcp_noop", opaque=0xDEADBEEF), value("opaque"), 0xDEADBEEF, "Opaque: 0xefbeadde"
    ),
    "a mutation of 30 bytes reads into its key": Fault(
        BY_ID["seed004-14"].data,
        lambda message: (message.generation, message.field("nru"), message.key),
        ("upr", None, b"hello"),
        r"nru: 0x68",
        Context("off"),
    ),
    "a flush must have extras": Fault(
        encode("dcp_flush"), rules, [], "DCP Flush Request must have Extras"
    ),
    "seqnos of a collection must have 4 bytes": Fault(
        encode("get_all_vb_seqnos", state=0, collection_id=8),
        value("collection_id"),
        8,
        "Illegal Extras length, should be 4",
    ),
    "a durability timeout is not shown": Fault(
        BY_ID["syn-set-durability"].data,
        value("framing_extras.durability.timeout_ms"),
        5000,
        _ABSENT.format("5000"),
    ),
    "0xFF begins no frame": Fault(
        BY_ID["syn-frame-escapes"].data,
        lambda message: [field.name for field in _field(message, "framing_extras").fields],
        ["frame_17", "barrier"],
        "Cannot decode 0xFF id/len byte",
    ),
    "a pushed map of 4 bytes must have 16": Fault(
        BY_ID["syn-clustermap-v1"].data, value("revision"), 42, "should have 16 bytes of extras"
    ),
    "a server answer is one of the other table's": Fault(
        encode_parts(0x83, 0x02, specific=1),
        lambda message: message.name,
        "authenticate",
        "Add: Key not found",
    ),
    "a stream-id that is not counted shifts the message": Fault(
        BY_ID["syn-deletion-v2-sid-zero-felen"].data,
        lambda message: (_field(message, "by_seqno").value, message.sid),
        (5, 71),
        "by_seqno: 2450036262615121920",
    ),
    "a failover log has stray characters": Fault(
        BY_ID["seed004-07"].data, rules, [], "Trailing stray characters"
    ),
}


@each("name", FAULTS)
def test_we_read_what_tshark_does_not(name: str) -> None:
    fault = FAULTS[name]
    assert fault.read(annotate(fault.data, context=fault.context)) == fault.expected


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """tshark's tree of each fault's message."""
    folder: Path = tmp_path_factory.mktemp("tshark")
    return dict(
        zip(FAULTS, tshark.dissect([fault.data for fault in FAULTS.values()], folder), strict=True)
    )


@pytest.mark.slow
@pytest.mark.requires("tshark")
@pytest.mark.parametrize("name", FAULTS)
def test_tshark_has_the_fault(
    name: str, trees: dict[str, str], record_property: Callable[[str, object], None]
) -> None:
    tree = trees[name]
    assert "Couchbase" in tree
    is_there = re.search(FAULTS[name].shows, tree, re.DOTALL)
    record_property("fault", "there" if is_there else "mended")
    if tshark.version().startswith("4.0."):
        assert is_there, tree


@pytest.mark.slow
@pytest.mark.requires("tshark")
def test_two_messages_of_one_packet_stay_two(tmp_path: Path) -> None:
    data = encode("dcp_noop", opaque=1) + encode("dcp_seqno_advanced", by_seqno=7, opaque=2)
    (tree,) = tshark.dissect([data], tmp_path)
    first = annotate(data)
    second = annotate(data[first.size :])
    assert tree.count("Couchbase Protocol") == 2
    assert [first.name, second.name] == ["dcp_noop", "dcp_seqno_advanced"]
