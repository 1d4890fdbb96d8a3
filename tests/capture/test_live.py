"""Packets of interfaces in batches: all of them, soon, in one numbering, and time when none
come.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.capture import live
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.interfaces import interfaces, traffic
from dcpinspect.capture.live import BATCH_BYTES, LiveCapture
from dcpinspect.capture.open import open_capture
from dcpinspect.capture.packet_socket import COOKED
from dcpinspect.capture.recorded_files import Limits
from dcpinspect.capture.recorder import MIB, RecordingOrder
from dcpinspect.errors import OutputError, UsageError
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.store import Store
from tests import builders
from tests.builders import Segment
from tests.peers.network import IFF_TUN_NO_PI, NEEDS_ROOT, TUNSETIFF, Plug, inside, ip, tapped

pytestmark = [NEEDS_ROOT, pytest.mark.slow]

Told = list[str]
GONE = (
    "the interface is gone (Network is down); start again when it is back, or wait for it with "
    "--wait"
)


def segment(number: int, *, port: int = 11_210, size: int = 10) -> bytes:
    return builders.frame(
        Segment(
            True,
            number,
            2,
            payload=number.to_bytes(4, "big") * (size // 4),
            server=("10.0.0.2", port),
        )
    )


@pytest.fixture
def wire() -> Iterator[tuple[str, int]]:
    with tapped("live", mtu=9000) as found:
        yield found


def opened(
    namespace: str,
    *names: str,
    told: Told | None = None,
    ports: tuple[int, ...] | None = (11_210,),
    path: Path | None = None,
    spool_bytes: int = 1 << 30,
    packing: str | None = None,
    **wishes: Any,
) -> LiveCapture:
    """``wishes``: fields of ``RecordingOrder``."""
    with inside(namespace):
        return LiveCapture(
            RecordingOrder(names or ("eth0",), ports, "" if path is None else str(path), **wishes),
            tell=(told if told is not None else []).append,
            spool_bytes=spool_bytes,
            packing=packing,
        )


def packets(batch: PacketBatch) -> list[bytes]:
    return [
        batch.data[start : start + size].tobytes()
        for start, size in zip(batch.offset.tolist(), batch.captured.tolist(), strict=True)
    ]


def received(capture: LiveCapture) -> int:
    """Packets that the kernel had for the capture, dropped ones included."""
    return sum(counts[0] for counts in capture.numbers.counts if counts is not None)


def collected(capture: LiveCapture, count: int) -> list[PacketBatch]:
    """Batches until so many packets have come; then the capture stops."""
    found = []
    for batch in capture:
        found.append(batch)
        if capture.packets >= count:
            capture.stop()
    return found


def recorded(capture: LiveCapture, count: int) -> None:
    """Returns once so many packets are recorded."""
    end = time.monotonic() + 120
    while capture.unread < count:
        assert time.monotonic() < end
        time.sleep(0.01)


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
        assert (capture.packets, received(capture), capture.dropped) == (500, 500, 0)
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
        assert [
            bytes(store.messages([row]).bytes_of(0)) for row in range(1, store.rows + 1)
        ] == said


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
    with opened(namespace, stop=Limits(seconds=0.5)) as capture:
        os.write(fd, segment(1))
        found = list(capture)
    times = [batch.clock_ns for batch in found if not len(batch)]
    assert len(times) >= 2
    assert [len(batch) for batch in found if len(batch)] == [1]
    first = int(next(batch for batch in found if len(batch)).time_ns[0])
    assert all(later is not None and later > first for later in times)
    assert times == sorted(times, key=lambda time: time or 0)


def test_before_the_first_packet_there_is_no_time(wire: tuple[str, int]) -> None:
    with opened(wire[0], stop=Limits(seconds=0.3)) as capture:
        assert {(len(batch), batch.clock_ns) for batch in capture} <= {(0, None)}
        assert (capture.packets, received(capture), capture.dropped) == (0, 0, 0)


def test_a_thread_may_stop_it(wire: tuple[str, int]) -> None:
    with opened(wire[0]) as capture:
        threading.Timer(0.1, capture.stop).start()
        assert sum(map(len, capture)) == 0


def test_several_interfaces_are_one_capture(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    with opened(namespace, "eth0", "any", "eth0") as capture:
        assert [file.name for file in capture.files] == ["eth0, any, eth0"]
        assert capture.interfaces == [("eth0", 1), ("any", COOKED)]
        for number in range(10):
            os.write(fd, segment(number))
        found = collected(capture, 20)
        assert (
            sorted(kind for batch in found for kind in batch.link_type.tolist())
            == [1] * 10 + [COOKED] * 10
        )


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
    assert told == [
        "eth0: the interface is down (Network is down); capturing goes on once it is up again"
    ]


def test_an_interface_that_is_removed_is_waited_for_if_asked_for(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    told: Told = []
    with opened(namespace, told=told, waits=True) as capture:
        os.write(fd, segment(1))
        recorded(capture, 1)
        ip("-n", namespace, "link", "delete", "eth0")
        again = Plug(namespace, "02:00:00:00:00:02").tap()

        def back() -> None:
            while len(told) < 2:
                time.sleep(0.01)
            os.write(again, segment(2))

        threading.Thread(target=back).start()
        found = collected(capture, 2)
        os.close(again)
        assert [packet for batch in found for packet in packets(batch)] == [segment(1), segment(2)]
        assert (received(capture), capture.dropped, capture.problems) == (2, 0, [])
    gone = "eth0: the interface is gone (Network is down); capturing goes on once it is back"
    assert told == [gone, "eth0: the interface is back; capturing goes on"]


def tunnel(namespace: str) -> int:
    """Another eth0, whose packets have no header below IP; its other side as a file descriptor."""
    with inside(namespace):
        fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", b"eth0", IFF_TUN_NO_PI))
    ip("-n", namespace, "link", "set", "eth0", "up")
    return fd


def test_an_interface_that_is_back_as_another_kind_has_its_packets_as_that(
    wire: tuple[str, int], tmp_path: Path
) -> None:
    namespace, fd = wire
    told: Told = []
    path = tmp_path / "x.pcapng"
    ip_packet = builders.frame(Segment(True, 2, 2, payload=b"12345678"), link_type=builders.RAW)
    with opened(namespace, told=told, waits=True, path=path) as capture:
        os.write(fd, segment(1))
        recorded(capture, 1)
        ip("-n", namespace, "link", "delete", "eth0")
        other = tunnel(namespace)

        def back() -> None:
            while len(told) < 2:
                time.sleep(0.01)
            os.write(other, ip_packet)

        threading.Thread(target=back).start()
        found = collected(capture, 2)
        os.close(other)
        assert capture.interfaces == [("eth0", 1), ("eth0", builders.RAW)]
        assert (received(capture), capture.dropped, capture.problems) == (2, 0, [])
    assert [packet for batch in found for packet in packets(batch)] == [segment(1), ip_packet]
    with open_capture(path) as file:
        assert [kind for batch in file for kind in batch.link_type.tolist()] == [1, builders.RAW]
        assert file.problems == []
    assert told[1] == "eth0: the interface is back; capturing goes on"


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
        assert (problem.file, problem.what) == ("eth1", GONE)


def test_what_was_captured_before_the_end_is_delivered(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    sent = [segment(number, size=8000) for number in range(2000)]
    with opened(namespace) as capture:
        for frame in sent:
            os.write(fd, frame)
        capture.stop()
        found = [batch for batch in capture if len(batch)]
        assert len(found) > 2
        assert [packet for batch in found for packet in packets(batch)] == sent
        assert (received(capture), capture.dropped, capture.unread) == (2000, 0, 0)


def test_what_comes_after_the_end_is_not_waited_for(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    with opened(namespace) as capture:
        for number in range(1200):
            os.write(fd, segment(number, size=8000))
        capture.stop()
        for batch in capture:
            for _ in range(len(batch)):
                os.write(fd, segment(9999, size=8000))
        assert 1200 <= capture.packets < 2500


def test_drops_are_told_once_and_counted(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    told: Told = []
    with opened(namespace, told=told, buffer_bytes=4 * MIB) as capture:
        capture._recorder.send_signal(signal.SIGSTOP)
        for number in range(3000):
            os.write(fd, segment(number, size=8000))
        capture._recorder.send_signal(signal.SIGCONT)
        capture.stop()
        list(capture)
        assert capture.dropped
        assert capture.packets + capture.dropped == received(capture) == 3000
    assert told == [
        (
            "eth0: the kernel's buffer of 4 MiB was full and packets were dropped; messages may be "
            "missing; give --buffer more MiB"
        )
    ]


def test_a_reader_that_is_slow_loses_nothing_and_is_told(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    told: Told = []
    sent = [segment(number, size=8000) for number in range(3000)]
    with opened(
        namespace, told=told, buffer_bytes=16 * MIB
    ) as capture:  # less than what is sent; a busy machine needs some

        def write() -> None:
            for frame in sent:
                os.write(fd, frame)
                time.sleep(0.0003)

        writer = threading.Thread(target=write)
        writer.start()
        batches = iter(capture)
        found = [next(batches)]
        time.sleep(2.5)
        writer.join()
        capture.stop()
        found += list(batches)
        assert [packet for batch in found for packet in packets(batch)] == sent
        assert (capture.dropped, capture.lost) == (0, 0)


SLOW = """
import select
from dcpinspect.capture.live import LiveCapture
from dcpinspect.capture.recorder import RecordingOrder
with LiveCapture(RecordingOrder(("eth0",), (11_210,)), tell=print) as capture:
    print(flush=True)
    batches = iter(capture)
    next(batches)
    while capture.unread < 2500:
        select.select([], [], [], 0.1)
    select.select([], [], [], 2.5)
    for _ in batches:
        if capture.packets == 3000:
            capture.stop()
"""


@pytest.mark.requires("faketime")
@pytest.mark.parametrize("offset", ["+2h", "-2h"])
def test_how_far_behind_a_reader_is_depends_on_no_clock_that_is_set(
    offset: str, wire: tuple[str, int]
) -> None:
    namespace, fd = wire
    command = [
        "ip",
        "netns",
        "exec",
        namespace,
        "faketime",
        "--exclude-monotonic",
        "-f",
        offset,
        sys.executable,
        "-c",
        SLOW,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        for number in range(3000):
            os.write(fd, segment(number, size=8000))
            time.sleep(0.0003)
        told = reader.communicate()[0]
    (behind,) = re.findall(
        (
            r"eth0: what is shown is (\d+) s behind, [\d,]+ packets wait; they are recorded, and "
            r"will be read"
        ),
        told,
    )
    assert 2 <= int(behind) <= 60


def test_what_the_spool_had_no_room_for_is_counted_and_told(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    told: Told = []
    sent = [segment(number, size=8000) for number in range(4000)]
    with opened(namespace, told=told, spool_bytes=16 * MIB) as capture:
        batches = iter(capture)
        os.write(fd, sent[0])
        found = [next(batches)]
        for frame in sent[1:]:
            os.write(fd, frame)
            time.sleep(0.0001)
        capture.stop()
        found += [batch for batch in batches if len(batch)]
        assert capture.lost > 1000
        assert (
            sum(map(len, found)) + capture.lost
            == capture.packets
            == capture.numbers.packets
            == 4000
        )
        assert packets(found[-1])[-1] == sent[-1]
        numbers = [number for batch in found for number in batch.frames.tolist()]
        assert [packet for batch in found for packet in packets(batch)] == [
            sent[number - 1] for number in numbers
        ]
    why = "the temporary files were full (--spool)"
    assert told == [
        f"eth0: {why}, so {capture.lost:,} packets were not read; messages may be missing"
    ]


def test_a_small_folder_of_temporary_files_is_enough_for_a_reader_that_keeps_pace(
    wire: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace, fd = wire
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)], check=True)
    try:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        with opened(namespace) as capture:
            received = 0
            batches = iter(capture)
            for number in range(4000):  # 32 MB
                os.write(fd, segment(number, size=8000))
                while number - received > 100 and not capture.numbers.unrecorded:
                    received += len(next(batches))
            capture.stop()
            received += sum(map(len, batches))
            assert (received, capture.lost, capture.numbers.unrecorded) == (4000, 0, 0)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_temporary_files_are_private_and_gone_at_the_end(
    wire: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    namespace, fd = wire
    with opened(namespace) as capture:
        os.write(fd, segment(1))
        recorded(capture, 1)
        (folder,) = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(list(folder.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_portable", [False, True])
def test_limits_are_kept_to_the_packet(
    is_portable: bool, wire: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``is_portable``: through Scapy's own socket, as on systems without rings."""
    if is_portable:
        (tmp_path / "sitecustomize.py").write_text(
            "import dcpinspect.capture.packet_socket as one\none.HAS_RINGS = False\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    namespace, fd = wire
    path = tmp_path / "x.pcapng"
    with opened(
        namespace, path=path, each=Limits(packets=7, files=3), stop=Limits(packets=30)
    ) as capture:
        for number in range(50):
            os.write(fd, segment(number))
        found = [packet for batch in capture for packet in packets(batch)]
        lost = [number for number in range(30) if segment(number) not in found]
        assert found == [segment(number) for number in range(30) if number not in lost]
        assert capture.lost == len(lost)
        assert lost in [
            [*one, *two] for one in (range(0), range(7)) for two in (range(0), range(7, 14))
        ]  # files that left unread
        said = (
            "the system does not say how many were dropped"
            if is_portable
            else "0 dropped by the kernel"
        )
        assert capture.drops_in_words == said
    names = sorted(one.name for one in tmp_path.glob("*.pcapng"))
    assert [name[:7] for name in names] == ["x_00003", "x_00004", "x_00005"]
    assert all(re.fullmatch(r"x_0000\d_20\d{12}\.pcapng", name) for name in names)
    sizes = []
    for name in names:
        with open_capture(tmp_path / name) as file:
            sizes.append(sum(map(len, file)))
            assert file.problems == []
            assert [one.name for one in file.files[0].counts] == ([] if is_portable else ["eth0"])
    assert sizes == [7, 7, 2]


def test_a_file_of_a_ring_is_as_long_as_asked_for(wire: tuple[str, int], tmp_path: Path) -> None:
    namespace, fd = wire
    with opened(
        namespace, path=tmp_path / "x", each=Limits(size=20_000), stop=Limits(size=100_000)
    ) as capture:
        for number in range(50):
            os.write(fd, segment(number, size=4000))
        found = [packet for batch in capture for packet in packets(batch)]
    sizes = [one.stat().st_size for one in sorted(tmp_path.iterdir())]
    assert all(15_000 < size < 20_200 for size in sizes[:-1])
    assert 90_000 < sum(sizes) < 101_000
    assert found == [segment(number, size=4000) for number in range(len(found))]
    assert len(found) > 20


@pytest.mark.parametrize("packing", ["zstd", "gzip"])
def test_files_of_a_ring_are_compressed_once_they_were_read(
    packing: str, wire: tuple[str, int], tmp_path: Path
) -> None:
    namespace, fd = wire
    sent = [segment(number) for number in range(30)]
    with opened(
        namespace, path=tmp_path / "x.pcapng", each=Limits(packets=10, files=2), packing=packing
    ) as capture:
        batches = iter(capture)
        found = 0
        for first in range(0, 30, 5):
            for frame in sent[first : first + 5]:
                os.write(fd, frame)
            while found < first + 5:
                found += len(next(batches))
        capture.stop()
        list(batches)
    suffix = {"zstd": ".pcapng.zst", "gzip": ".pcapng.gz"}[packing]
    names = sorted(one.name for one in tmp_path.iterdir())
    assert [name[:7] + name[22:] for name in names] == [f"x_00002{suffix}", f"x_00003{suffix}"]
    with open_capture([tmp_path / name for name in names]) as files:
        assert [packet for batch in files for packet in packets(batch)] == sent[10:]


def test_a_file_of_a_ring_ends_when_its_time_is_over(wire: tuple[str, int], tmp_path: Path) -> None:
    namespace, fd = wire
    with opened(
        namespace, path=tmp_path / "x", each=Limits(seconds=0.2), stop=Limits(seconds=2)
    ) as capture:
        batches = iter(capture)
        for number in range(3):
            os.write(fd, segment(number))
            while not len(next(batches)):
                pass
            time.sleep(0.6)
        list(batches)
    assert len(list(tmp_path.iterdir())) in (3, 4)


@pytest.mark.parametrize("pauses", [False, True])
def test_a_full_disk_ends_or_pauses_the_recording(
    pauses: bool, wire: tuple[str, int], tmp_path: Path
) -> None:
    namespace, fd = wire
    told: Told = []
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(tmp_path)], check=True)
    try:
        (tmp_path / "other").write_bytes(bytes(7_500_000))
        path = tmp_path / "x.pcapng"
        with opened(namespace, path=path, told=told, pauses_when_full=pauses) as capture:
            for number in range(200):
                os.write(fd, segment(number, size=8000))
                time.sleep(0.001)
            batches = iter(capture)
            found = []
            if pauses:
                while not told:
                    found.append(next(batches))
                (tmp_path / "other").unlink()
                while len(told) < 2:
                    os.write(fd, segment(777))
                    found.append(next(batches))
                while capture.unread:
                    found.append(next(batches))
                capture.stop()
                found += list(batches)
            else:
                with pytest.raises(
                    OutputError,
                    match=r"x\.pcapng: No space left on device; it has the packets before that$",
                ):
                    found += iter(batches)
        delivered = [packet for batch in found for packet in packets(batch)]
        with open_capture(path) as file:
            assert [packet for batch in file for packet in packets(batch)] == delivered
            assert file.problems == []
        assert len(delivered) > 20
        if pauses:
            assert delivered[-1] == segment(777)
            assert capture.numbers.unrecorded + len(delivered) == received(capture) > 200
            assert told[0].endswith(
                "it has the packets before that; packets are counted and left out until there "
                "is room"
            )
            assert told[1] == (
                f"--write {path}: there is room again; recording goes on "
                f"({capture.numbers.unrecorded:,} packets are missing)"
            )
        else:
            assert delivered == [segment(number, size=8000) for number in range(len(delivered))]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize("lacking", ["size=8m", "size=8m,nr_inodes=7"])
@pytest.mark.parametrize("kind", ["end", "pause", "spool"])
def test_a_disk_that_is_full_when_a_file_of_a_ring_begins(
    kind: str, lacking: str, wire: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace, fd = wire
    told: Told = []
    subprocess.run(["mount", "-t", "tmpfs", "-o", lacking, "tmpfs", str(tmp_path)], check=True)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "other").write_bytes(bytes((8 << 20) - (1 << 18)))
    each = Limits(packets=4)
    path = None if kind == "spool" else tmp_path / "x.pcapng"
    try:
        with opened(
            namespace, path=path, told=told, each=each, pauses_when_full=kind == "pause"
        ) as capture:
            for number in range(100):
                os.write(fd, segment(number, size=8000))
                time.sleep(0.001)
            end = time.monotonic() + 120
            while received(capture) < 100 and kind != "end":
                assert time.monotonic() < end
                capture._hear()
                time.sleep(0.01)
            found: list[PacketBatch] = []
            if kind == "end":
                with pytest.raises(
                    OutputError,
                    match=r"(No space left on device\)?|; it has the packets before that)$",
                ):
                    found += iter(capture)
            elif kind == "pause":
                files = sorted(tmp_path.iterdir())
                for file in files[:-1]:  # not the one that is written
                    file.unlink()
                end = time.monotonic() + 120
                while len(told) < 2:
                    assert time.monotonic() < end
                    os.write(fd, segment(777))
                    capture._hear()
                    time.sleep(0.01)
                capture.stop()
                found += iter(capture)
                assert (
                    capture.numbers.unrecorded + capture.numbers.packets == received(capture) > 100
                )
                assert "packets are counted and left out" in told[0]
                assert "there is room again" in told[1]
            else:
                capture.stop()
                found += iter(capture)
                assert capture.lost > 0
                assert capture.numbers.packets == 100
                assert capture.numbers.unrecorded == 0
            delivered = [packet for batch in found for packet in packets(batch)]
            assert capture.problems == []
        if kind == "end":
            assert delivered == [segment(number, size=8000) for number in range(len(delivered))]
            assert 0 < len(delivered) < 100
        elif kind == "pause":
            assert delivered[-1] == segment(777)
        else:
            assert delivered[-1] == segment(99, size=8000)
        for file in tmp_path.glob("*.pcapng"):
            with open_capture(file) as one:
                assert sum(map(len, one)) in range(5)
                assert one.problems == []
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_recorder_that_is_killed_leaves_what_it_wrote(
    wire: tuple[str, int], tmp_path: Path
) -> None:
    namespace, fd = wire
    path = tmp_path / "x.pcapng"
    with opened(namespace, path=path) as capture:
        os.write(fd, segment(1))
        recorded(capture, 1)
        capture._recorder.kill()
        assert [packet for batch in capture for packet in packets(batch)] == [segment(1)]
        assert [problem.what for problem in capture.problems] == [
            "the process that records was killed; the file has what it wrote"
        ]
    with open_capture(path) as file:
        assert sum(map(len, file)) == 1


def test_a_recorder_that_is_kept_from_running_loses_no_packet(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    told: Told = []
    with opened(namespace, told=told) as capture:
        capture._recorder.send_signal(signal.SIGSTOP)
        for number in range(100):  # each in a block of its own, once its time is over
            os.write(fd, segment(number))
            time.sleep(0.025)
        capture._recorder.send_signal(signal.SIGCONT)
        capture.stop()
        assert sum(len(packets(batch)) for batch in capture) == 100
        assert (capture.dropped, told) == (0, [])


def test_a_recorder_that_does_not_answer_is_not_waited_for(
    wire: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_END_S", 1.0)
    namespace, fd = wire
    with opened(namespace, path=tmp_path / "x.pcapng") as capture:
        os.write(fd, segment(1))
        recorded(capture, 1)
        capture._recorder.send_signal(signal.SIGSTOP)
        capture.stop()
        assert [packet for batch in capture for packet in packets(batch)] == [segment(1)]
        assert [problem.what for problem in capture.problems] == [
            "the process that records did not answer for 1 s and was killed; "
            "the file has what it wrote"
        ]
    assert capture._recorder.returncode == -signal.SIGKILL


def test_a_recorder_ends_with_the_process_that_wanted_it(
    wire: tuple[str, int], tmp_path: Path
) -> None:
    code = f"""
import os
from dcpinspect.capture.live import LiveCapture
from dcpinspect.capture.recorder import RecordingOrder
capture = LiveCapture(RecordingOrder(("eth0",), None, {str(tmp_path / "x")!r}), tell=print)
print(capture._recorder.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    with inside(wire[0]):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
    recorder = Path("/proc") / done.stdout.strip()
    end = time.monotonic() + 120
    while recorder.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    with open_capture(tmp_path / "x") as file:
        assert list(file) == []
        assert (file.problems, file.files[0].counts[0].name) == ([], "eth0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_recorder_loads_is_not_its_matter(
    number: signal.Signals, wire: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import os\nos.kill(os.getpid(), {number:d})\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), *sys.path)))
    with opened(wire[0]) as capture:
        os.write(wire[1], segment(1))
        assert [packet for batch in collected(capture, 1) for packet in packets(batch)] == [
            segment(1)
        ]


def test_temporary_files_go_with_a_process_that_is_killed(
    wire: tuple[str, int], tmp_path: Path
) -> None:
    code = """
import os
from dcpinspect.capture.live import LiveCapture
from dcpinspect.capture.recorder import RecordingOrder
capture = LiveCapture(RecordingOrder(("eth0",), None), tell=print)
print(len(os.listdir(os.environ["TMPDIR"])), flush=True)
os.kill(os.getpid(), 9)
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with inside(wire[0]):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
    assert done.stdout == "1\n"
    end = time.monotonic() + 120
    while list(tmp_path.iterdir()):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("ports", [(11_210,), None])
def test_without_libpcap_packets_of_all_ports_are_recorded(
    ports: tuple[int, ...] | None,
    wire: tuple[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['scapy.libs.winpcapy'] = None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    namespace, fd = wire
    told: Told = []
    sent = [segment(number, port=11_210 if number % 3 else 80) for number in range(30)]
    with opened(namespace, told=told, ports=ports) as capture:
        for frame in sent:
            os.write(fd, frame)
        found = collected(capture, 30)
        assert [packet for batch in found for packet in packets(batch)] == sent
    assert [line.partition(",")[0] for line in told] == (
        ["libpcap is not installed"] if ports is not None else []
    )


def test_drops_that_are_not_known_are_said_beside_those_that_are(wire: tuple[str, int]) -> None:
    namespace, _ = wire
    with opened(namespace, "eth0", "lo") as capture:
        capture.stop()
        assert list(capture) == []
        assert capture.drops_in_words == "0 dropped by the kernel"
        capture.numbers.counts[1] = None  # as of an interface without a packet socket
        assert capture.drops_in_words == "0 dropped by the kernel (of lo it is not known)"


def test_opening_many_interfaces_lists_them_once(wire: tuple[str, int]) -> None:
    names = [f"many{number}" for number in range(50)]
    for name in names:
        ip("-n", wire[0], "tuntap", "add", name, "mode", "tap")
        ip("-n", wire[0], "link", "set", name, "up")
    with inside(wire[0]):
        interfaces()
        before = time.process_time()
        interfaces()
        listed = time.process_time() - before
        before = time.process_time()
        assert set(traffic(names, [11_210], 0)) == set(names)
        assert time.process_time() - before < 25 * listed  # a list for each took 50


def test_an_interface_that_is_none_leaves_nothing_open(wire: tuple[str, int]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UsageError, match="there is no such interface"):
        opened(wire[0], "eth0", "nope")
    assert len(os.listdir("/proc/self/fd")) == before
