"""DCP mutations, deletions and expirations of every generation."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from tests.encode import encode, encode_document
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
    Case(
        "deletion v1",
        "dcp_deletion",
        extras="0000000000000005 0000000000000002 0000",
        key=b"k",
        fields={"by_seqno": 5, "rev_seqno": 2, "nmeta": 0},
    ),
    Case(
        "deletion v2",
        "dcp_deletion",
        generation="v2",
        extras="0000000000000005 0000000000000002 6553f100 00",
        key=b"k",
        fields={"by_seqno": 5, "rev_seqno": 2, "delete_time": 1700000000, "unused": 0},
    ),
    Case(
        "deletion of the prototype",
        "dcp_deletion",
        generation="5.0-collections",
        extras="0000000000000005 0000000000000002 0000 01",
        key=b"c::k",
        fields={"by_seqno": 5, "rev_seqno": 2, "nmeta": 0, "collection_name_length": 1},
        rules=("legacy-layout",),
    ),
    Case(
        "expiration",
        "dcp_expiration",
        generation="v2",
        extras="0000000000000005 0000000000000002 6553f100",
        key=b"k",
        fields={"by_seqno": 5, "rev_seqno": 2, "delete_time": 1700000000},
    ),
    Case(
        "expiration until 6.0",
        "dcp_expiration",
        extras="0000000000000005 0000000000000002 0000",
        key=b"k",
        fields={"by_seqno": 5, "rev_seqno": 2, "nmeta": 0},
        rules=("legacy-layout",),
    ),
    Case(
        "expiration of the prototype",
        "dcp_expiration",
        generation="5.0-collections",
        extras="0000000000000005 0000000000000002 0000 01",
        key=b"c::k",
        fields={"by_seqno": 5, "rev_seqno": 2, "nmeta": 0, "collection_name_length": 1},
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


@pytest.mark.parametrize("command", ["dcp_deletion", "dcp_expiration"])
def test_xattrs_survive_and_are_no_body(command: str) -> None:
    value, datatype = encode_document(b"", xattrs={"_sync": "1"})
    message = annotate(encode(command, generation="v2", key="k", value=value, datatype=datatype))
    assert message.value is not None
    assert (message.problems, message.value.xattrs, message.value.body) == (
        [],
        ((b"_sync", b"1"),),
        b"",
    )


@pytest.mark.parametrize("command", ["dcp_deletion", "dcp_expiration"])
def test_a_body_after_the_xattrs_is_reported(command: str) -> None:
    value, datatype = encode_document(b"{}", xattrs={"_sync": "1"}, json=True)
    message = annotate(encode(command, generation="v2", key="k", value=value, datatype=datatype))
    assert [problem.reason for problem in message.problems] == [f"{command} carries a 2-byte body"]
