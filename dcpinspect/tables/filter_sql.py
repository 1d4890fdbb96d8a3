"""Filter conditions as SQL for DuckDB. Subclasses write them for engines of another syntax."""

from __future__ import annotations

from dcpinspect.tables.filter_tree import (
    And,
    ColumnName,
    Compare,
    Condition,
    Constant,
    Holds,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Truth,
)


class Sql:
    """Writes conditions for DuckDB."""

    def condition(self, condition: Condition) -> str:
        """Returns a condition as SQL, made only from the tree: no text of the user becomes SQL."""
        match condition:
            case Truth(value):
                return "true" if value else "false"
            case Compare(operator, left, right):
                return f"{self._operand(left)} {operator} {self._operand(right)}"
            case In(column, values):
                return f"{self._operand(column)} in ({', '.join(map(self._operand, values))})"
            case Like(column, pattern, escape):
                return f"{self._operand(column)} {self.like(pattern, escape)}"
            case Holds(column, word):
                return f"{self.contains}({self._operand(column)}, {self._operand(word)})"
            case IsNull(column):
                return f"{self._operand(column)} is null"
            case Not(item):
                return f"not ({self.condition(item)})"
            case And(items):
                return " and ".join(f"({self.condition(item)})" for item in items)
            case Or(items):
                return " or ".join(f"({self.condition(item)})" for item in items)

    contains = "list_contains"
    """Function with a list and a value: whether the list contains it; null if there is no list."""

    def name(self, column: str) -> str:
        """Returns a column."""
        return f'"{column}"'

    def text(self, text: str) -> str:
        """Returns a constant text."""
        return "'" + text.replace("'", "''") + "'"

    def binary(self, raw: bytes) -> str:
        """Returns constant bytes."""
        return "'" + "".join(f"\\x{byte:02x}" for byte in raw) + "'::blob"

    def like(self, pattern: str, escape: str | None) -> str:
        """Returns the part behind the column in a condition that the column is like a pattern."""
        return f"like {self.text(pattern)}" + (f" escape {self.text(escape)}" if escape else "")

    def _operand(self, operand: ColumnName | Constant) -> str:
        if isinstance(operand, ColumnName):
            return self.name(operand.column.name)
        match operand.value:
            case bool(value):
                return "true" if value else "false"
            case int(value):
                return str(value)
            case str(value):
                return self.text(value)
            case bytes(value):
                return self.binary(value)
