"""A batch is columns, and any one message of it on demand."""

from __future__ import annotations

import numpy as np

from dcpinspect.protocol.message import Context
from dcpinspect.tables.messages import MissingBytes
from tests.encode import encode
from tests.tables.build import batch

MUTATION = encode(
    "dcp_mutation", vbucket=5, collection=8, key="apple", value=b"{}", by_seqno=2**63 + 1
)
ON = encode("hello", "response", features=[{"feature": 0x12}])


def test_the_bytes_of_a_message_are_its_own() -> None:
    made = batch(ON, MUTATION, ON)
    assert [made.bytes_of(index) for index in range(len(made))] == [ON, MUTATION, ON]


def test_a_key_comes_without_its_collection_id_once_that_is_known() -> None:
    made = batch(MUTATION, ON, MUTATION)
    assert [made.key_of(index) for index in range(3)] == [b"\x08apple", None, b"apple"]


def test_a_key_that_the_capture_lacks_a_byte_of_is_none() -> None:
    made = batch(ON, MUTATION, missing={1: [(56, 57)]})
    assert made.key_of(1) is None


def test_a_hole_beside_the_key_leaves_it() -> None:
    made = batch(ON, MUTATION, missing={1: [(24, 55), (61, 62)]})
    assert made.key_of(1) == b"apple"


def test_the_context_is_what_was_negotiated_before_the_message() -> None:
    made = batch(MUTATION, ON, MUTATION)
    assert [made.context_of(index) for index in (0, 2)] == [
        Context("off", generation="dcp"),
        Context("on", generation="dcp"),
    ]


def test_annotation_knows_what_is_missing() -> None:
    message = batch(MUTATION, missing={0: [(61, 62)]}).annotate(0)
    assert message.missing == ((61, 62),)


def test_numbers_of_a_message_are_found_by_name_also_above_two_to_the_63() -> None:
    made = batch(MUTATION, ON)
    assert [made.number("by_seqno", index) for index in (0, 1)] == [2**63 + 1, None]
    assert made.number("no_such_column", 0) is None


def test_a_name_is_made_of_an_unknown_number() -> None:
    made = batch(
        encode(0x7E), encode("clustermap_change_notification", server=True, generation="v1")
    )
    assert [made.name_of(index) for index in (0, 1)] == [
        "opcode_0x7e",
        "clustermap_change_notification",
    ]


def test_generation_and_layout_are_those_that_fit() -> None:
    made = batch(
        encode("dcp_snapshot_marker", generation="v2.0"),
        encode("get", "response", status=1, value=b"no"),
        encode(0x7E),
    )
    assert [made.generation_of(index) for index in range(3)] == ["v2.0", "error", None]
    layouts = [made.layout_of(index) for index in range(3)]
    assert [layout.generation if layout else None for layout in layouts] == ["v2.0", None, None]


def test_a_nearest_layout_that_does_not_fit_has_no_generation() -> None:
    made = batch(bytes.fromhex("8057000005000000" + "00000005" + "00" * 17))
    assert made.generation_of(0) is None
    assert made.problem_of(0) == "extras-length"


def test_missing_ranges_are_found_by_row() -> None:
    missing = MissingBytes(np.array([1, 1, 4]), np.array([24, 30, 26]), np.array([25, 31, 40]))
    assert [missing.ranges_of(row) for row in (0, 1, 4)] == [(), ((24, 25), (30, 31)), ((26, 40),)]
