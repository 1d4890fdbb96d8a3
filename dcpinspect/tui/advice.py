"""Rewords the advice of rules: names the key to press in place of a command or option."""

from __future__ import annotations

_HERE = {
    "'dcpinspect read --columns' lists them": "an empty filter offers them",
    "info --stats shows where they are and why": "5 (Stats) shows where they are and why",
    "with 'dcpinspect timeline --vbucket N --messages'": (
        "on the timeline (v), where [ and ] go from gap to gap"
    ),
    "use the request that 'dcpinspect rollbacks' shows": "use the request that is shown below",
    "look at 'dcpinspect rollbacks', which has the cause and a request that works for each": (
        "below are the cause and a request that works"
    ),
    "look up what the status names with 'dcpinspect explain STATUS'": (
        "open the answer in the evidence, whose fields say what the status means"
    ),
    "give the client's key log with --keylog FILE (docs/tls.md says how clients write one)": (
        "give the client's key log (K; docs/tls.md says how clients write one)"
    ),
    "'connections', which says which is a copy of which": (
        "the list of connections (C), which says which is a copy of which"
    ),
    "give the client's key log with --keylog,": "give the client's key log (K),",
}
"""Phrases of the advice for the command line, and the phrases that replace them in the terminal UI.
"""


def for_keys(advice: str) -> str:
    """Returns the advice of a rule, worded for the terminal UI."""
    for outside, inside in _HERE.items():
        advice = advice.replace(outside, inside)
    return advice
