"""Hostile input: any bytes and any packets are read without an exception, in the same way in any
pieces, in bounded memory.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpinspect.protocol import resync
from tests import builders, damage
from tests.fuzz import captures, framer

pytestmark = pytest.mark.slow

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """``framer.check`` changes these."""
    monkeypatch.setattr(resync, "TRIAL_BYTES", resync.TRIAL_BYTES)
    monkeypatch.setattr(resync, "_SCAN", resync._SCAN)


pieces = st.one_of(
    st.integers(64, 191).map(lambda code: bytes([code])),
    st.tuples(st.integers(192, 255), st.integers(0, 255), st.integers(0, 255)).map(bytes),
    st.binary(max_size=63).map(lambda data: bytes([len(data)]) + data),
)


@given(st.lists(pieces, max_size=40), st.binary(max_size=100))
def test_any_stream_gives_the_same_messages_in_any_chunks(
    parts: list[bytes], numbers: bytes
) -> None:
    framer.check(b"".join(parts) + numbers)


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_any_packets_give_the_same_rows_in_any_batches(rng: random.Random) -> None:
    captures.check_packets(captures.program(rng, 40))


def files() -> list[bytes]:
    segments = builders.conversation(
        captures.STREAM[:300], captures.STREAM[:1500], sizes=[40, 300, 7, 90]
    )
    recorded = builders.recorded(builders.damaged(segments, loss={6}, swaps={9}))
    return [
        builders.pcap(recorded),
        builders.pcapng(recorded),
        builders.pcapng(recorded, order=">"),
    ]


FILES = files()
changes = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.one_of(
            st.just(b""),
            st.binary(max_size=8),
            st.sampled_from((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff")),
        ),
    ),
    max_size=6,
)


@settings(max_examples=60)
@given(st.sampled_from(FILES), changes, st.integers(0, 40))
def test_any_file_gives_the_same_rows_in_buffers_of_any_size(
    content: bytes, changes: list[tuple[float, bytes]], removed: int
) -> None:
    data = bytearray(content)
    for place, written in changes:
        at = int(place * (len(data) - 1))
        data[at : at + (len(written) or removed)] = written
    captures.check_file(bytes(data))


def grown(script: str, folder: Path) -> int:
    """Bytes by which reading ``x.pcap`` in ``folder``, in a process of its own, raises the peak of
    its resident memory.
    """
    code = f"""
import resource, sys
from dcpinspect.capture.open import open_capture
from dcpinspect.reading.engine import Engine
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def read(path):
    engine = Engine([path])
    with open_capture(path) as opened:
        for batch in opened:
            engine.feed(batch)
        engine.finish()
read({str(folder / "warm.pcap")!r})
before = peak()
{script}
print(peak() - before)
"""
    builders.capture(folder / "warm.pcap", server=captures.STREAM)
    return int(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
    )


def test_lengths_that_lie_cost_no_memory(tmp_path: Path) -> None:
    talk = damage.Talk()
    talk.handshake()
    body = struct.pack(">BBHBBHIIQ", 0x80, 0x57, 3, 31, 0, 7, 30 << 20, 1, 2)
    for _ in range(300):
        talk.send(1, body)
        talk._at[1] += 40 << 20
        talk.send(0)
    content = builders.pcap(
        [
            builders.Recorded(packet.data, 1 << 17, packet.time_ns, packet.link_type)
            for packet in talk.packets
        ]
    )
    (tmp_path / "x.pcap").write_bytes(content)
    assert grown(f"read({str(tmp_path / 'x.pcap')!r})", tmp_path) < 400 * MEGABYTE


@pytest.mark.parametrize(
    "records",
    [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x00\x00\x04\x00"],
    ids=["2 GiB", "4 GiB", "256 KiB"],
)
def test_records_longer_than_their_file_cost_no_memory(records: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(
        builders.pcap([]) + (bytes(8) + records + records + bytes(100)) * 50
    )
    assert grown(f"read({str(tmp_path / 'x.pcap')!r})", tmp_path) < 60 * MEGABYTE


def test_segments_that_wait_for_ever_are_bounded(tmp_path: Path) -> None:
    talk = damage.Talk()
    talk.handshake()
    talk._at[1] += 1
    for _ in range(20_000):
        talk.send(1, bytes(1400))
    packets = [
        builders.Recorded(packet.data, packet.wire, packet.time_ns, packet.link_type)
        for packet in talk.packets
    ]
    (tmp_path / "x.pcap").write_bytes(builders.pcap(packets))
    assert grown(f"read({str(tmp_path / 'x.pcap')!r})", tmp_path) < 150 * MEGABYTE
