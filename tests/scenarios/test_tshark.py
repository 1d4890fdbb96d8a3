"""What docs/from-tshark.md says of tshark is true of the tshark that is installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import cramjam
import pytest

import dcpinspect
from tests.builders import ACK, PSH, Recorded, pcap
from tests.damage import Talk
from tests.encode import encode

COMPRESSED = bytes(cramjam.snappy.compress_raw(b'{"n":1}'))


def tshark(path: Path, *options: str) -> list[str]:
    """The opcodes that tshark finds."""
    said = subprocess.run(
        ["tshark", "-r", str(path), *options, "-T", "fields", "-e", "couchbase.opcode"],
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.replace(",", " ").split()


def compressed(path: Path, messages: int, of_frame: int) -> Path:
    """A capture in which each frame holds so many messages with compressed values."""
    talk = Talk(50_000)
    talk.handshake()
    for first in range(0, messages, of_frame):
        data = b"".join(
            encode(
                "dcp_mutation",
                opaque=0x14,
                by_seqno=seqno + 1,
                cas=1,
                key=b"k",
                datatype=3,
                value=COMPRESSED,
            )
            for seqno in range(first, min(first + of_frame, messages))
        )
        talk.send(1, data, ACK | PSH)
        talk.send(0)
    path.write_bytes(
        pcap(Recorded(packet.data, packet.wire, packet.time_ns) for packet in talk.packets)
    )
    return path


@pytest.mark.slow
@pytest.mark.requires("tshark")
def test_wireshark_reads_the_opaque_as_a_little_endian_number(tmp_path: Path) -> None:
    path = compressed(tmp_path / "a.pcap", 3, 3)
    assert tshark(path, "-Y", "couchbase.opaque == 0x14") == []
    assert len(tshark(path, "-Y", "couchbase.opaque == 0x14000000")) == 3


def test_frames_with_more_compressed_values_than_tshark_can_show_are_read(tmp_path: Path) -> None:
    path = compressed(tmp_path / "a.pcap", 2_000, 600)
    assert len(dcpinspect.open(path)) == 2_000
