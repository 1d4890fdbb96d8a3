"""Collections manifest and ids by name."""

from __future__ import annotations

import pytest

from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case("manifest", "collections_get_manifest", side="response", value=b'{"uid":"1f"}'),
    Case("set manifest", "collections_set_manifest", value=b'{"uid":"1f"}'),
    Case("id asked by value", "collections_get_id", value=b"s.c"),
    Case("id asked by key", "collections_get_id", key=b"s.c"),
    Case(
        "id",
        "collections_get_id",
        side="response",
        extras="000000000000001f 0000008a",
        fields={"manifest_uid": 31, "collection_id": 138},
    ),
    Case(
        "scope id",
        "collections_get_scope_id",
        side="response",
        extras="000000000000001f 00000009",
        fields={"manifest_uid": 31, "scope_id": 9},
    ),
    Case(
        "unknown",
        "collections_get_id",
        generation="error",
        side="response",
        status=136,
        value=b'{"manifest_uid":"1f"}',
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
