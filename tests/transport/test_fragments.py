from __future__ import annotations

import random

import pytest

from dcpinspect.transport import fragments as f

DATA = bytes(random.Random(1).randbytes(100))
PIECES = [(0, 40, True), (40, 24, True), (64, 36, False)]
S = 1_000_000_000


def add(
    table: f.Fragments,
    start: int,
    length: int,
    more: bool,
    *,
    data: bytes = DATA,
    cut: int = 0,
    time_ns: int = 0,
    key: object = "key",
) -> f.Datagram | None:
    piece = data[start : start + length - cut]
    return table.add(f.Fragment(key, start, length, piece, more, b"head%d" % start), time_ns)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
def test_any_order_makes_the_datagram_with_the_last_piece(order: tuple[int, ...]) -> None:
    table = f.Fragments()
    *early, last = [add(table, *PIECES[i]) for i in order]
    assert early == [None, None]
    assert last == f.Datagram(b"head0", DATA, 100)
    table.finish()
    assert table.lost == 0


def test_copies_of_a_fragment_change_nothing_before_and_after_it_is_whole() -> None:
    table = f.Fragments()
    assert [add(table, *PIECES[i]) is not None for i in (0, 0, 1, 1, 2, 2, 0)] == [
        False,
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    table.finish()
    assert table.lost == 0


def test_where_fragments_overlap_the_first_copy_wins() -> None:
    table = f.Fragments()
    other = bytes(100)
    add(table, 40, 24, True)
    add(table, 0, 48, True, data=other)
    whole = add(table, 56, 44, False, data=other)
    assert whole is not None
    assert whole.data == bytes(40) + DATA[40:64] + bytes(36)


def test_a_missing_fragment_leaves_the_others_lost() -> None:
    table = f.Fragments()
    assert add(table, *PIECES[0]) is None
    assert add(table, *PIECES[2]) is None
    assert table.lost == 0
    table.finish()
    assert table.lost == 2


def test_an_identification_used_again_begins_a_new_datagram() -> None:
    table = f.Fragments()
    other = bytes(100)
    add(table, *PIECES[1])
    results = [add(table, *piece, data=other) for piece in (PIECES[1], PIECES[0], PIECES[2])]
    assert results[-1] == f.Datagram(b"head0", other, 100)
    assert table.lost == 1
    assert [add(table, *piece) for piece in PIECES][-1] == f.Datagram(b"head0", DATA, 100)
    assert table.lost == 1


def test_what_snaplen_cut_off_is_known_by_its_length() -> None:
    table = f.Fragments()
    for piece in PIECES[1:]:
        add(table, *piece, cut=4)
    assert add(table, *PIECES[0], cut=4) == f.Datagram(b"head0", DATA[:36], 100)


def test_fragments_too_old_are_given_up() -> None:
    table = f.Fragments()
    add(table, *PIECES[0])
    add(table, *PIECES[1], time_ns=6 * S)
    assert add(table, *PIECES[2], time_ns=6 * S) is None
    assert table.lost == 1


def test_memory_is_bounded_the_oldest_go_first() -> None:
    table = f.Fragments()
    for number in range(10_000):
        add(table, 0, 40_000, True, data=bytes(40_000), key=number)
        assert table._bytes <= f.MAX_BYTES
    assert table.lost > 9_000
    assert table.add(f.Fragment(9_999, 40_000, 8, b"12345678", False, b""), 0) is not None


@pytest.mark.parametrize(
    ("start", "length", "more"), [(0, 0, True), (0, 12, True), (65_528, 8, False), (0, -8, False)]
)
def test_fragments_that_cannot_be_are_refused(start: int, length: int, more: bool) -> None:
    with pytest.raises(ValueError, match="no such fragment"):
        f.Fragments().add(f.Fragment("key", start, length, b"", more, b""), 0)


def test_many_tiny_fragments_cost_a_bounded_time() -> None:
    table = f.Fragments()
    for start in range(8, 65_000, 8):
        assert table.add(f.Fragment("key", start, 8, bytes(8), True, b""), 0) is None
    assert len(table._waiting["key"].pieces) <= f.MAX_PIECES


def test_the_packets_that_its_fragments_came_in_are_known_but_not_those_of_copies() -> None:
    table = f.Fragments()
    found = None
    for number, place in ((7, 0), (8, 0), (9, 2), (12, 1)):
        start, length, more = PIECES[place]
        piece = f.Fragment("key", start, length, DATA[start : start + length], more, b"")
        found = table.add(piece, 0, number)
    assert found is not None
    assert found.packets == (7, 9, 12)
