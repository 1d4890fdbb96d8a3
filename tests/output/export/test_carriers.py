"""The packets of any message are found among those of all streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.output.export import carriers
from dcpinspect.output.export.carriers import Carriers, LineMarks, ends
from dcpinspect.transport.chunk import StreamChunk
from tests.transport_views import segments_of


def column(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def chunk(
    connection: int, direction: int, start: int, end: int, packet: int, *, is_end: bool = False
) -> StreamChunk:
    """Bytes of one packet; at the end of a direction another packet shows it."""
    offsets, packets = ([start, end], [packet, packet + 1]) if is_end else ([start], [packet])
    numbers = column(*packets)
    segments = segments_of(
        column(*offsets), numbers, numbers + 1, 0 * numbers, 10 * numbers, numbers
    )
    return StreamChunk(
        connection, direction, start, np.zeros(end - start, np.uint8), segments, is_end=is_end
    )


def found(
    known: Carriers, flow: list[int], start: list[int], end: list[int]
) -> set[tuple[int, int]]:
    which, packets = known.packets(column(*flow), column(*start), column(*end))
    return set(zip(which.tolist(), packets.tolist(), strict=True))


@given(st.data())
def test_they_are_those_that_gave_any_byte_of_it(data: st.DataObject) -> None:
    known, truth, packet = Carriers(), [], 0
    at = dict.fromkeys(range(2, 8), 0)
    for _ in range(data.draw(st.integers(0, 4))):
        chunks = []
        for flow in data.draw(st.lists(st.sampled_from(sorted(at)), max_size=4, unique=True)):
            at[flow] += data.draw(st.integers(0, 3))  # a hole
            size, packet = data.draw(st.integers(1, 5)), packet + 1
            chunks.append(chunk(flow // 2, flow % 2, at[flow], at[flow] + size, packet))
            truth.append((flow, at[flow], at[flow] + size, packet))
            at[flow] += size
        known.add(chunks, ())
        asked = data.draw(
            st.lists(
                st.tuples(st.integers(1, 9), st.integers(0, 20), st.integers(1, 9)), max_size=5
            )
        )
        expected = {
            (place, packet)
            for place, (flow, start, size) in enumerate(asked)
            for other, first, behind, packet in truth
            if other == flow and first < start + size and behind > start
        }
        assert (
            found(
                known,
                [one[0] for one in asked],
                [one[1] for one in asked],
                [one[1] + one[2] for one in asked],
            )
            == expected
        )


def test_an_end_has_no_byte_of_a_message_but_is_told() -> None:
    chunks = [chunk(1, 0, 0, 10, 5), chunk(1, 1, 0, 10, 6, is_end=True)]
    known = Carriers()
    known.add(chunks, ())
    assert found(known, [2, 3], [0, 0], [10, 10]) == {(0, 5), (1, 6)}
    assert list(ends(chunks, ())) == [(3, 10, 7, 70)]


def test_what_no_message_has_any_more_is_forgotten_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(carriers, "FEW", 8)
    known, most = Carriers(), 0
    for packet in range(100):
        held = {(1, 0): 10 * packet - 5}
        known.forget(lambda *flow, held=held: held.get(flow))
        known.add(
            [
                chunk(number, direction, 10 * packet, 10 * packet + 10, packet)
                for number, direction in ((1, 0), (1, 1), (2, 0))
            ],
            (),
        )
        assert found(known, [2], [10 * packet - 5], [10 * packet + 5]) == {
            (0, one) for one in (packet - 1, packet) if one >= 0
        }
        most = max(most, len(known))
    assert most <= 12


NUMBERS = st.lists(st.integers(0, 5000))


@given(NUMBERS, st.integers(0, 5000), st.integers(0, 5000), st.lists(st.integers(0, 20_000)))
def test_marks_are_a_set_of_numbers(
    numbers: list[int], first: int, count: int, others: list[int]
) -> None:
    marks = LineMarks()
    for number in numbers:
        marks.add(np.array([number]))
    assert marks.within(first, count).tolist() == [
        number - first for number in sorted(set(numbers)) if first <= number < first + count
    ]
    assert marks.end == max(numbers, default=-1) + 1
    assert marks.has(np.array(others, dtype=np.int64)).tolist() == [
        other in numbers for other in others
    ]
