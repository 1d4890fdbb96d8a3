"""Says in one line how another capture differs, as far as the tables of both captures tell; neither
capture is read again.
"""

from __future__ import annotations

from collections.abc import Sequence

from dcpinspect.output.render.message_lines import counted
from dcpinspect.tui.results import Results

_NAMED = 2
"""Number of rules that are named."""


def difference(here: Results, beside: Results, name: str) -> str:
    """Returns the line about the differences. ``name``: of the other capture, safe for a
    terminal.
    """
    own, other = _reached(here), _reached(beside)
    common = own.keys() & other.keys()
    moved = sum(own[vbucket] != other[vbucket] for vbucket in common)
    parts = []
    if common:
        same = f"{counted(len(common), 'vbucket')} in both"
        parts.append(
            f"{moved:,} of {same} reached another seqno"
            if moved
            else f"{same} reached the same seqno"
        )
    for count, where in (
        (len(other.keys() - own.keys()), "there"),
        (len(own.keys() - other.keys()), "here"),
    ):
        if count:
            parts.append(f"{counted(count, 'vbucket')} only {where}")
    rules, others = _rules(here), _rules(beside)
    for found, where in ((sorted(others - rules), "there"), (sorted(rules - others), "here")):
        if found:
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            parts.append(f"only {where} {', '.join(found[:_NAMED])}{more}")
    return f"beside {name}: {' · '.join(parts) or 'no stream to compare'}"


def _reached(results: Results) -> dict[int, Sequence[int]]:
    """Returns, for each vbucket, the greatest seqno of each client, in rising order."""
    table = results.records.get("vbuckets")
    found: dict[int, list[int]] = {}
    if table is not None:
        for vbucket, seqno in zip(table.values("vbucket"), table.values("last_seqno"), strict=True):
            found.setdefault(vbucket, []).append(-1 if seqno is None else seqno)
    return {vbucket: sorted(seqnos) for vbucket, seqnos in found.items()}


def _rules(results: Results) -> set[str]:
    """Returns the names of the rules that found errors or warnings."""
    return {
        case.rule
        for finding in results.findings
        for case in finding.case_of_each
        if case.severity != "note"
    }
