"""Frames from a Linux packet socket, as they are, with the kernel's time and without an object for each."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from dcpinspect.capture.kernel_filter import ETHERNET, RAW_IP, Instruction, attach
from dcpinspect.capture.walk import MAX_PACKET
from dcpinspect.kernel import be16

COOKED = 276
"""LINKTYPE_LINUX_SLL2: what a frame is given for a header where interfaces are mixed, or have one that nobody knows."""
HEAD = 24
"""Bytes that a frame may grow in front: a cooked header and a VLAN tag."""
ROOM = HEAD + MAX_PACKET
LINK_TYPES = {1: ETHERNET, 772: ETHERNET, 65534: RAW_IP}
"""By ARPHRD_ number of the interface: Ethernet, loopback, and tunnels whose packets have no header below IP."""

_SOL_PACKET, _STATISTICS, _AUXILIARY, _IGNORE_OUTGOING = 263, 6, 8, 23
_RECEIVE_BUFFER_FORCE, _TIMESTAMP_NS = 33, 35
_OUTGOING, _LOOPBACK = 4, 772
_VLAN = 0x8100
_VERSIONS = {0x0800: 4, 0x86DD: 6}
_VLAN_VALID, _VLAN_TPID_VALID = 1 << 4, 1 << 6
_ALL_PROTOCOLS = 3
_AUX = struct.Struct("=IIIHHHH")
_ANCILLARY = socket.CMSG_SPACE(_AUX.size) + socket.CMSG_SPACE(16) if hasattr(socket, "CMSG_SPACE") else 0


Frame = tuple[int, int, int, int, int]
"""Where a frame begins, its bytes captured, its bytes on the wire, capture time in nanoseconds, link type: a tuple, being one a packet."""


class PacketSocket:
    """A packet socket that is bound to an interface, or to none: then it receives from all."""

    def __init__(self, sock: socket.socket, name: str, *, is_cooked: bool = False, close: Callable[[], None] | None = None) -> None:
        """``is_cooked``: of type SOCK_DGRAM, without link-layer headers. ``close``: closes it, where that is more than closing."""
        self.name = name
        self.link_type = COOKED if is_cooked else LINK_TYPES[sock.getsockname()[3]]
        self.number = 0
        self._socket = sock
        self._is_bound = bool(sock.getsockname()[0])
        self.close = close or sock.close
        """Ends the capture."""
        self._indices: dict[str, int] = {}
        self._received = self._dropped = 0
        sock.setsockopt(_SOL_PACKET, _AUXILIARY, 1)
        sock.setsockopt(socket.SOL_SOCKET, _TIMESTAMP_NS, 1)
        if not is_cooked and sock.getsockname()[3] == _LOOPBACK:
            with suppress(OSError):  # before Linux 4.20 ``receive`` does
                sock.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)

    @property
    def is_gone(self) -> bool:
        """After an error: the interface was removed. One that is only down comes back to the same socket (packet(7))."""
        return self._is_bound and not self._socket.getsockname()[0]

    def fileno(self) -> int:
        """For who waits for several."""
        return self._socket.fileno()

    def set_buffer(self, size: int) -> int:
        """Asks for a kernel buffer of ``size`` bytes; returns how many there are, which is less without the right to more."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER_FORCE, size)
        except OSError:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2  # the kernel doubles it for its own overhead

    def set_filter(self, instructions: list[Instruction]) -> None:
        """Receive only what the program lets pass, from the next frame on."""
        attach(self._socket, instructions)

    def forget(self) -> None:
        """Drop the frames that wait, and begin to count."""
        room = memoryview(bytearray(ROOM))
        while self.receive(room, 0) is not None:
            pass
        self.counts()
        self._received = self._dropped = 0

    def receive(self, room: memoryview, at: int) -> Frame | None:
        """Puts the next frame into ``room``, which has ``ROOM`` bytes from ``at`` on; None when none waits. Raises OSError."""
        while True:
            body = at + HEAD
            try:
                size, ancillary, _, address = self._socket.recvmsg_into(
                    [room[body : body + MAX_PACKET]], _ANCILLARY, socket.MSG_DONTWAIT | socket.MSG_TRUNC
                )
            except (BlockingIOError, InterruptedError):
                return None
            interface, protocol, kind, hardware, sender = address
            if kind == _OUTGOING and hardware == _LOOPBACK:  # comes back at once
                continue
            time_ns, wire, tag = 0, size, None
            for _, what, data in ancillary:
                if what == _TIMESTAMP_NS:
                    seconds, nanoseconds = struct.unpack("@ll", data)
                    time_ns = seconds * 1_000_000_000 + nanoseconds
                elif what == _AUXILIARY:
                    status, wire, _, _, _, tci, tpid = _AUX.unpack(data)
                    if status & _VLAN_VALID:
                        tag = (tpid if status & _VLAN_TPID_VALID else _VLAN, tci)
            start = body
            if self.link_type == COOKED:
                start = self._put_header(room, body, size, (interface, protocol, kind, hardware, sender), tag)
            elif tag is not None and self.link_type == ETHERNET and size >= 14:
                start = body - 4  # the kernel has taken the tag out
                room[start : start + 12] = room[body : body + 12]
                struct.pack_into(">HH", room, start + 12, *tag)
            grown = body - start
            return start, grown + min(size, MAX_PACKET), grown + max(wire, size), time_ns or time.time_ns(), self.link_type

    def _put_header(
        self, room: memoryview, body: int, size: int, address: tuple[str, int, int, int, bytes], tag: tuple[int, int] | None
    ) -> int:
        """The cooked header, and the VLAN tag, before the packet at ``body``; returns where it begins."""
        interface, protocol, kind, hardware, sender = address
        if protocol in _VERSIONS and _begins_with_tag(room[body : body + min(size, 8)], _VERSIONS[protocol], protocol):
            protocol = _VLAN
        if tag is not None:
            struct.pack_into(">HH", room, body - 4, tag[1], protocol)
            body, protocol = body - 4, tag[0]
        if interface not in self._indices:
            try:
                self._indices[interface] = socket.if_nametoindex(interface)
            except OSError:  # gone meanwhile
                self._indices[interface] = 0
        header = (protocol, 0, self._indices[interface], hardware, kind, min(len(sender), 8), sender[:8])
        struct.pack_into(">HHIHBB8s", room, body - 20, *header)
        return body - 20

    def counts(self) -> tuple[int, int]:
        """Frames that passed the filter, and those of them that the kernel dropped for want of room."""
        received, dropped = struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 8))
        self._received += received
        self._dropped += dropped
        return self._received, self._dropped


def _begins_with_tag(data: memoryview, version: int, protocol: int) -> bool:
    """Whether a VLAN tag is before the IP header: a second one, which newer kernels leave there and do not mention."""
    is_behind = len(data) > 4 and be16(data, 2) == protocol and data[4] >> 4 == version
    return is_behind and data[0] >> 4 != version


def cooked_socket(interface: str | None) -> socket.socket:
    """A packet socket without link-layer headers, of one interface or of all. Raises OSError."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL_PROTOCOLS))
    if interface is not None:
        sock.bind((interface, _ALL_PROTOCOLS))
    return sock
