"""Every published and packed message, in both directions, whole and damaged."""

from __future__ import annotations

from typing import Any

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.xattr import decode_xattrs
from tests.catalogue import each
from tests.encode import encode_xattrs
from tests.protocol.damage import assert_inside, assert_tiles, off_by_one
from tests.protocol.reencode import reencode
from tests.protocol.vectors import (
    ALL,
    BY_ID,
    DOCUMENTS,
    SYNTHETIC,
    XATTR_SECTION,
    Vector,
    find,
    number,
    observed,
    quoted,
)

SOUND = tuple(vector for vector in ALL if vector.consistent or vector.corrected)
"""Messages that agree with themselves, some after a correction."""

STALE = "the page's table repeats the lengths that the correction replaces"
PROSE = "the page says in words what the value is"
PAGE_ERRS = {
    ("kv-control-01", "key_length"): STALE,
    ("kv-control-01", "extra_length"): STALE,
    ("kv-control-01", "total_body"): STALE,
    ("kv-control-02", "extra_length"): STALE,
    ("kv-control-02", "total_body"): STALE,
    ("kv-deletion-01", "key_length"): STALE,
    ("kv-deletion-01", "extra_length"): STALE,
    ("kv-deletion-01", "total_body"): STALE,
    ("kv-deletion-01", "key"): "the table has the key without the prototype's collection name",
    ("kv-expiration-01", "extra_length"): STALE,
    ("kv-expiration-01", "total_body"): STALE,
    ("kv-persist-seqno-01", "key_length"): STALE,
    ("kv-binaryprotocol-04", "total_body"): STALE,
    ("kv-collections-01", "total_body"): STALE,
    ("kv-collections-01", "key_cid"): "the page shows the first byte of the id's two",
    ("kv-del-with-meta-01", "extra_length"): STALE,
    ("kv-del-with-meta-01", "total_body"): STALE,
    (
        "kv-system-event-01",
        "value",
    ): "the table numbers the parts of the value, in an order that contradicts its own struct",
    ("kv-system-event-01", "value_cont"): "see value",
    ("kv-system-event-01", "value_cont_cont"): "see value",
    ("kv-system-event-01", "value_cont_cont_cont"): "see value",
    ("kv-binaryprotocol-18", "key_cont"): PROSE,
    ("kv-binaryprotocol-18", "key_cont_cont"): PROSE,
    ("kv-binaryprotocol-18", "key_cont_cont_cont"): PROSE,
    ("kv-binaryprotocol-18", "key_cont_cont_cont_cont"): PROSE,
    ("kv-binaryprotocol-18", "key_cont_cont_cont_cont_cont"): PROSE,
    ("kv-binaryprotocol-19", "cas_cont"): PROSE,
    ("kv-binaryprotocol-19", "cas_cont_cont"): PROSE,
    ("kv-externalauthprovider-01", "data"): PROSE,
    ("kv-externalauthprovider-02", "data"): PROSE,
}
"""Fields of sound messages where the page, not the reading, is wrong or says something that is no
value.
"""

OFFSETS_ERR = {
    ("kv-prepare-01", "value"): "the table counts one byte too many",
    ("kv-binaryprotocol-02", "key"): "the table counts one byte too many",
}

CONTRADICTORY: dict[str, tuple[set[str], set[str]]] = {
    "kv-get-seqno-04": (set(), {"total_body"}),
    "kv-stream-request-01": (set(), {"snapshot_start_seqno"}),
    "kv-binaryprotocol-21": (set(), {"opaque"}),
    "kv-externalauthprovider-06": (set(), {"opaque", "value"}),
    "kv-externalauthprovider-07": (set(), {"opcode"}),
    "kv-addrm-01": ({"trailing-bytes"}, {"value"}),
    "kv-setrm-01": ({"trailing-bytes"}, {"value"}),
    "kv-delrm-01": (
        {"length-mismatch", "trailing-bytes"},
        {"op_type", "flags", "expiration", "key"},
    ),
    "kv-get-keys-01": ({"length-mismatch", "trailing-bytes"}, {"count", "key"}),
    "kv-get-keys-02": ({"extras-length"}, {"extra_length", "value"}),
    "kv-get-meta-01": (set(), {"reqextmeta"}),
    "kv-get-meta-02": (set(), {"datatype"}),
}
"""Pages that contradict themselves and have no correction: the rules we report, the fields where
bytes and table differ.
"""

UNDETECTABLE = {
    "key+1": {
        "seed004-14",
        "kv-control-01",
        "kv-mutation-01",
        "kv-prepare-01",
        "kv-binaryprotocol-04",
        "kv-binaryprotocol-05",
        "kv-binaryprotocol-15",
        "kv-binaryprotocol-17",
        "kv-collections-01",
        "kv-sasl-03",
        "kv-sasl-05",
        "kv-sasl-07",
        "kv-set-with-meta-01",
        "syn-mutation-collection-leb3",
        "syn-mutation-sid",
        "syn-prepare",
        "syn-control-flow",
        "syn-set-durability",
    },
    "key-1": {
        "seed004-14",
        "kv-control-01",
        "kv-mutation-01",
        "kv-prepare-01",
        "kv-random-key-02",
        "kv-binaryprotocol-04",
        "kv-binaryprotocol-05",
        "kv-binaryprotocol-15",
        "kv-binaryprotocol-17",
        "kv-collections-01",
        "kv-sasl-03",
        "kv-sasl-05",
        "kv-sasl-07",
        "kv-del-with-meta-01",
        "kv-set-with-meta-01",
        "syn-mutation-sid",
        "syn-prepare",
        "syn-control-flow",
        "syn-open-producer",
        "syn-set-durability",
    },
    "extras+1": {"seed004-14"},
    "framing+1": {"syn-mutation-sid", "syn-set-durability"},
}
"""Where another length is another legal message: a byte moves between key and value, a mutation of
the first specification becomes a current one, a zero after the framing extras is a barrier.
"""


def _ids(vectors: tuple[Vector, ...]) -> list[str]:
    return [vector.id for vector in vectors]


def _wrong_fields(vector: Vector) -> set[str]:
    """Names whose value, by the page, is not what we read."""
    message = vector.annotate()
    wrong = set()
    for name, expected in vector.expected.items():
        field = find(message, name)
        want = number(expected)
        if field is None or (
            number(field.value) != want if want is not None else field.value != quoted(expected)
        ):
            wrong.add(name)
    return wrong


def _wrong_offsets(vector: Vector) -> set[str]:
    message = vector.annotate()
    wrong = set()
    for name, place in vector.offsets.items():
        field = find(message, name)
        if field is not None and name == "key" and field.fields:
            field = field.fields[-1]
        if field is not None and (field.offset, field.offset + field.size - 1) != place:
            wrong.add(name)
    return wrong


@each("vector", [vector for vector in DOCUMENTS if vector in SOUND])
def test_a_document_example_decodes_to_the_values_of_its_table(vector: Vector) -> None:
    assert _wrong_fields(vector) == {name for where, name in PAGE_ERRS if where == vector.id}


@each("vector", [vector for vector in DOCUMENTS if vector in SOUND])
def test_the_fields_of_a_document_example_stand_where_its_table_says(vector: Vector) -> None:
    assert _wrong_offsets(vector) == {name for where, name in OFFSETS_ERR if where == vector.id}


def _same(expected: Any, seen: Any) -> bool:
    if isinstance(expected, list):
        return (
            isinstance(seen, list)
            and len(expected) == len(seen)
            and all(map(_same, expected, seen))
        )
    if isinstance(expected, dict) and isinstance(seen, dict) and "key" in expected:
        return all(_same(expected[name], seen[name]) for name in expected)
    if isinstance(expected, float):
        return isinstance(seen, float) and abs(expected - seen) < 1
    return bool(
        expected == seen or (number(expected) is not None and number(expected) == number(seen))
    )


@each("vector", SYNTHETIC)
def test_a_packed_message_decodes_to_what_was_packed(vector: Vector) -> None:
    message = vector.annotate()
    wrong = {
        name: observed(message, name)
        for name, expected in vector.expected.items()
        if not _same(expected, observed(message, name))
    }
    assert wrong == {}


def test_pages_that_contradict_themselves_are_all_accounted_for() -> None:
    assert {vector.id for vector in ALL} - {vector.id for vector in SOUND} == set(CONTRADICTORY)


@pytest.mark.parametrize("name", CONTRADICTORY)
def test_a_contradictory_page_is_read_by_its_bytes_and_what_does_not_fit_is_reported(
    name: str,
) -> None:
    vector = BY_ID[name]
    assert (
        {problem.rule for problem in vector.annotate().problems},
        _wrong_fields(vector),
    ) == CONTRADICTORY[name]


@each("vector", SOUND)
def test_a_message_encodes_back_to_its_bytes(vector: Vector) -> None:
    assert reencode(vector.annotate()) == vector.data


def test_every_vector_is_used() -> None:
    assert (len(DOCUMENTS), len(SYNTHETIC), len(SOUND)) == (121, 45, 154)


def test_the_published_xattr_section_decodes_and_encodes_back() -> None:
    value = bytes.fromhex(XATTR_SECTION["hex"])
    section = decode_xattrs(value)
    assert {pair.key.decode(): pair.value.decode() for pair in section.pairs} == XATTR_SECTION[
        "expected"
    ]
    assert encode_xattrs((pair.key, pair.value) for pair in section.pairs) == value


@each("vector", SOUND)
def test_a_message_cut_at_any_byte_says_where_it_ends(vector: Vector) -> None:
    for cut in range(len(vector.data)):
        message = annotate(vector.data[:cut], context=vector.context)
        assert [problem.offset for problem in message.problems if problem.rule == "truncated"] == [
            cut
        ], cut
        assert_tiles(message)
        assert_inside(message, len(vector.data))


@each("vector", SOUND)
def test_bytes_after_a_message_are_reported_and_change_nothing_else(vector: Vector) -> None:
    whole, longer = vector.annotate(), annotate(vector.data + b"\x80", context=vector.context)
    assert longer.fields == whole.fields
    assert [problem.rule for problem in longer.problems] == [
        *(problem.rule for problem in whole.problems),
        "trailing-bytes",
    ]


@each("vector", SOUND)
def test_a_length_off_by_one_is_an_explained_problem(vector: Vector) -> None:
    known = {problem.rule for problem in vector.annotate().problems}
    silent = set()
    for name, data in off_by_one(vector.data):
        message = annotate(data, context=vector.context)
        assert_tiles(message)
        assert_inside(message, len(data))
        if not {problem.rule for problem in message.problems} - known:
            silent.add(name)
    assert silent == {name for name, vectors in UNDETECTABLE.items() if vector.id in vectors}


@pytest.mark.parametrize(
    "name", sorted(UNDETECTABLE["key-1"] - {"kv-sasl-03", "kv-sasl-05", "kv-sasl-07"})
)
def test_a_key_length_one_short_moves_a_byte_of_the_key_into_the_value(name: str) -> None:
    vector = BY_ID[name]
    data = dict(off_by_one(vector.data))["key-1"]
    whole, damaged = vector.annotate(), annotate(data, context=vector.context)
    value = b"" if whole.value is None else whole.value.body
    assert whole.key is not None
    assert damaged.value is not None
    assert damaged.value.body == whole.key[-1:] + value
