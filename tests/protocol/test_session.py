"""What a connection negotiates holds from the row that shows it, however the rows are divided into
batches.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.message import Context
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.session import (
    GENERATION_UNKNOWN,
    LATER,
    STATE_NAMES,
    UPR,
    CollectionsState,
    SessionFact,
    Sessions,
    context,
    generation_of,
)

OFF, ON, UNKNOWN, INFERRED = (
    CollectionsState.OFF,
    CollectionsState.ON,
    CollectionsState.UNKNOWN,
    CollectionsState.INFERRED,
)


def states(sessions: Sessions, connections: list[int], *facts: SessionFact) -> list[int]:
    state, _, _ = sessions.apply(np.array(connections, dtype=np.int64), list(facts))
    found: list[int] = state.tolist()
    return found


@pytest.mark.parametrize(("handshake", "state"), [(True, OFF), (False, UNKNOWN)])
def test_a_connection_starts_without_collections_only_where_its_beginning_was_seen(
    handshake: bool, state: CollectionsState
) -> None:
    sessions = Sessions()
    sessions.begin(np.array([1]), np.array([handshake]))
    assert states(sessions, [1]) == [state]


def test_a_connection_nobody_began_is_unknown() -> None:
    assert states(Sessions(), [9]) == [UNKNOWN]


def test_a_fact_holds_from_its_own_row_on_its_own_connection() -> None:
    sessions = Sessions()
    for connection in (1, 2):
        sessions.begin(np.array([connection]), np.array([True]))
    assert states(sessions, [1, 2, 1, 1, 2], SessionFact(2, 1, ON)) == [OFF, OFF, ON, ON, OFF]


def test_a_fact_is_remembered_in_later_batches() -> None:
    sessions = Sessions()
    states(sessions, [1], SessionFact(0, 1, ON))
    assert states(sessions, [1, 1], SessionFact(1, 1, OFF)) == [ON, OFF]


def test_evidence_counts_only_while_nothing_is_known() -> None:
    sessions = Sessions()
    sessions.begin(np.array([1]), np.array([True]))
    assert states(
        sessions,
        [1, 2],
        SessionFact(0, 1, INFERRED, evidence=True),
        SessionFact(1, 2, INFERRED, evidence=True),
    ) == [OFF, INFERRED]


def test_hello_outranks_evidence() -> None:
    assert states(
        Sessions(), [1, 1], SessionFact(0, 1, INFERRED, evidence=True), SessionFact(1, 1, OFF)
    ) == [
        INFERRED,
        OFF,
    ]


def test_beginning_twice_changes_nothing() -> None:
    sessions = Sessions()
    sessions.begin(np.array([1]), np.array([False]))
    sessions.begin(np.array([1]), np.array([True]))
    assert states(sessions, [1]) == [UNKNOWN]


def test_the_underlying_datatype_is_remembered_apart_from_collections() -> None:
    sessions = Sessions()
    _, underlying, _ = sessions.apply(
        np.array([1, 1, 1]), [SessionFact(1, 1, underlying_datatype=True)]
    )
    assert underlying.tolist() == [False, True, True]
    _, underlying, _ = sessions.apply(
        np.array([1, 1]), [SessionFact(0, 1, ON), SessionFact(1, 1, underlying_datatype=False)]
    )
    assert underlying.tolist() == [True, False]


def test_a_generation_is_only_ever_raised() -> None:
    sessions = Sessions()
    said = [
        SessionFact(1, 1, generation=UPR),
        SessionFact(3, 1, generation=LATER),
        SessionFact(4, 1, generation=UPR),
    ]
    generation = sessions.apply(np.array([1, 1, 2, 1, 1]), said)[2]
    assert generation.tolist() == [GENERATION_UNKNOWN, UPR, GENERATION_UNKNOWN, LATER, LATER]
    assert sessions.apply(np.array([1, 2]), [SessionFact(0, 1, generation=UPR)])[2].tolist() == [
        LATER,
        GENERATION_UNKNOWN,
    ]
    assert sessions.may_be_first(np.array([1, 2])).tolist() == [False, True]


def test_connections_whose_collections_are_unknown_are_marked() -> None:
    sessions = Sessions()
    sessions.begin(np.array([1]), np.array([True]))
    assert sessions.unknown(np.array([2, 1, 2])).tolist() == [True, False, True]
    assert sessions.unknown(np.zeros(0, np.int64)).tolist() == []


@pytest.mark.parametrize("state", CollectionsState)
def test_the_context_is_the_state_in_words(state: CollectionsState) -> None:
    assert context(state, True, UPR) == Context(STATE_NAMES[state], True, "upr")
    assert STATE_NAMES[state] == state.name.lower()


facts = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3]),
        st.none() | st.sampled_from(CollectionsState),
        st.booleans(),
        st.none() | st.booleans(),
    ),
    max_size=20,
)


@given(facts, st.lists(st.integers(0, 20), max_size=4))
def test_any_division_into_batches_reads_the_same(
    rows: list[tuple[int, CollectionsState | None, bool, bool | None]], cuts: list[int]
) -> None:
    def read(bounds: list[int]) -> list[tuple[int, bool]]:
        sessions = Sessions()
        sessions.begin(np.array([1]), np.array([True]))
        out = []
        for low, high in pairwise(bounds):
            part = rows[low:high]
            said = [
                SessionFact(at, row[0], row[1], evidence=row[2], underlying_datatype=row[3])
                for at, row in enumerate(part)
            ]
            state, underlying, _ = sessions.apply(
                np.array([row[0] for row in part], dtype=np.int64), said
            )
            out += list(zip(state.tolist(), underlying.tolist(), strict=True))
        return out

    assert read([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]) == read(
        [0, len(rows)]
    )


def test_every_command_after_those_of_the_first_generation_shows_a_later_one() -> None:
    later = {
        opcode for opcode in Opcode if Trait.DCP in opcode.traits and opcode >= Opcode.DCP_NOOP
    }
    shows = {
        layout.opcode: generation_of(layout)
        for layout in LAYOUTS
        if layout.opcode in later and not layout.server
    }
    assert shows == dict.fromkeys(later, LATER)
