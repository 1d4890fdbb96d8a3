"""What became of every packet and of every byte of TCP payload: nothing is lost without being counted.

For each direction of each connection: ``captured == unique + duplicate + late`` and
``unique == decoded + skipped + unfinished + not decodable``. Missing bytes, which the capture does not hold, stand beside these sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dcpinspect.protocol.evidence import Evidence
from dcpinspect.protocol.foreign import NAMES
from dcpinspect.protocol.framing import FramingAccount
from dcpinspect.transport.chunk import C2S
from dcpinspect.transport.headers import CLASS_NAMES
from dcpinspect.transport.reassembly import Reassembler

DCP = "dcp"
OTHER = "other"


@dataclass(frozen=True, slots=True)
class DirectionCoverage:
    """The payload bytes of one direction of one connection."""

    connection: int
    direction: int
    """``C2S`` or ``S2C``."""
    sender: str
    receiver: str
    protocol: str
    """``dcp`` where messages were decoded; ``tls`` or ``memcached-text``; ``other`` on a port that was not asked for and did not prove to
    carry DCP; empty where nothing told."""
    packets: int
    captured: int
    duplicate: int
    late: int
    """Came after the bytes were given up, or before the first byte of the reading, or belonged to no connection."""
    decoded: int
    """In messages."""
    skipped: Mapping[str, int]
    """By reason, those of ``Framed.skipped_reason``."""
    unfinished: int
    """Of messages that never ended."""
    not_decodable: int
    """Of another protocol."""
    missing: int
    """In holes; part of no sum."""
    cut: int
    """Those of ``missing`` that snaplen cut off."""
    holes: int
    first_hole: int | None
    """Stream offset; ``None`` where there is no hole."""
    first_skipped: int | None

    @property
    def unique(self) -> int:
        """Bytes that were not captured before."""
        return self.captured - self.duplicate - self.late

    @property
    def is_whole(self) -> bool:
        """Whether every byte that is known of is in a message."""
        return not (self.missing or self.skipped or self.unfinished or self.not_decodable)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every packet and every byte of a reading so far."""

    packets: Mapping[str, int]
    """Packets by class (``headers.CLASS_NAMES``), all classes."""
    directions: tuple[DirectionCoverage, ...]
    """By connection, client to server first; those without payload too."""

    @property
    def packets_read(self) -> int:
        """Packets of all classes."""
        return sum(self.packets.values())


def coverage(
    transport: Reassembler, endpoints: Sequence[tuple[str, str]], accounts: Mapping[tuple[int, int], FramingAccount], evidence: Evidence
) -> Coverage:
    """``endpoints``: client and server of each connection; ``accounts``: of the framing of each direction."""
    directions = []
    others, turned = evidence.others, evidence.reversed
    for account in transport.accounts:
        framing = accounts.get((account.connection, account.direction)) or FramingAccount()
        is_other = account.connection in others
        foreign = {name: size for name, size in framing.reasons.items() if name in NAMES}
        skipped = {} if is_other else {reason: size for reason, size in framing.reasons.items() if reason not in NAMES}
        named = next(iter(foreign), "")
        client, server = endpoints[account.connection - 1]
        direction = account.direction ^ (account.connection in turned)
        directions.append(
            DirectionCoverage(
                connection=account.connection,
                direction=direction,
                sender=client if direction == C2S else server,
                receiver=server if direction == C2S else client,
                protocol=OTHER if is_other else named or (DCP if framing.messages else ""),
                packets=account.packets,
                captured=account.captured,
                duplicate=account.duplicate,
                late=account.late,
                decoded=0 if is_other else framing.messages,
                skipped=skipped,
                unfinished=0 if is_other else framing.unfinished,
                not_decodable=account.unique if is_other else sum(foreign.values()),
                missing=account.missing,
                cut=account.cut,
                holes=account.holes,
                first_hole=framing.first_hole,
                first_skipped=framing.first_skipped,
            )
        )
    directions.sort(key=lambda one: (one.connection, one.direction))
    return Coverage(dict(zip(CLASS_NAMES, transport.headers.counts.tolist(), strict=True)), tuple(directions))
