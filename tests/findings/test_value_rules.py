"""Values that are not what they claim; test_wire compares every kind with the division into
fields.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpinspect.findings.value_rules import broken_values
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.session import readable
from tests.encode import encode, encode_document, encode_parts, encode_snappy, encode_xattrs
from tests.findings.checked import findings
from tests.streams.told import opened
from tests.tables.build import batch


def rules(*messages: bytes, **options: Any) -> list[tuple[str, list[int]]]:
    made = batch(*messages, **options)
    return [(one.rule, one.rows.tolist()) for one in broken_values(made, readable(made))]


def mutation(value: bytes, datatype: int) -> bytes:
    return encode("dcp_mutation", key=b"k", value=value, datatype=datatype, by_seqno=1)


@pytest.mark.parametrize("json", [True, False])
@pytest.mark.parametrize("snappy", [True, False])
@pytest.mark.parametrize("xattrs", [None, {"_sync": "1"}])
def test_sound_documents_however_wrapped(
    json: bool, snappy: bool, xattrs: dict[str, str] | None
) -> None:
    assert (
        rules(mutation(*encode_document('{"a": [1, 2]}', xattrs=xattrs, json=json, snappy=snappy)))
        == []
    )


def test_json_is_checked_inside_its_wrapping() -> None:
    bad = [
        mutation(*encode_document("{", xattrs=xattrs, json=True, snappy=snappy))
        for xattrs in (None, {"x": "1"})
        for snappy in (True, False)
    ]
    assert rules(*bad) == [("json-bit-not-json", [0, 1, 2, 3])]


def test_the_text_of_an_error_that_is_no_json_is_a_note() -> None:
    talk = opened()
    talk.stream(7, status=Status.ETMPFAIL, reply={"value": b'{"error": {"ref": "\x1b"}}'})
    (one,) = findings(talk, rules=["json-bit-not-json"])
    assert (one.severity, one.cause, one.whose) == ("note", "error-text", "normal")
    assert "document" not in one.next


def test_a_value_of_which_only_the_datatype_is_the_documents() -> None:
    opened = encode("dcp_open", flags=["producer", "no-value-with-underlying-datatype"], key="n")
    assert rules(opened, mutation(b"x", 7)) == []


def test_what_the_capture_lacks_is_not_judged() -> None:
    data = mutation(b'{"a": 1}', 1)
    assert rules(data, missing={0: [(len(data) - 1, len(data))]}) == []


@pytest.mark.parametrize("snappy", [True, False])
@pytest.mark.parametrize(
    "text", ["1e999999", "9" * 400, "[" * 1_500 + "]" * 1_500, '"\\ud800"', '{"a": 1e999999}']
)
def test_json_that_exceeds_the_limits_of_parsers_is_json(text: str, snappy: bool) -> None:
    assert rules(mutation(*encode_document(text, json=True, snappy=snappy))) == []
    found = rules(mutation(*encode_document(text + "]", json=True, snappy=snappy)))
    is_too_deep = text.startswith("[")  # for both parsers
    assert found == ([] if is_too_deep else [("json-bit-not-json", [0])])


TEXTS = st.sampled_from([b"a", b"_sync", b"", b"k" * 40, b"a\0"])
DOCUMENTS = st.one_of(
    st.binary(max_size=40),
    st.text(alphabet='[]{}",:0123456789-+.eE\\ truefalsn\n', max_size=20).map(str.encode),
    st.sampled_from(
        [
            b"",
            b"{}",
            b'{"city":"Z\xc3\xbcrich"}',
            b'{"a":1,"a":2}',
            json.dumps(["order"] * 200).encode(),
            bytes(3000),
        ]
    ),
)


@st.composite
def values(draw: st.DrawFn) -> tuple[bytes, int]:
    """A value as its datatype says, then perhaps edited."""
    datatype = draw(st.integers(0, 7))
    value = draw(DOCUMENTS)
    if datatype & 4:
        value = encode_xattrs(draw(st.lists(st.tuples(TEXTS, TEXTS), max_size=3))) + value
    if datatype & 2:
        value = encode_snappy(value)
    if value and draw(st.booleans()):
        edited = bytearray(value)
        for at in draw(st.lists(st.integers(0, len(value) - 1), max_size=3)):
            edited[at] = draw(st.integers(0, 255))
        value = bytes(edited[: draw(st.integers(0, len(edited)))])
    return value, datatype


@settings(max_examples=200, deadline=None)
@given(
    given_values=st.lists(values(), min_size=1, max_size=6),
    name=st.sampled_from(["dcp_mutation", "dcp_deletion"]),
)
def test_values_of_any_kind_break_the_rules_that_the_division_into_fields_tells(
    given_values: list[tuple[bytes, int]], name: str
) -> None:
    messages = [
        encode(name, key=b"k", value=value, datatype=datatype, by_seqno=1)
        for value, datatype in given_values
    ]
    made = batch(*messages)
    told: dict[str, list[int]] = {}
    for row in range(len(messages)):
        for rule in {problem.rule for problem in made.annotate(row).problems}:
            told.setdefault(rule, []).append(row)
    found = {one.rule: one.rows.tolist() for one in broken_values(made, readable(made))}
    for rule in ("bad-snappy", "bad-xattr-section", "json-bit-not-json"):
        assert found.get(rule) == told.get(rule)


@pytest.mark.parametrize(
    "claimed", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x0e", b"\xff\xff\xff\xff\xff\xff"]
)
def test_a_block_that_claims_gigabytes_takes_no_memory(claimed: bytes) -> None:
    tracemalloc.start()
    assert rules(*[mutation(claimed + b"\xfe\x01\x00" * 100, 3)] * 20) == [
        ("bad-snappy", list(range(20)))
    ]
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_a_json_answer_that_does_not_decompress_is_not_called_bad_json_as_well() -> None:
    answer = encode_parts(0x81, 0xFE, value=b"\x7f{not snappy", datatype=3)
    assert rules(answer) == [("bad-snappy", [0])]
    assert [problem.rule for problem in batch(answer).annotate(0).problems] == ["bad-snappy"]


def test_a_field_table_holds_the_datatype_of_a_document_that_was_left_out_against_no_deletion() -> (
    None
):
    opened = encode("dcp_open", flags=["producer", "no-value-with-underlying-datatype"], key="n")
    made = batch(opened, encode("dcp_deletion", key=b"k", value=b"body", cas=1))
    assert [problem.rule for problem in made.annotate(1).problems] == []
