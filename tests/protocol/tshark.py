"""What tshark says of single messages: each in a TCP connection of its own, in one small
capture.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path


def dissect(messages: Sequence[bytes], folder: Path) -> list[str]:
    """tshark's tree of each message, as text."""
    from scapy.layers.inet import IP, TCP
    from scapy.layers.l2 import Ether
    from scapy.utils import wrpcap

    packets = []
    for number, data in enumerate(messages):
        client, server = 40_000 + number, 11210
        sport, dport = (server, client) if data[0] in (0x81, 0x18, 0x82) else (client, server)
        ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        packets.append(
            ether
            / IP(src="10.0.0.1", dst="10.0.0.2")
            / TCP(sport=sport, dport=dport, seq=1, ack=1, flags="PA")
            / data
        )
    path = folder / "messages.pcap"
    wrpcap(str(path), packets)
    text = subprocess.run(
        ["tshark", "-r", str(path), "-V", "-O", "couchbase"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return re.split(r"^Frame \d+:", text, flags=re.MULTILINE)[1:]


@cache
def version() -> str:
    """``4.0.17`` …"""
    text = subprocess.run(
        ["tshark", "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"(\d+\.\d+\.\d+)", text)
    return found[1] if found else ""
