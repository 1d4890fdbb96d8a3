"""DCP open."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.flags import OPEN_FLAGS
from tests.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "producer",
        "dcp_open",
        extras="00000000 00000025",
        key=b"xdcr:a",
        fields={"reserved": 0, "flags": 37},
    ),
    Case(
        "consumer with its name",
        "dcp_open",
        extras="00000000 00000000",
        key=b"replication:x",
        value=b'{"consumer_name":"n2"}',
        fields={"reserved": 0, "flags": 0},
    ),
    Case(
        "every flag",
        "dcp_open",
        extras="00000000 000003ff",
        key=b"n",
        fields={"reserved": 0, "flags": 1023},
    ),
    Case("answer", "dcp_open", side="response"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_message_decodes_to_its_fields(case: Case) -> None:
    assert decoded(case) == expected(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.encodes], ids=lambda case: case.name
)
def test_fields_encode_to_the_message(case: Case) -> None:
    assert encoded(case) == case.data


def test_every_flag_that_is_set_is_named() -> None:
    field = annotate(CASES[2].data).field("flags")
    assert field is not None
    assert [inner.name for inner in field.fields] == [bit.name for bit in OPEN_FLAGS]


def test_a_connection_must_have_a_name() -> None:
    assert [problem.reason for problem in annotate(encode("dcp_open")).problems] == [
        "dcp_open request must have a key"
    ]
