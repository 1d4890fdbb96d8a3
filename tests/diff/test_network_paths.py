"""One connection in two captures: matched in spite of address translation, with what was lost and
how long it took in between.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.diff.network_paths import Segments, losses, paths, segments_of
from dcpinspect.diff.reading_side import ComparisonSide
from dcpinspect.output.export.table_schema import SCHEMAS
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.spool import Spool
from dcpinspect.tables.select import Selection
from tests.builders import SYN
from tests.diff.taps import BACK, FORTH, OFFSET, conversation, taps, written
from tests.peers.truth import SAMPLES
from tests.schemas import validate


def found(a: Path, b: Path) -> list[dict[str, Any]]:
    """Records of the paths between two captures."""
    with closing(Spool()) as spool:
        sides = []
        for name, path in (("a", a), ("b", b)):
            sides.append(ComparisonSide(name, Reading([str(path)], track=True), spool))
            sides[-1].read(Selection())
        records = paths(sides[0].tap, sides[1].tap).records()
    for record in records:
        validate(record, SCHEMAS["path"])
    return records


def test_a_connection_is_found_behind_address_translation_and_clocks_are_compared(
    tmp_path: Path,
) -> None:
    to_server, to_client = found(*written(tmp_path, *taps(conversation())))
    assert (to_server["direction"], to_client["direction"]) == ("c2s", "s2c")
    assert (to_server["a_client"], to_server["b_client"]) == ("10.0.0.1:50000", "192.168.7.7:4242")
    assert (to_server["client_side"], to_server["clock_from"]) == ("a", "handshake")
    assert (
        abs(to_server["clock_offset_ns"] - OFFSET)
        <= to_server["clock_error_ns"]
        == (FORTH + BACK) // 2
    )
    assert to_server["delay_median_ns"] == to_client["delay_median_ns"] == (FORTH + BACK) // 2
    assert (
        to_client["lost"],
        to_client["lost_bytes"],
        to_client["a_missed_bytes"],
        to_client["b_missed_bytes"],
    ) == (0, 0, 0, 0)


def test_of_two_captures_at_one_place_none_is_nearer(tmp_path: Path) -> None:
    a, _ = taps(conversation())
    to_server, to_client = found(*written(tmp_path, a, a))
    assert (to_server["client_side"], to_server["clock_offset_ns"], to_client["delay_max_ns"]) == (
        None,
        0,
        0,
    )


def test_which_side_is_nearer_to_the_client_does_not_depend_on_its_name(tmp_path: Path) -> None:
    near, far = written(tmp_path, *taps(conversation()))
    to_server, _ = found(far, near)
    assert (to_server["client_side"], to_server["clock_offset_ns"] < 0) == ("b", True)
    assert to_server["delay_median_ns"] == (FORTH + BACK) // 2


def test_what_was_lost_between_the_taps_is_told_from_what_a_capture_lacks(tmp_path: Path) -> None:
    segments = conversation()
    _, to_client = found(*written(tmp_path, *taps(segments, lost={20, 30}, missed={25})))
    assert (to_client["lost"], to_client["lost_bytes"]) == (
        2,
        sum(len(segments[number].payload) for number in (20, 30)),
    )
    assert (to_client["a_missed_bytes"], to_client["b_missed_bytes"]) == (
        0,
        len(segments[25].payload),
    )
    assert to_client["delay_max_ns"] >= 200_000_000


def test_an_answer_waits_at_the_server_or_in_the_network(tmp_path: Path) -> None:
    to_server, _ = found(*written(tmp_path, *taps(conversation())))
    assert to_server["answers"] > 0
    assert to_server["network_median_ns"] == FORTH + BACK
    assert to_server["answer_median_ns"] == to_server["answerer_median_ns"] + FORTH + BACK


def test_without_a_handshake_the_quickest_packets_tell_the_clocks(tmp_path: Path) -> None:
    a, b = taps(conversation())
    to_server, _ = found(*written(tmp_path, a, [one for one in b[4:] if not one.flags & SYN]))
    assert (to_server["clock_from"], to_server["client_side"]) == ("quickest-packets", "a")
    assert abs(to_server["clock_offset_ns"] - OFFSET) <= to_server["clock_error_ns"]


def test_other_connections_are_not_taken_for_one(tmp_path: Path) -> None:
    a, b = taps(conversation())
    near, far = written(
        tmp_path,
        a,
        [
            replace(one, payload=bytes(len(one.payload))) if number % 3 else one
            for number, one in enumerate(b[4:])
        ],
    )
    assert found(near, far) == []  # the numbers are the same, the bytes are not
    assert found(near, near) == []  # there is nothing between a capture and itself
    assert found(SAMPLES / "lossy.pcap", SAMPLES / "rollback.pcap") == []


spans = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10)), max_size=8)


def segments(seen: list[tuple[int, int]]) -> Segments:
    start, size = np.array(seen, dtype=np.int64).reshape(-1, 2).T
    return Segments(
        start,
        start + size,
        np.arange(len(start)),
        np.zeros(len(start), np.int64),
        np.zeros(len(start), np.bool_),
    )


@given(spans, spans)
def test_losses_are_those_that_counting_each_byte_finds(
    one: list[tuple[int, int]], two: list[tuple[int, int]]
) -> None:
    told = losses(segments(one), segments(two), sender="a")
    if not one or not two:
        assert told.between_bytes == 0
        return
    low = max(min(start for start, _ in seen) for seen in (one, two))
    high = min(max(start + size for start, size in seen) for seen in (one, two))
    times = [
        [sum(start <= byte < start + size for start, size in seen) for byte in range(low, high)]
        for seen in (one, two)
    ]
    assert told.between_bytes == sum(max(0, a - b) for a, b in zip(*times, strict=True) if b)
    assert told.missed == {
        "a": sum(a == 0 and b > 0 for a, b in zip(*times, strict=True)),
        "b": sum(b == 0 and a > 0 for a, b in zip(*times, strict=True)),
    }


@pytest.mark.parametrize("events", [1, 40])
def test_every_direction_has_one_record(events: int, tmp_path: Path) -> None:
    assert [one["direction"] for one in found(*written(tmp_path, *taps(conversation(events))))] == [
        "c2s",
        "s2c",
    ]


def test_places_do_not_wrap_and_count_every_byte(tmp_path: Path) -> None:
    sent = conversation(80)  # the server's sequence numbers wrap on the way
    path, _ = written(tmp_path, *taps(sent))
    with closing(Spool(tmp_path)) as spool:
        side = ComparisonSide("a", Reading([str(path)], track=True), spool)
        side.read(Selection())
        origins = {1: side.reading.engine.transport.first_seq(1)}
        found = segments_of(side.tap, origins)
    for direction in (0, 1):
        way = found[1, direction]
        own = [
            one
            for one in sent
            if one.to_server == (direction == 0) and (one.payload or one.flags & 2)
        ]
        assert way.start[0] == -1  # the SYN
        assert (way.end - way.start).tolist() == [len(one.payload) or 1 for one in own]
        assert (way.start[1:] == way.end[:-1]).all()
        assert way.is_syn.tolist() == [True] + [False] * (len(own) - 1)


def test_connections_that_nobody_wants_are_left_out(tmp_path: Path) -> None:
    path, _ = written(tmp_path, *taps(conversation(2)))
    with closing(Spool(tmp_path)) as spool:
        side = ComparisonSide("a", Reading([str(path)], track=True), spool)
        side.read(Selection())
        assert segments_of(side.tap, {}) == {}
