"""Which columns a printed table has: names that are wider than their columns take several lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

DAY = r"\d{4}-\d\d-\d\d, times in UTC"
"""Line above a table of one day."""


def headings(lines: Sequence[str]) -> list[str]:
    """Returns the names above a table."""
    below_day = lines[bool(re.fullmatch(DAY, lines[0])) :]
    return names_in([*takewhile(lambda line: re.fullmatch(r"[a-z_. ]+", line), below_day)])


def names_in(heading: Sequence[str]) -> list[str]:
    """Returns the names in the lines of a heading: words that begin or end at one column are one
    name.
    """
    *upper, last = heading
    names = []
    for word in re.finditer(r"\S+", last):
        above = [
            part[0]
            for line in upper
            for part in re.finditer(r"\S+", line)
            if part.start() == word.start() or part.end() == word.end()
        ]
        names.append("_".join([*above, word[0]]))
    return names


def rows(lines: Sequence[str]) -> list[str]:
    """Returns the lines of a table below its heading."""
    return [line for line in lines if not re.fullmatch(rf"[a-z_. ]+|{DAY}", line)]
