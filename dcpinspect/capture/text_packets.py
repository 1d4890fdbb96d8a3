"""Text that stands for packets, as a pcap file that is made from it while it is read. What the text
lacks is told in ``remark``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

from dcpinspect.capture.compressed import PieceStream, Raw
from dcpinspect.capture.hex_lines import LineProblem, TextForm, dump, form_of
from dcpinspect.capture.no_capture import is_in_hex

HEAD = 1 << 14
"""Number of bytes by which a text is recognised."""
_READ = 1 << 18
_AT_ONCE = 1 << 10
"""Number of packets that are made at once."""
_MOST_LINE = 1 << 20
"""Greatest size of a line in bytes."""
_RAW_IP = 101
_PCAP_NS = 0xA1B2_3C4D
_MOST_NS = (1 << 32) * 10**9 - 1


class TextPackets(PieceStream):
    """A readable stream with the pcap file that a text becomes.

    Its problem is the first place that has no known form, and how many such places there are.
    """

    def __init__(self, raw: Raw, form: TextForm) -> None:
        """``raw``: its first bytes are those recognised."""
        super().__init__(raw)
        self.remark = f"{form.name}; {form.lacks}"
        self._problems = 0
        self._made = self._pcap()

    def _next_piece(self) -> bytes:
        return b"".join(islice(self._made, _AT_ONCE))

    def _lines(self) -> Iterator[tuple[int, str]]:
        buffer = memoryview(bytearray(_READ))
        line_start, number, is_long = b"", 0, False
        while size := self._raw.readinto(buffer):
            *lines, tail = bytes(buffer[:size]).split(b"\n")
            for line in lines:
                number += 1
                if is_long or len(line_start) + len(line) > _MOST_LINE:
                    self._note(LineProblem(number, "a line that is too long"))
                else:
                    yield number, (line_start + line).decode("latin-1").rstrip("\r")
                line_start, is_long = b"", False
            if not is_long:
                line_start += tail
            if len(line_start) > _MOST_LINE:
                line_start, is_long = b"", True
        if is_long:
            self._note(LineProblem(number + 1, "a line that is too long"))
        elif line_start:
            yield number + 1, line_start.decode("latin-1").rstrip("\r")

    def _note(self, problem: LineProblem) -> None:
        self._problems += 1
        if self._problems == 1:
            self._first = f"line {problem.line}: {problem.what}" if problem.line else problem.what
        more = f", and {self._problems - 1:,} more such places" if self._problems > 1 else ""
        self.problem = f"{self._first}{more}"

    def _pcap(self) -> Iterator[bytes]:
        last_ns, link_type = 0, None
        for frame in dump(self._lines()):
            if isinstance(frame, LineProblem):
                self._note(frame)
                continue
            if link_type != frame.link_type:
                link_type = frame.link_type
                yield _header(link_type)  # as of another file behind the first
            if frame.time_ns is None or not 0 <= frame.time_ns <= _MOST_NS:
                last_ns = min(last_ns + 1000, _MOST_NS)  # times never go back
                if frame.time_ns is not None:
                    problem = "times before 1970 or after 2106, which no pcap file has"
                    self._note(LineProblem(0, problem))
            else:
                last_ns = frame.time_ns
            seconds, nanoseconds = divmod(last_ns, 10**9)
            size = len(frame.data)
            yield struct.pack("<IIII", seconds, nanoseconds, size, size) + frame.data
        if link_type is None:
            yield _header(_RAW_IP)


def _header(link: int) -> bytes:
    return struct.pack("<IHHiIII", _PCAP_NS, 2, 4, 0, 0, 1 << 18, link)


def text_packets(head: bytes, raw: Raw) -> TextPackets | None:
    """Returns the capture that a text stands for; None if its beginning has no known form."""
    if b"\x00" in head or is_in_hex(head):
        return None
    form = form_of(head.decode("latin-1"))
    return TextPackets(raw, form) if form is not None else None
