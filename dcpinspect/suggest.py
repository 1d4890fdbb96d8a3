"""What somebody may have meant by a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable

HEADINGS = {"vb": "vbucket", "con": "connection", "seqno": "by_seqno", "message": "name", "bytes": "length"}
"""Columns by what lists call them, where that is another word."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause to add to an error: a question with the known names that look like it, or nothing."""
    import difflib  # deferred: only a mistake needs it

    known = list(known)
    meant = HEADINGS.get(name.lower())
    close = [meant] if meant in known else difflib.get_close_matches(name, known, n=3, cutoff=0.65)
    return f"; did you mean {' or '.join(close)}?" if close else ""
