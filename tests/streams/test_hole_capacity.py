"""What has room in a hole, by the shortest message of each kind."""

from __future__ import annotations

import pytest

from dcpinspect.streams import hole_capacity


def test_the_shortest_messages_are_those_of_the_layouts() -> None:
    assert (
        hole_capacity.MESSAGE,
        hole_capacity.REQUEST,
        hole_capacity.ANSWER,
        hole_capacity.MARKER,
        hole_capacity.OLD_MARKER,
    ) == (
        24,
        64,
        40,
        44,
        24,
    )
    assert (hole_capacity.EVENT, hole_capacity.SEQNO_ADVANCED) == (36, 32)


def test_a_hole_of_so_many_bytes_holds_so_many_events() -> None:
    assert [hole_capacity.most_events(size) for size in (0, 35, 36, 71, 72, 660)] == [
        0,
        0,
        1,
        1,
        2,
        18,
    ]


@pytest.mark.parametrize(
    ("sizes", "is_complete", "has_ranges", "may"),
    [
        ([], True, True, False),
        ([31], False, True, False),
        ([32], False, True, True),  # a SeqnoAdvanced ends the snapshot, wherever that is
        ([32], True, True, False),
        ([66], True, True, False),  # a mutation, but no marker for it
        ([65, 31], True, True, False),
        ([65, 32], True, True, True),  # the marker in one, what it announces in the other
        ([44, 32], True, True, True),
        ([76], True, True, True),
        ([43, 43, 43], True, True, False),
        ([56], True, False, True),  # markers without a range are shorter
        ([55], True, False, False),
    ],
)
def test_a_stream_moves_only_by_a_message_with_a_seqno_in_the_range_of_a_marker(
    sizes: list[int], is_complete: bool, has_ranges: bool, may: bool
) -> None:
    assert hole_capacity.may_move(sizes, is_complete=is_complete, has_ranges=has_ranges) is may
