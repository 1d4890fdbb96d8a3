"""The page ``docs/rules.md``: every rule in words."""

from __future__ import annotations

from collections.abc import Iterator

from dcpinspect.findings.registry import RULES
from dcpinspect.findings.rule import FAMILIES
from dcpinspect.output.render.explanation import whose_of
from dcpinspect.streams.words import by_side


def rules_page() -> str:
    """Returns the page as Markdown."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield "# Rules"
    yield ""
    yield "What `dcpinspect check` looks for. The page is made by `python -m tests.pages`."
    yield (
        "A jump in seqnos alone is never an error. Where the capture cannot decide, there is no "
        "finding. Capture loss is never blamed on"
    )
    yield "the server or the client."
    yield ""
    yield (
        "The client receives changes, the server sends them. Where a node replicates to another "
        "one, the client sends: then findings say"
    )
    yield (
        "`server` for the side that receives, and `client` for the other one. A hole is a range of "
        "bytes that is not in the capture."
    )
    yield ""
    yield (
        "`severity` is that of most findings of the rule. An `error` means that data is lost, "
        "that a stream stops, or that bytes break"
    )
    yield (
        "the protocol. A `warning` means that somebody must look. A `note` is good to know. "
        "`costs` are the words for a finding in"
    )
    yield "the first line of a report. Those of notes are there only if nothing is worse."
    yield ""
    yield (
        "`whose` says which side must change something. Findings say `client` or `server`, by "
        "who opened the TCP connection."
    )
    yield ("`sender` and `receiver` are that side of the message. If it depends on")
    yield (
        "the cause, the causes are in brackets, and others are `unknown`. No finding blames the "
        "network, because a capture is taken at"
    )
    yield (
        "one place. From there, a dead network, a dead host and a hanging program look the same. "
        "Such findings are `unknown`."
    )
    for family in FAMILIES:
        rules = [rule for rule in RULES.values() if rule.family == family]
        if not rules:
            continue
        yield from ("", f"## {family}", "")
        if family == "lint":
            yield from (
                (
                    "What is recommended to clients. These rules are only checked with `dcpinspect "
                    "check --lint`."
                ),
                "",
            )
        yield from (
            "| rule | severity | found when | not when | whose | costs | what to do |",
            "|---|---|---|---|---|---|---|",
        )
        for rule in rules:
            reports = f" ({', '.join(rule.reports)})" if rule.reports else ""
            costs = dict.fromkeys(filter(None, map(rule.cost_of, ("", *rule.causes))))
            cost = ", or ".join(f"a {cost.of} {cost.one}" for cost in costs)
            cells = (
                f'<a id="{rule.id}"></a>`{rule.id}`',
                rule.severity,
                f"{rule.fires}{reports}",
                rule.unless,
                by_side(whose_of(rule)),
                cost,
                by_side(rule.next),
            )
            yield f"| {' | '.join(cells)} |"
