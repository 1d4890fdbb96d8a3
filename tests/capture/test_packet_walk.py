from __future__ import annotations

from dcpinspect.capture.packet_walk import MAX_BLOCK, MAX_PACKET, no_packets


def test_a_block_can_hold_the_longest_packet() -> None:
    assert MAX_PACKET + 32 < MAX_BLOCK


def test_an_empty_column_is_one_of_64_bit_numbers() -> None:
    assert (no_packets().size, no_packets().dtype.name) == (0, "int64")
