"""How messages are numbered: their rows, by which they are named everywhere.

Messages are in order of the packet that made them readable, then of connection, direction and stream offset; what only the end of the
input made readable comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dcpinspect.capture.batch import Column
from dcpinspect.protocol.columns import Rows

STEP = 10**7
"""Rows by packets: from one packet to the next. None makes so many messages readable, since what waits is bounded in bytes."""
AT_END = 4 * 10**18
"""Rows by packets from here on are of what only the end of the input made readable."""
MOST_PACKETS = AT_END // STEP - 1


class Numbering(Protocol):
    """Gives rows to messages, batch by batch in their order."""

    def rows(self, release: Rows, connections: Rows, *, at_end: bool) -> Rows:
        """Rows of the next messages, which the packets ``release`` made readable, or the end of the input did."""


class Consecutive:
    """1, 2, 3: for who has all packets."""

    def __init__(self) -> None:
        self._count = 0

    def rows(self, release: Rows, connections: Rows, *, at_end: bool) -> Rows:  # noqa: ARG002 - of others
        """As ``Numbering`` has it."""
        first = self._count + 1
        self._count += len(release)
        return np.arange(first, first + len(release), dtype=np.int64)


class ByPacket:
    """By the packet that made each message readable, so that rows of readings that share the packets of one are in the order of all.

    A packet counts from 1, as frames do, and its first message has seven zeros behind its number. At the end of the input the packet is
    that which began the message's connection.
    """

    def __init__(self, opened_by: Callable[[], Column]) -> None:
        """``opened_by``: the packet that began each connection met so far."""
        self._opened_by = opened_by
        self._latest = -1
        self._used = 0  # messages of that one

    def rows(self, release: Rows, connections: Rows, *, at_end: bool) -> Rows:
        """As ``Numbering`` has it. Raises OverflowError where a packet, or its messages, cannot be numbered."""
        count = len(release)
        packet = self._opened_by()[connections - 1] if at_end else release
        begins = np.flatnonzero(np.diff(packet, prepend=-1))
        index: Rows = np.arange(count) - np.repeat(begins, np.diff(begins, append=count))
        if count and not at_end and packet[0] == self._latest:
            index[packet == self._latest] += self._used
        if count:
            if packet.max() >= MOST_PACKETS or index.max() >= STEP:
                msg = "more packets, or more messages of one packet, than can be numbered"
                raise OverflowError(msg)
            self._latest, self._used = int(packet[-1]), int(index[-1]) + 1
        return (packet + 1) * STEP + index + (AT_END if at_end else 0)
