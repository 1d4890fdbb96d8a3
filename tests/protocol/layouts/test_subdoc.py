"""Parts of documents by path."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from tests.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "lookup",
        "subdoc_get",
        extras="0003 04",
        key=b"k",
        value="612e62",
        fields={"path_length": 3, "path_flags": 4, "path": "a.b"},
    ),
    Case(
        "lookup with document flags",
        "subdoc_exists",
        extras="0003 00 04",
        key=b"k",
        value="612e62",
        fields={"path_length": 3, "path_flags": 0, "doc_flags": 4, "path": "a.b"},
    ),
    Case(
        "mutation",
        "subdoc_dict_upsert",
        extras="0003 01",
        key=b"k",
        value="612e623132",
        fields={"path_length": 3, "path_flags": 1, "path": "a.b", "fragment": "12"},
    ),
    Case(
        "mutation with document flags",
        "subdoc_dict_upsert",
        extras="0003 01 01",
        key=b"k",
        value="612e623132",
        fields={"path_length": 3, "path_flags": 1, "doc_flags": 1, "path": "a.b", "fragment": "12"},
    ),
    Case(
        "mutation with an expiry",
        "subdoc_dict_upsert",
        extras="0003 01 00000e10",
        key=b"k",
        value="612e623132",
        fields={
            "path_length": 3,
            "path_flags": 1,
            "expiration": 3600,
            "path": "a.b",
            "fragment": "12",
        },
    ),
    Case(
        "mutation with both",
        "subdoc_replace_body_with_xattr",
        extras="0003 01 00000e10 01",
        key=b"k",
        value="612e62",
        fields={
            "path_length": 3,
            "path_flags": 1,
            "expiration": 3600,
            "doc_flags": 1,
            "path": "a.b",
        },
    ),
    Case(
        "several lookups",
        "subdoc_multi_lookup",
        key=b"k",
        value="c5 04 0001 61 c6 00 0001 62",
        fields={
            "specs": [
                {"command": 197, "path_flags": 4, "path_length": 1, "path": "a"},
                {"command": 198, "path_flags": 0, "path_length": 1, "path": "b"},
            ]
        },
    ),
    Case(
        "several results",
        "subdoc_multi_lookup",
        side="response",
        status=204,
        value="0000 00000001 31 00c0 00000000",
        fields={
            "results": [
                {"result_status": 0, "value_length": 1, "result": "1"},
                {"result_status": 192, "value_length": 0, "result": ""},
            ]
        },
    ),
    Case(
        "several mutations",
        "subdoc_multi_mutation",
        extras="00000e10 01",
        key=b"k",
        value="c8 00 0001 00000002 61 3132",
        fields={
            "expiration": 3600,
            "doc_flags": 1,
            "specs": [
                {
                    "command": 200,
                    "path_flags": 0,
                    "path_length": 1,
                    "value_length": 2,
                    "path": "a",
                    "fragment": "12",
                }
            ],
        },
    ),
    Case(
        "results and where",
        "subdoc_multi_mutation",
        generation="mutation-seqno",
        side="response",
        extras="00000000feeddeca 0000000000000005",
        value="01 0000 00000001 35",
        fields={
            "vbucket_uuid": "0x00000000feeddeca",
            "seqno": 5,
            "results": [{"index": 1, "result_status": 0, "value_length": 1, "result": "5"}],
        },
    ),
    Case(
        "the mutation that failed",
        "subdoc_multi_mutation",
        generation="failure",
        side="response",
        status=204,
        value="01 00c0",
        fields={"index": 1, "result_status": 192},
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


def test_a_path_longer_than_the_value_is_reported() -> None:
    data = encode("subdoc_get", key="k", path_length=9, path="a.b")
    assert [problem.reason for problem in annotate(data).problems] == [
        "path of 9 bytes exceeds the 3 left"
    ]


def test_the_length_of_a_path_follows_from_the_path() -> None:
    assert encode("subdoc_get", key="k", path="a.b") == encode(
        "subdoc_get", key="k", path="a.b", path_length=3
    )
