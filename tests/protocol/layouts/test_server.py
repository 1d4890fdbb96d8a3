"""What a server asks of a client."""

from __future__ import annotations

import pytest

from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "new map, revision only",
        "clustermap_change_notification",
        extras="0000002a",
        key=b"b",
        value=b'{"rev":42}',
        fields={"revision": 42},
        server=True,
    ),
    Case(
        "new map, brief",
        "clustermap_change_notification",
        generation="v2",
        extras="ffffffffffffffff 000000000000002a",
        key=b"b",
        fields={"epoch": -1, "revision": 42},
        server=True,
    ),
    Case("external users", "active_external_users", value=b'["Foo"]', server=True),
    Case("rights", "get_authorization", key=b"user", server=True),
    Case(
        "no rights",
        "get_authorization",
        generation="error",
        side="response",
        status=32,
        server=True,
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
