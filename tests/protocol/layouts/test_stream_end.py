"""DCP stream end."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.encode import encode
from dcpinspect.protocol.message import Context, Generation
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case("ok", "dcp_stream_end", extras="00000000", fields={"end_reason": 0}),
    Case("answer of some clients", "dcp_stream_end", side="response"),
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
    ("code", "word"),
    [
        (0, "ok"),
        (1, "closed; as a number of the first generation: state-changed"),
        (2, "state-changed"),
        (6, "rollback"),
        (8, "lost-privileges"),
        (9, "unknown (9)"),
    ],
)
def test_a_reason_has_a_word(code: int, word: str) -> None:
    field = annotate(encode("dcp_stream_end", end_reason=code)).field("end_reason")
    assert field is not None
    assert field.meaning == word


@pytest.mark.parametrize(
    ("generation", "meaning", "word"),
    [
        ("dcp", "closed", "closed"),
        ("upr", "state-changed, as a number of the first generation", "state-changed"),
    ],
)
def test_a_reason_of_1_is_what_the_connections_generation_says(
    generation: Generation, meaning: str, word: str
) -> None:
    field = annotate(
        encode("dcp_stream_end", end_reason=1), context=Context(generation=generation)
    ).field("end_reason")
    assert field is not None
    assert (field.value, field.meaning, field.word) == (1, meaning, word)
