"""Documents with explicit metadata."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from tests.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case("get meta", "get_meta", key=b"k"),
    Case(
        "get meta with the datatype", "get_meta", extras="02", key=b"k", fields={"meta_version": 2}
    ),
    Case(
        "meta",
        "get_meta",
        side="response",
        extras="00000001 00000001 00000007 0000000000000009",
        fields={"deleted": 1, "item_flags": 1, "expiration": 7, "rev_seqno": 9},
    ),
    Case(
        "meta with the datatype",
        "get_meta",
        generation="v2",
        side="response",
        extras="00000001 00000001 00000007 0000000000000009 03",
        fields={
            "deleted": 1,
            "item_flags": 1,
            "expiration": 7,
            "rev_seqno": 9,
            "stored_datatype": 3,
        },
    ),
    Case(
        "set, 24 bytes",
        "set_with_meta",
        extras="00000007 0000000a 0000000000000014 000000000000001e ",
        key=b"k",
        value=b"v",
        fields={
            "item_flags": 7,
            "expiration": 10,
            "rev_seqno": 20,
            "meta_cas": "0x000000000000001e",
        },
    ),
    Case(
        "set, 26 bytes: nmeta",
        "set_with_meta",
        extras="00000007 0000000a 0000000000000014 000000000000001e 0000",
        key=b"k",
        value=b"v",
        fields={
            "item_flags": 7,
            "expiration": 10,
            "rev_seqno": 20,
            "meta_cas": "0x000000000000001e",
            "nmeta": 0,
        },
    ),
    Case(
        "set, 28 bytes: options",
        "set_with_meta",
        extras="00000007 0000000a 0000000000000014 000000000000001e 00000002",
        key=b"k",
        value=b"v",
        fields={
            "item_flags": 7,
            "expiration": 10,
            "rev_seqno": 20,
            "meta_cas": "0x000000000000001e",
            "options": 2,
        },
    ),
    Case(
        "set, 30 bytes: options and nmeta",
        "set_with_meta",
        extras="00000007 0000000a 0000000000000014 000000000000001e 00000002 0000",
        key=b"k",
        value=b"v",
        fields={
            "item_flags": 7,
            "expiration": 10,
            "rev_seqno": 20,
            "meta_cas": "0x000000000000001e",
            "options": 2,
            "nmeta": 0,
        },
    ),
    Case(
        "delete",
        "del_with_meta",
        extras="00000007 0000000a 0000000000000014 000000000000001e 00000010",
        key=b"k",
        fields={
            "item_flags": 7,
            "expiration": 10,
            "rev_seqno": 20,
            "meta_cas": "0x000000000000001e",
            "options": 16,
        },
    ),
    Case(
        "deleted, and where",
        "del_with_meta",
        generation="mutation-seqno",
        side="response",
        extras="00000000feeddeca 0000000000000005",
        fields={"vbucket_uuid": "0x00000000feeddeca", "seqno": 5},
    ),
    Case(
        "set and return meta",
        "return_meta",
        extras="00000001 00000007 0000000a",
        key=b"k",
        value=b"v",
        fields={"operation": 1, "item_flags": 7, "expiration": 10},
    ),
    Case(
        "returned meta",
        "return_meta",
        side="response",
        extras="00000007 4e82a97a 000000000000000e",
        fields={"item_flags": 7, "expiration": 1317185914, "rev_seqno": 14},
    ),
    Case(
        "returned meta under a refusal",
        "return_meta",
        side="response",
        status=3,
        extras="00000007 4e82a97a 000000000000000e",
        fields={"item_flags": 7, "expiration": 1317185914, "rev_seqno": 14},
        rules=("refused-payload",),
    ),
    Case(
        "mutate with meta",
        "mutate_with_meta",
        extras="00000002",
        key=b"k",
        value=b"v{}",
        fields={"metadata_size": 2},
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


def test_options_are_named() -> None:
    field = annotate(encode("set_with_meta", key="k", options=0x1F)).field("options")
    assert field is not None
    assert (
        field.meaning
        == "force, force-accept, regenerate-cas, skip-conflict-resolution, is-expiration"
    )


def test_the_json_object_after_a_document_is_a_field_of_its_own() -> None:
    metadata = b'{"command": "set", "options": "0x04"}'
    message = annotate(
        encode(
            "mutate_with_meta",
            key="k",
            value=b'{"a": 1}' + metadata,
            metadata_size=len(metadata),
            datatype=1,
        )
    )
    value = message.field("value")
    assert value is not None
    assert [(part.name, part.value) for part in value.fields] == [
        ("extended_metadata", metadata.decode())
    ]
    assert message.problems == []


def test_a_json_object_that_would_be_larger_than_the_value_is_told() -> None:
    message = annotate(encode("mutate_with_meta", key="k", value=b"{}", metadata_size=9))
    assert [(problem.rule, problem.reason) for problem in message.problems] == [
        ("length-mismatch", "extended metadata of 9 bytes exceeds the value of 2")
    ]


def test_the_datatype_of_a_stored_document_has_names() -> None:
    data = encode("get_meta", "response", generation="v2", stored_datatype=5)
    field = annotate(data).field("stored_datatype")
    assert field is not None
    assert (field.value, field.meaning) == (5, "json, xattr")
