"""Scapy's libpcap socket stands for all that are no packet sockets."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests import builders
from tests.builders import Segment
from tests.capture.test_packet_socket import blocks
from tests.peers.network import NEEDS_ROOT, tapped

PROGRAM = """
import json, sys, time
import scapy.arch
from scapy.config import conf
conf.use_pcap = True
import dcpinspect.capture.interfaces
dcpinspect.capture.interfaces.HAS_RINGS = False
from dcpinspect.capture.interfaces import interfaces, open_interface
import numpy as np
opened = open_interface("eth0", (11210,), 1000)
source = opened.source
print(json.dumps([type(source).__name__, source.link_type, opened.is_filtered, source.fileno()]), flush=True)
room, found, count = np.empty(1 << 20, np.uint8), b"", 0
while count < int(sys.argv[1]):
    size, packets = source.write_waiting(room, 2)
    found, count = found + room[:size].tobytes(), count + packets
    time.sleep(0.01)
print(json.dumps([found.hex(), source.counts()]))
source.close()
"""


@NEEDS_ROOT
def test_frames_of_the_ports_come_as_they_are() -> None:
    sent = [
        builders.frame(Segment(True, 1, 2, payload=b"x" * size), vlans=vlans)
        for size, vlans in ((1, ()), (1200, ()), (7, (5,)))
    ]
    other = builders.frame(Segment(True, 1, 2, payload=b"x", server=("10.0.0.2", 80)))
    with tapped("pcap") as (namespace, fd):
        command = ["ip", "netns", "exec", namespace, sys.executable, "-c", PROGRAM, str(len(sent))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            assert json.loads(program.stdout.readline()) == ["ScapySocket", 1, True, None]
            for frame in (other, *sent):
                os.write(fd, frame)
            found, counts = json.loads(program.stdout.readline())
    frames = blocks(bytes.fromhex(found))
    assert [frame[0] for frame in frames] == sent
    assert [frame[1] for frame in frames] == [len(frame) for frame in sent]
    assert all(frame[2] > builders.START_NS for frame in frames)
    assert counts[0] >= len(sent)  # libpcap also counts what came before the filter
    assert counts[1] == 0
