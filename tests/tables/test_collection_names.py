"""Names of collections by connection and row."""

from __future__ import annotations

import numpy as np

from dcpinspect.tables.collection_names import Names, NamesAt, unnamed, with_id


def test_a_name_holds_from_the_row_that_told_it_on() -> None:
    names = Names()
    names.add(5, 1, 9, 8, "fruit")
    names.tell_scope(7, 1, 8, "produce")
    names.add(9, 1, 9, 8, "berries")
    told = [names.collection(1, 9, row) for row in (4, 5, 6, 7, 8, 9, 1000)]
    assert told == [
        "0x9",
        "0x8.fruit",
        "0x8.fruit",
        "produce.fruit",
        "produce.fruit",
        "produce.berries",
        "produce.berries",
    ]
    assert names.moments(4, 8).tolist() == [5, 7]
    assert names.moments(5, 9).tolist() == [7, 9]


def test_what_is_told_again_changes_nothing() -> None:
    names = Names()
    for row in (1, 2, 3):
        names.add(row, 1, 9, 8, "fruit")
        names.tell_scope(row, 1, 8, "produce")
    assert names.moments(0, 9).tolist() == [1]


def test_a_scope_told_by_name_and_later_by_id_is_known_by_both() -> None:
    names = Names()
    names.add(1, 1, 9, "produce", "fruit")
    names.add(2, 1, 9, 8, "fruit")
    names.add(3, 1, 10, 8, "leek")
    assert [names.collection(1, number, 3) for number in (9, 10)] == [
        "produce.fruit",
        "produce.leek",
    ]


def test_what_a_connection_itself_was_told_is_told_apart_from_what_its_bucket_was() -> None:
    names = Names()
    for connection in (1, 2):
        names.select(connection, connection, "10.0.0.7:11210", b"shop")
    names.add(3, 1, 9, 0, "fruit")
    assert [names.known_collection(connection, 9, 3) for connection in (1, 2)] == [
        "_default.fruit"
    ] * 2
    assert [names.known_collection(connection, 9, 3, is_own=True) for connection in (1, 2)] == [
        "_default.fruit",
        None,
    ]


def test_selecting_the_same_bucket_again_is_no_change() -> None:
    names = Names()
    assert names.select(1, 1, "10.0.0.7:11210", b"shop")
    assert not names.select(2, 1, "10.0.0.7:11210", b"shop")
    assert names.select(3, 1, "10.0.0.7:11210", b"else")


def test_names_without_end_are_bounded() -> None:
    names = Names()
    for row in range(40_000):
        names.add(row, 1, 9, 0, f"c{row}")
    assert len(names.moments(-1, 40_000)) == 16_384
    assert names.collection(1, 9, 39_999) == "_default.c16383"


def test_the_default_collection_and_scope_need_nobody_to_tell_them() -> None:
    at = NamesAt(Names(), 1, 1)
    assert (at.collection(0), at.scope(0)) == ("_default._default (0x0)", "_default (0x0)")
    assert (at.collection(8), at.scope(8)) == (None, None)


def test_numbers_stand_beside_names() -> None:
    assert (unnamed(31), with_id("produce.fruit", 31)) == ("0x1f", "produce.fruit (0x1f)")
    assert np.array_equal(Names().moments(0, 9), [])
