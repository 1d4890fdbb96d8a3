"""Captures that came through a terminal or with a program's messages: what can be undone with
certainty.

A terminal (``kubectl exec -t``, ``ssh -t``) makes CR LF of each LF, and messages of tcpdump may
stand before its packets.
"""

from __future__ import annotations

import re

import numpy as np

from dcpinspect.capture.compressed import READ, PieceStream
from dcpinspect.capture.pcap import Pcap

CAPTURE = re.compile(
    rb"(?:\xd4\xc3\xb2\xa1|\x4d\x3c\xb2\xa1|\x34\xcd\xb2\xa1)\x02\0\x04\0"
    rb"|(?:\xa1\xb2\xc3\xd4|\xa1\xb2\x3c\x4d|\xa1\xb2\xcd\x34)\0\x02\0\x04"
    rb"|\n\r\r\n....(?:\x4d\x3c\x2b\x1a|\x1a\x2b\x3c\x4d)",
    re.DOTALL,
)
"""How a capture begins, also in the middle of other bytes."""
PACKED = re.compile(rb"\x1f\x8b\x08|\x28\xb5\x2f\xfd|\xfd7zXZ|BZh[1-9]")
HEAD = 1 << 16
"""Number of bytes at the start by which damage is recognised."""
CERTAIN = 8
"""So many line ends, all of them CR LF, do not stand in packed bytes by chance."""
NO_TERMINAL = (
    "a terminal wrote CR LF for each LF: record without one (kubectl exec without -t, "
    "ssh without -t)"
)
_MOST_TEXT = 1 << 12
"""Greatest number of bytes of messages before a capture."""


def text_before(head: bytes) -> int:
    """Returns how many bytes of text stand before a capture; 0 if there is no such text, or no
    capture behind it.
    """
    match = CAPTURE.search(head, 0, _MOST_TEXT)
    return match.start() if match is not None and b"\0" not in head[: match.start()] else 0


def is_from_terminal(head: bytes) -> bool:
    """Returns whether a terminal wrote CR LF for each LF of a capture that begins with ``head``:
    nothing else explains the bytes.
    """
    lines = head.count(b"\n")
    if not lines or head.count(b"\r\n") != lines:
        return False
    mended = head.removesuffix(b"\r").replace(b"\r\n", b"\n")
    start = text_before(mended)
    if CAPTURE.match(mended, start) is None:
        return PACKED.match(mended) is not None and lines >= CERTAIN
    if mended.startswith(b"\n", start):  # pcapng
        return True
    right, as_it_is = mended[start:], head[text_before(head) :]
    for final in (False, len(head) < HEAD):  # at the end of a file the last packet tells
        (damage, packets), (before, packets_before) = (
            _walked(right, final=final),
            _walked(as_it_is, final=final),
        )
        if not damage and (before or packets_before < packets):
            return True
    return False


def _walked(data: bytes, *, final: bool) -> tuple[int, int]:
    """Returns the number of damaged places, and of packets, of the beginning of a pcap file."""
    try:
        walk = Pcap(data[:24]).walk(np.frombuffer(data, np.uint8), len(data), final=final)
    except ValueError:
        return 1, 0
    return len(walk.problems), len(walk)


class TerminalStream(PieceStream):
    """A readable stream with LF for each CR LF of ``raw``, which is what a terminal did, undone.

    It has a problem once there is a LF that did not come through a terminal.
    """

    _has_cr = False

    def _next_piece(self) -> bytes | None:
        buffer, piece = bytearray(READ), b""
        while not piece and (size := self._raw.readinto(memoryview(buffer))) != 0:
            if size is None:
                return None
            data = b"\r" * self._has_cr + bytes(buffer[:size])
            self._has_cr = data.endswith(b"\r")
            piece = data.removesuffix(b"\r" * self._has_cr).replace(b"\r\n", b"\n")
            if data.count(b"\n") != data.count(b"\r\n"):
                self.problem = (
                    "CR LF is LF again, but not each LF was CR LF: some bytes may be damaged"
                )
        if not piece and self._has_cr:
            self._has_cr, piece = False, b"\r"
        return piece
