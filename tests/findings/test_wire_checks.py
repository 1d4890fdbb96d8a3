"""Rules about one message: each fires on its fault, none on a sound one, and bulk and single
reading agree.
"""

from __future__ import annotations

from struct import pack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpinspect.findings.wire_checks import candidates
from dcpinspect.findings.wire_rules import IDS, RULES
from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.header import HEADER_SIZE, MAGIC_DOCS, Header, encode_header
from dcpinspect.tables.messages import MessageBatch
from tests.catalogue import each
from tests.encode import encode, encode_parts, encode_xattrs
from tests.protocol.strategies import messages
from tests.protocol.vectors import ALL, Vector
from tests.tables.build import batch

COLLECTIONS_ON = encode("hello", "response", features=[{"feature": 0x12}])

OWN_WORDS = {
    *(
        "reserved-nonzero",
        "unknown-flag-bits",
        "flag-combination",
        "marker-range-inverted",
        "failover-log-order",
        "rollback-layout",
    ),
    *("commit-order", "prepare-cas-zero", "vbucket-state-value", "cas-zero", "seqno-huge"),
}
"""Rules that the division into fields does not know."""


def found(made: MessageBatch) -> list[tuple[int, str]]:
    return sorted((int(row), each.rule) for each in candidates(made) for row in each.rows)


def words(made: MessageBatch, rule: str) -> list[str]:
    found = [
        (each.words, int(row))
        for each in candidates(made)
        if each.rule == rule and each.words is not None
        for row in each.rows
    ]
    return [words if isinstance(words, str) else words(row) for words, row in found]


def log(*entries: tuple[int, int]) -> bytes:
    return b"".join(pack(">QQ", *entry) for entry in entries)


def mutation(**fields: object) -> bytes:
    return encode("dcp_mutation", **{"key": b"k", "value": b"v", "by_seqno": 1, "cas": 1, **fields})  # type: ignore[arg-type]


def marker(**fields: object) -> bytes:
    return encode(
        "dcp_snapshot_marker",
        **{"start_seqno": 1, "end_seqno": 2, "snapshot_type": ["memory"], **fields},  # type: ignore[arg-type]
    )


FAULTS: dict[str, list[bytes]] = {
    "length-mismatch": [encode_header(Header(0x80, 0x57, 0, 9, 31, 0, 0, 31, 0, 1)) + bytes(31)],
    "undefined-datatype": [mutation(datatype=0x08), mutation(datatype=0x80)],
    "unknown-opcode": [encode_parts(0x80, 0x7E)],
    "extras-length": [encode_parts(0x80, 0x57, extras=bytes(33), key=b"k", cas=1)],
    "unexpected-section": [
        encode_parts(0x80, 0x5C, key=b"k"),
        encode_parts(0x80, 0x5D, extras=bytes(4), value=b"v"),
    ],
    "bad-framing-extras": [encode_parts(0x08, 0x55, framing=b"\x21\x01", extras=bytes(4))],
    "undeclared-stream-id": [
        encode_parts(
            0x08,
            0x58,
            framing=b"\x22\x00\x01",
            extras=pack(">Q", 3) + bytes(13),
            key=b"k",
            cas=1,
            framing_size=0,
        )
    ],
    "legacy-layout": [encode("dcp_mutation", generation="upr", key=b"k", by_seqno=1, cas=1)],
    "reserved-nonzero": [mutation(lock_time=5)],
    "unknown-flag-bits": [
        encode("dcp_open", flags=["producer", "0x1000"], key="n"),
        marker(snapshot_type=["memory", "0x40"]),
    ],
    "flag-combination": [
        encode(
            "dcp_open",
            flags=["producer", "include-xattrs", "no-value", "no-value-with-underlying-datatype"],
            key="n",
        ),
        encode("dcp_open", flags=["producer", "include-deleted-user-xattrs"], key="n"),
        marker(snapshot_type=["memory", "disk"]),
        encode("dcp_stream_req", flags=["cache-transfer", "to-latest"], end_seqno=9),
        encode("dcp_add_stream", flags=["cache-transfer", "disk-only"]),
    ],
    "marker-value-length": [encode_parts(0x80, 0x56, extras=b"\x02", value=bytes(50))],
    "marker-range-inverted": [
        marker(start_seqno=3, end_seqno=2),
        marker(start_seqno=2**63 + 1, end_seqno=2**63),
        marker(generation="v2.0", max_visible_seqno=3),
        marker(generation="v2.2", max_visible_seqno=2, purge_seqno=3),
    ],
    "failover-log-size": [encode_parts(0x81, 0x53, value=bytes(15)), encode_parts(0x81, 0x54)],
    "failover-log-order": [
        encode_parts(0x81, 0x53, value=log((1, 5), (2, 6))),
        encode_parts(0x81, 0x54, value=log((1, 5), (0, 0))),
        encode_parts(0x81, 0x96, value=log((1, 5), (1, 0))),
    ],
    "rollback-layout": [encode_parts(0x81, 0x53, extras=bytes(8), specific=0x23)],
    "system-event-length": [
        encode_parts(0x80, 0x5F, extras=pack(">QIB", 1, 0, 0), key=b"c", value=bytes(15))
    ],
    "bad-xattr-section": [mutation(datatype=4, value=pack(">I", 99) + b"x")],
    "bad-snappy": [mutation(datatype=2, value=b"\x05hello")],
    "json-bit-not-json": [
        mutation(datatype=1, value=b"{"),
        mutation(datatype=5, value=pack(">I", 0) + b"{"),
    ],
    "deletion-with-body": [
        encode("dcp_deletion", key=b"k", value=b"body", cas=1),
        encode("dcp_deletion", key=b"k", value=encode_xattrs([(b"_s", b"1")]), datatype=5, cas=1),
    ],
    "commit-order": [
        encode("dcp_commit", key=b"k", prepared_seqno=5, commit_seqno=5),
        encode("dcp_abort", key=b"k", prepared_seqno=6, abort_seqno=5),
    ],
    "prepare-cas-zero": [
        encode("dcp_prepare", key=b"k", durability_level=1, cas=0),
        encode("dcp_prepare", key=b"k", durability_level=0, cas=1),
        encode("dcp_prepare", key=b"k", durability_level=4, cas=1),
    ],
    "vbucket-state-value": [
        encode_parts(0x80, 0x5B, extras=b"\x00"),
        encode_parts(0x80, 0x5B, extras=b"\x05"),
    ],
    "cas-zero": [mutation(cas=0)],
    "seqno-huge": [mutation(by_seqno=2**48 + 1), mutation(by_seqno=2**64 - 1)],
}


@each(("rule", "data"), [(rule, data) for rule, each in FAULTS.items() for data in each])
def test_a_fault_gives_exactly_its_rule(rule: str, data: bytes) -> None:
    assert {name for _, name in found(batch(data))} - {"legacy-layout", "reserved-nonzero"} | {
        rule
    } == {rule}
    assert rule in {name for _, name in found(batch(data))}


def test_a_cache_transfer_may_be_part_of_a_takeover_of_an_active_vbucket() -> None:
    assert (
        found(
            batch(
                encode(
                    "dcp_stream_req",
                    flags=["cache-transfer", "takeover", "active-only"],
                    end_seqno=9,
                )
            )
        )
        == []
    )


def test_a_key_without_collection_id_where_collections_are_on() -> None:
    assert found(batch(COLLECTIONS_ON, mutation(key=b"\x01k"))) == [(1, "bad-collection-prefix")]


def test_a_body_of_more_than_30_mib() -> None:
    data = encode_parts(0x80, 0x57, extras=bytes(31), key=b"k", cas=1, value=bytes((30 << 20) + 1))
    assert found(batch(data)) == [(0, "oversized-body")]


@pytest.mark.parametrize(
    ("collections", "key", "is_too_long"),
    [
        (True, b"\0" + bytes([107]) * 250, False),
        (True, b"\0" + bytes([107]) * 251, True),
        (True, b"\x80\x02" + bytes([107]) * 246, False),
        (True, b"\x80\x02" + bytes([107]) * 247, True),
        (False, bytes([107]) * 250, False),
        (False, bytes([107]) * 251, True),
    ],
)
def test_a_key_that_no_server_has(collections: bool, key: bytes, is_too_long: bool) -> None:
    talk = (COLLECTIONS_ON,) if collections else ()
    said = found(batch(*talk, mutation(key=key)))
    assert said == ([(len(talk), "oversized-body")] if is_too_long else [])


def test_every_rule_has_a_fault_here() -> None:
    elsewhere = {
        "bad-magic",
        "bad-collection-prefix",
        "oversized-body",
        "refused-payload",
        "value-length",
        "cache-transfer-record",
    }
    assert set(FAULTS) | elsewhere == {rule.id for rule in RULES} == IDS


@pytest.mark.parametrize(
    "data",
    [
        mutation(),
        marker(),
        marker(snapshot_type=[]),
        encode(
            "dcp_open", flags=["producer", "include-xattrs", "include-deleted-user-xattrs"], key="n"
        ),
        encode("dcp_open", flags=[], key="n"),
        encode("dcp_commit", key=b"k", prepared_seqno=5, commit_seqno=6),
        encode_parts(0x81, 0x53, value=log((2, 6), (1, 6), (3, 0))),
        encode_parts(0x81, 0x53, specific=0x22),
        encode_parts(0x80, 0x5B, extras=b"\x04"),
        mutation(by_seqno=2**48),
        encode_parts(0x81, 0x0C, key=b"k", specific=1),
        encode_parts(0x81, 0x0D, key=b"k", specific=1),
        encode_parts(0x81, 0xDB, extras=bytes(4), value=b"\1k", specific=0xA6),
        encode_parts(0x80, 0x72, value=b'{"mountPaths":[]}', datatype=1),
        encode_parts(0x80, 0x74),
        encode_parts(0x81, 0x8C, value=b"{}", datatype=1),
        encode_parts(0x80, 0xE0),
        encode_parts(0x80, 0xE1),
        encode_parts(0x80, 0x68),
    ],
)
def test_what_looks_like_a_fault_and_is_none(data: bytes) -> None:
    assert [name for _, name in found(batch(data)) if name != "unknown-opcode"] == []


def test_development_commands_are_a_note() -> None:
    assert [
        each.severity
        for each in candidates(batch(encode_parts(0x80, 0x68), encode_parts(0x80, 0x7E)))
    ] == ["warning", "note"]


@pytest.mark.parametrize(
    "data",
    [each for faults in FAULTS.values() for each in faults]
    + [encode_parts(0x80, 0x68), encode("dcp_noop", frames=[(9, b"x")])],
)
def test_a_fault_is_as_bad_in_the_field_table_as_in_a_finding(data: bytes) -> None:
    own = {rule.id: rule.severity for rule in RULES}
    in_bulk = {
        each.rule: each.severity or own[each.rule]
        for each in candidates(batch(data))
        if each.rule not in OWN_WORDS and len(each.rows)
    }
    assert {
        problem.rule: problem.severity
        for problem in batch(data).annotate(0).problems
        if problem.rule in IDS
    } == in_bulk


def test_numbers_are_in_the_words() -> None:
    assert words(batch(marker(start_seqno=9, end_seqno=2)), "marker-range-inverted") == [
        "marker 9–2 runs backwards"
    ]
    fields = marker(generation="v2.2", max_visible_seqno=30, purge_seqno=25)
    assert words(batch(fields), "marker-range-inverted") == [
        "greatest visible seqno 30 is above the end 2 of its marker",
        "purge seqno 25 is above the end 2 of its marker",
    ]
    assert words(batch(mutation(lock_time=7)), "reserved-nonzero") == [
        "lock time of dcp_mutation is 7, reserved"
    ]
    flags = words(batch(marker(snapshot_type=["disk", "0x40", "0x80"])), "unknown-flag-bits")
    assert flags == ["dcp_snapshot_marker Snapshot Type 0xc2: bits 0xc0 have no meaning"]


def test_bytes_that_the_capture_lacks_accuse_nobody() -> None:
    data = encode_parts(0x80, 0x5B, extras=b"\x00")
    assert found(batch(data, missing={0: [(24, 25)]})) == []
    text = mutation(datatype=1, value=b'{"a": 1}')
    assert found(batch(text, missing={0: [(len(text) - 2, len(text))]})) == []


def test_framing_extras_of_an_unknown_id_are_a_note_unless_others_are_broken() -> None:
    parts = [
        encode("dcp_noop", frames=frames)
        for frames in ([(9, b"x")], [(9, b"x"), (0, b"y")], [(5, b"")])
    ]
    said = [
        (one.rule, one.severity, one.rows.tolist())
        for one in candidates(batch(*parts))
        if len(one.rows)
    ]
    assert said == [("bad-framing-extras", "note", [0]), ("bad-framing-extras", "error", [1])]


def test_a_hole_elsewhere_leaves_what_can_be_read() -> None:
    data = mutation(datatype=0x88, value=b"0123456789")
    assert found(batch(data, missing={0: [(len(data) - 2, len(data))]})) == [
        (0, "undefined-datatype")
    ]
    made = batch(mutation(datatype=1, value=b"{"), missing={0: [(30, 31)]})
    assert found(made) == explained(made) == [(0, "json-bit-not-json")]


def explained(made: MessageBatch) -> list[tuple[int, str]]:
    found = {
        (index, problem.rule)
        for index in range(len(made))
        for problem in made.annotate(index).problems
        if problem.rule in IDS
    }
    refused = {
        row
        for group in made.decoded.groups
        if is_text(group.choice.layout)
        for row in group.rows.tolist()
    }
    refused -= set(
        np.flatnonzero(made.decoded.is_response).tolist()
    )  # who is asked in a text that is no JSON refuses it
    return sorted(found - {(index, "json-bit-not-json") for index in refused})


def is_text(layout: Layout | None) -> bool:
    return layout is not None and any(
        isinstance(item, Field) and item.kind is FieldKind.JSON for item in layout.value
    )


def whole(data: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """The message as the engine hands it on: as long as its header says, zeros for what is not
    there.
    """
    size = HEADER_SIZE + int.from_bytes(data[8:12], "big")
    return data[:size].ljust(size, b"\0"), [(len(data), size)] if len(data) < size else []


def is_message(data: bytes) -> bool:
    return (
        len(data) >= HEADER_SIZE
        and data[0] in MAGIC_DOCS
        and int.from_bytes(data[8:12], "big") < 4096
    )


@each("vector", ALL)
def test_vectors_break_in_bulk_what_they_break_one_by_one(vector: Vector) -> None:
    data, missing = whole(vector.data)
    made = batch(data, missing={0: missing})
    assert [each for each in found(made) if each[1] not in OWN_WORDS] == explained(made)


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(
    data=st.lists(messages.filter(is_message), min_size=1, max_size=4),
    collections=st.booleans(),
    holes=st.data(),
)
def test_any_messages_break_in_bulk_what_they_break_one_by_one(
    data: list[bytes], collections: bool, holes: st.DataObject
) -> None:
    parts: list[tuple[bytes, list[tuple[int, int]]]] = (
        [(COLLECTIONS_ON, [])] if collections else []
    ) + [whole(each) for each in data]
    for message, missing in parts[collections:]:
        if (
            not missing and len(message) > HEADER_SIZE + 1 and holes.draw(st.booleans())
        ):  # behind what may show a stream-id
            start = holes.draw(st.integers(HEADER_SIZE + 1, len(message) - 1))
            missing.append((start, holes.draw(st.integers(start + 1, len(message)))))
    made = batch(
        *(part for part, _ in parts),
        missing={row: missing for row, (_, missing) in enumerate(parts) if missing},
    )
    assert [each for each in found(made) if each[1] not in OWN_WORDS] == explained(made)
    assert all(np.all(np.diff(each.rows) > 0) for each in candidates(made))
