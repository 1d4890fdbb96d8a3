"""DCP add stream."""

from __future__ import annotations

import pytest

from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case("takeover", "dcp_add_stream", extras="00000001", fields={"flags": 1}),
    Case(
        "answer",
        "dcp_add_stream",
        side="response",
        extras="00001000",
        fields={"stream_opaque": 4096},
    ),
    Case(
        "refusal from the producer",
        "dcp_add_stream",
        side="response",
        extras="00001000",
        status=7,
        fields={"stream_opaque": 4096},
    ),
    Case(
        "refusal on the spot",
        "dcp_add_stream",
        generation="error",
        side="response",
        status=2,
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
