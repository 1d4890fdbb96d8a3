"""Messages become columns of numbers: which kinds they are, and what is in the way of reading
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dcpinspect.streams.conversation import Conversation
from dcpinspect.streams.message_columns import MessageColumns
from dcpinspect.streams.record_codes import (
    ANSWER,
    END,
    EVENT,
    LOST,
    MARKER,
    OSO,
    REQUEST,
    SEQNO_ADVANCED,
    UNREADABLE,
)
from tests.builders import mutation
from tests.encode import encode
from tests.tables.build import batch


def kinds(
    *messages: bytes, missing: dict[int, Sequence[tuple[int, int]]] | None = None
) -> list[int]:
    table, _ = MessageColumns(Conversation()).tables(batch(*messages, missing=missing))
    found: list[int] = table.kind.tolist()
    return found


def test_messages_that_do_not_concern_streams_are_left_out() -> None:
    assert kinds(encode("get", key="k"), encode("stat"), encode("dcp_add_stream")) == []


def test_each_command_has_its_kind() -> None:
    found = kinds(
        encode("dcp_stream_req"),
        encode("dcp_stream_req", "response", failover_log=[{"uuid": 1, "seqno": 0}]),
        encode("dcp_snapshot_marker"),
        mutation(),
        encode("dcp_seqno_advanced", by_seqno=3),
        encode("dcp_oso_snapshot", flags=["start"]),
        encode("dcp_stream_end"),
    )
    assert found == [REQUEST, ANSWER, MARKER, EVENT, SEQNO_ADVANCED, OSO, END]


def test_extras_of_unknown_length_make_a_message_unreadable() -> None:
    broken = bytearray(mutation(key=b"", value=b""))
    broken[4] = 29
    broken[8:12] = (29).to_bytes(4, "big")
    assert kinds(bytes(broken[:-2])) == [UNREADABLE]


def test_missing_extras_make_a_message_unreadable_and_a_missing_value_does_not() -> None:
    size = len(mutation())
    assert kinds(mutation(), missing={0: [(30, 40)]}) == [UNREADABLE]
    assert kinds(mutation(), missing={0: [(size - 4, size)]}) == [EVENT]


def test_a_message_whose_stream_id_is_missing_is_a_loss_to_the_connection() -> None:
    framed = encode("dcp_mutation", by_seqno=4, frames=[(2, b"\0\5")], key="k")
    assert kinds(framed, mutation(), missing={0: [(24, 26)]}) == [LOST, EVENT]


def test_of_the_value_of_a_newer_marker_the_range_and_type_are_needed() -> None:
    marker = encode("dcp_snapshot_marker", generation="v2.2")
    assert kinds(marker, missing={0: [(44, 70)]}) == [UNREADABLE]
    assert kinds(marker, missing={0: [(45, 70)]}) == [MARKER]


def test_seqnos_are_biased_and_sizes_are_what_flow_control_counts() -> None:
    table, details = MessageColumns(Conversation()).tables(
        batch(
            mutation(2**63),
            encode("dcp_prepare", by_seqno=2, cas=1),
            encode("dcp_snapshot_marker", end_seqno=2**64 - 1),
        )
    )
    assert table.seqno.tolist()[:2] == [0, 2 - 2**63]
    assert table.size.tolist() == [len(mutation()), 24 + 31 + 2, 44]
    assert details.markers[table[2].detail].end == np.iinfo(np.int64).max
