"""Flow control, message by message: what is remembered, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from dcpinspect.reading.engine import Engine
from dcpinspect.streams import flow_windows as w
from dcpinspect.streams.flow_control import MOST, MOST_OF_ALL, FlowControl, WindowWatcher
from dcpinspect.streams.tracker import Tracker
from tests.damage import PORT, batches
from tests.encode import encode
from tests.streams.told import Told, opened, packets


def watched(
    *talks: Told, sizes: Sequence[int] = (), most: int = MOST, most_of_all: int = MOST_OF_ALL
) -> Mapping[int, WindowWatcher]:
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker()
    tracker.flow = FlowControl(most, most_of_all)
    for batch in [
        *(engine.feed(part) for part in batches(packets(*talks), list(sizes))),
        engine.finish(),
    ]:
        if batch is not None:
            tracker.feed(batch)
    return tracker.flow.watched


def acknowledging(rounds: int, leak: int = 0) -> Told:
    """Every message is acknowledged at once, but for ``leak`` bytes."""
    talk = opened(connection_buffer_size="100000")
    stream = talk.stream(7)
    stream.snapshot(0, 1000, "memory")
    talk.acknowledge()
    for seqno in range(1, rounds + 1):
        stream.mutation(seqno, f"k{seqno % 10}", b"x" * 10)
        talk.counted -= leak
        talk.acknowledge()
    return talk


def test_totals_are_those_of_the_connection() -> None:
    (one,) = watched(acknowledging(10)).values()
    size = 24 + 31 + 3 + 10
    window, true = one.window, one.ways[w.TRUE]
    assert (window.is_on, window.size, window.balance, window.counted) == (
        1,
        100_000,
        0,
        44 + 10 * size,
    )
    assert (window.acks, window.acked) == (11, 44 + 10 * size)
    assert (true.is_open, true.landed) == (1, 11)
    assert (one.fit, one.fits_nothing) == (-1, False)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[], [1] * 400, [5] * 100])
def test_what_was_acknowledged_is_forgotten(sizes: list[int]) -> None:
    (one,) = watched(acknowledging(150), sizes=sizes).values()
    assert one.window.acks == 151
    assert len(one.waiting) <= 2 * 256 + 302  # what one batch needs, not what the capture has


def test_ways_of_counting_are_given_up_one_after_the_other() -> None:
    (one,) = watched(acknowledging(10, leak=7)).values()
    assert (one.fit, one.fits_nothing, one.window.is_followed) == (-1, True, 0)


def silent(count: int, port: int = 50_000) -> Told:
    """A consumer that acknowledges nothing."""
    talk = opened(f"test:{port}", connection_buffer_size="100000", port=port)
    stream = talk.stream(7)
    stream.snapshot(0, 1000, "memory")
    for seqno in range(1, count + 1):
        stream.mutation(seqno, f"k{seqno}")
    return talk


def test_more_than_is_remembered_is_given_up() -> None:
    (one,) = watched(silent(90), sizes=[10] * 40, most=64).values()
    assert (one.is_limited, one.fit, one.fits_nothing) == (True, -1, False)
    assert len(one.waiting) <= 2 * 64
    (one,) = watched(silent(60), sizes=[10] * 40, most=64).values()
    assert not one.is_limited


def test_so_is_more_than_is_remembered_of_all() -> None:
    found = watched(
        *(silent(200, port) for port in range(50_000, 50_004)), sizes=[50] * 60, most_of_all=1000
    ).values()
    assert [one.is_limited for one in found] == [False, False, False, True]
    assert sum(len(one.waiting) for one in found) <= 1000


def test_a_size_without_compression_is_the_one_that_the_preamble_says() -> None:
    talk = opened(connection_buffer_size="100000")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "k", b"x" * 5000, snappy=True)
    stream.mutation(2, "k", b"x" * 10)
    (one,) = watched(talk).values()
    way = w.WAYS.index("decompressed-sizes")
    sizes = [
        w.size_by(way, waiting.size, waiting.detail)
        for waiting in one.waiting[: one.window.waiting]
    ]
    assert [size for size in sizes if size] == [44, 24 + 31 + 2 + 5000, 24 + 31 + 2 + 10]


@pytest.mark.parametrize("value", [b"", b"\xff\xff\xff\xff\xff\xff", b"\xff", b"\x80"])
def test_a_preamble_that_lies_breaks_nothing(value: bytes) -> None:
    talk = opened(connection_buffer_size="100000")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.send(
        "dcp_mutation",
        collection=0,
        key="k",
        value=value,
        datatype=2,
        by_seqno=1,
        rev_seqno=1,
        cas=1,
    )
    (one,) = watched(talk).values()
    assert one.window.counted == 44 + 24 + 31 + 2 + len(value)


def test_a_window_that_is_granted_anew_begins_with_nothing() -> None:
    talk = acknowledging(5)
    talk.control("connection_buffer_size", "0")
    talk.send("client", encode("dcp_buffer_acknowledgement", ack_bytes=5))
    talk.control("connection_buffer_size", "500")
    (one,) = watched(talk).values()
    assert (one.window.is_on, one.window.size, one.window.balance, one.window.acks) == (
        1,
        500,
        0,
        0,
    )


def test_a_connection_without_a_window_is_not_watched() -> None:
    talk = opened()
    talk.stream(7).snapshot(0, 9, "memory")
    assert watched(talk) == {}


@pytest.mark.parametrize("sizes", [[], [1] * 400, [5] * 100])
def test_slow_answers_before_the_window_make_it_tolerant_wherever_batches_end(
    sizes: list[int],
) -> None:
    talk = opened()
    number = talk.opaque("client")
    talk.send("client", encode("get_all_vb_seqnos", opaque=number))
    talk.wait(2)
    talk.answer("get_all_vb_seqnos", number, seqnos=[])
    talk.control("connection_buffer_size", "100000")
    (one,) = watched(talk, sizes=sizes).values()
    assert 2e9 <= one.window.tolerance < 3e9
