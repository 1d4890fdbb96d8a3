"""Frames from one of Scapy's sockets: BPF, libpcap, and what else it has for systems without packet sockets."""

from __future__ import annotations

from typing import Any

from dcpinspect.capture.kernel_filter import ETHERNET
from dcpinspect.capture.packet_socket import Frame
from dcpinspect.capture.walk import MAX_PACKET


class ScapySocket:
    """One of them, open. It cannot be waited for together with others, so it is asked again and again."""

    def __init__(self, sock: Any, name: str) -> None:
        """``Any``: Scapy's sockets have no common type that says what they have."""
        self.name = name
        self.link_type = _link_type(sock)
        self.number = 0
        self.is_gone = True
        """After an error no more comes: nothing says whether the interface will be back."""
        self._socket = sock

    def fileno(self) -> None:
        """None: nothing that one can wait for."""

    def receive(self, room: memoryview, at: int) -> Frame | None:
        """As ``PacketSocket.receive``."""
        if not type(self._socket).select([self._socket], 0):
            return None
        _, data, seconds = self._socket.recv_raw(MAX_PACKET)
        if not data:
            return None
        size = min(len(data), MAX_PACKET)
        room[at : at + size] = data[:size]
        return at, size, len(data), int(seconds * 1_000_000_000), self.link_type

    def counts(self) -> tuple[int, int] | None:
        """What libpcap says; None elsewhere."""
        wrapper = getattr(self._socket, "pcap_fd", None)
        if wrapper is None:
            return None
        import ctypes

        from scapy.libs.winpcapy import pcap_stat, pcap_stats

        found = pcap_stat()
        return (found.ps_recv, found.ps_drop) if pcap_stats(wrapper.pcap, ctypes.byref(found)) == 0 else None

    def close(self) -> None:
        """Ends the capture."""
        self._socket.close()


def _link_type(sock: Any) -> int:
    if hasattr(sock, "pcap_fd"):
        return int(sock.pcap_fd.datalink())
    from scapy.config import conf

    return int(conf.l2types.layer2num.get(sock.LL, ETHERNET))
