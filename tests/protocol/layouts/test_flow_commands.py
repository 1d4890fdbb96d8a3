"""DCP noop, buffer acknowledgement and control."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from tests.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case("noop", "dcp_noop"),
    Case("noop answered", "dcp_noop", side="response"),
    Case(
        "buffer acknowledgement",
        "dcp_buffer_acknowledgement",
        extras="00001000",
        fields={"ack_bytes": 4096},
    ),
    Case("control", "dcp_control", key=b"enable_noop", value=b"true"),
    Case("control answered", "dcp_control", side="response"),
    Case(
        "control refused",
        "dcp_control",
        generation="error",
        side="response",
        status=4,
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


@pytest.mark.parametrize(
    ("key", "value", "section"), [(b"", b"true", "key"), (b"enable_noop", b"", "value")]
)
def test_a_control_has_key_and_value(key: bytes, value: bytes, section: str) -> None:
    problems = annotate(encode("dcp_control", key=key, value=value)).problems
    assert [problem.reason for problem in problems] == [
        f"dcp_control request must have a {section}"
    ]
