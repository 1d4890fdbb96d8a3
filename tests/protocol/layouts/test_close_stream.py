"""DCP close stream."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case("request", "dcp_close_stream"),
    Case("answer", "dcp_close_stream", side="response"),
    Case(
        "no such stream",
        "dcp_close_stream",
        generation="error",
        side="response",
        status=1,
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


def test_a_stream_id_says_which_of_several_streams() -> None:
    assert annotate(encode("dcp_close_stream", frames=[(2, b"\0\x47")])).sid == 71
