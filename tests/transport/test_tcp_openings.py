"""What came of connections, read from the tables of reassembly; tests/findings/test_transport_rules.py has
what is said of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.transport.flow_records import TransportTables
from dcpinspect.transport.reassembly import Reassembler
from dcpinspect.transport.tcp_openings import counted, openings
from tests import builders
from tests.builders import START_NS, conversation, recorded
from tests.damage import batches
from tests.findings.test_transport_rules import (
    UNANSWERED,
    attempt,
    error,
    probe,
    stalled,
    taking_nothing,
)


def read(packets: list[builders.Recorded]) -> TransportTables:
    """The tables of a reading of these packets."""
    reassembler = Reassembler()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.pcap")
        path.write_bytes(builders.pcap(packets))
        with open_capture(path) as file:
            for batch in file:
                list(reassembler.feed(batch))
    return reassembler.tables


def told(packets: list[builders.Recorded]) -> list[tuple[str, int]]:
    tables = read(packets)
    return [
        (one.unopened, one.syns)
        for one in openings(tables, np.arange(1, 1 + tables.counts.connections), 0)
    ]


def test_each_connection_says_what_came_of_its_syn() -> None:
    (quoted,) = attempt((20, True, builders.SYN), port=50_002)
    refused = attempt(
        (10, True, builders.SYN), (10.1, False, builders.RST | builders.ACK), port=50_001
    )
    said = recorded(conversation(b"x", b"y"))
    packets = [
        *said,
        *attempt(*UNANSWERED, port=50_004),
        *refused,
        quoted,
        error(quoted, 3, 1),
        *probe(30, 50_003),
    ]
    assert told(packets) == [
        ("", 0),
        ("unanswered", 3),
        ("refused", 1),
        ("host-unreachable", 1),
        ("silent", 0),
    ]


def test_what_came_of_many_is_counted_without_looking_at_each() -> None:
    (quoted,) = attempt((20, True, builders.SYN), port=50_002)
    tables = read([*attempt(*UNANSWERED), quoted, error(quoted, 3, 13), *probe(30, 50_003)])
    numbers = np.arange(1, 1 + tables.counts.connections)
    assert counted(tables, numbers, 0) == {
        "unanswered": 1,
        "administratively-prohibited": 1,
        "silent": 1,
    }


def test_a_window_that_was_shut_has_its_time() -> None:
    captured = stalled(20)
    shut = taking_nothing(captured, len(captured) - 4, len(captured) - 2)
    reassembler = Reassembler()
    for batch in batches(shut):
        list(reassembler.feed(batch))
    (one,) = openings(reassembler.tables, np.array([1]), reassembler.time_ns)
    assert one.shut[1] is None
    assert one.shut[0] is not None
    ((since_ns, until_ns, frame, _),), times, is_over = one.shut[0]
    assert frame == len(captured) - 2
    assert (round((until_ns - since_ns) / 1e9), times, is_over) == (20, 1, True)


def test_of_many_times_that_a_window_was_shut_the_longest_and_the_last_are_kept() -> None:
    made, seconds = begun(), [3, *range(2, 20), 1, 1]
    for length in seconds:
        made.send(True)
        made.send(True)
        made.time_ns += length * 10**9
    made.send(False, b"probe", builders.ACK)
    captured = [
        replace(one, data=one.data[:48] + b"\0\0" + one.data[50:]) if number % 2 else one
        for number, one in enumerate(recorded(made.segments)[len(begun().segments) :])
    ]
    captured = [*recorded(begun().segments), *captured]
    (one,) = openings(read(captured), np.array([1]), 0)
    assert one.shut[0] is not None
    spells, times, is_over = one.shut[0]
    assert [round((until - since) / 1e9) for since, until, *_ in spells] == [*range(4, 20), 1]
    assert (times, is_over) == (len(seconds), False)


# -- what arrived late
# --------------------------------------------------------------------------------------------------

NEVER = 2**63 - 1
_Late = tuple[tuple[int, int, float], ...]


def late_acks(made: builders.Conversation) -> tuple[_Late, _Late]:
    """What arrived late in each direction, with the seconds since the start."""
    (one,) = openings(read(recorded(made.segments)), np.array([1]), 0)
    c2s, s2c = (
        tuple(
            (start, end, time if time == NEVER else round((time - START_NS) / 1e9, 1))
            for start, end, *_, time in acks
        )
        for acks in one.late_acks
    )
    return c2s, s2c


def again(made: builders.Conversation, *after_s: float, arrives: bool = True) -> None:
    """The server sends eight bytes, and sends them again so long after."""
    begun_ns, seq = made.time_ns, made.next[False]
    for seconds in (0, *after_s):
        made.time_ns, made.next[False] = begun_ns + int(1e9 * seconds), seq
        made.send(False, b"01234567", builders.ACK | builders.PSH)
    if arrives:
        made.send(True)


def begun() -> builders.Conversation:
    made = builders.Conversation()
    made.handshake()
    made.stream(False, b"hi")
    return made


def test_bytes_that_are_sent_again_arrive_with_their_acknowledgement() -> None:
    made = begun()
    again(made, 0.3, 0.9, 2.1)
    assert late_acks(made) == ((), ((2, 10, 2.1),))
    again(made, 0.3, 0.9, arrives=False)
    assert late_acks(made) == ((), ((2, 10, 2.1), (10, NEVER, NEVER)))


def test_what_was_sent_meanwhile_arrives_with_the_last_of_it() -> None:
    made = begun()
    made.send(False, b"89", builders.ACK | builders.PSH)
    made.next[False] -= 2
    again(made, 1, 2)
    made.time_ns += 10**9
    made.send(True)
    made.next[False] += 2
    made.time_ns += 10**9
    made.send(False, b"later", builders.ACK | builders.PSH)
    made.time_ns += 10**9
    made.send(True)
    assert late_acks(made) == ((), ((2, 10, 2.0),))


def test_copies_by_another_interface_and_a_quick_repair_are_not_late() -> None:
    made = begun()
    again(made, 0.0001)
    again(made, 0.2)
    again(made)
    assert late_acks(made) == ((), ())


def test_an_end_that_takes_nothing_has_what_is_sent_to_it() -> None:
    made = begun()
    made.send(True)
    again(made, 0.3, 0.9, arrives=False)
    *before, shuts, _, _, _ = recorded(made.segments)
    shut = replace(shuts, data=shuts.data[:48] + b"\0\0" + shuts.data[50:])
    (one,) = openings(read([*before, shut, *recorded(made.segments)[-3:]]), np.array([1]), 0)
    assert one.late_acks == ((), ())


def test_where_nothing_of_the_other_end_is_captured_nobody_knows() -> None:
    made = begun()
    again(made, 0.3, 0.9, arrives=False)
    (one,) = openings(
        read(recorded(segment for segment in made.segments if not segment.to_server)),
        np.array([1]),
        0,
    )
    assert one.late_acks == ((), ())


def test_of_many_the_latest_are_remembered_and_one_stands_for_those_before() -> None:
    made, times = begun(), []
    for _ in range(34):
        times.append((made.time_ns - START_NS) / 1e9)
        again(made, 0.3, 0.9)
    _, found = late_acks(made)
    assert found[0] == (0, 18, round(times[2] + 0.3, 1))
    assert [(start, end) for start, end, _ in found[1:]] == [
        (at, at + 8) for at in range(18, 18 + 8 * 32, 8)
    ]


@pytest.mark.parametrize(
    ("after_s", "never"),
    [((7e-6,), ()), ((0.2,), ()), ((0.3, 0.9), ((2, NEVER, NEVER),))],
)
def test_copies_are_no_outage_once_tcp_would_have_sent_them_again(
    after_s: Sequence[float], never: Sequence[tuple[int, int, int]]
) -> None:
    made = begun()
    again(made, *after_s, arrives=False)
    assert late_acks(made) == ((), never)
    made.time_ns += 27 * 10**9
    made.send(True)
    assert late_acks(made) == ((), ())


def test_copies_of_all_packets_of_one_direction_are_no_outage() -> None:
    made = builders.Conversation()
    made.handshake()
    for _ in range(40):
        again(made, 7e-6, arrives=False)
        made.time_ns += 10**9
    assert late_acks(made) == ((), ())


def test_when_they_were_sent_is_known_and_behind_a_part_that_was_acknowledged_not_exactly() -> None:
    made = begun()
    begun_ns = made.segments[-1].time_ns
    made.time_ns += 10**9
    sent_ns = made.time_ns
    again(made, 0.3, 0.9, 2.1)
    again(made, 0.3, 0.9, 2.1)
    made.time_ns += 10**9
    made.send(False, b"part", builders.ACK | builders.PSH)
    made.send(False, b"rest", builders.ACK | builders.PSH)
    made.send(True)
    made.segments[-1] = replace(made.segments[-1], ack=made.segments[-1].ack - 4)
    acked_ns = made.segments[-1].time_ns
    for seconds in (1, 2, 4):
        made.next[False] -= 4
        made.time_ns += seconds * 10**9
        made.send(False, b"rest", builders.ACK | builders.PSH)
    (one,) = openings(read(recorded(made.segments)), np.array([1]), 0)
    first, second, third = (late[2] for late in one.late_acks[1])
    assert begun_ns <= first <= sent_ns
    assert third == acked_ns - 500_000_000
    assert sent_ns + 2_100_000_000 < second < sent_ns + 2_200_000_000
