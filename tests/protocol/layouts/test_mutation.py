"""DCP mutations of every generation."""

from __future__ import annotations

import pytest

from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "current",
        "dcp_mutation",
        extras="0000000000000004 0000000000000001 02000006 00000000 00000000 000007",
        key=b"hello",
        value=b"world",
        fields={
            "by_seqno": 4,
            "rev_seqno": 1,
            "item_flags": 33554438,
            "expiration": 0,
            "lock_time": 0,
            "nmeta": 0,
            "nru": 7,
        },
    ),
    Case(
        "first specification",
        "dcp_mutation",
        generation="upr",
        extras="0000000000000004 0000000000000001 02000006 00000000 00000000 0000",
        key=b"hello",
        value=b"world",
        fields={
            "by_seqno": 4,
            "rev_seqno": 1,
            "item_flags": 33554438,
            "expiration": 0,
            "lock_time": 0,
            "nmeta": 0,
        },
        rules=("legacy-layout",),
    ),
    Case(
        "collections prototype",
        "dcp_mutation",
        generation="5.0-collections",
        extras="0000000000000004 0000000000000001 02000006 00000000 00000000 00000001",
        key=b"c::hello",
        value=b"world",
        fields={
            "by_seqno": 4,
            "rev_seqno": 1,
            "item_flags": 33554438,
            "expiration": 0,
            "lock_time": 0,
            "nmeta": 0,
            "nru": 0,
            "collection_name_length": 1,
        },
        rules=("legacy-layout",),
    ),
    Case(
        "without a value",
        "dcp_mutation",
        extras="0000000000000004 0000000000000001 02000006 00000000 00000000 000000",
        key=b"hello",
        fields={
            "by_seqno": 4,
            "rev_seqno": 1,
            "item_flags": 33554438,
            "expiration": 0,
            "lock_time": 0,
            "nmeta": 0,
            "nru": 0,
        },
    ),
    Case("refused", "dcp_mutation", generation="error", side="response", status=34, encodes=False),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_message_decodes_to_its_fields(case: Case) -> None:
    assert decoded(case) == expected(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.encodes], ids=lambda case: case.name
)
def test_fields_encode_to_the_message(case: Case) -> None:
    assert encoded(case) == case.data
