"""DCP prepare, seqno acknowledged, commit and abort."""

from __future__ import annotations

import pytest

from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "prepare",
        "dcp_prepare",
        extras="0000000000000004 0000000000000001 00000000 00000000 00000000 07 01 02",
        key=b"k",
        value=b"v",
        fields={
            "by_seqno": 4,
            "rev_seqno": 1,
            "item_flags": 0,
            "expiration": 0,
            "lock_time": 0,
            "nru": 7,
            "deleted": 1,
            "durability_level": 2,
        },
    ),
    Case(
        "seqno acknowledged",
        "dcp_seqno_acknowledged",
        extras="0000000000000004",
        fields={"prepared_seqno": 4},
    ),
    Case(
        "commit",
        "dcp_commit",
        extras="0000000000000004 0000000000000005",
        key=b"k",
        fields={"prepared_seqno": 4, "commit_seqno": 5},
    ),
    Case(
        "abort",
        "dcp_abort",
        extras="0000000000000004 0000000000000005",
        key=b"k",
        fields={"prepared_seqno": 4, "abort_seqno": 5},
    ),
    Case(
        "commit refused", "dcp_commit", generation="error", side="response", status=1, encodes=False
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
