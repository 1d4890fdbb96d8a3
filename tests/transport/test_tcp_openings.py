"""What came of connections, read from the tables of reassembly; tests/findings/test_transport_rules.py has
what is said of it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from dcpinspect.capture.open import open_capture
from dcpinspect.transport.flow_records import TransportTables
from dcpinspect.transport.reassembly import Reassembler
from dcpinspect.transport.tcp_openings import counted, openings
from tests import builders
from tests.builders import conversation, recorded
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
    _, frame, _, time_ns, times, is_over = one.shut[0]
    assert frame == len(captured) - 2
    assert (round(time_ns / 1e9), times, is_over) == (20, 1, True)
