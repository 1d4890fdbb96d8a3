"""What a filter is once it was read: a tree of conditions over columns of the messages table.

Every condition is true, false or, where a column has no value, neither, as in SQL; a filter keeps the messages for which it is
true. Spellings that mean the same have one form here: ``between`` is two comparisons, ``not in`` and ``is not null`` are negations,
``5 < row`` is ``row > 5``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dcpinspect.errors import PlacedError
from dcpinspect.tables.schema import Column

Operator = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Source:
    """A text that holds a filter."""

    name: str
    """Where it was written: ``--filter``, ``[filters] slow``."""
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """Characters [start, end) of a source."""

    source: Source
    start: int
    end: int

    def error(self, what: str) -> PlacedError:
        """The error that points here."""
        return PlacedError(self.source.name, what, self.source.text, self.start)


@dataclass(frozen=True, slots=True)
class Name:
    """A column, where it is named."""

    column: Column
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value, in the form that the column has which it is compared with: times are nanoseconds since 1970."""

    value: int | str | bytes | bool
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false whatever the message."""

    value: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """A column against a value, or another column of its kind."""

    operator: Operator
    left: Name
    right: Name | Constant


@dataclass(frozen=True, slots=True)
class In:
    """A column is one of some values."""

    column: Name
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """A column's text matches a pattern: ``%`` is any text, ``_`` any character, each taken plainly behind ``escape``."""

    column: Name
    pattern: str
    escape: str | None


@dataclass(frozen=True, slots=True)
class Holds:
    """A column's list has a word."""

    column: Name
    word: Constant


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column has no value."""

    column: Name


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary of a condition."""

    item: Condition


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more conditions."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of two or more conditions."""

    items: tuple[Condition, ...]


Condition = Truth | Compare | In | Like | Holds | IsNull | Not | And | Or


def names(condition: Condition) -> frozenset[str]:
    """The columns that a condition reads."""
    match condition:
        case Truth():
            return frozenset()
        case Compare(_, left, right):
            return frozenset(operand.column.name for operand in (left, right) if isinstance(operand, Name))
        case Not(item):
            return names(item)
        case And(items) | Or(items):
            return frozenset[str]().union(*map(names, items))
        case In(column) | Like(column) | Holds(column) | IsNull(column):
            return frozenset((column.column.name,))
