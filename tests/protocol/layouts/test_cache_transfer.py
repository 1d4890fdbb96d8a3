"""DCP cache transfer and its end."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.message import Context
from tests.encode import encode, encode_document
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

ITEM = (
    "0000000000000004 0000000000000001 0000000000000005 00000005 00000000 00000000 0002 00 "
    "0a6b31776f726c64"
)

CASES = (
    Case(
        "one item",
        "dcp_cache_transfer",
        value=ITEM,
        fields={
            "items": [
                {
                    "cas": "0x0000000000000004",
                    "by_seqno": 1,
                    "rev_seqno": 5,
                    "value_length": 5,
                    "item_flags": 0,
                    "expiration": 0,
                    "key_length": 2,
                    "datatype": 0,
                    "cache_hint": 10,
                    "key": "k1",
                    "value": "world",
                }
            ]
        },
    ),
    Case(
        "two items",
        "dcp_cache_transfer",
        value=ITEM + ITEM,
        fields={
            "items": [
                {
                    "cas": "0x0000000000000004",
                    "by_seqno": 1,
                    "rev_seqno": 5,
                    "value_length": 5,
                    "item_flags": 0,
                    "expiration": 0,
                    "key_length": 2,
                    "datatype": 0,
                    "cache_hint": 10,
                    "key": "k1",
                    "value": "world",
                },
                {
                    "cas": "0x0000000000000004",
                    "by_seqno": 1,
                    "rev_seqno": 5,
                    "value_length": 5,
                    "item_flags": 0,
                    "expiration": 0,
                    "key_length": 2,
                    "datatype": 0,
                    "cache_hint": 10,
                    "key": "k1",
                    "value": "world",
                },
            ]
        },
    ),
    Case("end", "dcp_cache_transfer_end"),
    Case(
        "cancelled",
        "dcp_cache_transfer",
        generation="error",
        side="response",
        status=130,
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


def _rules(value: bytes) -> list[str]:
    return [
        problem.rule
        for problem in annotate(
            encode("dcp_cache_transfer", value=value), context=Context("off")
        ).problems
    ]


def test_an_item_without_a_value_is_read() -> None:
    record = (
        bytes.fromhex(
            "0000000000000004 0000000000000001 0000000000000005 00000000 00000000 00000000 "
            "0002 01 03"
        )
        + b"k2"
    )
    assert _rules(record) == []


def test_an_item_is_unwrapped_by_its_own_datatype() -> None:
    value, datatype = encode_document('{"a":1}', xattrs={"_sync": "1"}, json=True, snappy=True)
    record = {
        "value_length": len(value),
        "key_length": 2,
        "key": "k1",
        "value": value,
        "datatype": datatype,
    }
    message = annotate(encode("dcp_cache_transfer", items=[record, record]), context=Context("off"))
    inner = message.fields[-1].fields[-1]
    assert (message.problems, inner.meaning) == (
        [],
        f"snappy, {len(inner.fields[0].raw) + 7} bytes inflated, 1 xattr, json",
    )


def test_every_cut_within_the_items_is_reported() -> None:
    value = bytes.fromhex(ITEM + ITEM)
    silent = [cut for cut in range(len(value)) if not _rules(value[:cut])]
    assert silent == [len(value) // 2]


@pytest.mark.parametrize(("at", "size"), [(24, 4), (36, 2)])
def test_an_item_longer_than_the_value_is_reported(at: int, size: int) -> None:
    value = bytearray.fromhex(ITEM)
    value[at : at + size] = b"\xff" * size
    assert _rules(bytes(value))
