"""Administration."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from tests.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "compaction",
        "compact_db",
        extras="0000000000000001 0000000000000002 01 00 0000 00000000",
        fields={
            "purge_before_time": 1,
            "purge_before_seqno": 2,
            "drop_deletes": 1,
            "pad1": 0,
            "file_id": 0,
            "pad2": 0,
        },
    ),
    Case("scan", "range_scan_create", value=b"{}"),
    Case(
        "data limit",
        "set_bucket_data_limit_exceeded",
        extras="0035",
        key=b"b",
        fields={"limit_status": 53},
    ),
    Case("command timer", "get_cmd_timer", extras="57", key=b"b", fields={"command": 87}),
    Case(
        "clock",
        "adjust_timeofday",
        extras="0000000000000001 00",
        fields={"time_offset": 1, "time_type": 0},
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


def test_a_scan_goes_on_by_its_id() -> None:
    message = annotate(encode("range_scan_continue", scan_id=b"0123456789abcdef", item_limit=7))
    assert [(field.name, field.raw) for field in message.fields[9:11]] == [
        ("scan_id", b"0123456789abcdef"),
        ("item_limit", bytes(3) + b"\7"),
    ]
