"""Where vbuckets are."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from tests.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case("all seqnos", "get_all_vb_seqnos"),
    Case("all seqnos of replicas", "get_all_vb_seqnos", extras="00000002", fields={"state": 2}),
    Case(
        "all seqnos of a collection",
        "get_all_vb_seqnos",
        extras="00000000 0000008a",
        fields={"state": 0, "collection_id": 138},
    ),
    Case(
        "seqnos",
        "get_all_vb_seqnos",
        side="response",
        value="000a 0000000000005432 02d0 0000000000000004",
        fields={"seqnos": [{"vbucket": 10, "seqno": 21554}, {"vbucket": 720, "seqno": 4}]},
    ),
    Case(
        "observe",
        "observe_seqno",
        value="00000000feeddeca",
        fields={"vbucket_uuid": "0x00000000feeddeca"},
    ),
    Case(
        "observed",
        "observe_seqno",
        side="response",
        value="000005 00000000feeddeca 000000000000003a 0000000000000041",
        fields={
            "format": 0,
            "observed_vbucket": 5,
            "vbucket_uuid": "0x00000000feeddeca",
            "last_persisted_seqno": 58,
            "current_seqno": 65,
        },
    ),
    Case(
        "observed after a failover",
        "observe_seqno",
        generation="failover",
        side="response",
        value=(
            "010005 00000000feeddeca 000000000000003a 00000000000000410000000000decafe "
            "000000000000003c"
        ),
        fields={
            "format": 1,
            "observed_vbucket": 5,
            "vbucket_uuid": "0x00000000feeddeca",
            "last_persisted_seqno": 58,
            "current_seqno": 65,
            "old_vbucket_uuid": "0x0000000000decafe",
            "last_received_seqno": 60,
        },
    ),
    Case(
        "observe keys",
        "observe",
        value="0005 00026b31",
        fields={"keys": [{"vbucket": 5, "key_length": 2, "key": "k1"}]},
    ),
    Case("persistence", "seqno_persistence", extras="000000000000003a", fields={"seqno": 58}),
    Case(
        "persistence too slow",
        "seqno_persistence",
        generation="error",
        side="response",
        status=134,
        encodes=False,
    ),
    Case("set vbucket", "set_vbucket", extras="01", fields={"state": 1}),
    Case(
        "set vbucket of older clients",
        "set_vbucket",
        generation="old",
        extras="00000001",
        fields={"state": 1},
        rules=("legacy-layout",),
    ),
    Case("vbucket", "get_vbucket", side="response", value="00000001", fields={"state": 1}),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_message_decodes_to_its_fields(case: Case) -> None:
    assert decoded(case) == expected(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.encodes], ids=lambda case: case.name
)
def test_fields_encode_to_the_message(case: Case) -> None:
    assert encoded(case) == case.data


def test_entries_are_not_called_by_the_number_of_a_vbucket() -> None:
    message = annotate(
        encode("get_all_vb_seqnos", "response", seqnos=[{"vbucket": 417, "seqno": 4}])
    )
    assert next(field.label for field in message.fields if field.name == "seqnos[0]") == "entry 0"
