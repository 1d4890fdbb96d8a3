"""What somebody may have meant by a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

HEADINGS = {"vb": "vbucket", "con": "connection", "seqno": "by_seqno", "message": "name", "bytes": "length"}
"""Columns by the words that lists use for them, where these differ."""

_ALIKE, _MOST = 0.65, 3


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Returns a clause to add to an error: a question with the known names that look like ``name``, or nothing."""
    import difflib  # deferred: only a mistake needs it

    known_names = list(known_names)
    meant = HEADINGS.get(name.lower())
    close = [meant] if meant in known_names else difflib.get_close_matches(name, known_names, n=_MOST, cutoff=_ALIKE)
    return _question(close)


def did_you_mean_file(name: str, beside: Iterable[str]) -> str:
    """Returns such a clause for names of files, which are compared up to their first dot: all captures end alike."""
    from difflib import SequenceMatcher  # deferred, as above

    def likeness(first: str, second: str) -> float:
        return SequenceMatcher(None, first, second).ratio()

    close = [candidate for candidate in beside if likeness(name.partition(".")[0], candidate.partition(".")[0]) >= _ALIKE]
    return _question(sorted(close, key=lambda candidate: -likeness(name, candidate))[:_MOST])


def _question(close: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(close)}?" if close else ""
