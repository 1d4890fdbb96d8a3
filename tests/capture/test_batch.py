from __future__ import annotations

import numpy as np

from dcpinspect.capture.batch import PacketBatch


def test_the_length_of_a_batch_is_its_packets() -> None:
    column = np.zeros(3, np.int64)
    batch = PacketBatch(np.zeros(9, np.uint8), column, column, column, column, column, 0, 1, 0, 0)
    assert len(batch) == 3
