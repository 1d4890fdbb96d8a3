"""The rule about the time in a CAS: its upper 48 bits are nanoseconds of a clock, and no change can
be younger than the capture of it.

A capture's clock may be wrong, too. It is not where changes of the same server have a CAS of about
the time at which they are sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.collector import Collector
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import Candidates
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import RuleInput, RuleSet, Watcher
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.followers import PerConnection
from dcpinspect.tables.messages import MessageBatch

AHEAD, IMPOSSIBLE = "ahead", "impossible"
_WINS = (
    "Where the latest change wins, as in XDCR by timestamp, this one wins until that time; a "
    "consumer must not read a CAS as the time of the change"
)
_SET = f"find the program that set this CAS, because no clock is that wrong. {_WINS}"

RULES = rules(
    f"""
    cas-ahead snapshot warning
        fires: the CAS of a change has a time more than 65 min after its capture. Other changes of
            the server, which are more, have the time of their capture; or it is 100 years after,
            which no clock shows
        unless: captures whose clock may be wrong, because most changes that are as new as the
            capture are ahead
        next: find the node whose clock was ahead. {_WINS}
        causes: {AHEAD} {IMPOSSIBLE}
        whose: producer for {AHEAD}, unknown for {IMPOSSIBLE}
        reports: MB-62383
        cost: vbucket, has a CAS from the future, have a CAS from the future
        fields: cas
    """
)

_YEAR_NS = 31_556_952_000_000_000
LIMIT_NS = 3_900_000_000_000
"""Clocks may differ by so much: a server's own limit, ``hlc_max_future_threshold_us``."""
IMPOSSIBLE_NS = 100 * _YEAR_NS
"""No clock is wrong by so much."""
_CHANGES = (Opcode.DCP_MUTATION, Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION, Opcode.DCP_PREPARE)
_IS_CHANGE = np.zeros(256, dtype=np.bool_)
_IS_CHANGE[[*_CHANGES]] = True


class Clocks(Watcher):
    """Counts, for each connection, changes whose CAS is about as new as the capture, and those that
    are ahead of it.
    """

    def __init__(self) -> None:
        self._counts: PerConnection[int, tuple[int, int]] = PerConnection()

    def watch(self, fed: RuleInput) -> Iterator[Candidates]:
        """Returns changes whose CAS is ahead."""
        batch, decoded = fed.batch, fed.batch.decoded
        rows = np.flatnonzero(decoded.is_request & _IS_CHANGE[decoded.opcode])
        cas, time_ns = decoded.cas[rows].astype(np.uint64), batch.time_ns[rows].astype(np.uint64)
        is_ahead = cas > time_ns + np.uint64(LIMIT_NS)
        is_impossible = cas > time_ns + np.uint64(IMPOSSIBLE_NS)
        is_recent = ~is_ahead & (cas + np.uint64(LIMIT_NS) > time_ns)
        is_ahead = is_ahead & ~is_impossible
        connection = batch.connection[rows]
        is_shown = is_recent | is_ahead
        numbers, connection_index = np.unique(connection[is_shown], return_inverse=True)
        more = (
            np.bincount(connection_index, is_chosen[is_shown]).astype(np.int64).tolist()
            for is_chosen in (is_recent, is_ahead)
        )
        for number, *counts in zip(numbers.tolist(), *more, strict=True):
            recent, ahead = self._counts.get(number, (0, 0))
            self._counts[number] = recent + counts[0], ahead + counts[1]
        for cause, is_chosen in ((AHEAD, is_ahead), (IMPOSSIBLE, is_impossible)):
            if is_chosen.any():
                words = partial(_words, batch, cause)
                yield Candidates(
                    "cas-ahead",
                    rows[is_chosen],
                    words,
                    seqnos=lambda row: (batch.number("by_seqno", row) or 0,),
                    cause=cause,
                    next=_SET if cause == IMPOSSIBLE else None,
                )

    def reconsider(self, context: Context, collector: Collector) -> None:
        """Drops what the clock of the capture alone may have made ahead."""
        of_server: dict[str, list[int]] = {}
        for link in context.links:
            of_server.setdefault(link.server, []).append(link.number)
        for numbers in of_server.values():
            recent, ahead = (
                sum(self._counts.get(number, (0, 0))[count_index] for number in numbers)
                for count_index in (0, 1)
            )
            if ahead >= recent:
                collector.drop("cas-ahead", numbers, AHEAD)


def _words(batch: MessageBatch, cause: str, row: int) -> str:
    cas, time_ns = int(batch.decoded.cas[row]), int(batch.time_ns[row])
    cas_text = f"CAS 0x{cas:016x} of seqno {batch.number('by_seqno', row)}"
    if cause == IMPOSSIBLE:
        return f"{cas_text} has an impossible time, in the year {1970 + cas // _YEAR_NS}"
    ahead_ns = cas - time_ns
    years = round(ahead_ns / _YEAR_NS)
    span = duration(ahead_ns) if ahead_ns < 2 * _YEAR_NS else f"{years} years"
    return f"{cas_text} is {span} ahead of the capture's clock"


RULE_SET = RuleSet(RULES, watcher=Clocks)
