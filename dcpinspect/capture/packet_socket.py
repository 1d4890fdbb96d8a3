"""A Linux packet socket whose packets the kernel puts into memory that this process sees. No packet
needs a call or an object (packet(7)).
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from dcpinspect.arrays import ByteArray
from dcpinspect.capture.kernel_filter import ETHERNET, RAW_IP, Instruction, attach
from dcpinspect.capture.ring import LEFT, OFFSET, PACKETS, WRITTEN, write_packets

COOKED = 276
"""LINKTYPE_LINUX_SLL2: the header that a frame gets if interfaces are mixed, or have a link type
that nobody knows.
"""
LINK_TYPES = {1: ETHERNET, 772: ETHERNET, 65534: RAW_IP}
"""Link type by ARPHRD_ number of the interface: Ethernet, loopback, and tunnels whose packets have
no header below IP.
"""
BLOCK_BYTES = 1 << 18
"""Size of a block in bytes. The kernel hands over a block when it is full, or ``RETIRE_MS`` after
its first packet. So the number of blocks is also how long a recorder may be kept from running: 5 s
with 64 MiB, however few packets come. A block holds three packets of 64 KiB, as a kernel makes
them before a network card divides them.
"""
RETIRE_MS = 20
MOST = 1 << 40
"""Stands for any number of packets."""
HAS_RINGS = sys.platform == "linux" and sys.byteorder == "little"

_SOL_PACKET, _RING, _STATISTICS, _VERSION, _IGNORE_OUTGOING = 263, 5, 6, 10, 23
_TPACKET_V3 = 2
_FRAME_BYTES = 1 << 11
"""A ring of blocks uses this size for nothing but its number of frames."""
_STATUS, _COUNT, _FIRST = 8, 12, 16
"""Where the head of a block has its owner, its packets' number, and the first packet's place."""
_LOOPBACK = 772
_ALL_PROTOCOLS = 3


class PacketSocket:
    """A packet socket bound to an interface, or to none: then it receives from all interfaces."""

    silence_s = 0.05
    """Seconds after the last packet at the end, after which no more comes: the kernel hands over
    what it has within ``RETIRE_MS`` and a tick.
    """
    is_empty = False
    """Whether nothing can come any more."""

    def __init__(
        self,
        sock: socket.socket,
        name: str,
        *,
        is_cooked: bool = False,
        close: Callable[[], None] | None = None,
    ) -> None:
        """``is_cooked``: the socket is of type SOCK_DGRAM, without link-layer headers. ``close``:
        closes it, if that takes more than closing the socket.
        """
        self.name = name
        self.is_cooked = is_cooked
        self.link_type = COOKED if is_cooked else LINK_TYPES[sock.getsockname()[3]]
        self.number = 0
        self.has_more = False
        self._socket = sock
        self._is_bound = bool(sock.getsockname()[0])
        self._close = close or sock.close
        self._received = self._dropped = 0
        self._ring: mmap.mmap | None = None
        self._memory: ByteArray = np.empty(0, np.uint8)
        self._blocks = 0
        self._at = 0
        self._state = np.zeros(5, np.int64)
        if not is_cooked and sock.getsockname()[3] == _LOOPBACK:
            with suppress(OSError):  # before Linux 4.20 each packet comes twice
                sock.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)

    @property
    def is_gone(self) -> bool:
        """After an error: whether the interface was removed. One that is only down comes back to
        the same socket (packet(7)).
        """
        return self._is_bound and not self._socket.getsockname()[0]

    def fileno(self) -> int:
        """Returns the descriptor, for callers that wait for several sources."""
        return self._socket.fileno()

    def set_filter(self, instructions: list[Instruction]) -> None:
        """Lets only frames pass that the program accepts, from the next frame on."""
        attach(self._socket, instructions)

    def start(self, size: int) -> int:
        """Begins to receive into a ring of ``size`` bytes, or less if there is no memory for it;
        returns its size. Raises OSError.

        What came before is dropped and not counted.
        """
        self._socket.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V3)
        blocks = max(4, size // BLOCK_BYTES)
        while True:
            frames = blocks * BLOCK_BYTES // _FRAME_BYTES
            request = struct.pack("7I", BLOCK_BYTES, blocks, _FRAME_BYTES, frames, RETIRE_MS, 0, 0)
            try:
                self._socket.setsockopt(_SOL_PACKET, _RING, request)
                break
            except (MemoryError, OSError) as error:
                if blocks <= 4 or getattr(error, "errno", None) not in (None, 12):
                    raise
                blocks //= 2
        self._ring = mmap.mmap(self._socket.fileno(), blocks * BLOCK_BYTES)
        self._memory = np.frombuffer(self._ring, np.uint8)
        self._blocks = blocks
        self.counts()
        self._received = self._dropped = 0
        return blocks * BLOCK_BYTES

    def write_waiting(self, out: ByteArray, limit: int = MOST) -> tuple[int, int]:
        """Writes what waits as blocks of a pcapng file to the start of ``out``; returns bytes and
        packets written.

        It writes at most ``limit`` packets, and as many as there is room for; ``has_more`` says
        whether others are left.
        """
        state = self._state
        size = packets = 0
        self.has_more = False
        while True:
            block = self._memory[self._at * BLOCK_BYTES : (self._at + 1) * BLOCK_BYTES]
            if not state[LEFT]:
                status, count, first = struct.unpack_from("3I", block.data, _STATUS)
                if not status & 1:
                    break
                state[OFFSET], state[LEFT] = first, count
            write_packets(block, self.is_cooked, self.number, limit - packets, out, size, state)
            size += int(state[WRITTEN])
            packets += int(state[PACKETS])
            if state[LEFT]:
                self.has_more = True
                break
            struct.pack_into("I", block.data, _STATUS, 0)  # belongs to the kernel again
            self._at = (self._at + 1) % self._blocks
        return size, packets

    def error(self) -> OSError | None:
        """Returns what has happened to the interface since the last call; None: nothing."""
        number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return OSError(number, os.strerror(number)) if number else None

    def end(self) -> None:
        """Stops receiving; what waits is handed over within ``RETIRE_MS``, or as soon as the
        system's clock ticks.
        """
        attach(self._socket, [(0x06, 0, 0, 0)])

    def counts(self) -> tuple[int, int]:
        """Returns frames that passed the filter, and how many of them the kernel dropped because
        there was no room.
        """
        received, dropped, _ = struct.unpack(
            "III", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 12)
        )
        self._received += received
        self._dropped += dropped
        return self._received, self._dropped

    def close(self) -> None:
        """Ends the capture."""
        self._memory = np.empty(0, np.uint8)
        if self._ring is not None:
            with suppress(BufferError):  # somebody still looks at a block
                self._ring.close()
        self._close()


def cooked_socket(interface: str | None) -> socket.socket:
    """Returns a packet socket without link-layer headers, of one interface or all."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL_PROTOCOLS))
    if interface is not None:
        sock.bind((interface, _ALL_PROTOCOLS))
    return sock
