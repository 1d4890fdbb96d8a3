"""How messages are numbered: their rows, by which they are named everywhere.

Messages are in order of the packet that made them readable, then of connection, direction and
stream offset. Behind a hole, those that one packet made readable are in order of time instead, as a
connection's two directions took turns. Messages that only the end of the input made readable come
last.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.protocol.column_types import RowNumbers

STEP = 10**7
"""For rows by packets: the distance from one packet to the next. No packet makes so many messages
readable, since what waits is bounded in bytes.
"""
AT_END = 4 * 10**18
"""For rows by packets: from here on, only the end of input made messages readable."""
MOST_PACKETS = AT_END // STEP - 1


class Numbering:
    """Gives rows to messages, batch by batch in their order: 1, 2, 3, in a reading of all packets."""

    def __init__(self) -> None:
        self._count = 0

    def rows(self, release: RowNumbers, connections: RowNumbers, *, at_end: bool) -> RowNumbers:  # noqa: ARG002 - of others
        """Returns rows of the next messages, which the packets ``release`` made readable, or the
        end of the input did.
        """
        first = self._count + 1
        self._count += len(release)
        return np.arange(first, first + len(release), dtype=np.int64)


class ByPacket(Numbering):
    """Numbers messages by the packet that made each readable, so that rows of readings that share
    the packets of one are in the order of all.

    A packet counts from 1, as frames do, and its first message has seven zeros behind its number.
    At the end of the input, the packet that began the message's connection is used.
    """

    def __init__(self, opened_by: Callable[[], IntArray]) -> None:
        """``opened_by``: returns the packet that began each connection met so far."""
        self._opened_by = opened_by
        self._latest = -1
        self._used = 0  # number of messages of that packet

    def rows(self, release: RowNumbers, connections: RowNumbers, *, at_end: bool) -> RowNumbers:
        """Returns rows of the next messages, as ``Numbering.rows``. Raises OverflowError if a
        packet, or its messages, cannot be numbered.
        """
        count = len(release)
        packet = self._opened_by()[connections - 1] if at_end else release
        begins = np.flatnonzero(np.diff(packet, prepend=-1))
        index: RowNumbers = np.arange(count) - np.repeat(begins, np.diff(begins, append=count))
        if count and not at_end and packet[0] == self._latest:
            index[packet == self._latest] += self._used
        if count:
            if packet.max() >= MOST_PACKETS or index.max() >= STEP:
                raise OverflowError(
                    "more packets, or more messages of one packet, than can be numbered"
                )
            self._latest, self._used = int(packet[-1]), int(index[-1]) + 1
        return (packet + 1) * STEP + index + (AT_END if at_end else 0)
