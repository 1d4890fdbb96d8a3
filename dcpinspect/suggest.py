"""What somebody may have meant by a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause to add to an error: a question with the known names that look like it, or nothing."""
    import difflib  # deferred: only a mistake needs it

    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.65)
    return f"; did you mean {' or '.join(close)}?" if close else ""
