"""Rows put together by what they have in common."""

from __future__ import annotations

import numpy as np

from dcpinspect.streams.grouping import Groups, NameNumbers

ONE = np.array([5, 1, 5, 1, 5, 9])
TWO = np.array([0, 0, 0, 1, 2, 0])


def test_groups_are_in_order_of_their_first_rows_and_rows_as_they_are_given() -> None:
    assert list(Groups([ONE]).values()) == [[0, 2, 4], [1, 3], [5]]
    assert list(Groups([ONE, TWO]).values()) == [[0, 2], [1], [3], [4], [5]]
    assert list(Groups([ONE], np.array([3, 4, 0, 1])).values()) == [[3, 1], [4, 0]]
    assert list(Groups([ONE], np.array([], dtype=np.int64)).values()) == []


def test_a_row_tells_its_group_and_the_row_before_it() -> None:
    found = Groups([ONE], np.array([3, 4, 0, 1]))
    assert found.of.tolist() == [1, 0, -1, 0, 1, -1]
    assert (found[1], found.before(0, 5), found.before(0, 0), found.before(4, 5)) == (
        [4, 0],
        [4],
        [],
        [],
    )
    assert found.previous.tolist() == [4, 3, -1, -1, -1, -1]


def test_only_groups_are_looked_at_that_have_what_is_wanted() -> None:
    wanted = np.array([True, False, True, False, False, True])
    assert list(Groups([ONE]).having(wanted)) == [[0, 2, 4], [5]]
    assert list(Groups([ONE]).having(wanted, 2)) == [[0, 2, 4]]
    assert Groups([ONE]).sum(np.arange(6)).tolist() == [6, 4, 5]


def test_names_have_numbers() -> None:
    found = NameNumbers({1: "b", 4: "a", 2: "b"}, 6)
    assert (found.words, found.of.tolist(), found.number("a")) == (
        ["b", "a"],
        [-1, 0, 0, -1, 1, -1],
        1,
    )


def test_a_row_tells_the_greatest_value_beside_it_in_its_group() -> None:
    values = np.array([7, -3, 2, -5, 4, 1])
    assert Groups([ONE], np.array([3, 4, 0, 1])).greatest_earlier(values, -9).tolist() == [
        4,
        -5,
        -9,
        -9,
        -9,
        -9,
    ]
    assert Groups([ONE]).greatest_later(values, -9).tolist() == [4, -5, 4, -9, -9, -9]
    assert Groups([ONE], np.array([3, 4, 0, 1])).greatest_later(values, -9).tolist() == [
        -9,
        -9,
        -9,
        -3,
        7,
        -9,
    ]
    assert (
        Groups([ONE], np.array([], dtype=np.int64)).greatest_later(values, -9).tolist() == [-9] * 6
    )
