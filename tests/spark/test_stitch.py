from __future__ import annotations

import random

import numpy as np

from dcpinspect.spark.stitch import PointPackets, balanced, components, copies


def pair(one: int, two: int, port: int) -> bytes:
    return bytes([one]) * 16 + bytes([two]) * 16 + port.to_bytes(2, "big") + b"\x2b\xca"


def wild(one: int, two: int) -> bytes:
    return bytes([one]) * 16 + bytes([two]) * 16


def groups(*keys: bytes, joins: object = ()) -> set[frozenset[bytes]]:
    of = components(keys, joins)  # type: ignore[arg-type] # pairs
    return {frozenset(key for key in of if of[key] == root) for root in of.values()}


def test_connections_are_apart_unless_fragments_are_between_their_addresses() -> None:
    a, b, c = pair(1, 2, 7), pair(1, 2, 8), pair(3, 4, 7)
    assert groups(a, b, c) == {frozenset({a}), frozenset({b}), frozenset({c})}
    assert groups(a, b, c, wild(1, 2)) == {frozenset({a, b, wild(1, 2)}), frozenset({c})}


def test_fragments_belong_with_what_was_found_in_them() -> None:
    a, b = pair(1, 2, 7), pair(3, 4, 7)
    assert groups(a, b, wild(8, 9), joins=[(wild(8, 9), b)]) == {
        frozenset({a}),
        frozenset({b, wild(8, 9)}),
    }
    assert groups(a, b, joins=[(wild(8, 9), b)]) == {frozenset({a}), frozenset({b})}


def test_fragments_without_addresses_may_belong_anywhere() -> None:
    assert len(groups(pair(1, 2, 7), pair(3, 4, 7), b"")) == 1


def test_components_do_not_depend_on_the_order_in_which_groups_come() -> None:
    rng = random.Random(1)
    keys = [pair(rng.randrange(5), rng.randrange(5), port) for port in range(40)] + [
        wild(1, 2),
        wild(3, 3),
    ]
    expected = components(keys)
    for _ in range(5):
        rng.shuffle(keys)
        assert components(keys) == expected


def test_parts_are_balanced_and_hold_everything_once() -> None:
    sizes = {bytes([number]): number * number for number in range(30)}
    parts = balanced(sizes, 4)
    assert sorted(key for part in parts for key in part) == sorted(sizes)
    weights = [sum(sizes[key] for key in part) for part in parts]
    assert max(weights) - min(weights) <= max(sizes.values())
    assert balanced({}, 4) == []
    assert len(balanced(sizes, 99)) == 30


def test_connections_at_several_points_are_copies_but_where_there_is_most_of_them() -> None:
    seen = [
        PointPackets("a", b"x", {1, 2}, 10),
        PointPackets("b", b"x", {2, 3}, 30),
        PointPackets("c", b"x", {9}, 5),
        PointPackets("d", b"x", (), 99),
    ]
    assert copies(
        [
            *seen,
            PointPackets("a", b"y", {7}, 4),
            PointPackets("b", b"y", {7}, 4),
            PointPackets("a", b"z", {7}, 4),
        ]
    ) == {
        "a": {b"x": ("b", b"x")},
        "b": {b"y": ("a", b"y")},
    }


def test_the_same_bytes_in_the_same_places_are_the_same_connection_whatever_its_addresses() -> None:
    marks = np.arange(10, dtype=np.uint64)
    one, other = (
        PointPackets("a", b"x", (), 10, marks),
        PointPackets("b", b"behind NAT", (), 9, marks[3:]),
    )
    assert copies([other, one]) == {"b": {b"behind NAT": ("a", b"x")}}
    assert copies([one, PointPackets("a", b"behind NAT", (), 9, marks)]) == {}
    assert copies([one, PointPackets("b", b"y", (), 9, marks + np.uint64(7))]) == {}
