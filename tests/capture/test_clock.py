from __future__ import annotations

import time

import numpy as np

from dcpinspect.capture.batch import PacketBatch, pause
from dcpinspect.capture.clock import CaptureClock


def at(time_ns: int) -> PacketBatch:
    column = np.array([time_ns], np.int64)
    return PacketBatch(np.zeros(1, np.uint8), np.stack([column * 0, *[column] * 4]), 0, 1, 0, 0)


def test_before_the_first_packet_there_is_no_time() -> None:
    assert CaptureClock().now_ns() is None


def test_time_goes_on_from_that_of_the_last_packet_whatever_time_it_is_here() -> None:
    clock = CaptureClock()
    clock.note(at(10**18))
    first = clock.now_ns()
    time.sleep(0.002)
    second = clock.now_ns()
    assert first is not None
    assert second is not None
    assert 10**18 <= first < second - 1_500_000 < 10**18 + 60 * 10**9


def test_a_batch_without_packets_says_nothing_of_the_time() -> None:
    clock = CaptureClock()
    clock.note(at(5))
    clock.note(pause(10**18, file=0, first_frame=1, first_packet=0))
    now = clock.now_ns()
    assert now is not None
    assert now < 10**12
