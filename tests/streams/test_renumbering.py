"""Numbers in the whole: what counts something follows it, and everything is in the order of its
key.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.streams.renumbering import in_order, renumbered, without_repeats


def numbers(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_what_counts_nothing_stays() -> None:
    assert renumbered(numbers(0, 2, -1, 9), numbers(5, 6, 7)).tolist() == [5, 7, -1, 9]
    assert renumbered(numbers(0, -1), numbers()).tolist() == [0, -1]


def test_places_are_in_order_of_keys_and_equal_keys_keep_their_order() -> None:
    assert [place.tolist() for place in in_order([numbers(3, 3, 9), numbers(), numbers(1, 4)])] == [
        [1, 2, 4],
        [],
        [0, 3],
    ]
    assert in_order([]) == []


def test_what_several_have_is_there_once() -> None:
    found, of = without_repeats([[b"a", b"b"], [], [b"b", b"c"]])
    assert (found, [one.tolist() for one in of]) == ([b"a", b"b", b"c"], [[0, 1], [], [1, 2]])
