"""Streams that a client lost, by an end or a refusal: how long it takes to ask again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.streams.verdicts import PATIENCE_NS


@dataclass(frozen=True, slots=True)
class LostStream:
    """An event that leaves the client without a stream until it asks again: a rollback, a stream
    end, or a refusal for now.
    """

    stream: int
    time_ns: int
    """When the server told it."""
    received_ns: int
    """When the client had it; ``GREATEST`` if it never arrived."""
    row: int
    is_rollback: bool
    reaction_ns: int | None
    """How long the client took to ask again; None if it did not."""
    next: int
    """The stream that it asked for then; -1 for none."""
    granted: int
    """The first stream of the vbucket that it was granted later; -1 for none."""


class LostStreams:
    """Losses of one client, in order of time, and how fast it was."""

    def __init__(self, losses: Iterable[LostStream]) -> None:
        self.all = sorted(losses, key=lambda loss: (loss.time_ns, loss.row))

    @cached_property
    def _reactions(self) -> tuple[list[int], list[int]]:
        """The times when the client had asked again, in order, and its patience from then on."""
        done = sorted(
            (loss.received_ns + loss.reaction_ns, loss.reaction_ns)
            for loss in self.all
            if loss.reaction_ns is not None
        )
        reactions = np.array([reaction for _, reaction in done], dtype=np.float64)
        mean = np.cumsum(reactions) / np.arange(1, 1 + len(done))
        # one slow reaction must not hide whatever comes after it
        usual = np.maximum(10 * mean, 2 * np.maximum.accumulate(reactions))
        patience = np.maximum(PATIENCE_NS, usual).astype(np.int64).tolist()
        return [time_ns for time_ns, _ in done], patience

    @cached_property
    def _asked_again(self) -> list[int]:
        """The latest time when the client had asked again after each loss or an earlier one; 0 for
        never.
        """
        return list(
            accumulate(
                (
                    loss.received_ns + loss.reaction_ns if loss.reaction_ns is not None else 0
                    for loss in self.all
                ),
                max,
            )
        )

    def patience_ns(self, time_ns: int) -> int:
        """Returns how long the client may take from a time on: 2 s, or ten times what it took
        before on average, or twice the longest.
        """
        times, patience = self._reactions
        before = bisect_left(times, time_ns)
        return patience[before - 1] if before else PATIENCE_NS

    def last_reaction_ns(self, time_ns: int) -> int:
        """Returns when the client last asked again for something that it was told by ``time_ns``
        plus ``PATIENCE_NS``; 0 for never.
        """
        until = bisect_right(self.all, time_ns + PATIENCE_NS, key=lambda loss: loss.time_ns)
        return self._asked_again[until - 1] if until else 0


class ReopenedStreams(NamedTuple):
    """The streams granted to a client again after an end or refusal, in order of time."""

    losses: list[LostStream]
    vbucket: RowNumbers
    reaction_ns: RowNumbers
    server: RowNumbers
    """Where the client reopened each, as ``Clients.servers`` numbers them."""
