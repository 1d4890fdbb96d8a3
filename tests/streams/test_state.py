"""The tables of numbers: seqnos keep their order, columns are apart, and room is made in time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dcpinspect.streams import state as s


def test_biased_seqnos_compare_as_the_unbiased_ones_do() -> None:
    seqnos = np.array([0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1], np.uint64)
    biased = s.biased(seqnos)
    assert np.all(np.diff(biased.astype(object)) > 0)
    assert (biased[0], biased[-1]) == (s.LEAST, s.GREATEST)
    assert np.array_equal(s.unbiased(biased), seqnos)


@pytest.mark.parametrize(
    ("prefix", "size"),
    [("C_", s.CONNECTION), ("S_", s.STREAM), ("N_", s.SNAPSHOT), ("G_", s.GAP), ("E_", s.ANOMALY), ("L_", s.LOSS_COLUMNS)],
)
def test_columns_of_a_table_are_apart_and_fit(prefix: str, size: int) -> None:
    bits = {"G_IS_LOST", "G_IS_ADVANCED", "G_IS_TAIL", "G_IN_RANGE", "G_BOTH_EVENTS", "G_NO_MARKER", "G_FROM_START", "G_AT_EDGE"}
    counts = {"N_STREAMS", "N_KEYS", "N_SNAPSHOTS", "N_GAPS", "N_ANOMALIES", "N_LOSSES", "N_OSO"}
    columns = [value for name, value in vars(s).items() if name.startswith(prefix) and name not in bits | counts]
    assert all(a != b for a, b in itertools.combinations(columns, 2))
    assert max(columns) < size


def test_tables_grow_before_they_are_full_and_keep_what_they_hold() -> None:
    state = s.State()
    state.tables[s.N_STREAMS][:60] = 7
    state.counts[s.N_STREAMS] = 60
    assert not state.make_room()
    assert len(state.tables[s.N_STREAMS]) == 128
    assert (state.rows(s.N_STREAMS) == 7).all()


def test_slots_stay_twice_the_keys() -> None:
    state = s.State()
    state.counts[s.N_KEYS] = 121
    assert state.make_room()
    assert len(state.slots) == 512


def test_a_connection_seen_from_its_start_has_everything_off_and_another_one_unknown() -> None:
    state = s.State()
    state.meet(3, known=True)
    state.meet(40, known=False)
    assert state.connections[3, [s.C_KNOWN, s.C_WINDOW, s.C_OSO, s.C_PRODUCER]].tolist() == [1, 0, 0, -1]
    assert state.connections[40, [s.C_KNOWN, s.C_WINDOW, s.C_OSO, s.C_PRODUCER]].tolist() == [0, -1, -1, -1]
