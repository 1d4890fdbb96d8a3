"""The filter language on Spark: the same text, the same rows, over the readable form of a table (``views``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dcpinspect.errors import UsageError
from dcpinspect.findings.record import CONTRACTS
from dcpinspect.spark.schema import columns_of
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_sql import Sql
from dcpinspect.tables.filter_tree import Source
from dcpinspect.tables.record_rows import parse_record_filter

MOST_ANY = 2
"""Percent signs in a pattern that Spark is left to match by itself."""


class SparkSql(Sql):
    """Conditions as Spark reads them."""

    contains = "array_contains"

    def __init__(self, columns: Collection[str], counts: Collection[str] = ()) -> None:
        """``columns``: those that Spark's table has; ``counts``: of those the maps, of which conditions see the sum, and by a word behind
        a point one number."""
        self._columns = columns
        self._counts = counts

    def name(self, column: str) -> str:
        """A column. Raises UsageError for one that Spark's table does not have."""
        base, _, word = column.partition(".")
        _check(base, self._columns)
        if base not in self._counts:
            return f"`{column}`"
        if word:
            return f"if(`{base}` is null, null, coalesce(element_at(`{base}`, {self.text(word)}), 0L))"
        return f"aggregate(map_values(`{base}`), 0L, (sum, one) -> sum + one)"

    def text(self, text: str) -> str:
        """A constant text. Spark has escapes in it, and would put settings and the environment in the place of ``${…}``."""
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"

    def binary(self, raw: bytes) -> str:
        """Constant bytes."""
        return f"X'{raw.hex()}'"

    def like(self, pattern: str, escape: str | None) -> str:
        """That a column is like a pattern. In one that names no escape the backslash is one to Spark.

        Spark tries all places for each %, so that its work grows with the power of their number. Of what stands between two of them the
        first place is enough; a regular expression can say so.
        """
        pieces = _pieces(pattern, escape)
        if len(pieces) <= MOST_ANY + 1:
            return super().like(pattern if escape else pattern.replace("\\", "\\\\"), escape)
        first, *between, last = pieces
        inner = "".join(f"(?>.*?{piece})" for piece in between)
        return "rlike " + self.text(rf"(?s)\A{first}{inner}.*{last}\z")


def _pieces(pattern: str, escape: str | None) -> list[str]:
    """What stands between the % of a pattern, as regular expressions; those in a row count once."""
    found, signs = [""], iter(pattern)
    for sign in signs:
        if sign == escape:
            found[-1] += _plainly(next(signs, sign))
        elif sign == "%":
            found += [""] if found[-1] or len(found) == 1 else []
        else:
            found[-1] += "." if sign == "_" else _plainly(sign)
    return found


def _plainly(sign: str) -> str:
    return rf"\x{{{ord(sign):x}}}"


class DuckSql(Sql):
    """Conditions as DuckDB reads them, over messages that a pipeline wrote."""

    def name(self, column: str) -> str:
        """A column. Raises UsageError for one that the messages of a pipeline do not have."""
        _check(column, columns_of("messages"))
        return super().name(column)


def _check(column: str, known: Collection[str]) -> None:
    if column not in known:
        raise UsageError(f"filter: the tables of Spark and of pipelines have no column {column}; a capture's own filters know it")


def duck_sql(text: str, *, saved: Mapping[str, Source] | None = None) -> str:
    """A filter as a condition of DuckDB over the readable messages that a pipeline wrote. Raises as ``filter_sql`` does."""
    return DuckSql().condition(parse_filter(text, saved=saved).condition)


def filter_sql(text: str, table: str = "messages", *, saved: Mapping[str, Source] | None = None) -> str:
    """A filter as a condition of Spark SQL over the readable columns of a table: ``readable(frame).where(filter_sql("vbucket = 5"))``.

    ``saved``: filters that it may call ``@name``, besides those that are built in. Raises UsageError for a table that there is not, and
    PlacedError, which points at what is wrong in the text.
    """
    columns = columns_of(table)
    parsed = parse_filter(text, saved=saved) if table == "messages" else parse_record_filter(text, CONTRACTS[table].with_file, saved=saved)
    counts = [column.name for column in CONTRACTS[table].columns if column.kind == "counts"] if table != "messages" else ()
    return SparkSql({*columns, "file"}, counts).condition(parsed.condition)
