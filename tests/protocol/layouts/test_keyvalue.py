"""Documents by key."""

from __future__ import annotations

import pytest

from tests.catalogue import each
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case("get", "get", key=b"k"),
    Case(
        "got",
        "get",
        side="response",
        extras="deadbeef",
        value=b"world",
        fields={"item_flags": 3735928559},
    ),
    Case(
        "get with key",
        "getk",
        side="response",
        extras="deadbeef",
        key=b"k",
        value=b"world",
        fields={"item_flags": 3735928559},
    ),
    Case("touch", "touch", extras="00000e10", key=b"k", fields={"expiration": 3600}),
    Case("get and touch", "gat", extras="00000e10", key=b"k", fields={"expiration": 3600}),
    Case("lock", "get_locked", extras="0000000f", key=b"k", fields={"lock_seconds": 15}),
    Case(
        "set",
        "set",
        extras="deadbeef 00000e10",
        key=b"k",
        value=b"v",
        fields={"item_flags": 3735928559, "expiration": 3600},
    ),
    Case("stored", "set", side="response"),
    Case(
        "stored, and where",
        "set",
        generation="mutation-seqno",
        side="response",
        extras="00000000feeddeca 0000000000000005",
        fields={"vbucket_uuid": "0x00000000feeddeca", "seqno": 5},
    ),
    Case(
        "deleted, and where",
        "delete",
        generation="mutation-seqno",
        side="response",
        extras="00000000feeddeca 0000000000000005",
        fields={"vbucket_uuid": "0x00000000feeddeca", "seqno": 5},
    ),
    Case("append", "append", key=b"k", value=b"!"),
    Case(
        "increment",
        "increment",
        extras="0000000000000001 0000000000000000 ffffffff",
        key=b"k",
        fields={"delta": 1, "initial": 0, "expiration": 4294967295},
    ),
    Case(
        "incremented", "increment", side="response", value="0000000000000005", fields={"counter": 5}
    ),
    Case(
        "incremented, and where",
        "increment",
        generation="mutation-seqno",
        side="response",
        extras="00000000feeddeca 0000000000000005",
        value="0000000000000005",
        fields={"vbucket_uuid": "0x00000000feeddeca", "seqno": 5, "counter": 5},
    ),
    Case(
        "random key of a collection",
        "get_random_key",
        generation="collection",
        extras="00000008",
        fields={"collection_id": 8},
    ),
    Case(
        "random key with xattrs",
        "get_random_key",
        generation="xattr",
        extras="00000008 01",
        fields={"collection_id": 8, "include_xattr": 1},
    ),
    Case(
        "not found",
        "get",
        generation="error",
        side="response",
        status=1,
        value=b"Not found",
        encodes=False,
    ),
    Case(
        "not found, with key",
        "getk",
        generation="miss",
        side="response",
        status=1,
        key=b"k",
        encodes=False,
    ),
    Case(
        "not found, without",
        "getk",
        generation="miss",
        side="response",
        status=1,
        value=b"Not found",
        encodes=False,
    ),
    Case(
        "no key where none is asked for",
        "get",
        generation="error",
        side="response",
        status=1,
        key=b"k",
        rules=("unexpected-section",),
        encodes=False,
    ),
    Case(
        "no key in another error",
        "getk",
        generation="error",
        side="response",
        status=7,
        key=b"k",
        rules=("unexpected-section",),
        encodes=False,
    ),
)


@each("case", CASES)
def test_a_message_decodes_to_its_fields(case: Case) -> None:
    assert decoded(case) == expected(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.encodes], ids=lambda case: case.name
)
def test_fields_encode_to_the_message(case: Case) -> None:
    assert encoded(case) == case.data
