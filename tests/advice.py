"""That what findings say to do about one vbucket can be done together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from dcpinspect.findings.finding import Finding

KINDS = {
    "nothing": r"^nothing is left to do",
    "anew": r"start again from 0",
    "resume": (
        r"\b(?:resume|go on) (?:there|at|with|inside|from)\b|reopen the stream where it "
        r"ended|from the rollback seqno|ask from \d"
    ),
    "leave": r"do not reopen",
}
"""What a client is told to do with a vbucket."""
EXCLUDE = {
    frozenset(("nothing", "anew")),
    frozenset(("nothing", "resume")),
    frozenset(("anew", "resume")),
    frozenset(("leave", "resume")),
    frozenset(("leave", "anew")),
}
"""Nobody can do both."""
_ROW = re.compile(r"(?:^|; )row (\d+): ")
_FOLLOWED = re.compile(r"; followed in row (\d+)$")


def kinds(advice: str) -> set[str]:
    """What a text tells to do."""
    return {kind for kind, words in KINDS.items() if re.search(words, advice)}


@dataclass(frozen=True, slots=True)
class _Said:
    """What a finding tells to do in one case."""

    rule: str
    advice: str
    case: Finding
    row: int | None
    """The message from which the advice follows, if the advice names it."""

    @property
    def time_ns(self) -> int:
        """When the client needed the advice."""
        named = [place.time_ns for place in self.case.places if place.row == self.row]
        return (
            named[0] if named else self.case.latest.time_ns if self.case.latest is not None else 0
        )

    @property
    def done_ns(self) -> int:
        """When the client had done all that the case shows; the log of its server may come later."""
        row = _FOLLOWED.search(self.case.message)
        places = [one for one in self.case.places if row is None or one.row == int(row[1])]
        return max((place.time_ns for place in places), default=0)


def contradictions(findings: Iterable[Finding]) -> list[str]:
    """Two things to do about one stream of a client that exclude each other.

    What is over needs none of it any more; and that nothing is left to do of it says nothing of
    what happens later.
    """
    told: dict[tuple[str, int, int | None], list[_Said]] = {}
    for one in findings:
        for case in one.case_of_each:
            for said in _of_case(one, case):
                if case.over == "recovered" and "nothing" not in kinds(said.advice):
                    continue
                for vbucket in case.vbuckets:
                    told.setdefault((case.clients[0], vbucket, case.sid), []).append(said)
    return [
        (
            f"vb {vbucket} of {client}: {said.rule} says {said.advice!r}, and {other.rule} says "
            f"{other.advice!r}"
        )
        for (client, vbucket, _), several in told.items()
        for said, other in combinations(several, 2)
        if any(
            frozenset((a, b)) in EXCLUDE for a in kinds(said.advice) for b in kinds(other.advice)
        )
        and not _is_done_before(said, other)
        and not _is_done_before(other, said)
    ]


def _of_case(one: Finding, case: Finding) -> list[_Said]:
    """What a finding tells to do in one of its cases: row by row if the case says so, and if the
    finding does not say less.
    """
    first, *labelled = _ROW.split(case.next)
    told = (
        [(None, first)]
        if first
        else [(int(row), text) for row, text in zip(labelled[::2], labelled[1::2], strict=True)]
    )
    if not all(text in one.next for _, text in told):
        return [_Said(one.rule, one.next, case, None)]
    return [_Said(one.rule, text, case, row) for row, text in told]


def _is_done_before(said: _Said, later: _Said) -> bool:
    return (
        "nothing" in kinds(said.advice)
        and said.done_ns <= later.time_ns
        and said.case is not later.case
    )
