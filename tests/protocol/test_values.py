"""Values: xattrs, snappy, JSON, and what is said of each kind of damage."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

import pytest

from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.message import Context, Message
from tests.encode import encode, encode_document, encode_snappy, encode_xattrs

OFF = Context("off")


def rules(message: Message) -> list[str]:
    return [problem.rule for problem in message.problems]


def mutation(value: bytes, datatype: int, *, context: Context = OFF, **fields: Any) -> Message:
    return annotate(
        encode("dcp_mutation", key=b"k", value=value, datatype=datatype, by_seqno=1, **fields),
        context=context,
    )


def test_snappy_is_undone_before_xattrs_and_xattrs_before_json() -> None:
    value, datatype = encode_document('{"a":1}', xattrs={"_sync": "1"}, json=True, snappy=True)
    message = mutation(value, datatype)
    assert message.value is not None
    assert (message.value.encoding, message.value.body, message.value.xattrs) == (
        "json",
        b'{"a":1}',
        ((b"_sync", b"1"),),
    )


def test_an_empty_value_may_have_the_snappy_bit() -> None:
    assert mutation(b"", datatypes.SNAPPY).problems == []


def test_a_value_that_is_no_snappy_block_is_an_error() -> None:
    assert rules(mutation(b"\x05hello", datatypes.SNAPPY)) == ["bad-snappy"]


def test_a_snappy_block_that_claims_gigabytes_is_refused_before_memory_is_taken() -> None:
    message = mutation(b"\xff\xff\xff\xff\x0f\0", datatypes.SNAPPY)
    assert [problem.reason for problem in message.problems] == [
        "value claims 4294967295 bytes, more than the 30 MiB a document may have"
    ]


def test_the_datatype_of_the_stored_document_is_not_held_against_the_value() -> None:
    context = Context("off", underlying_datatype=True)
    assert mutation(b"plain", 0x07, context=context).problems == []


@pytest.mark.parametrize("size", [0xFFFF_FFFF, 0x7FFF_FFFF, 5])
def test_an_xattr_section_longer_than_the_value_is_an_error(size: int) -> None:
    assert rules(mutation(pack(">I", size) + b"abc", datatypes.XATTR)) == ["bad-xattr-section"]


def test_an_xattr_pair_longer_than_its_section_is_an_error() -> None:
    section = pack(">I", 0xFFFF_FFFF) + b"k\0v\0"
    assert rules(mutation(pack(">I", len(section)) + section, datatypes.XATTR)) == [
        "bad-xattr-section"
    ]


def test_damage_inside_a_compressed_value_is_placed_at_the_value_and_says_which_byte_of_it() -> (
    None
):
    message = mutation(encode_snappy(encode_xattrs([(b"a", b"1")]) + b"x" * 500 + b"{"), 0x07)
    assert [(problem.offset, problem.reason) for problem in message.problems] == [
        (
            56,
            (
                "marked JSON, but unexpected character, expected a JSON value at byte 0 (byte 12 "
                "of the inflated value)"
            ),
        )
    ]


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b"[" * 2000 + b"]" * 2000]
)
def test_json_that_nests_deeper_than_parsers_go_is_json_and_no_exception(body: bytes) -> None:
    assert rules(mutation(body, datatypes.JSON)) == []


def test_huge_json_is_read() -> None:
    body = json.dumps(["x" * 100] * 20_000).encode()
    assert mutation(body, datatypes.JSON).problems == []


def test_extended_metadata_is_cut_off_before_the_document_is_read() -> None:
    message = mutation(b'{"a":1}' + b"\1\1\0\1x", datatypes.JSON, nmeta=5)
    assert message.value is not None
    assert (message.problems, message.value.body) == ([], b'{"a":1}')


def test_extended_metadata_longer_than_the_value_is_an_error() -> None:
    assert rules(mutation(b"abc", 0, nmeta=4)) == ["length-mismatch"]


def test_a_deletion_with_xattrs_only_is_no_json() -> None:
    section = encode_xattrs([(b"_s", b"1")])
    for datatype, expected in (
        (datatypes.XATTR, []),
        (datatypes.XATTR | datatypes.JSON, ["deletion-with-body"]),
    ):
        message = annotate(
            encode("dcp_deletion", key=b"k", value=section, datatype=datatype), context=OFF
        )
        assert rules(message) == expected


def test_a_deletion_with_a_body_is_a_warning() -> None:
    assert rules(annotate(encode("dcp_deletion", key=b"k", value=b"body"), context=OFF)) == [
        "deletion-with-body"
    ]
