"""DCP snapshot markers of every generation."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from tests.encode import encode, encode_parts
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "v1",
        "dcp_snapshot_marker",
        extras="0000000000000001 0000000000000008 00000005",
        fields={"start_seqno": 1, "end_seqno": 8, "snapshot_type": 5},
    ),
    Case(
        "v2.0",
        "dcp_snapshot_marker",
        generation="v2.0",
        extras="00",
        value="0000000000000001 0000000000000008 00000006 0000000000000008 0000000000000007 ",
        fields={
            "version": 0,
            "start_seqno": 1,
            "end_seqno": 8,
            "snapshot_type": 6,
            "max_visible_seqno": 8,
            "high_completed_seqno": 7,
        },
    ),
    Case(
        "v2.0 that says 2.1",
        "dcp_snapshot_marker",
        generation="v2.0",
        extras="01",
        value="0000000000000001 0000000000000008 00000006 0000000000000008 0000000000000007 ",
        fields={
            "version": 1,
            "start_seqno": 1,
            "end_seqno": 8,
            "snapshot_type": 6,
            "max_visible_seqno": 8,
            "high_completed_seqno": 7,
        },
        rules=("contradiction",),
    ),
    Case(
        "v2.1",
        "dcp_snapshot_marker",
        generation="v2.1",
        extras="01",
        value=(
            "0000000000000001 0000000000000008 00000006 0000000000000008 0000000000000007 "
            "17979cfe362a0000"
        ),
        fields={
            "version": 1,
            "start_seqno": 1,
            "end_seqno": 8,
            "snapshot_type": 6,
            "max_visible_seqno": 8,
            "high_completed_seqno": 7,
            "timestamp": 1700000000000000000,
        },
        rules=("legacy-layout",),
    ),
    Case(
        "v2.2",
        "dcp_snapshot_marker",
        generation="v2.2",
        extras="02",
        value=(
            "0000000000000001 0000000000000008 00000006 0000000000000008 0000000000000007 "
            "0000000000000003 0000000000000006"
        ),
        fields={
            "version": 2,
            "start_seqno": 1,
            "end_seqno": 8,
            "snapshot_type": 6,
            "max_visible_seqno": 8,
            "high_completed_seqno": 7,
            "purge_seqno": 3,
            "high_prepared_seqno": 6,
        },
    ),
    Case(
        "v2.2 without its last field",
        "dcp_snapshot_marker",
        generation="v2.2-short",
        extras="02",
        value=(
            "0000000000000001 0000000000000008 00000006 0000000000000008 0000000000000007 "
            "0000000000000003"
        ),
        fields={
            "version": 2,
            "start_seqno": 1,
            "end_seqno": 8,
            "snapshot_type": 6,
            "max_visible_seqno": 8,
            "high_completed_seqno": 7,
            "purge_seqno": 3,
        },
        rules=("legacy-layout",),
    ),
    Case("first specification", "dcp_snapshot_marker", generation="upr", rules=("legacy-layout",)),
    Case("acknowledged", "dcp_snapshot_marker", side="response"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_message_decodes_to_its_fields(case: Case) -> None:
    assert decoded(case) == expected(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.encodes], ids=lambda case: case.name
)
def test_fields_encode_to_the_message(case: Case) -> None:
    assert encoded(case) == case.data


@pytest.mark.parametrize(
    ("flags", "meaning"),
    [(0x06, "disk, checkpoint"), (0x30, "history, may-duplicate-keys"), (0x40, "0x40")],
)
def test_flags_are_named(flags: int, meaning: str) -> None:
    field = annotate(encode("dcp_snapshot_marker", generation="v1", snapshot_type=flags)).field(
        "snapshot_type"
    )
    assert field is not None
    assert field.meaning == meaning


@pytest.mark.parametrize(
    ("version", "size"), [(0, 35), (0, 44), (1, 52), (2, 36), (2, 51), (2, 53), (3, 52)]
)
def test_a_value_whose_length_and_version_disagree_is_reported(version: int, size: int) -> None:
    data = encode_parts(0x80, 0x56, extras=bytes([version]), value=bytes(size))
    assert {problem.rule for problem in annotate(data).problems} <= {
        "contradiction",
        "marker-value-length",
    }
    assert annotate(data).problems
