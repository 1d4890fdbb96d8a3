"""Values that are not what they claim; test_wire compares every kind with the division into fields."""

from __future__ import annotations

from typing import Any

import pytest

from dcpinspect.findings.values import broken_values
from dcpinspect.protocol.encode import encode, encode_document
from dcpinspect.streams.session import readable
from tests.tables.build import batch


def rules(*messages: bytes, **options: Any) -> list[tuple[str, list[int]]]:
    made = batch(*messages, **options)
    return [(one.rule, one.rows.tolist()) for one in broken_values(made, readable(made))]


def mutation(value: bytes, datatype: int) -> bytes:
    return encode("dcp_mutation", key=b"k", value=value, datatype=datatype, by_seqno=1)


@pytest.mark.parametrize("json", [True, False])
@pytest.mark.parametrize("snappy", [True, False])
@pytest.mark.parametrize("xattrs", [None, {"_sync": "1"}])
def test_sound_documents_however_wrapped(json: bool, snappy: bool, xattrs: dict[str, str] | None) -> None:
    assert rules(mutation(*encode_document('{"a": [1, 2]}', xattrs=xattrs, json=json, snappy=snappy))) == []


def test_json_is_checked_inside_its_wrapping() -> None:
    bad = [
        mutation(*encode_document("{", xattrs=xattrs, json=True, snappy=snappy))
        for xattrs in (None, {"x": "1"})
        for snappy in (True, False)
    ]
    assert rules(*bad) == [("json-bit-not-json", [0, 1, 2, 3])]


def test_a_value_of_which_only_the_datatype_is_the_documents() -> None:
    opened = encode("dcp_open", flags=["producer", "no-value-with-underlying-datatype"], key="n")
    assert rules(opened, mutation(b"x", 7)) == []


def test_what_the_capture_lacks_is_not_judged() -> None:
    data = mutation(b'{"a": 1}', 1)
    assert rules(data, missing={0: [(len(data) - 1, len(data))]}) == []


@pytest.mark.parametrize("snappy", [True, False])
@pytest.mark.parametrize("text", ["1e999999", "9" * 400, "[" * 1_500 + "]" * 1_500, '"\\ud800"', '{"a": 1e999999}'])
def test_json_that_exceeds_the_limits_of_parsers_is_json(text: str, snappy: bool) -> None:
    assert rules(mutation(*encode_document(text, json=True, snappy=snappy))) == []
    assert rules(mutation(*encode_document(text + "]", json=True, snappy=snappy))) == [("json-bit-not-json", [0])]
