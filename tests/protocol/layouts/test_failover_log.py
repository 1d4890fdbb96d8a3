"""Failover logs, on DCP and on plain connections."""

from __future__ import annotations

import pytest

from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case("request", "dcp_get_failover_log"),
    Case(
        "answer",
        "dcp_get_failover_log",
        side="response",
        value="00000000feeddeca 0000000000000005",
        fields={"failover_log": [{"uuid": "0x00000000feeddeca", "seqno": 5}]},
    ),
    Case("request on a plain connection", "get_failover_log"),
    Case(
        "answer on a plain connection",
        "get_failover_log",
        side="response",
        value="00000000feeddeca 0000000000000005",
        fields={"failover_log": [{"uuid": "0x00000000feeddeca", "seqno": 5}]},
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
