"""DCP stream request and its answers."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "current",
        "dcp_stream_req",
        extras=(
            "00000010 00000000 0000000000000005 ffffffffffffffff 00000000feeddeca "
            "0000000000000004 0000000000000006"
        ),
        fields={
            "flags": 16,
            "reserved": 0,
            "start_seqno": 5,
            "end_seqno": 18446744073709551615,
            "vbucket_uuid": "0x00000000feeddeca",
            "snapshot_start_seqno": 4,
            "snapshot_end_seqno": 6,
        },
    ),
    Case(
        "with a filter",
        "dcp_stream_req",
        extras=(
            "00000010 00000000 0000000000000005 ffffffffffffffff 00000000feeddeca "
            "0000000000000004 0000000000000006"
        ),
        value=b'{"collections":["8a"]}',
        fields={
            "flags": 16,
            "reserved": 0,
            "start_seqno": 5,
            "end_seqno": 18446744073709551615,
            "vbucket_uuid": "0x00000000feeddeca",
            "snapshot_start_seqno": 4,
            "snapshot_end_seqno": 6,
        },
    ),
    Case(
        "first specification",
        "dcp_stream_req",
        generation="upr",
        extras=(
            "00000010 00000000 0000000000000005 ffffffffffffffff 00000000feeddeca 0000000000000009"
        ),
        fields={
            "flags": 16,
            "reserved": 0,
            "start_seqno": 5,
            "end_seqno": 18446744073709551615,
            "vbucket_uuid": "0x00000000feeddeca",
            "high_seqno": 9,
        },
        rules=("legacy-layout",),
    ),
    Case(
        "accepted",
        "dcp_stream_req",
        side="response",
        value="00000000feeddeca 0000000000000005 00000000decafe00 0000000000000000",
        fields={
            "failover_log": [
                {"uuid": "0x00000000feeddeca", "seqno": 5},
                {"uuid": "0x00000000decafe00", "seqno": 0},
            ]
        },
    ),
    Case(
        "rollback",
        "dcp_stream_req",
        side="response",
        status=35,
        value="00000000000001f4",
        fields={"rollback_seqno": 500},
    ),
    Case(
        "rollback in the extras",
        "dcp_stream_req",
        generation="upr",
        side="response",
        status=35,
        extras="00000000000001f4",
        fields={"rollback_seqno": 500},
        rules=("legacy-layout",),
    ),
    Case(
        "wrong vbucket with a map",
        "dcp_stream_req",
        generation="error",
        side="response",
        status=7,
        value=b'{"rev":42}',
        encodes=False,
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


def test_an_endless_stream_says_so() -> None:
    field = annotate(CASES[0].data).field("end_seqno")
    assert field is not None
    assert field.meaning == "no end"
