"""Shows the verdicts of the lint family of rules: a table for each connection."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from dcpinspect.escape import escape, escape_rest
from dcpinspect.findings.lint import Verdict
from dcpinspect.streams.links import Link

STYLES = {"PASS": "green", "FAIL": "bold yellow", "NA": "dim"}


def lint_lines(
    verdicts: Sequence[Verdict], links: Sequence[Link], paint: Callable[[str, str], str], columns: int | None = None
) -> Iterator[str]:
    """Yields the tables.

    ``verdicts``: in order of connections. A connection without verdicts has no table. ``columns``: width of lines, which are broken between
    words.
    """
    if not verdicts:
        yield from ("", "lint: no connection to check, because no accepted DCP open was captured")
    by_number = {link.number: link for link in links}
    width = max((len(one.rule) for one in verdicts), default=0)
    for number, group in groupby(verdicts, lambda one: one.connection):
        mine = list(group)
        link = by_number[number]
        counts = Counter[str](one.says for one in mine)
        told = ", ".join(f"{counts[says]} {says}" for says in STYLES)
        yield ""
        yield paint(f"lint of connection {number}, {escape(link.client)} to {escape(link.server)}: {told}", "bold")
        for one in mine:
            rows = f" (row{'s' if len(one.places) > 1 else ''} {', '.join(str(place.row) for place in one.places)})" if one.places else ""
            line = f"    {one.says:4}  {one.rule:{width}}  {escape_rest(one.why)}{rows}"
            first, *rest = textwrap.wrap(line, columns, subsequent_indent=" " * (width + 12)) if columns else [line]
            yield f"{first[:4]}{paint(first[4:8], STYLES[one.says])}{first[8:]}"
            yield from rest
