"""Shows the verdicts of the lint family of rules: a table for each connection."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from dcpinspect.findings.lint import Verdict
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.text import escape, escape_rest

STYLES = {"PASS": "green", "FAIL": "bold yellow", "NA": "dim"}


def lint_lines(
    verdicts: Sequence[Verdict],
    links: Sequence[TcpConnection],
    paint: Callable[[str, str], str],
    columns: int | None = None,
) -> Iterator[str]:
    """Yields the tables.

    ``verdicts``: in order of connections. A connection without verdicts has no table. ``columns``:
    width of lines, which are broken between words.
    """
    if not verdicts:
        yield from ("", "lint: no connection to check, because no accepted DCP open was captured")
    by_number = {link.number: link for link in links}
    width = max((len(verdict.rule) for verdict in verdicts), default=0)
    for number, group in groupby(verdicts, lambda verdict: verdict.connection):
        own_verdicts = list(group)
        link = by_number[number]
        counts = Counter[str](verdict.says for verdict in own_verdicts)
        summary = ", ".join(f"{counts[says]} {says}" for says in STYLES)
        yield ""
        yield paint(
            f"lint of connection {number}, {escape(link.client)} to {escape(link.server)}: "
            f"{summary}",
            "bold",
        )
        for verdict in own_verdicts:
            rows = (
                (
                    f" (row{'s' if len(verdict.places) > 1 else ''} "
                    f"{', '.join(str(message.row) for message in verdict.places)})"
                )
                if verdict.places
                else ""
            )
            line = f"    {verdict.says:4}  {verdict.rule:{width}}  {escape_rest(verdict.why)}{rows}"
            first, *more_lines = (
                textwrap.wrap(line, columns, subsequent_indent=" " * (width + 12))
                if columns
                else [line]
            )
            yield f"{first[:4]}{paint(first[4:8], STYLES[verdict.says])}{first[8:]}"
            yield from more_lines
