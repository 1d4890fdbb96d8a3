"""The bulk columns and the annotation of one message come from the same table: they must agree on
every message there is.
"""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.output.export.json import specific_numbers
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.decode import ERROR_LAYOUT, PROBLEMS, Decoded
from dcpinspect.protocol.fields import FieldKind, bit_names
from dcpinspect.protocol.header import HEADER_SIZE, decode_header
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.message import Message
from dcpinspect.protocol.session import Sessions
from dcpinspect.tables.schema import SPECIFIC
from tests.encode import encode, encode_parts
from tests.tables.build import batch

VECTORS = Path(__file__).parent.parent / "vectors"


def vectors() -> list[bytes]:
    found = []
    for name in ("vectors", "vectors_synthetic"):
        for vector in json.loads((VECTORS / f"{name}.json").read_text()):
            data = bytes.fromhex(vector.get("hex_corrected") or vector["hex"])
            if (
                vector["kind"] == "packet"
                and len(data) >= HEADER_SIZE
                and decode_header(data).size <= len(data)
            ):
                found.append(data[: decode_header(data).size])
    return found


def decode_all(
    messages: list[bytes], *, connection: list[int] | None = None, handshake: bool = False
) -> Decoded:
    data = np.frombuffer(b"".join(messages), np.uint8)
    length = np.array([len(message) for message in messages], dtype=np.int64)
    sessions = Sessions()
    numbers = np.array(connection or [1] * len(messages), dtype=np.int64)
    sessions.begin(numbers, np.full(len(numbers), handshake))
    return Decoded(
        data, np.cumsum(length) - length, numbers, np.zeros(len(messages), dtype=np.bool_), sessions
    )


def assert_equal(decoded: Decoded, row: int, message: Message) -> None:
    number = int(decoded.layout[row])
    if message.header is None or message.header.value_size < 0:
        assert number == -1
        return
    if message.generation is None:
        assert number == -1 or not decoded.extras_fit[row]
    else:
        assert (
            LAYOUTS[number].generation if number != ERROR_LAYOUT else "error"
        ) == message.generation
    annotated = specific_numbers(message)
    assert decoded.collection_id.value_at(row) == annotated.get(
        "collection_id", message.collection_id
    )
    assert decoded.sid.value_at(row) == message.sid
    for column in SPECIFIC:
        value = (
            decoded.numbers[column.name].value_at(row) if column.name in decoded.numbers else None
        )
        if value is None:
            assert column.records is not None or annotated.get(column.name) is None
        elif not _is_flatbuffer(message):
            spec = next(
                field.spec
                for field in message.fields
                if field.spec and column.name in (field.spec.name, field.spec.alias)
            )
            shown: object = value
            if column.kind == "words":
                shown = bit_names(spec.flags, value)
            elif column.kind == "word":
                shown = spec.word(value)
            elif column.kind == "hex64":
                shown = f"0x{value:016x}"
            elif column.name == "end_seqno" and value == 2**64 - 1:
                shown = "no end"
            assert annotated[column.name] == shown, column.name


def _is_flatbuffer(message: Message) -> bool:
    return any(
        field.spec is not None and field.spec.kind is FieldKind.FLATBUFFER
        for field in message.fields
    )


@pytest.mark.parametrize("handshake", [True, False])
def test_columns_agree_with_the_annotation_of_every_vector(handshake: bool) -> None:
    messages = vectors()
    assert len(messages) > 150
    decoded = decode_all(
        messages, connection=list(range(1, len(messages) + 1)), handshake=handshake
    )
    for row, data in enumerate(messages):
        assert_equal(decoded, row, annotate(data, context=decoded.context_of(row)))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(vectors()),
            st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=3),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_columns_agree_with_the_annotation_of_mutated_vectors(
    cases: list[tuple[bytes, list[tuple[int, int]]]],
) -> None:
    messages = []
    for original, edits in cases:
        mutated = bytearray(original)
        for offset, byte in edits:
            if (
                offset < len(mutated) and not 8 <= offset < 12
            ):  # the total length stays: framing is not what is tested
                mutated[offset] = byte
        messages.append(bytes(mutated))
    decoded = decode_all(messages, connection=list(range(1, len(messages) + 1)))
    for row, data in enumerate(messages):
        message = annotate(data, context=decoded.context_of(row))
        if PROBLEMS[decoded.problem[row]] == "bad-magic":
            assert any(problem.rule == "bad-magic" for problem in message.problems)
            continue
        assert_equal(decoded, row, message)


def test_seqnos_beyond_two_to_the_63_stay_unsigned() -> None:
    decoded = decode_all(
        [encode("dcp_mutation", by_seqno=2**64 - 1, rev_seqno=2**63, key="k", cas=2**64 - 2)]
    )
    assert (
        decoded.numbers["by_seqno"].value_at(0),
        decoded.numbers["rev_seqno"].value_at(0),
        int(decoded.cas[0]),
    ) == (2**64 - 1, 2**63, 2**64 - 2)


def test_collections_hold_from_the_hello_that_granted_them() -> None:
    key = b"\x08k"
    messages = [
        encode("dcp_mutation", key=key),
        encode("hello", "response", features=[{"feature": 0x12}]),
        encode("dcp_mutation", key=key),
    ]
    decoded = decode_all(messages, handshake=True)
    assert [decoded.collection_id.value_at(row) for row in range(3)] == [None, None, 8]
    assert decoded.key.size.tolist() == [2, -1, 1]


def test_a_hello_that_does_not_grant_collections_leaves_keys_whole() -> None:
    decoded = decode_all(
        [
            encode("hello", "response", features=[{"feature": 0x06}]),
            encode("dcp_mutation", key=b"\x08k"),
        ]
    )
    assert decoded.collection_id.value_at(1) is None


@pytest.mark.parametrize(
    ("proof", "collections"),
    [
        (encode("dcp_mutation", key=b"\x00doc"), 3),
        (encode("dcp_mutation", key=b"\x08doc"), 3),
        (encode("dcp_mutation", key=b"doc"), 0),
        (encode("dcp_mutation", key=b"\x03doc"), 0),
        (encode("dcp_seqno_advanced", by_seqno=5), 3),
        (encode("dcp_oso_snapshot", flags=["start"]), 3),
        (encode("dcp_stream_req", value="{}"), 3),
        (encode("dcp_stream_req"), 0),
        (encode("dcp_stream_end"), 0),
    ],
    ids=[
        "nul-prefix",
        "control-prefix",
        "letter",
        "reserved-id",
        "seqno-advanced",
        "oso",
        "stream-request-value",
        "stream-request",
        "end",
    ],
)
def test_collections_are_inferred_mid_stream_only_from_proof(
    proof: bytes, collections: int
) -> None:
    decoded = decode_all([proof, encode("dcp_mutation", key=b"\x6bey")], handshake=False)
    assert decoded.collections.tolist() == [collections, collections]


@pytest.mark.parametrize("handshake", [True, False])
def test_a_key_without_id_breaks_what_was_granted_and_not_what_was_inferred(
    handshake: bool,
) -> None:
    keys = [encode("dcp_mutation", key=key) for key in (b"\0a", b"\xff\xff")]
    hello = encode("hello", "response", features=[{"feature": 0x12}])
    decoded = decode_all([hello, *keys] if handshake else keys, handshake=handshake)
    assert decoded.has_bad_prefix.tolist()[-2:] == [False, handshake]


def test_names_of_system_events_and_controls_never_have_a_collection_id() -> None:
    hello = encode("hello", "response", features=[{"feature": 0x12}])
    event = encode(
        "dcp_system_event",
        event="create-scope",
        version=0,
        manifest_uid=1,
        scope_id=9,
        key="app",
        by_seqno=1,
    )
    decoded = decode_all(
        [
            hello,
            event,
            encode("dcp_control", key="enable_noop", value="true"),
            encode("dcp_open", key="app"),
        ]
    )
    assert [decoded.collection_id.value_at(row) for row in range(1, 4)] == [None, None, None]
    assert decoded.key.size.tolist()[1:] == [3, 11, 3]


def test_stream_id_stands_beside_other_framing_extras() -> None:
    decoded = decode_all(
        [
            encode("dcp_mutation", frames=[(5, b""), (2, b"\x00\x47")], key="k"),
            encode("dcp_mutation", frames=[(2, b"\x00\x48")], key="k"),
        ]
    )
    assert [decoded.sid.value_at(row) for row in range(2)] == [0x47, 0x48]


@pytest.mark.parametrize(
    "behind", [b"", encode("dcp_mutation", frames=[(2, b"\x00\x48")], key="k")[24:]]
)
def test_framing_extras_that_are_longer_than_the_body_have_no_stream_id(behind: bytes) -> None:
    decoded = decode_all(
        [bytes.fromhex("0857 0300 0000 0000 00000000 00000000 0000000000000000") + behind]
    )
    assert decoded.sid.value_at(0) is None


def test_a_gap_makes_collections_unknown_again_until_something_proves_them() -> None:
    messages = [
        encode("dcp_mutation", key=b"\x08k"),
        encode("dcp_mutation", key=b"k"),
        encode("dcp_mutation", key=b"\x08k"),
    ]
    data = np.frombuffer(b"".join(messages), np.uint8)
    length = np.array([len(message) for message in messages])
    sessions = Sessions()
    sessions.begin(np.array([1]), np.array([True]))
    none = np.zeros(3, dtype=np.bool_)
    decoded = Decoded(
        data,
        np.cumsum(length) - length,
        np.ones(3, np.int64),
        none,
        sessions,
        np.array([False, True, False]),
    )
    assert decoded.collections.tolist() == [1, 0, 3]


def test_a_gap_after_the_answer_to_hello_changes_nothing() -> None:
    messages = [
        encode("hello", "response", features=[{"feature": 6}]),
        encode("dcp_mutation", key=b"\x08k"),
    ]
    data = np.frombuffer(b"".join(messages), np.uint8)
    sessions = Sessions()
    sessions.begin(np.array([1]), np.array([True]))
    start = np.array([0, len(messages[0])])
    decoded = Decoded(
        data,
        start,
        np.ones(2, np.int64),
        np.zeros(2, dtype=np.bool_),
        sessions,
        np.array([False, True]),
    )
    assert decoded.collections.tolist() == [1, 1]


def test_an_incomplete_answer_to_hello_leaves_collections_unknown() -> None:
    message = encode("hello", "response", features=[{"feature": 0x12}])
    sessions = Sessions()
    sessions.begin(np.array([1]), np.array([True]))
    one = np.ones(1, np.int64)
    decoded = Decoded(
        np.frombuffer(message, np.uint8),
        np.zeros(1, np.int64),
        one,
        np.ones(1, dtype=np.bool_),
        sessions,
    )
    assert decoded.collections.tolist() == [0]


def test_columns_hold_no_cycle_that_would_keep_their_bytes() -> None:
    gc.disable()
    try:
        decoded = decode_all([encode("dcp_mutation", by_seqno=1, key="k")])
        assert decoded.numbers["by_seqno"].value_at(0) == 1
        assert decoded.key.size.tolist() == [1]
        alive = weakref.ref(decoded)
        del decoded
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("first", [0, 1])
def test_a_message_without_a_value_is_not_judged_by_one_that_has_one(first: int) -> None:
    empty, full = encode_parts(0x81, 0x50), encode_parts(0x81, 0x50, value=b"v")
    made = batch(*((empty, full) if first == 0 else (full, empty)))
    assert [made.problem_of(index) for index in range(2)] == (
        [None, "unexpected-section"] if first == 0 else ["unexpected-section", None]
    )
