from __future__ import annotations

from dcpinspect.transport.chunk import C2S, S2C
from tests.builders import chunk


def test_client_to_server_sorts_first() -> None:
    assert C2S < S2C


def test_a_chunk_begins_and_ends_nothing_unless_it_says_so() -> None:
    plain = chunk(b"abc")
    assert (plain.holes, plain.is_start, plain.is_end) == ((), False, False)
