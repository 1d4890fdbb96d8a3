"""That what findings say to do about one vbucket can be done together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

from dcpinspect.findings.finding import Finding

KINDS = {
    "nothing": r"^nothing is left to do",
    "anew": r"start again from 0",
    "resume": r"\b(?:resume|go on) (?:there|at|with|inside|from)\b|reopen the stream where it ended|from the rollback seqno|ask from \d",
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


def kinds(advice: str) -> set[str]:
    """What a text tells to do."""
    return {kind for kind, words in KINDS.items() if re.search(words, advice)}


def contradictions(findings: Iterable[Finding]) -> list[str]:
    """Two things to do about one stream of a client that exclude each other.

    What is over needs none of it any more; and that nothing is left to do of it says nothing of what happens later.
    """
    told: dict[tuple[str, int, int | None], list[tuple[str, str, Finding]]] = {}
    for one in findings:
        for case in one.each:
            if case.over == "recovered" and "nothing" not in kinds(one.next):
                continue
            for vbucket in case.vbuckets:
                told.setdefault((case.clients[0], vbucket, case.sid), []).append((one.rule, one.next, case))
    return [
        f"vb {vbucket} of {client}: {rule} says {advice!r}, and {other} says {another!r}"
        for (client, vbucket, _), several in told.items()
        for (rule, advice, case), (other, another, its) in combinations(several, 2)
        if any(frozenset((a, b)) in EXCLUDE for a in kinds(advice) for b in kinds(another))
        and not _is_done_before(advice, case, its)
        and not _is_done_before(another, its, case)
    ]


def _is_done_before(advice: str, case: Finding, later: Finding) -> bool:
    rows, then = [place.row for place in case.places], [place.row for place in later.places[:1]]
    return "nothing" in kinds(advice) and bool(rows and then) and rows[0] < then[0] and max(rows) <= then[0]
