"""DCP flush and set vbucket state."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.message import Context, Generation
from tests.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case("flush", "dcp_flush"),
    Case("flush answered", "dcp_flush", side="response"),
    Case("dead", "dcp_set_vbucket_state", extras="04", fields={"state": 4}),
    Case("answer", "dcp_set_vbucket_state", side="response"),
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
    ("state", "word"),
    [
        (1, "active"),
        (2, "replica; from a server before 3.0: pending"),
        (3, "pending; from a server before 3.0: replica"),
        (4, "dead"),
        (0, "unknown (0)"),
        (5, "unknown (5)"),
    ],
)
def test_a_state_has_a_word(state: int, word: str) -> None:
    field = annotate(encode("dcp_set_vbucket_state", state=state)).field("state")
    assert field is not None
    assert field.meaning == word


@pytest.mark.parametrize(
    ("generation", "state", "meaning", "word"),
    [
        ("dcp", 2, "replica", "replica"),
        ("dcp", 3, "pending", "pending"),
        ("upr", 1, "active", "active"),
        ("upr", 2, "pending, as servers before 3.0 number it", "pending"),
        ("upr", 3, "replica, as servers before 3.0 number it", "replica"),
        ("upr", 4, "dead", "dead"),
    ],
)
def test_a_state_is_what_the_connections_generation_says(
    generation: Generation, state: int, meaning: str, word: str
) -> None:
    field = annotate(
        encode("dcp_set_vbucket_state", state=state), context=Context(generation=generation)
    ).field("state")
    assert field is not None
    assert (field.value, field.meaning, field.word) == (state, meaning, word)
