"""The kernel of flow control, on numbers: ways of counting, and the two forms of it."""

from __future__ import annotations

import random

import pytest

from dcpinspect.streams import flow_windows as w
from dcpinspect.streams.record_codes import (
    ACK,
    ANSWER,
    END,
    FACT,
    MARKER,
    NOOP,
    OSO,
    PREPARE,
    SEQNO_ADVANCED,
    SYSTEM_EVENT,
    UNREADABLE_ACK,
)
from dcpinspect.streams.records import LEAST
from tests.catalogue import each

SIZE, FRAMING, SURPLUS = 100, 5, 40
DETAIL = FRAMING << 8 | SURPLUS << 32


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        (
            END,
            {
                "without-flex-frames": 95,
                "without-stream-end": 0,
                "without-header": 76,
                "decompressed-sizes": 140,
            },
        ),
        (
            MARKER,
            {
                "without-flex-frames": 95,
                "without-snapshot-marker": 0,
                "without-header": 76,
                "decompressed-sizes": 140,
            },
        ),
        (
            PREPARE,
            {
                "without-flex-frames": 95,
                "without-prepare-surplus": 98,
                "without-header": 76,
                "decompressed-sizes": 140,
            },
        ),
        (
            OSO,
            {
                "without-flex-frames": 95,
                "without-oso-snapshot": 0,
                "without-header": 76,
                "decompressed-sizes": 140,
            },
        ),
        (
            SYSTEM_EVENT,
            {
                "without-flex-frames": 95,
                "without-system-event": 0,
                "without-header": 76,
                "decompressed-sizes": 140,
            },
        ),
        (
            SEQNO_ADVANCED,
            {
                "without-flex-frames": 95,
                "without-seqno-advanced": 0,
                "without-header": 76,
                "decompressed-sizes": 140,
            },
        ),
    ],
)
def test_ways_of_counting_differ_on_what_they_are_named_after(
    kind: int, sizes: dict[str, int]
) -> None:
    found = {way: w.size_by(number, SIZE, kind | DETAIL) for number, way in enumerate(w.WAYS)}
    assert {way: size for way, size in found.items() if size != SIZE} == sizes


@pytest.mark.parametrize(
    ("kind", "ways"),
    [
        (ANSWER, {"stream-answers-counted", "answers-counted"}),
        (w.OTHER_ANSWER, {"answers-counted"}),
        (NOOP, {"noops-counted"}),
    ],
)
def test_what_flow_control_does_not_count_some_do(kind: int, ways: set[str]) -> None:
    assert {
        way for number, way in enumerate(w.WAYS) if w.size_by(number, SIZE, kind | DETAIL)
    } == ways


def nonsense(seed: int) -> w.FlowTables:
    """Messages of every kind with numbers that do not fit together."""
    rng, tables = random.Random(seed), w.FlowTables()
    tables.messages = w.FlowMessages.zeros(300)
    time_ns = 0
    for row, message in enumerate(tables.messages):
        time_ns += rng.choice((0, 1, 10**9, 3 * 10**9))
        message.kind = rng.choice(
            (
                FACT,
                ACK,
                ACK,
                UNREADABLE_ACK,
                ANSWER,
                0,
                w.OTHER_ANSWER,
                NOOP,
                *range(END, END + 12),
                MARKER,
                PREPARE,
            )
        )
        message.size, message.given, message.rtt = (
            rng.choice((0, 50, 100)),
            rng.choice((0, 50, 100, 500)),
            rng.choice((0, 10**9)),
        )
        message.balance, message.window = (
            rng.choice((LEAST, -50, 0, 0, *(50, 100, 200) * 4)),
            rng.choice((0, 100, 150)),
        )
        message.detail = message.kind | rng.randrange(9) << 8 | rng.randrange(99) << 32
        message.place.row, message.place.time = row + 1, time_ns
    tables.window, tables.ways = w.Window.single(), w.Countings.zeros(len(w.WAYS))
    tables.waiting = w.WaitingMessages.zeros(len(tables.messages))
    tables.events = w.FlowEvents.zeros(1 + 2 * len(tables.messages))
    return tables


@each("seed", range(20))
def test_both_forms_do_the_same_with_nonsense(seed: int) -> None:
    found = []
    for run in (w.follow_flow.interpreted, w.follow_flow.compiled):
        tables = nonsense(seed)
        run(tables)
        parts = (tables.ways, tables.waiting, tables.events)
        found.append(
            (w.Window.as_bytes(tables.window), [part.as_integers().tolist() for part in parts])
        )
    assert found[0] == found[1]


def test_nonsense_has_events_of_every_kind() -> None:
    codes = set()
    for seed in range(20):
        tables = nonsense(seed)
        w.follow_flow.interpreted(tables)
        codes |= {event.code for event in tables.events[: tables.window.events]}
    assert codes == {w.STALL, w.OVERRUN, w.EXCESS}
