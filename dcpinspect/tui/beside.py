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
    end_here, end_beside = _reached(here), _reached(beside)
    common = end_here.keys() & end_beside.keys()
    moved = sum(end_here[vbucket] != end_beside[vbucket] for vbucket in common)
    sentences = []
    if common:
        same = f"{counted(len(common), 'vbucket')} in both"
        sentences.append(
            f"{moved:,} of {same} reached another seqno"
            if moved
            else f"{same} reached the same seqno"
        )
    for count, where in (
        (len(end_beside.keys() - end_here.keys()), "there"),
        (len(end_here.keys() - end_beside.keys()), "here"),
    ):
        if count:
            sentences.append(f"{counted(count, 'vbucket')} only {where}")
    rules, rules_beside = _rules(here), _rules(beside)
    for new_rules, where in (
        (sorted(rules_beside - rules), "there"),
        (sorted(rules - rules_beside), "here"),
    ):
        if new_rules:
            more = f" and {len(new_rules) - _NAMED} more" if len(new_rules) > _NAMED else ""
            sentences.append(f"only {where} {', '.join(new_rules[:_NAMED])}{more}")
    return f"beside {name}: {' · '.join(sentences) or 'no stream to compare'}"


def _reached(results: Results) -> dict[int, Sequence[int]]:
    """Returns, for each vbucket, the greatest seqno of each client, in rising order."""
    table = results.records.get("vbuckets")
    seqnos_of: dict[int, list[int]] = {}
    if table is not None:
        for vbucket, seqno in zip(table.values("vbucket"), table.values("last_seqno"), strict=True):
            seqnos_of.setdefault(vbucket, []).append(-1 if seqno is None else seqno)
    return {vbucket: sorted(seqnos) for vbucket, seqnos in seqnos_of.items()}


def _rules(results: Results) -> set[str]:
    """Returns the names of the rules that found errors or warnings."""
    return {
        case.rule
        for finding in results.findings
        for case in finding.case_of_each
        if case.severity != "note"
    }
