from __future__ import annotations

from dataclasses import replace

import numpy as np

from dcpinspect.capture.batch import PacketBatch, pause
from dcpinspect.reading.engine import Engine


def test_the_length_of_a_batch_is_its_packets() -> None:
    batch = PacketBatch(np.zeros(9, np.uint8), np.zeros((5, 3), np.int64), 0, 1, 0, 0)
    assert len(batch) == 3


def test_a_pause_is_a_batch_that_adds_nothing_to_a_reading() -> None:
    silence = pause(7, file=0, first_frame=1, first_packet=0)
    assert (len(silence), silence.clock_ns) == (0, 7)
    engine = Engine(["eth0"])
    assert engine.feed(silence) is None
    assert engine.coverage.packets_read == 0


def test_packets_that_are_not_consecutive_have_their_own_numbers() -> None:
    two = np.array([4, 9])
    some = PacketBatch(
        np.empty(0, np.uint8),
        np.stack([two] * 5),
        0,
        first_frame=5,
        first_packet=50,
        file_offset=0,
    )
    assert (some.packets.tolist(), some.frames.tolist(), some.packet_at(1)) == (
        [50, 51],
        [5, 6],
        51,
    )
    apart = replace(some, packet=np.array([7, 70]), frame=np.array([1, 3]))
    assert (apart.packets.tolist(), apart.frames.tolist(), apart.packet_at(1)) == (
        [7, 70],
        [1, 3],
        70,
    )
