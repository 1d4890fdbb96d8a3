"""The declarations of records: each field says what it means, and numbers count what there is."""

from __future__ import annotations

import pytest

import dcpinspect.streams
from dcpinspect.kernels.structs import Struct, StructRows
from dcpinspect.streams import records
from dcpinspect.streams.records import RowCounts
from dcpinspect.streams.state import ReadingState
from tests.declared import counted, declared, stands_beside, unexplained

STRUCTS = pytest.mark.parametrize(
    "struct", declared(dcpinspect.streams), ids=lambda struct: struct.__name__
)
PARSED = {"filters", "logs"}
"""What is counted as well, and is no table of records: parsed values, and failover logs as bytes.
"""


@STRUCTS
def test_every_field_says_what_it_means_in_a_sentence(struct: type[Struct[int]]) -> None:
    assert unexplained(struct) == []
    assert (struct.__doc__ or "").rstrip().endswith(".")


@STRUCTS
def test_what_a_field_counts_is_a_table_beside_its_own(struct: type[Struct[int]]) -> None:
    names = counted(struct) - PARSED
    assert not names or stands_beside(struct, names)


def test_the_records_of_the_tracker_are_among_those() -> None:
    found = declared(dcpinspect.streams)
    assert {
        records.Stream,
        records.Snapshot,
        records.Gap,
        records.Message,
        records.MessageRow,
    } <= set(found)
    assert len([struct for struct in found if counted(struct) - PARSED]) > 9


def test_the_tables_that_grow_are_those_that_are_counted() -> None:
    state, members = ReadingState(), ReadingState.members()
    assert set(RowCounts.fields) <= set(members)
    for name in RowCounts.fields:
        assert issubclass(members[name], StructRows)
        assert len(getattr(state, name)) > 0
    grown = {
        name
        for name in members
        if isinstance(getattr(state, name), StructRows) and len(getattr(state, name))
    }
    assert grown == set(RowCounts.fields)
