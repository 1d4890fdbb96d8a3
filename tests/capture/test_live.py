"""Packets of interfaces in batches: all of them, soon, in one numbering, and time when none come."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.live import BATCH_BYTES, MIB, LiveCapture
from dcpinspect.capture.packet_socket import COOKED
from dcpinspect.errors import UsageError
from dcpinspect.reading import Reading
from dcpinspect.store.store import Store
from dcpinspect.transport.headers import HeaderParser
from tests import builders
from tests.builders import Segment
from tests.peers.network import NEEDS_ROOT, inside, ip, tapped

pytestmark = NEEDS_ROOT

Told = list[str]


def segment(number: int, *, port: int = 11_210, size: int = 10) -> bytes:
    return builders.frame(Segment(True, number, 2, payload=number.to_bytes(4, "big") * (size // 4), server=("10.0.0.2", port)))


@pytest.fixture
def wire() -> Iterator[tuple[str, int]]:
    with tapped("live", mtu=9000) as found:
        yield found


def opened(
    namespace: str, *names: str, told: Told | None = None, ports: tuple[int, ...] | None = (11_210,), **options: float | None
) -> LiveCapture:
    keep = HeaderParser(ports or (1,)).kept
    tell = (told if told is not None else []).append
    with inside(namespace):
        return LiveCapture(names or ("eth0",), ports, keep=keep, tell=tell, **options)  # type: ignore[arg-type] # numbers as it takes them


def packets(batch: PacketBatch) -> list[bytes]:
    return [batch.data[start : start + size].tobytes() for start, size in zip(batch.offset.tolist(), batch.captured.tolist(), strict=True)]


def collected(capture: LiveCapture, count: int) -> list[PacketBatch]:
    """Batches until so many packets have come; then the capture stops."""
    found = []
    for batch in capture:
        found.append(batch)
        if capture.packets >= count:
            capture.stop()
    return found


def arrived(capture: LiveCapture, count: int) -> None:
    """Returns once so many packets wait in the kernel, which takes them from the wire when it has time."""
    end = time.monotonic() + 20
    while capture.unread < count:
        assert time.monotonic() < end


def test_what_comes_is_delivered_in_order_and_numbered(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    sent = [segment(number) for number in range(500)]
    with opened(namespace) as capture:
        for frame in sent:
            os.write(fd, frame)
        found = collected(capture, len(sent))
        assert [packet for batch in found for packet in packets(batch)] == sent
        at = 0
        for batch in found:
            assert (batch.file, batch.first_frame, batch.first_packet) == (0, at + 1, at)
            at += len(batch)
        assert (capture.packets, capture.received, capture.dropped) == (500, 500, 0)
        assert [file.name for file in capture.files] == ["eth0"]


def test_batches_stay_valid_while_others_come(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    sent = [segment(number, size=8000) for number in range(1200)]
    assert sum(map(len, sent)) > 2 * BATCH_BYTES
    with opened(namespace) as capture:
        writer = threading.Thread(target=lambda: [os.write(fd, frame) for frame in sent])
        writer.start()
        found = collected(capture, len(sent))
        writer.join()
        assert [packet for batch in found for packet in packets(batch)] == sent
        assert max(map(len, found)) < len(sent)


def test_what_was_captured_can_be_looked_up_later(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    talk = builders.Conversation()
    talk.handshake()
    said = [builders.mutation(number, key=b"key-%d" % number) for number in range(1, 41)]
    for message in said:
        talk.stream(False, message)
    with opened(namespace) as capture, Store() as store, Reading(capture, keeper=store) as reading:
        rounds = [talk.segments[first : first + 20] for first in range(0, len(talk.segments), 20)]

        def record() -> None:
            for part in rounds:
                before = capture.packets
                for one in part:
                    os.write(fd, builders.frame(one))
                while capture.packets < before + len(part):
                    time.sleep(0.001)
            capture.stop()

        writer = threading.Thread(target=record)
        writer.start()
        for _ in store.fill(reading):
            pass
        writer.join()
        assert [bytes(store.bytes_of(row)) for row in range(1, store.rows + 1)] == said


def test_packets_come_in_small_batches_soon(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    with opened(namespace) as capture:
        batches = (batch for batch in capture if len(batch))
        for number in range(5):
            os.write(fd, segment(number))
            assert packets(next(batches)) == [segment(number)]
        capture.stop()
        assert list(batches) == []


def test_time_passes_without_packets(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    with opened(namespace, duration_s=0.5) as capture:
        os.write(fd, segment(1))
        found = list(capture)
    times = [batch.clock_ns for batch in found if not len(batch)]
    assert len(times) >= 2
    assert [len(batch) for batch in found if len(batch)] == [1]
    first = int(next(batch for batch in found if len(batch)).time_ns[0])
    assert all(later is not None and later > first for later in times)
    assert times == sorted(times, key=lambda time: time or 0)


def test_before_the_first_packet_there_is_no_time(wire: tuple[str, int]) -> None:
    with opened(wire[0], duration_s=0.3) as capture:
        assert list(capture) == []
        assert (capture.packets, capture.received, capture.dropped) == (0, 0, 0)


def test_a_thread_may_stop_it(wire: tuple[str, int]) -> None:
    with opened(wire[0]) as capture:
        threading.Timer(0.1, capture.stop).start()
        assert list(capture) == []


def test_several_interfaces_are_one_capture(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    with opened(namespace, "eth0", "any", "eth0") as capture:
        assert [file.name for file in capture.files] == ["eth0, any, eth0"]
        assert capture.interfaces == [("eth0", 1), ("any", COOKED)]
        for number in range(10):
            os.write(fd, segment(number))
        found = collected(capture, 20)
        assert sorted(kind for batch in found for kind in batch.link_type.tolist()) == [1] * 10 + [COOKED] * 10


def test_an_interface_that_is_down_for_a_while_goes_on(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    told: Told = []
    with opened(namespace, told=told) as capture:
        os.write(fd, segment(1))
        ip("-n", namespace, "link", "set", "eth0", "down")

        def again() -> None:
            ip("-n", namespace, "link", "set", "eth0", "up")
            os.write(fd, segment(2))

        threading.Timer(0.3, again).start()
        found = collected(capture, 2)
        assert [packet for batch in found for packet in packets(batch)] == [segment(1), segment(2)]
        assert capture.problems == []
    assert told == ["eth0: the interface is down (Network is down); capturing goes on once it is up again"]


def test_an_interface_that_is_removed_ends_it_or_leaves_the_others(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    told: Told = []
    with opened(namespace, "eth0", "lo", told=told) as capture:
        os.write(fd, segment(1))
        ip("-n", namespace, "link", "delete", "eth0")
        threading.Timer(0.3, capture.stop).start()
        assert sum(map(len, capture)) == 1
        assert told == ["eth0: the interface is gone (Network is down); the other interfaces go on"]
    ip("-n", namespace, "tuntap", "add", "eth1", "mode", "tap")
    ip("-n", namespace, "link", "set", "eth1", "up")
    with opened(namespace, "eth1") as capture:
        ip("-n", namespace, "link", "delete", "eth1")
        assert list(capture) == []
        (problem,) = capture.problems
        assert (problem.file, problem.what) == ("eth1", "the interface is gone (Network is down); start again when it is back")


@pytest.mark.parametrize("duration_s", [None, 0.0])
def test_what_waits_in_the_kernel_is_delivered_at_the_end(wire: tuple[str, int], duration_s: float | None) -> None:
    namespace, fd = wire
    with opened(namespace, duration_s=duration_s) as capture:
        for number in range(2000):
            os.write(fd, segment(number, size=8000))
        arrived(capture, 2000)
        if duration_s is None:
            capture.stop()
        found = [batch for batch in capture if len(batch)]
        assert len(found) > 2
        assert [packet for batch in found for packet in packets(batch)] == [segment(number, size=8000) for number in range(2000)]
        assert (capture.received, capture.dropped, capture.unread) == (2000, 0, 0)


def test_what_comes_after_the_end_is_not_waited_for(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    with opened(namespace) as capture:
        for number in range(1200):
            os.write(fd, segment(number, size=8000))
        arrived(capture, 1200)
        capture.stop()
        for batch in capture:
            for _ in range(len(batch)):
                os.write(fd, segment(9999, size=8000))
        assert 1200 <= capture.packets < 2500


def test_drops_are_told_once_and_counted(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    told: Told = []
    with opened(namespace, told=told, buffer_bytes=MIB) as capture:
        for number in range(1000):
            os.write(fd, segment(number, size=8000))
        list(zip(capture, range(5), strict=False))
        time.sleep(0.15)
        capture.stop()
        list(capture)
        assert capture.dropped
        assert capture.packets + capture.dropped == capture.received == 1000
    full = "eth0: the kernel's buffer of 1 MiB was full and packets were dropped"
    assert told == [f"{full}; messages may be missing; give --buffer more MiB, or print less"]


@pytest.mark.parametrize("ports", [(11_210,), None])
def test_without_libpcap_what_is_not_asked_for_is_left_out_here(
    ports: tuple[int, ...] | None, wire: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scapy.libs.winpcapy", None)
    namespace, fd = wire
    told: Told = []
    sent = [segment(number, port=11_210 if number % 3 else 80) for number in range(30)]
    with opened(namespace, told=told, ports=ports, duration_s=0.5) as capture:
        for frame in sent:
            os.write(fd, frame)
        found = [batch for batch in capture if len(batch)]
        assert [packet for batch in found for packet in packets(batch)] == [
            frame for number, frame in enumerate(sent) if number % 3 or ports is None
        ]
        if ports is not None:
            assert capture.packets == 20
            assert [batch.first_frame for batch in found] == [1, *[1 + len(batch) for batch in found[:-1]]]
    assert [line.partition(",")[0] for line in told] == (["libpcap is not installed"] if ports is not None else [])


def test_an_interface_that_is_none_leaves_nothing_open(wire: tuple[str, int]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UsageError, match="there is no such interface"):
        opened(wire[0], "eth0", "nope")
    assert len(os.listdir("/proc/self/fd")) == before
