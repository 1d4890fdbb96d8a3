"""DCP system events of every event and version."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from tests.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "collection begins",
        "dcp_system_event",
        generation="v0",
        extras="0000000000000009 00000000 00",
        key=b"c",
        value="0000000000000002 00000000 00000008",
        fields={
            "by_seqno": 9,
            "event": 0,
            "version": 0,
            "manifest_uid": 2,
            "scope_id": 0,
            "collection_id": 8,
        },
    ),
    Case(
        "collection begins with a TTL",
        "dcp_system_event",
        extras="0000000000000009 00000000 01",
        key=b"c",
        value="0000000000000002 00000000 00000008 00011940",
        fields={
            "by_seqno": 9,
            "event": 0,
            "version": 1,
            "manifest_uid": 2,
            "scope_id": 0,
            "collection_id": 8,
            "max_ttl": 72000,
        },
    ),
    Case(
        "collection ends",
        "dcp_system_event",
        generation="v0",
        extras="0000000000000009 00000001 00",
        value="0000000000000003 00000000 00000008",
        fields={
            "by_seqno": 9,
            "event": 1,
            "version": 0,
            "manifest_uid": 3,
            "scope_id": 0,
            "collection_id": 8,
        },
    ),
    Case(
        "scope is created",
        "dcp_system_event",
        generation="v0",
        extras="0000000000000009 00000003 00",
        key=b"s",
        value="0000000000000004 00000009",
        fields={"by_seqno": 9, "event": 3, "version": 0, "manifest_uid": 4, "scope_id": 9},
    ),
    Case(
        "scope is dropped",
        "dcp_system_event",
        generation="v0",
        extras="0000000000000009 00000004 00",
        value="0000000000000005 00000009",
        fields={"by_seqno": 9, "event": 4, "version": 0, "manifest_uid": 5, "scope_id": 9},
    ),
    Case(
        "reserved event of a client library",
        "dcp_system_event",
        generation="v0",
        extras="0000000000000009 00000002 00",
        value="0000000000000005 00000009",
        fields={"by_seqno": 9, "event": 2, "version": 0, "manifest_uid": 5, "collection_id": 9},
        rules=("legacy-layout",),
    ),
    Case(
        "modified, of a client library",
        "dcp_system_event",
        generation="v0",
        extras="0000000000000009 00000005 00",
        key=b"c",
        value="0000000000000005 00000009 00000001",
        fields={
            "by_seqno": 9,
            "event": 5,
            "version": 0,
            "manifest_uid": 5,
            "collection_id": 9,
            "max_ttl": 1,
        },
        rules=("legacy-layout",),
    ),
    Case(
        "version that nobody described",
        "dcp_system_event",
        generation="unknown",
        extras="0000000000000009 00000000 09",
        key=b"c",
        value=b"abc",
        fields={"by_seqno": 9, "event": 0, "version": 9},
    ),
    Case(
        "event that nobody described",
        "dcp_system_event",
        generation="unknown",
        extras="0000000000000009 0000004d 00",
        value=b"abc",
        fields={"by_seqno": 9, "event": 77, "version": 0},
    ),
    Case(
        "prototype",
        "dcp_system_event",
        generation="5.0-collections",
        extras="0000000000000009 00000002",
        key=b"c",
        value=b"abc",
        fields={"by_seqno": 9, "event": 2},
        rules=("legacy-layout",),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_message_decodes_to_its_fields(case: Case) -> None:
    assert decoded(case) == expected(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.encodes], ids=lambda case: case.name
)
def test_fields_encode_to_the_message(case: Case) -> None:
    assert encoded(case) == case.data


TABLES: dict[int, dict[str, object]] = {
    0: {
        "manifest_uid": 2,
        "scope_id": 8,
        "collection_id": 9,
        "ttl_valid": True,
        "max_ttl": 60,
        "collection_name": "c",
        "history": True,
        "default_collection_mvs": 5,
        "metered": True,
        "flush_uid": 6,
    },
    1: {"manifest_uid": 2, "scope_id": 8, "collection_id": 9, "system_collection": True},
    3: {"manifest_uid": 2, "scope_id": 8, "scope_name": "s"},
    4: {"manifest_uid": 2, "scope_id": 8, "system_scope": True},
    5: {"manifest_uid": 2, "scope_id": 8, "collection_id": 9, "collection_name": "c"},
}


@pytest.mark.parametrize("event", TABLES)
def test_the_event_decides_which_flatbuffer_table_a_value_is(event: int) -> None:
    key = b"name" if event in (0, 3, 5) else b""
    message = annotate(
        encode(
            "dcp_system_event",
            generation="v2",
            by_seqno=1,
            event=event,
            version=2,
            key=key,
            **TABLES[event],  # type: ignore[arg-type]
        )
    )
    value = message.field("value")
    assert value is not None
    assert (
        message.problems,
        {field.name: field.value for field in value.fields if field.size},
    ) == ([], TABLES[event])


def test_a_flatbuffer_that_points_outside_the_value_is_reported_and_shown_raw() -> None:
    data = encode(
        "dcp_system_event", generation="v2", event=3, version=2, key=b"s", value=b"\xff" * 20
    )
    assert [problem.rule for problem in annotate(data).problems] == ["system-event-length"]


@pytest.mark.parametrize(("event", "key"), [(0, b""), (3, b""), (1, b"name"), (4, b"name")])
def test_an_event_has_a_name_when_something_begins(event: int, key: bytes) -> None:
    data = encode("dcp_system_event", generation="v0", event=event, version=0, key=key)
    assert [problem.rule for problem in annotate(data).problems] == ["unexpected-section"]
