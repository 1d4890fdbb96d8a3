"""Searches the keys of a connection begun before the capture: secrets and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.transport.tls.keylog import TRAFFIC, Secrets
from dcpinspect.transport.tls.keystream import AT_ONCE
from dcpinspect.transport.tls.suites import SUITES, Suite, Tls13, may_have
from dcpinspect.transport.tls.tls_records import TLS13

FEW = 256
"""Least number of sequence numbers tried with each secret. If that is too much for all, only the
newest secrets are tried.
"""
SEARCHED = tuple(
    suite for suite in SUITES.values() if suite.version == TLS13 and suite.kind in ("gcm", "chacha")
)
"""Cipher suites that are tried."""


@dataclass(frozen=True, slots=True)
class CandidateRecord:
    """A record, and who may have sent it: 0 for the client."""

    record: bytes
    role: int


@dataclass(frozen=True, slots=True)
class FittingKeys:
    """The keys that open a record."""

    asked: CandidateRecord
    secrets: Secrets
    """All secrets of the connection."""
    keys: Tls13
    sequence: int
    """Number of the record."""


class Search:
    """The search for one connection. A trial: one secret, cipher suite and sequence number."""

    def __init__(self) -> None:
        self.known = 0
        """Connections in the key log that have a suitable secret."""
        self.tried = 0
        """Number of connections whose secrets were tried."""
        self.numbers = 0
        """Sequence numbers below this one were tried with each of these secrets."""

    def find(
        self,
        candidates: Sequence[CandidateRecord],
        known_secrets: Iterable[Secrets],
        suites: Sequence[Suite],
        *,
        limit: int,
    ) -> FittingKeys | None:
        """Returns keys, from the secrets of one known connection, that open one of the records;
        None for none after ``limit`` trials.
        """
        known_secrets = [
            secrets
            for secrets in known_secrets
            if any(TRAFFIC[candidate.role] in secrets for candidate in candidates)
        ]
        tried = known_secrets[: max(1, limit // (FEW * max(1, len(candidates) * len(suites))))]
        self.known, self.tried = len(known_secrets), len(tried)
        possible_fits = [
            FittingKeys(candidate, secrets, Tls13(secrets[TRAFFIC[candidate.role]], suite), 0)
            for secrets in tried
            for candidate in candidates
            if TRAFFIC[candidate.role] in secrets
            for suite in suites
            if len(secrets[TRAFFIC[candidate.role]]) == suite.secret_bytes
        ]
        groups: dict[tuple[CandidateRecord, str], list[FittingKeys]] = {}
        for possible_fit in possible_fits:
            group = possible_fit.asked, possible_fit.keys.suite.name
            groups.setdefault(group, []).append(possible_fit)
        # Low numbers of all secrets come before high numbers of any.
        while possible_fits and (count := min(AT_ONCE, limit // len(possible_fits))):
            size = AT_ONCE // count
            for (candidate, _), group_fits in groups.items():
                for start in range(0, len(group_fits), size):
                    fits = group_fits[start : start + size]
                    keys = [fit.keys for fit in fits]
                    for row, sequence in may_have(keys, candidate.record, self.numbers, count):
                        if keys[row].open(sequence, candidate.record) is not None:
                            return replace(fits[row], sequence=sequence)
            self.numbers += count
            limit -= count * len(possible_fits)
        return None


def outward(known_number: int, likely: int, limit: int) -> Iterator[int]:
    """Yields the known number, 0, then the numbers below ``limit`` from the likely one outward."""
    yield known_number
    if known_number:
        yield 0
    for distance in range(limit + 1):
        if 0 < likely + distance < limit:
            yield likely + distance
        if distance and 0 < likely - distance < limit:
            yield likely - distance
