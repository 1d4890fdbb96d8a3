"""A response answers the oldest request of its own connection, direction, command and opaque, and
no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dcpinspect.protocol.decode import Decoded
from dcpinspect.protocol.session import Sessions
from dcpinspect.streams.requests import WAITING, Origins, RequestOfMessage, Requests
from tests.encode import encode, encode_parts

C2S, S2C = 0, 1

GET = encode("get", key="k", vbucket=7, opaque=1)
GOT = encode("get", "response", opaque=1)
MUTATION = encode("dcp_mutation", key="k", vbucket=7, opaque=1)
REFUSED = encode("dcp_mutation", "response", opaque=1, status=2)
STAT = encode("stat", key="vbucket", vbucket=7, opaque=1)
STATED = encode("stat", "response", opaque=1, key="vb_7", value="active")
STAT_END = encode("stat", "response", opaque=1)
NOOP = encode("dcp_noop")
NOOPED = encode("dcp_noop", "response")


@dataclass(frozen=True)
class Sent:
    """A message, who sent it, and when."""

    data: bytes
    direction: int
    connection: int = 1
    time_ns: int = 0
    after_loss: bool = False


def decoded(messages: list[bytes]) -> tuple[Decoded, np.ndarray[Any, np.dtype[np.int64]]]:
    length = np.array([len(message) for message in messages], dtype=np.int64)
    start = np.cumsum(length) - length
    data = np.frombuffer(b"".join(messages), np.uint8)
    return Decoded(
        data, start, np.ones(len(start), np.int64), np.zeros(len(start), np.bool_), Sessions()
    ), start


def pair(requests: Requests, messages: list[Sent], first_row: int = 1) -> RequestOfMessage:
    columns, start = decoded([message.data for message in messages])
    return requests.pair(
        columns,
        Origins(
            np.array([message.connection for message in messages], dtype=np.int64),
            np.array([message.direction for message in messages], dtype=np.int64),
            start + 1000,
            np.array([message.time_ns for message in messages], dtype=np.int64),
        ),
        np.arange(first_row, first_row + len(messages), dtype=np.int64),
        np.array([message.after_loss for message in messages], dtype=np.bool_),
    )


def answered(*messages: Sent) -> list[int | None]:
    """Row of each message's request, rows counting from 1."""
    pairs = pair(Requests(), list(messages))
    return [pairs.row.value_at(index) for index in range(len(messages))]


def vbuckets(*messages: Sent) -> list[int | None]:
    """The request's vbucket of each message."""
    pairs = pair(Requests(), list(messages))
    return [pairs.vbucket.value_at(index) for index in range(len(messages))]


def test_a_response_has_its_requests_row_offset_vbucket_and_the_time_between() -> None:
    pairs = pair(
        Requests(), [Sent(NOOP, C2S), Sent(GET, C2S, time_ns=100), Sent(GOT, S2C, time_ns=350)]
    )
    found = (
        pairs.row.value_at(2),
        pairs.stream_offset.value_at(2),
        pairs.vbucket.value_at(2),
        pairs.rtt_ns.value_at(2),
    )
    assert found == (2, 1000 + len(NOOP), 7, 250)


def test_a_request_and_an_unasked_response_have_nothing() -> None:
    pairs = pair(Requests(), [Sent(GOT, S2C), Sent(GET, C2S)])
    for column in (pairs.row, pairs.stream_offset, pairs.vbucket, pairs.rtt_ns):
        assert [column.value_at(0), column.value_at(1)] == [None, None]


def test_requests_of_one_opaque_are_answered_in_their_order() -> None:
    assert answered(
        Sent(GET, C2S),
        Sent(GET, C2S),
        Sent(GOT, S2C),
        Sent(GET, C2S),
        Sent(GOT, S2C),
        Sent(GOT, S2C),
    ) == [
        None,
        None,
        1,
        None,
        2,
        4,
    ]


def test_an_opaque_is_used_again() -> None:
    assert answered(*[Sent(GET, C2S), Sent(GOT, S2C)] * 3) == [None, 1, None, 3, None, 5]


def test_both_sides_may_ask_with_the_same_opaque() -> None:
    assert answered(Sent(NOOP, S2C), Sent(NOOP, C2S), Sent(NOOPED, S2C), Sent(NOOPED, C2S)) == [
        None,
        None,
        2,
        1,
    ]


def test_a_producers_noop_is_not_a_clients() -> None:
    client, answer = encode("noop"), encode("noop", "response")
    assert answered(Sent(NOOP, S2C), Sent(client, C2S), Sent(answer, S2C), Sent(NOOPED, C2S)) == [
        None,
        None,
        2,
        1,
    ]


def test_a_response_does_not_answer_its_own_side() -> None:
    assert answered(Sent(GET, C2S), Sent(GOT, C2S)) == [None, None]


@pytest.mark.parametrize(
    "other",
    [
        encode("get", "response", opaque=2),
        encode("getk", "response", opaque=1),
        encode_parts(0x83, 0x00, opaque=1),
    ],
    ids=["opaque", "command", "table"],
)
def test_another_opaque_command_or_table_is_another_conversation(other: bytes) -> None:
    assert answered(Sent(GET, C2S), Sent(other, S2C)) == [None, None]


def test_another_connection_is_another_conversation() -> None:
    assert answered(
        Sent(GET, C2S, connection=1), Sent(GOT, S2C, connection=2), Sent(GOT, S2C, connection=1)
    ) == [None, None, 1]


def test_all_lines_of_a_stat_answer_its_request_until_the_empty_one() -> None:
    assert answered(
        Sent(STAT, C2S),
        Sent(STATED, S2C),
        Sent(STATED, S2C),
        Sent(STAT_END, S2C),
        Sent(STATED, S2C),
    ) == [None, 1, 1, 1, None]


def test_an_error_ends_a_stat() -> None:
    refused = encode("stat", "response", opaque=1, status=1)
    assert answered(
        Sent(STAT, C2S), Sent(STATED, S2C), Sent(refused, S2C), Sent(STAT_END, S2C)
    ) == [None, 1, 1, None]


def test_a_range_scan_goes_on_while_there_is_more() -> None:
    ask = encode_parts(0x80, 0xDB, opaque=1)
    more, complete = (
        encode_parts(0x81, 0xDB, opaque=1, specific=status) for status in (0xA6, 0xA7)
    )
    assert answered(
        Sent(ask, C2S), Sent(more, S2C), Sent(more, S2C), Sent(complete, S2C), Sent(more, S2C)
    ) == [None, 1, 1, 1, None]


def test_an_error_about_a_mutation_has_its_vbucket_and_no_row() -> None:
    messages = Sent(MUTATION, S2C), Sent(REFUSED, C2S)
    assert (answered(*messages), vbuckets(*messages)) == ([None, None], [None, 7])


def test_the_newest_mutation_of_an_opaque_gives_the_vbucket() -> None:
    other = encode("dcp_mutation", key="k", vbucket=8, opaque=1)
    assert vbuckets(
        Sent(MUTATION, S2C), Sent(other, S2C), Sent(REFUSED, C2S), Sent(REFUSED, C2S)
    ) == [None, None, 8, 8]


@pytest.mark.parametrize(
    ("flags", "row"), [(["memory"], None), (["memory", "ack"], 1)], ids=["without", "with"]
)
def test_a_marker_waits_for_an_answer_only_with_the_ack_flag(
    flags: list[str], row: int | None
) -> None:
    marker = encode("dcp_snapshot_marker", vbucket=7, opaque=1, snapshot_type=flags)
    messages = Sent(marker, S2C), Sent(encode("dcp_snapshot_marker", "response", opaque=1), C2S)
    assert (answered(*messages), vbuckets(*messages)) == ([None, row], [None, 7])


@pytest.mark.parametrize("generation", ["v2.0", "v2.2"])
def test_the_ack_flag_is_found_in_later_generations(generation: str) -> None:
    marker = encode(
        "dcp_snapshot_marker",
        generation=generation,
        vbucket=7,
        opaque=1,
        snapshot_type=["disk", "ack"],
    )
    assert answered(
        Sent(marker, S2C), Sent(encode("dcp_snapshot_marker", "response", opaque=1), C2S)
    ) == [None, 1]


@pytest.mark.parametrize(
    "command",
    [
        "dcp_stream_req",
        "dcp_add_stream",
        "dcp_close_stream",
        "dcp_set_vbucket_state",
        "dcp_control",
        "dcp_open",
    ],
)
def test_these_are_answered(command: str) -> None:
    assert answered(
        Sent(encode(command, opaque=1), C2S),
        Sent(encode(command, "response", opaque=1, status=4), S2C),
    ) == [None, 1]


@pytest.mark.parametrize(
    "command",
    [
        "dcp_deletion",
        "dcp_expiration",
        "dcp_stream_end",
        "dcp_buffer_acknowledgement",
        "dcp_system_event",
        "dcp_commit",
        "dcp_cache_transfer_end",
    ],
)
def test_these_are_answered_only_by_an_error(command: str) -> None:
    messages = (
        Sent(encode(command, vbucket=7, opaque=1), S2C),
        Sent(encode(command, "response", opaque=1, status=4), C2S),
    )
    assert (answered(*messages), vbuckets(*messages)) == ([None, None], [None, 7])


def test_an_answer_that_was_lost_is_not_replaced_by_the_next_requests() -> None:
    ask = [Sent(GET, C2S, time_ns=time) for time in (10, 30)]
    assert answered(ask[0], ask[1], Sent(GOT, S2C, time_ns=40, after_loss=True)) == [None, None, 2]


def test_a_late_answer_after_a_loss_is_that_of_the_request_before_it() -> None:
    first, second = (Sent(GET, C2S, time_ns=time) for time in (10, 30))
    answers = [Sent(GOT, S2C, time_ns=20, after_loss=True), Sent(GOT, S2C, time_ns=40)]
    assert answered(first, second, *answers) == [None, None, 1, 2]


def test_after_a_loss_nobody_knows_which_of_several_vbuckets_an_answer_is_for() -> None:
    other = encode("get", key="k", vbucket=8, opaque=1)
    assert answered(Sent(GET, C2S), Sent(other, C2S), Sent(GOT, S2C, after_loss=True)) == [
        None,
        None,
        None,
    ]


def test_where_both_sides_lost_bytes_an_answer_may_be_that_of_a_request_that_was_lost() -> None:
    lost = Sent(NOOP, C2S, after_loss=True)
    assert answered(Sent(GET, C2S), lost, Sent(GOT, S2C, after_loss=True)) == [None, None, None]
    assert answered(Sent(GET, C2S), Sent(GOT, S2C, after_loss=True)) == [None, 1]
    assert answered(Sent(GET, C2S), lost, Sent(GOT, S2C)) == [None, None, 1]


def test_a_late_request_may_have_had_its_answer_and_leaves_the_next_one_to_the_next_request() -> (
    None
):
    early = [Sent(GOT, S2C, time_ns=20), Sent(GET, C2S, time_ns=10)]
    assert answered(*early, Sent(GET, C2S, time_ns=30), Sent(GOT, S2C, time_ns=40)) == [
        None,
        None,
        None,
        3,
    ]


@pytest.mark.parametrize(("known", "row"), [(True, 1), (False, None)])
def test_an_answer_older_than_the_request_is_that_of_one_before_the_capture(
    known: bool, row: int | None
) -> None:
    requests = Requests()
    requests.begin(
        np.array([1]), np.array([known])
    )  # where nothing is missing, it is the clocks that differ
    assert (
        pair(requests, [Sent(GET, C2S, time_ns=30), Sent(GOT, S2C, time_ns=20)]).row.value_at(1)
        == row
    )


def test_what_begins_with_no_magic_is_no_message() -> None:
    assert answered(Sent(encode_parts(0x42, 0x00, opaque=1), C2S), Sent(GOT, S2C)) == [None, None]


def test_a_reading_remembers_65536_requests() -> None:
    requests = Requests()
    ask = [
        Sent(encode_parts(0x80, 0x00, opaque=opaque), C2S) for opaque in range(0, WAITING + 1, 1)
    ]
    pair(requests, ask)
    pairs = pair(
        requests,
        [Sent(encode_parts(0x81, 0x00, opaque=opaque), S2C) for opaque in (0, 1, WAITING)],
        first_row=len(ask) + 1,
    )
    assert [pairs.row.value_at(index) for index in range(3)] == [None, 2, WAITING + 1]
