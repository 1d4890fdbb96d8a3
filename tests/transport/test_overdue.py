"""A gap in a silent connection: its wait ends by the clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.transport.chunk import StreamChunk
from dcpinspect.transport.reassembly import Reassembler
from dcpinspect.transport.waiting import WAIT_NS
from tests import builders
from tests.builders import FIN, Conversation
from tests.transport_views import accounts

DATA = bytes(range(1, 201))


def silent(
    tmp_path: Path, *, loss: int = 5, ack_every: int = 1, close: bool = False
) -> tuple[Reassembler, list[StreamChunk], int]:
    """Ten segments from the server without packet ``loss``, then silence: what came out so far, and
    the last packet's time.
    """
    one = Conversation(mss=20)
    one.handshake()
    one.stream(False, DATA, ack_every=ack_every)
    if close:
        one.send(False, flags=FIN | builders.ACK)
    path = tmp_path / "silent.pcap"
    path.write_bytes(builders.pcap(builders.recorded(builders.damaged(one.segments, loss={loss}))))
    transport = Reassembler()
    with open_capture(path) as capture:
        chunks = [chunk for batch in capture for chunk in transport.feed(batch)]
    return transport, chunks, one.segments[-1].time_ns


def test_a_gap_is_given_up_when_its_wait_is_over(tmp_path: Path) -> None:
    transport, before, last = silent(tmp_path)
    assert list(transport.pass_time(last)) == []
    (chunk,) = transport.pass_time(last + WAIT_NS)
    assert (chunk.connection, chunk.direction, chunk.holes) == (1, 1, ((20, 40),))
    assert (
        b"".join(one.data.tobytes() for one in before) + chunk.data.tobytes()
        == DATA[:20] + bytes(20) + DATA[40:]
    )
    assert set(chunk.segments.release.tolist()) == {transport.packets - 1}
    assert list(transport.pass_time(last + 10 * WAIT_NS)) == []


def test_a_gap_does_not_wait_until_a_clock_that_was_set_back_is_where_it_was(
    tmp_path: Path,
) -> None:
    transport, _, last = silent(tmp_path)
    assert list(transport.pass_time(last - WAIT_NS // 2)) == []
    (chunk,) = transport.pass_time(last - 3600 * 10**9)
    assert chunk.holes == ((20, 40),)


def test_what_nobody_acknowledged_may_still_come(tmp_path: Path) -> None:
    transport, _, last = silent(tmp_path, ack_every=0)
    assert list(transport.pass_time(last + 100 * WAIT_NS)) == []


def test_a_connection_that_was_closed_behind_the_gap_ends(tmp_path: Path) -> None:
    transport, _, last = silent(tmp_path, close=True)
    (chunk,) = transport.pass_time(last + WAIT_NS)
    assert chunk.is_end
    assert [one for one in transport.finish() if one.direction == 1] == []


def test_what_waited_for_the_other_direction_comes_when_its_wait_is_over(tmp_path: Path) -> None:
    one = Conversation()
    one.handshake()
    one.send(True, b"lost")
    one.send(False, b"answer")
    path = tmp_path / "silent.pcap"
    path.write_bytes(builders.pcap(builders.recorded(one.segments[:3] + one.segments[4:])))
    transport = Reassembler()
    with open_capture(path) as capture:
        assert [chunk for batch in capture for chunk in transport.feed(batch)] == []
    last = one.segments[-1].time_ns
    assert list(transport.pass_time(last + WAIT_NS - 1_000_000)) == []
    (chunk,) = transport.pass_time(last + WAIT_NS)
    assert (chunk.direction, chunk.data.tobytes(), chunk.holes) == (1, b"answer", ())


def test_bytes_behind_the_gap_go_on_and_those_of_the_gap_are_late(tmp_path: Path) -> None:
    one = Conversation(mss=20)
    one.handshake()
    one.stream(False, DATA, ack_every=1)
    lost = one.segments[5]
    one.time_ns += 2 * WAIT_NS
    again = replace(lost, time_ns=one.time_ns)
    one.stream(False, DATA)
    packets = [segment for segment in one.segments if segment is not lost]
    path = tmp_path / "late.pcap"
    path.write_bytes(builders.pcap(builders.recorded([*packets[:22], again, *packets[22:]])))
    transport = Reassembler()
    with open_capture(path) as capture:
        (batch,) = list(capture)
    first, second = (builders.part(batch, 0, 22), builders.part(batch, 22, len(batch)))
    transport.feed(first)
    assert list(transport.pass_time(int(first.time_ns[-1]) + WAIT_NS))
    (chunk,) = transport.feed(second)
    assert (chunk.offset, chunk.data.tobytes(), chunk.holes) == (200, DATA, ())
    assert (
        accounts(transport)[1].late,
        accounts(transport)[1].missing,
        accounts(transport)[1].duplicate,
    ) == (20, 20, 0)


@pytest.mark.parametrize("count", [3, 2000])
def test_every_connection_has_its_turn_whatever_room_there_is(tmp_path: Path, count: int) -> None:
    one = Conversation(mss=20)
    one.handshake()
    one.stream(False, DATA[:100], ack_every=1)
    frames = builders.recorded(segment for place, segment in enumerate(one.segments) if place != 5)
    port = (50_000).to_bytes(2, "big")
    packets = [
        replace(frame, data=frame.data.replace(port, (10_000 + number).to_bytes(2, "big"), 1))
        for number in range(count)
        for frame in frames
    ]
    path = tmp_path / "many.pcap"
    path.write_bytes(builders.pcap(packets))
    transport = Reassembler()
    with open_capture(path) as capture:
        for batch in capture:
            transport.feed(batch)
    chunks = transport.pass_time(builders.START_NS + 10**9)
    assert [(chunk.connection, chunk.holes) for chunk in chunks] == [
        (number + 1, ((20, 40),)) for number in range(count)
    ]


def test_a_whole_copy_may_be_in_the_next_block_that_is_written(tmp_path: Path) -> None:
    one = Conversation(mss=100)
    one.handshake()
    one.stream(False, DATA * 2, ack_every=0)
    packets = []
    for packet in builders.recorded(one.segments):
        packets += [
            replace(packet, data=packet.data[:100]),
            replace(packet, time_ns=packet.time_ns + 1_000),
        ]
    path = tmp_path / "silent.pcap"
    path.write_bytes(builders.pcap(packets, magic=0xA1B23C4D))
    transport = Reassembler()
    with open_capture(path) as capture:
        (batch,) = list(capture)
    first, second = builders.part(batch, 0, 11), builders.part(batch, 11, len(batch))
    chunks = [*transport.feed(first), *transport.pass_time(packets[10].time_ns + WAIT_NS - 1)]
    chunks += transport.feed(second)
    assert b"".join(chunk.data.tobytes() for chunk in chunks) == DATA * 2
    assert accounts(transport)[1].missing == 0


def test_what_was_cut_off_is_given_up_when_the_wait_for_a_copy_is_over(tmp_path: Path) -> None:
    one = Conversation(mss=100)
    one.handshake()
    one.stream(False, DATA, ack_every=0)
    whole = builders.recorded(one.segments)
    cut = [replace(packet, data=packet.data[:100]) for packet in whole]
    path = tmp_path / "silent.pcap"
    path.write_bytes(builders.pcap([*cut[:4], whole[3], cut[4]], magic=0xA1B23C4D))
    transport = Reassembler()
    with open_capture(path) as capture:
        for batch in capture:
            list(transport.feed(batch))
    assert list(transport.pass_time(cut[4].time_ns + WAIT_NS - 1)) == []
    (chunk,) = transport.pass_time(cut[4].time_ns + WAIT_NS)
    assert chunk.holes == ((146, 200),)
    assert accounts(transport)[1].cut == 54
