"""Commands about streams, and the failover log."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.message import Context, Generation
from tests.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "current",
        "dcp_stream_req",
        extras=(
            "00000010 00000000 0000000000000005 ffffffffffffffff 00000000feeddeca "
            "0000000000000004 0000000000000006"
        ),
        fields={
            "flags": 16,
            "reserved": 0,
            "start_seqno": 5,
            "end_seqno": 18446744073709551615,
            "vbucket_uuid": "0x00000000feeddeca",
            "snapshot_start_seqno": 4,
            "snapshot_end_seqno": 6,
        },
    ),
    Case(
        "with a filter",
        "dcp_stream_req",
        extras=(
            "00000010 00000000 0000000000000005 ffffffffffffffff 00000000feeddeca "
            "0000000000000004 0000000000000006"
        ),
        value=b'{"collections":["8a"]}',
        fields={
            "flags": 16,
            "reserved": 0,
            "start_seqno": 5,
            "end_seqno": 18446744073709551615,
            "vbucket_uuid": "0x00000000feeddeca",
            "snapshot_start_seqno": 4,
            "snapshot_end_seqno": 6,
        },
    ),
    Case(
        "first specification",
        "dcp_stream_req",
        generation="upr",
        extras=(
            "00000010 00000000 0000000000000005 ffffffffffffffff 00000000feeddeca 0000000000000009"
        ),
        fields={
            "flags": 16,
            "reserved": 0,
            "start_seqno": 5,
            "end_seqno": 18446744073709551615,
            "vbucket_uuid": "0x00000000feeddeca",
            "high_seqno": 9,
        },
        rules=("legacy-layout",),
    ),
    Case(
        "accepted",
        "dcp_stream_req",
        side="response",
        value="00000000feeddeca 0000000000000005 00000000decafe00 0000000000000000",
        fields={
            "failover_log": [
                {"uuid": "0x00000000feeddeca", "seqno": 5},
                {"uuid": "0x00000000decafe00", "seqno": 0},
            ]
        },
    ),
    Case(
        "rollback",
        "dcp_stream_req",
        side="response",
        status=35,
        value="00000000000001f4",
        fields={"rollback_seqno": 500},
    ),
    Case(
        "rollback in the extras",
        "dcp_stream_req",
        generation="upr",
        side="response",
        status=35,
        extras="00000000000001f4",
        fields={"rollback_seqno": 500},
        rules=("legacy-layout",),
    ),
    Case(
        "wrong vbucket with a map",
        "dcp_stream_req",
        generation="error",
        side="response",
        status=7,
        value=b'{"rev":42}',
        encodes=False,
    ),
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


def test_an_endless_stream_says_so() -> None:
    field = annotate(CASES[0].data).field("end_seqno")
    assert field is not None
    assert field.meaning == "no end"


def test_a_stream_id_says_which_of_several_streams() -> None:
    assert annotate(encode("dcp_close_stream", frames=[(2, b"\0\x47")])).sid == 71


@pytest.mark.parametrize(
    ("code", "word"),
    [
        (0, "ok"),
        (1, "closed; from a server before 3.0: state-changed"),
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
        ("upr", "state-changed, as servers before 3.0 number it", "state-changed"),
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
