from __future__ import annotations

import numpy as np

from dcpinspect.capture.batch import PacketBatch, pause
from dcpinspect.engine import Engine


def test_the_length_of_a_batch_is_its_packets() -> None:
    column = np.zeros(3, np.int64)
    batch = PacketBatch(np.zeros(9, np.uint8), column, column, column, column, column, 0, 1, 0, 0)
    assert len(batch) == 3


def test_a_pause_is_a_batch_that_adds_nothing_to_a_reading() -> None:
    silence = pause(7, file=0, first_frame=1, first_packet=0)
    assert (len(silence), silence.clock_ns) == (0, 7)
    engine = Engine(["eth0"])
    assert engine.feed(silence) is None
    assert engine.coverage.packets_read == 0
