"""Turns the conditions that Spark gives to the data source into our filter: no columns are made for
messages that do not match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcpinspect.tables.column_kinds import Column
from dcpinspect.tables.filter import Filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.filter_tree import (
    And,
    ColumnName,
    Compare,
    Condition,
    Constant,
    FilterSource,
    In,
    IsNull,
    Like,
    Not,
    Operator,
    TextPosition,
    names,
)
from dcpinspect.tables.schema import BY_NAME

_OPERATORS: dict[str, Operator] = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_PATTERNS = {"StringStartsWith": "{}%", "StringEndsWith": "%{}", "StringContains": "%{}%"}
_BITS = 1 << 64
_NOWHERE = TextPosition(FilterSource("", ""), 0, 0)


def pushed(filters: Sequence[Any], columns: Mapping[str, str]) -> FilterRows | None:
    """Returns all conditions of Spark that can be expressed here, as one; None if there are none.
    ``columns``: column names by Spark's names.
    """
    conditions = [
        condition
        for spark_filter in filters
        if (condition := _condition(spark_filter, columns)) is not None
    ]
    if not conditions:
        return None
    conjunction: Condition = conditions[0] if len(conditions) == 1 else And(tuple(conditions))
    read = names(conjunction)
    return FilterRows(Filter(conjunction, tuple(column for column in BY_NAME if column in read)))


def _condition(one: Any, columns: Mapping[str, str]) -> Condition | None:
    kind = type(one).__name__
    if kind == "Not":
        inner = _condition(one.child, columns)
        return None if inner is None else Not(inner)
    column = BY_NAME.get(columns.get(one.attribute[0], "")) if len(one.attribute) == 1 else None
    if column is None:
        return None
    name = ColumnName(column, _NOWHERE)
    if kind == "IsNull":
        return IsNull(name)
    if kind == "IsNotNull":
        return Not(IsNull(name))
    if kind in _OPERATORS:
        value = _value(column, one.value)
        # Spark compares the 64 bits as a signed number, in which the greatest unsigned numbers are
        # negative
        is_ordered = column.kind not in ("u64", "hex64") or kind == "EqualTo"
        return Compare(_OPERATORS[kind], name, value) if value is not None and is_ordered else None
    if kind == "In":
        values = tuple(_value(column, value) for value in one.value if value is not None)
        if values and None not in values:
            return In(name, tuple(value for value in values if value is not None))
        return None
    if kind in _PATTERNS and column.kind in ("text", "word") and "\0" not in one.value:
        return Like(
            name,
            _PATTERNS[kind].format(
                one.value.replace("!", "!!").replace("%", "!%").replace("_", "!_")
            ),
            "!",
        )
    return None


def _value(column: Column, value: Any) -> Constant | None:
    """Returns a constant in the column's form; None if they cannot be compared here."""
    match column.kind:
        case "u64" if type(value) is int:
            return Constant(value % _BITS, _NOWHERE)
        case "hex64" if type(value) is int:
            return Constant(f"0x{value % _BITS:016x}", _NOWHERE)
        case "u8" | "u16" | "u32" | "i64" if type(value) is int:
            return Constant(value, _NOWHERE)
        case "text" | "word" if isinstance(value, str) and "\0" not in value:
            return Constant(value, _NOWHERE)
        case "bytes" if isinstance(value, (bytes, bytearray)):
            return Constant(bytes(value), _NOWHERE)
        case "bool" if isinstance(value, bool):
            return Constant(value, _NOWHERE)
    return None
