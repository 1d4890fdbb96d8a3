"""Frames from one of Scapy's sockets: BPF, libpcap, and others where packet sockets lack."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from dcpinspect.arrays import ByteArray
from dcpinspect.capture.kernel_filter import ETHERNET
from dcpinspect.capture.packet_socket import MOST
from dcpinspect.capture.packet_walk import MAX_PACKET


class ScapySocket:
    """An open socket of Scapy's. It cannot be waited for with others, so it is asked repeatedly."""

    silence_s = 0.05
    is_empty = False

    def __init__(self, sock: Any, name: str, snaplen: int = MAX_PACKET) -> None:
        """``sock``: of type ``Any``, since Scapy's sockets have no common type that says what they
        have. ``snaplen``: bytes of a frame that are taken.
        """
        self.name = name
        self.link_type = _link_type(sock)
        self.number = 0
        self.is_gone = True
        """Whether the interface is gone. It is after an error: nothing says if it comes back."""
        self._socket = sock
        self._snaplen = snaplen
        self._error: OSError | None = None
        self._left: bytes | None = None
        """A block for which there was no room."""

    def fileno(self) -> None:
        """Returns None: there is nothing that a caller can wait for."""

    def write_waiting(self, out: ByteArray, limit: int = MOST) -> tuple[int, int]:
        """Writes what waits, as ``PacketSource.write_waiting``. It needs a call for each packet, so
        it loses packets that come fast.
        """
        written = packets = 0
        while (block := self._next()) is not None:
            if packets >= limit or written + len(block) > len(out):
                self._left = block
                break
            out[written : written + len(block)] = np.frombuffer(block, np.uint8)
            written += len(block)
            packets += 1
        return written, packets

    @property
    def has_more(self) -> bool:
        """Whether ``write_waiting`` had no room for all packets."""
        return self._left is not None

    def _next(self) -> bytes | None:
        if self._left is not None:
            block, self._left = self._left, None
            return block
        try:
            if not type(self._socket).select([self._socket], 0):
                return None
            _, data, seconds = self._socket.recv_raw(MAX_PACKET)
        except OSError as error:
            self._error = error
            return None
        if not data:
            return None
        size = min(len(data), self._snaplen)
        time_ns = max(int(seconds * 1_000_000_000), 0)
        padding = bytes(-size % 4)
        length = 32 + size + len(padding)
        head = struct.pack(
            "<7I", 6, length, self.number, time_ns >> 32, time_ns & 0xFFFF_FFFF, size, len(data)
        )
        return b"".join((head, data[:size], padding, struct.pack("<I", length)))

    def error(self) -> OSError | None:
        """Returns why no more comes; None: nothing is wrong."""
        error, self._error = self._error, None
        return error

    def end(self) -> None:
        """Does nothing: the socket goes on until it is closed."""

    def counts(self) -> tuple[int, int] | None:
        """Returns what libpcap says; None for other sockets."""
        wrapper = getattr(self._socket, "pcap_fd", None)
        if wrapper is None:
            return None
        import ctypes

        from scapy.libs.winpcapy import pcap_stat, pcap_stats

        statistics = pcap_stat()
        if pcap_stats(wrapper.pcap, ctypes.byref(statistics)) == 0:
            return (statistics.ps_recv, statistics.ps_drop)
        return None

    def close(self) -> None:
        """Ends the capture."""
        self._socket.close()


def _link_type(sock: Any) -> int:
    if hasattr(sock, "pcap_fd"):
        return int(sock.pcap_fd.datalink())
    from scapy.config import conf

    return int(conf.l2types.layer2num.get(sock.LL, ETHERNET))
