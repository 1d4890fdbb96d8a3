"""The declarations of what reassembly remembers: each field says what it means, and numbers count
what there is.
"""

from __future__ import annotations

import pytest

import dcpinspect.transport
from dcpinspect.kernels.structs import Struct
from dcpinspect.transport import chunk, flow_records
from tests.declared import counted, declared, stands_beside, unexplained

STRUCTS = pytest.mark.parametrize(
    "struct", declared(dcpinspect.transport), ids=lambda struct: struct.__name__
)


@STRUCTS
def test_every_field_says_what_it_means_in_a_sentence(struct: type[Struct[int]]) -> None:
    assert unexplained(struct) == []
    assert (struct.__doc__ or "").rstrip().endswith(".")


@STRUCTS
def test_what_a_field_counts_is_a_table_beside_its_own(struct: type[Struct[int]]) -> None:
    assert not counted(struct) or stands_beside(struct, counted(struct))


def test_flows_and_waiting_segments_are_among_those() -> None:
    assert {flow_records.Flow, flow_records.WaitingSegment, chunk.StreamEntry} <= {
        struct for struct in declared(dcpinspect.transport) if counted(struct)
    }
