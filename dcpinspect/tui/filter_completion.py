"""What can come next in a filter that is typed: columns, operators and values, explained."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.reading.store.store import Store
from dcpinspect.tables.column_kinds import Column
from dcpinspect.tables.presets import FILTERS
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.tables.vocabulary import vocabulary
from dcpinspect.text import escape

MOST = 200
"""Greatest number of completions that are offered."""
SAMPLE = 4096
"""Number of messages that are searched for frequent values."""
LONGEST = 60
"""Greatest length of an offered value, in characters."""

Frequent = Callable[[str], Sequence[str]]
"""Returns the most frequent values of a column in the capture."""

_AT_VALUE = re.compile(
    r"\b([a-z_0-9]+)\s*(?:=|<>|<=|>=|<|>|like|(?:not\s+)?in\s*\((?:(?:'[^']*'|[^()'])*,)?)"
    r"\s*('[^']*|[0-9]*)$",
    re.IGNORECASE,
)
_AT_OPERATOR = re.compile(
    rf".*\b({'|'.join(BY_NAME)})\s+((?:[a-z][a-z ]*)?|[<>=]*)$", re.IGNORECASE
)  # matches after the last column name
_WORD = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_@][A-Za-z0-9_]*$")
_LAST = re.compile(r"((?<!\w)[A-Za-z_0-9]+|'[^']*'|[()]|(?<![=<>,])[=<>,]+)$")
_OPERATORS = {
    "=": "is",
    "<>": "is not",
    "in (": "is one of",
    "like '": "is like (% is any text, _ one character)",
    "between": "from … and …",
    ">": "is greater than",
    ">=": "is at least",
    "<": "is less than",
    "<=": "is at most",
    "is null": "is missing",
    "is not null": "is there",
}


@dataclass(frozen=True, slots=True)
class Completion:
    """A text that can come next."""

    text: str
    """The whole text that is inserted from ``start`` on."""
    doc: str


@dataclass(frozen=True, slots=True)
class Offer:
    """All completions, the likeliest first."""

    start: int
    """Place in the text where a completion begins; from there on it replaces what was typed."""
    completions: Sequence[Completion] = ()


def offer(text: str, frequent: Frequent) -> Offer:
    """Returns what can come at the end of ``text``."""
    if (match := _AT_VALUE.search(text)) and match[1] in BY_NAME:
        quote = "'" if _is_text(BY_NAME[match[1]]) or match[2].startswith("'") else ""
        values = (
            Completion(f"{quote}{completion.text}{quote}", completion.doc)
            for completion in _values(match[1], frequent)
        )
        return Offer(match.start(2), _fitting(match[2], values))
    if text.count("'") % 2:
        return Offer(len(text))
    if match := _AT_OPERATOR.match(text):
        is_text = _is_text(BY_NAME[match[1].lower()])
        offered = (
            Completion(operator, doc)
            for operator, doc in _OPERATORS.items()
            if is_text or not operator.startswith("like")
        )
        return Offer(match.start(2), _fitting(match[2], offered))
    match = _WORD.search(text)
    start = match.start() if match else len(text)
    before = _LAST.search(text[:start].rstrip())
    last = before[1].lower() if before else "("
    if last in ("and", "or", "not", "("):
        return Offer(start, _fitting(text[start:], _names()))
    if last.strip("=<>,") == "":
        return Offer(start)
    return Offer(
        start,
        _fitting(
            text[start:],
            (Completion("and", "both must be true"), Completion("or", "one must be true")),
        ),
    )


def frequent_values(store: Store, column: str) -> list[str]:
    """Returns the most frequent values of a column, written as in a filter but without quotes. A
    sample of the whole capture is counted.

    Values with characters that a terminal cannot show as they are are left out.
    """
    first, last = store.first_row, store.rows
    if column not in BY_NAME or last < first:
        return []
    rows = np.unique(np.linspace(first, last, min(SAMPLE, last - first + 1)).astype(np.int64))
    counts = Counter(
        store.batch_of(rows, [column]).column(0).to_pylist()
        if BY_NAME[column].kind not in _UNCOUNTED
        else ()
    )
    texts = (str(value) for value, _ in counts.most_common(MOST) if value is not None)
    return [
        text.replace("'", "''") for text in texts if len(text) <= LONGEST and escape(text) == text
    ]


_UNCOUNTED = ("words", "records", "bytes", "time", "hex64")
"""Kinds of columns whose values are lists, or are written in another form in filters."""


def _names() -> Iterable[Completion]:
    yield from (Completion(column.name, column.doc) for column in BY_NAME.values())
    yield from (Completion(f"@{name}", preset.doc) for name, preset in FILTERS.items())
    yield Completion("not", "the contrary")


def _values(column: str, frequent: Frequent) -> list[Completion]:
    if column not in BY_NAME:
        return []
    frequent_values = list(frequent(column))
    words_of_column = vocabulary(column)
    words = [
        *BY_NAME[column].words,
        *(words_of_column.words if words_of_column is not None else ()),
    ]
    offered = [Completion(value, "in this capture") for value in frequent_values]
    return offered + [
        Completion(value, "") for value in dict.fromkeys(words) if value not in frequent_values
    ]


def _is_text(column: Column) -> bool:
    return column.kind in ("text", "word", "words", "time")


def _fitting(typed: str, all_: Iterable[Completion]) -> list[Completion]:
    """Returns completions that begin with the typed text, then those that contain more."""
    low = typed.lower()
    fitting = [
        completion
        for completion in all_
        if low in completion.text.lower() and completion.text.rstrip("'") != typed
    ]
    if not low:
        return fitting[:MOST]
    return sorted(
        fitting,
        key=lambda completion: (not completion.text.lower().startswith(low), len(completion.text)),
    )[:MOST]
