from __future__ import annotations

import numpy as np

from dcpinspect.capture.packet_walk import MAX_BLOCK, MAX_PACKET, Walk


def test_a_block_can_hold_the_longest_packet() -> None:
    assert MAX_PACKET + 32 < MAX_BLOCK


def test_the_length_of_a_walk_is_its_packets() -> None:
    assert len(Walk(np.zeros((5, 3), np.int64), 0, 1)) == 3
