"""A parsed filter: a tree of conditions over columns of the messages table.

As in SQL, a condition is true or false, or neither if a column has no value; a filter keeps the
messages for which it is true. Different spellings of one condition have one form here: ``between``
is two comparisons, ``not in`` and ``is not null`` are negations, ``5 < row`` is ``row > 5``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from dcpinspect.errors import PlacedError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tables.column_kinds import Column

Operator = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class FilterSource:
    """A text that contains a filter."""

    name: str
    """Where the text was written: ``--filter``, ``[filters] slow``."""
    text: str


@dataclass(frozen=True, slots=True)
class TextPosition:
    """Characters [start, end) of a source."""

    source: FilterSource
    start: int
    end: int

    def error(self, what: str) -> PlacedError:
        """Returns an error that points to this place."""
        return PlacedError(self.source.name, what, self.source.text, self.start)


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column, and the place where it is named."""

    column: Column
    place: TextPosition = field(compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in the form of the column compared with: times are nanoseconds since 1970."""

    value: int | str | bytes | bool
    place: TextPosition = field(compare=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false for every message."""

    value: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a column with a value, or with another column of the same kind."""

    operator: Operator
    left: ColumnName
    right: ColumnName | Constant


@dataclass(frozen=True, slots=True)
class In:
    """True if a column has one of these values."""

    column: ColumnName
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """True if a column's text matches a pattern: ``%`` is any text, ``_`` any character; behind
    ``escape`` both stand for themselves.
    """

    column: ColumnName
    pattern: str
    escape: str | None


@dataclass(frozen=True, slots=True)
class Holds:
    """True if a column's list contains a word."""

    column: ColumnName
    word: Constant


@dataclass(frozen=True, slots=True)
class IsNull:
    """True if a column has no value."""

    column: ColumnName


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    item: Condition


@dataclass(frozen=True, slots=True)
class And:
    """True if all of two or more conditions are true."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if any of two or more conditions is true."""

    items: tuple[Condition, ...]


Condition = Truth | Compare | In | Like | Holds | IsNull | Not | And | Or


def names(condition: Condition) -> frozenset[str]:
    """Returns the names of the columns that a condition reads."""
    match condition:
        case Truth():
            return frozenset()
        case Compare(_, left, right):
            return frozenset(
                operand.column.name for operand in (left, right) if isinstance(operand, ColumnName)
            )
        case Not(item):
            return names(item)
        case And(items) | Or(items):
            return frozenset[str]().union(*map(names, items))
        case In(column) | Like(column) | Holds(column) | IsNull(column):
            return frozenset((column.column.name,))
