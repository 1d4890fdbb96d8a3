"""DCP seqno advanced and OSO snapshots."""

from __future__ import annotations

import pytest

from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "seqno advanced", "dcp_seqno_advanced", extras="00000000000003e8", fields={"by_seqno": 1000}
    ),
    Case(
        "out-of-order snapshot starts", "dcp_oso_snapshot", extras="00000001", fields={"flags": 1}
    ),
    Case("out-of-order snapshot ends", "dcp_oso_snapshot", extras="00000002", fields={"flags": 2}),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_message_decodes_to_its_fields(case: Case) -> None:
    assert decoded(case) == expected(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.encodes], ids=lambda case: case.name
)
def test_fields_encode_to_the_message(case: Case) -> None:
    assert encoded(case) == case.data
