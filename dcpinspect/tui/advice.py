"""Rewords the advice of rules for readers inside the terminal UI: names the key to press in place
of a command or an option.
"""

from __future__ import annotations

_HERE = {
    "'dcpinspect read --columns' lists them": "an empty filter offers them",
    "--stats shows where they are and why": "5 (Stats) shows where they are and why",
    "with 'dcpinspect timeline --vbucket N --messages'": (
        "on the timeline (v), where { and } go from gap to gap"
    ),
    "use the request that 'dcpinspect rollbacks' shows": "use the request that is shown below",
    "'dcpinspect rollbacks' has a request that works for each": "below is a request that works",
    "'dcpinspect explain STATUS' has its meaning": (
        "Enter opens the answer, whose fields have its meaning"
    ),
    "give the client's key log with --keylog FILE (docs/tls.md says how clients write one)": (
        "give the client's key log (K; docs/tls.md says how clients write one)"
    ),
    ", --copies shows both; 'connections' says which is a copy of which": (
        "; the list of connections (C) says which is a copy of which"
    ),
    "give the client's key log with --keylog,": "give the client's key log (K),",
}
"""Phrases of the advice for the command line, and the phrases that replace them in the terminal UI.
"""


def here(advice: str) -> str:
    """Returns the advice of a rule, worded for the terminal UI."""
    for outside, inside in _HERE.items():
        advice = advice.replace(outside, inside)
    return advice
