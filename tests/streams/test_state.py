"""The tables of numbers: seqnos keep their order, columns are apart, and room is made in time."""

from __future__ import annotations

import numpy as np

from dcpinspect.streams.records import GREATEST, LEAST
from dcpinspect.streams.state import NOTHING, ReadingState, biased, unbiased


def test_biased_seqnos_compare_as_the_unbiased_ones_do() -> None:
    seqnos = np.array([0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1], np.uint64)
    found = biased(seqnos)
    assert np.all(np.diff(found.astype(object)) > 0)
    assert (found[0], found[-1]) == (LEAST, GREATEST)
    assert np.array_equal(unbiased(found), seqnos)


def test_tables_grow_before_they_are_full_and_keep_what_they_hold() -> None:
    state = ReadingState()
    state.streams.vbucket[:60] = 7
    state.counts.streams = 60
    assert not state.make_room()
    assert len(state.streams) == 128
    assert state.known_tables.streams.vbucket.tolist() == [7] * 60


def test_slots_stay_twice_the_keys() -> None:
    state = ReadingState()
    state.counts.keys = 121
    assert state.make_room()
    assert len(state.slots) == 512


def test_a_connection_seen_from_its_start_has_everything_off_and_another_one_unknown() -> None:
    state = ReadingState()
    state.meet(np.array([3, 40]), np.array([1, 0]))
    seen, other = state.connections[3], state.connections[40]
    assert (seen.is_known, seen.window, seen.oso, seen.producer) == (1, 0, 0, -1)
    assert (other.is_known, other.window, other.oso, other.producer) == (0, -1, -1, -1)


def test_the_producer_is_the_one_known_at_each_message() -> None:
    state = ReadingState()
    for connection, direction in ((1, 1), (2, 0), (3, -1)):
        state.meet(np.array([connection]), np.array([1]))
        state.connections[connection].producer = direction
    said = ((2, 12, 1, 0), (1, 11, -1, 0), (1, 14, 0, 1))
    for number, values in enumerate(said):
        turn = state.turns[number]
        turn.connection, turn.row, turn.before, turn.after = values
    state.counts.turns = len(said)
    asked = np.array([(1, 10), (1, 11), (1, 13), (1, 14), (1, 99), (2, 11), (2, 12), (3, 12)])
    assert state.producers(asked[:, 0], asked[:, 1]).tolist() == [-1, 0, 0, 1, 1, 1, 0, -1]
    state.feed(*NOTHING)
    assert state.producers(asked[:, 0], asked[:, 1]).tolist() == [1, 1, 1, 1, 1, 0, 0, -1]
