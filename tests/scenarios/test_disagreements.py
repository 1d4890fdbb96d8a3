"""Where specifications, implementations and releases disagree: what an inspector does with each.

The ids are those of the list of disagreements that the protocol reference keeps. Not here: D34,
D39, D44 and D45, which are about streams over time and belong to the rules that watch them.
"""

from __future__ import annotations

from collections.abc import Callable

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.control_keys import control_key
from dcpinspect.protocol.features import feature
from dcpinspect.protocol.flex import RESPONSE_FRAMES
from dcpinspect.protocol.header import MAGIC_DOCS, Magic
from dcpinspect.protocol.message import Context, Message
from tests.catalogue import each
from tests.encode import encode, encode_parts
from tests.protocol.vectors import BY_ID

OFF = Context("off")
ON = Context("on")


def published(name: str, *, corrected: bool = True) -> Message:
    vector = BY_ID[name]
    return annotate(vector.data if corrected else vector.literal, context=vector.context)


def value(message: Message, name: str) -> object:
    field = message.field(name)
    return field.value if field is not None else None


def meaning(message: Message, name: str) -> str | None:
    field = message.field(name)
    return field.meaning if field is not None else None


def reasons(message: Message) -> list[str]:
    return [problem.reason for problem in message.problems]


def rules(message: Message) -> list[str]:
    return [problem.rule for problem in message.problems]


def marker(extras: bytes, size: int) -> Message:
    return annotate(encode_parts(0x80, 0x56, extras=extras, value=bytes(size)))


CASES: dict[str, tuple[Callable[[], object], object]] = {
    "D1: extras that the body does not count are reported, with the body that would count them": (
        lambda: reasons(published("seed000-01", corrected=False))[0],
        (
            "extras 20 + key 0 exceed body 0; with a body of 20 it is a dcp_snapshot_marker in the "
            "v1 layout"
        ),
    ),
    "D2: an extras length of 9 for 20 drawn bytes is a contradiction": (
        lambda: reasons(published("seed001-01", corrected=False))[0],
        "extras 9 + key 0 exceed body 0",
    ),
    "D3: a v2.0 marker whose version byte says 2.1 is read as v2.0 and the byte is reported": (
        lambda: (marker(b"\1", 36).generation, reasons(marker(b"\1", 36))),
        ("v2.0", ["version byte says 2.1, the length of the value says 2.0"]),
    ),
    "D4: snapshot type 2 is disk": (
        lambda: meaning(
            annotate(encode("dcp_snapshot_marker", generation="v1", snapshot_type=2)),
            "snapshot_type",
        ),
        "disk",
    ),
    "D5: snapshot type 1 is memory, and what the first generation meant is told": (
        lambda: meaning(published("seed001-01"), "snapshot_type"),
        "memory; from a server before 3.0: disk",
    ),
    "D5: snapshot type 0 is memory of the first generation": (
        lambda: meaning(annotate(encode("dcp_snapshot_marker", generation="v1")), "snapshot_type"),
        "memory, as servers before 3.0 number it",
    ),
    "D6: a marker without extras opens a snapshot of unknown range": (
        lambda: (published("seed004-13").generation, rules(published("seed004-13"))),
        ("upr", ["legacy-layout"]),
    ),
    "D7: a marker's answer is a legal message": (
        lambda: rules(annotate(encode("dcp_snapshot_marker", "response"))),
        [],
    ),
    "D8: a v2.2 marker has 52 bytes of value": (
        lambda: (marker(b"\2", 52).generation, rules(marker(b"\2", 52))),
        ("v2.2", []),
    ),
    "D8: a v2.2 marker of 44 bytes is accepted with a note": (
        lambda: (marker(b"\2", 44).generation, rules(marker(b"\2", 44))),
        ("v2.2-short", ["legacy-layout"]),
    ),
    "D9: the version stands in the extras, the seqnos in the value": (
        lambda: [
            (field.name, field.offset)
            for field in published("seed002-02").fields
            if field.name in ("version", "start_seqno", "end_seqno")
        ],
        [("version", 24), ("start_seqno", 25), ("end_seqno", 33)],
    ),
    "D10: a stream request of 40 bytes ends with the high seqno": (
        lambda: (published("seed004-08").generation, published("seed004-08").fields[-1].name),
        ("upr", "high_seqno"),
    ),
    "D11: a rollback seqno is found in the extras": (
        lambda: value(published("seed004-09"), "rollback_seqno"),
        0,
    ),
    "D11: a rollback seqno is found in the value": (
        lambda: value(published("syn-rollback-current"), "rollback_seqno"),
        500,
    ),
    "D12: a failover log that the body does not count is missed and its bytes reported": (
        lambda: reasons(published("seed004-11", corrected=False)),
        ["dcp_stream_req response must have a value", "64 bytes follow the message"],
    ),
    "D13: a stream request may be refused with key_enoent, which means to roll back to 0": (
        lambda: (
            meaning(annotate(encode("dcp_stream_req", "response", status=1)), "status"),
            rules(annotate(BY_ID["syn-nmvb"].data)),
        ),
        (
            "key_enoent: The producer does not know the vbucket uuid; roll back all the way to "
            "0 (UPR; later servers answer rollback"
            " instead)",
            [],
        ),
    ),
    "D14: stream end 1 is closed, and what the first generation meant is told": (
        lambda: meaning(annotate(encode("dcp_stream_end", end_reason=1)), "end_reason"),
        "closed; from a server before 3.0: state-changed",
    ),
    "D14: stream end 1 is state-changed where the connection is of the first generation": (
        lambda: meaning(
            annotate(encode("dcp_stream_end", end_reason=1), context=Context(generation="upr")),
            "end_reason",
        ),
        "state-changed, as servers before 3.0 number it",
    ),
    "D14: stream end 2 is state-changed": (
        lambda: meaning(annotate(encode("dcp_stream_end", end_reason=2)), "end_reason"),
        "state-changed",
    ),
    (
        "D15: vbucket states 2 and 3 are replica and pending, and what the first generation meant "
        "is told"
    ): (
        lambda: [
            meaning(annotate(encode("dcp_set_vbucket_state", state=state)), "state")
            for state in (2, 3)
        ],
        [
            "replica; from a server before 3.0: pending",
            "pending; from a server before 3.0: replica",
        ],
    ),
    (
        "D15: vbucket states 2 and 3 are pending and replica where the connection is of the first "
        "generation"
    ): (
        lambda: [
            meaning(
                annotate(
                    encode("dcp_set_vbucket_state", state=state), context=Context(generation="upr")
                ),
                "state",
            )
            for state in (2, 3)
        ],
        [
            "pending, as servers before 3.0 number it",
            "replica, as servers before 3.0 number it",
        ],
    ),
    "D15: set vbucket state is answered": (
        lambda: rules(annotate(encode("dcp_set_vbucket_state", "response"))),
        [],
    ),
    "D16: the sequence number of an open is reserved": (
        lambda: value(published("seed004-01"), "reserved"),
        0,
    ),
    "D17: a mutation of 30 bytes has no nru": (
        lambda: (published("seed004-14").generation, published("seed004-14").field("nru")),
        ("upr", None),
    ),
    "D18: a deletion may hold xattrs": (lambda: rules(published("syn-deletion-v2-xattr")), []),
    "D18: an expiration has 20 bytes, 18 before 6.5": (
        lambda: (rules(published("syn-expiration")), rules(published("seed004-16"))),
        ([], ["legacy-layout"]),
    ),
    "D19: an added stream's answer holds its opaque and no vbucket": (
        lambda: [
            field.name
            for field in published("seed004-04").fields
            if field.offset >= 24 or field.name == "vbucket"
        ],
        ["stream_opaque"],
    ),
    "D20: a closed stream is answered": (
        lambda: rules(annotate(encode("dcp_close_stream", "response"))),
        [],
    ),
    "D21: a stream request is read by its bytes and not by the page's table": (
        lambda: value(published("kv-stream-request-01"), "snapshot_start_seqno"),
        0xFFEEDD,
    ),
    "D21: a stream request that lacks 8 bytes says which field is cut": (
        lambda: reasons(published("kv-stream-request-03", corrected=False)),
        ["message ends 8 bytes early, in snapshot_end_seqno"],
    ),
    "D22: an expiration drawn with 20 bytes under a header of 18 leaves 2 bytes over": (
        lambda: (
            rules(published("kv-expiration-01", corrected=False)),
            published("kv-expiration-01").generation,
        ),
        (["legacy-layout", "trailing-bytes"], "v2"),
    ),
    "D23: a deletion of 19 bytes is the collections prototype": (
        lambda: (published("kv-deletion-01").generation, published("kv-deletion-01").key),
        ("5.0-collections", b"c::hello"),
    ),
    "D24: a control has no extras": (
        lambda: reasons(published("kv-control-01", corrected=False)),
        [
            "dcp_control request with 4 bytes of extras; 0 is defined",
            "dcp_control request must have a key",
            "11 bytes follow the message",
        ],
    ),
    "D24: a control's answer is a header": (
        lambda: (published("kv-control-02").name, published("kv-control-02").size),
        ("dcp_control", 24),
    ),
    "D25: a noop is a header, and what is drawn after it follows the message": (
        lambda: reasons(published("kv-no-op-01", corrected=False)),
        ["4 bytes follow the message"],
    ),
    "D26: a buffer acknowledgement without extras is told what is defined": (
        lambda: reasons(published("kv-buffer-ack-01", corrected=False)),
        ["dcp_buffer_acknowledgement request with 0 bytes of extras; 4 is defined"],
    ),
    "D27: a prepare drawn with opcode 0x57 is a mutation": (
        lambda: published("kv-prepare-01", corrected=False).name,
        "dcp_mutation",
    ),
    "D27: a prepare has its own tail": (
        lambda: value(published("kv-prepare-01"), "durability_level"),
        1,
    ),
    "D28: seqno advanced is 0x64 with 8 bytes": (
        lambda: (
            published("kv-seqno-advanced-01").name,
            value(published("kv-seqno-advanced-01"), "by_seqno"),
        ),
        ("dcp_seqno_advanced", 4),
    ),
    "D29: an OSO snapshot whose body counts no extras is told the body that fits": (
        lambda: reasons(published("kv-oso-snapshot-01", corrected=False))[0],
        (
            "extras 4 + key 0 exceed body 0; with a body of 4 it is a dcp_oso_snapshot in the v1 "
            "layout"
        ),
    ),
    "D30: a cached item that lost four bytes is reported": (
        lambda: reasons(published("kv-cache-transfer-01", corrected=False))[0],
        "key of 26725 bytes exceeds the 10 left",
    ),
    "D30: a cached item's key has a collection id": (
        lambda: (
            annotate(BY_ID["syn-cache-transfer-2"].data, context=ON).fields[9].fields[9].meaning
        ),
        "default collection",
    ),
    "D31: swapped scope and collection ids are noticed": (
        lambda: reasons(annotate(BY_ID["kv-system-event-01"].literal)),
        ["scope and collection id look swapped: the scope comes first"],
    ),
    "D31: scope, then collection": (
        lambda: (
            value(published("kv-system-event-01"), "scope_id"),
            value(published("kv-system-event-01"), "collection_id"),
        ),
        (0, 8),
    ),
    "D32: enabling expiries no longer switches delete times on, and the key says so": (
        lambda: (
            "in 6.5/6.6 it also switched delete times on"
            in getattr(control_key("enable_expiry_opcode"), "doc", "")
        ),
        True,
    ),
    "D33: the noop interval has no enforced range and the key says so": (
        lambda: "not enforced" in getattr(control_key("set_noop_interval"), "doc", ""),
        True,
    ),
    "D35: set vbucket state has no value": (
        lambda: rules(annotate(encode("dcp_set_vbucket_state", state=1, value=b"{}"))),
        ["unexpected-section"],
    ),
    "D36: a mutation of 32 bytes is the collections prototype": (
        lambda: (
            annotate(encode_parts(0x80, 0x57, extras=bytes(32), key=b"k"), context=OFF).generation
        ),
        "5.0-collections",
    ),
    "D37: stream-ids go up to 65535": (
        lambda: annotate(encode("dcp_noop", frames=[(2, b"\xff\xff")])).sid,
        65535,
    ),
    "D37: no stream-id is 0": (
        lambda: annotate(encode("dcp_noop", frames=[(2, b"\0\0")])).fields[10].fields[0].meaning,
        "no stream-id is 0",
    ),
    "D38: 0x08 is a legal magic": (
        lambda: (MAGIC_DOCS[Magic.FLEX_REQUEST], rules(annotate(encode("dcp_noop", flex=True)))),
        ("request, flex framing", []),
    ),
    "D40: stream end 6 is rollback": (
        lambda: meaning(annotate(encode("dcp_stream_end", end_reason=6)), "end_reason"),
        "rollback",
    ),
    "D41: with-meta extras of 30 bytes hold options and nmeta": (
        lambda: (
            value(published("kv-set-with-meta-01"), "options"),
            value(published("kv-set-with-meta-01"), "nmeta"),
        ),
        (2, 0),
    ),
    "D41: with-meta extras of 26 bytes hold nmeta only": (
        lambda: published("kv-set-with-meta-01", corrected=False).field("options"),
        None,
    ),
    "D42: a persisted seqno is 8 bytes of extras": (
        lambda: value(published("kv-persist-seqno-01"), "seqno"),
        0xFEEDDECA,
    ),
    "D43: answers have four framing extras": (
        lambda: [spec.name for spec in RESPONSE_FRAMES.values()],
        ["server_duration", "read_units", "write_units", "throttle_duration"],
    ),
    "D46: feature 0x13 is SnappyEverywhere and mentions its other name": (
        lambda: (
            getattr(feature(0x13), "name", ""),
            "OpenTracing" in getattr(feature(0x13), "doc", ""),
        ),
        ("SnappyEverywhere", True),
    ),
    "D47: an event layout that only a client library has is read with a note": (
        lambda: reasons(
            annotate(
                encode("dcp_system_event", event=2, version=0, manifest_uid=1, collection_id=8)
            )
        ),
        ["dcp_system_event in the v0 layout: a layout of a client library; servers never send it"],
    ),
    "D48: a key length is unsigned": (
        lambda: len(annotate(encode("dcp_mutation", key=b"k" * 0x8001), context=OFF).key or b""),
        0x8001,
    ),
}


@each("name", CASES)
def test_a_disagreement_is_read_as_the_reference_says(name: str) -> None:
    seen, expected = CASES[name]
    assert seen() == expected


def test_every_disagreement_about_single_messages_is_covered() -> None:
    about_streams = {34, 39, 44, 45}
    assert {int(name[1 : name.index(":")]) for name in CASES} == set(range(1, 49)) - about_streams
