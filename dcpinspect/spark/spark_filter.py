"""The filter language on Spark: the same text gives the same rows, over the readable form of a
table (``views``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dcpinspect.errors import UsageError
from dcpinspect.findings.finding_records import CONTRACTS
from dcpinspect.spark.spark_schema import columns_of
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_sql import Sql
from dcpinspect.tables.filter_tree import FilterSource
from dcpinspect.tables.record_rows import parse_record_filter

MOST_ANY = 2
"""Greatest number of percent signs in a pattern that Spark's own LIKE matches."""


class SparkSql(Sql):
    """Conditions in the SQL of Spark."""

    contains = "array_contains"

    def __init__(self, columns: Collection[str], counts: Collection[str] = ()) -> None:
        """``columns``: the columns of Spark's table.

        ``counts``: those of them that are maps of counts; a condition on such a column compares the
        sum, or one count if a word follows after a point.
        """
        self._columns = columns
        self._counts = counts

    def name(self, column: str) -> str:
        """Returns a column. Raises UsageError if Spark's table does not have it."""
        base, _, word = column.partition(".")
        _check(base, self._columns)
        if base not in self._counts:
            return f"`{column}`"
        if word:
            return (
                f"if(`{base}` is null, null, coalesce(element_at(`{base}`, {self.text(word)}), 0L))"
            )
        return f"aggregate(map_values(`{base}`), 0L, (sum, one) -> sum + one)"

    def text(self, text: str) -> str:
        """Returns a constant text.

        Escapes are needed because Spark reads them, and would replace ``${…}`` by settings and the
        environment.
        """
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"

    def binary(self, raw: bytes) -> str:
        """Returns constant bytes."""
        return f"X'{raw.hex()}'"

    def like(self, pattern: str, escape: str | None) -> str:
        """Returns the condition that a column is like a pattern. If the pattern names no escape,
        its backslashes are doubled for Spark.

        For each %, Spark tries all places, so that its work grows exponentially with their number.
        The first place is enough for the text between two of them; a regular expression can express
        this.
        """
        pieces = _pieces(pattern, escape)
        if len(pieces) <= MOST_ANY + 1:
            return super().like(pattern if escape else pattern.replace("\\", "\\\\"), escape)
        first, *between, last = pieces
        inner = "".join(f"(?>.*?{piece})" for piece in between)
        return "rlike " + self.text(rf"(?s)\A{first}{inner}.*{last}\z")


def _pieces(pattern: str, escape: str | None) -> list[str]:
    """Returns the texts between the % of a pattern, as regular expressions; %% counts once."""
    texts, signs = [""], iter(pattern)
    for sign in signs:
        if sign == escape:
            texts[-1] += _plainly(next(signs, sign))
        elif sign == "%":
            texts += [""] if texts[-1] or len(texts) == 1 else []
        else:
            texts[-1] += "." if sign == "_" else _plainly(sign)
    return texts


def _plainly(sign: str) -> str:
    return rf"\x{{{ord(sign):x}}}"


class DuckSql(Sql):
    """Conditions in the SQL of DuckDB, over the messages of a pipeline."""

    def name(self, column: str) -> str:
        """Returns a column. Raises UsageError if the messages of a pipeline do not have it."""
        _check(column, columns_of("messages"))
        return super().name(column)


def _check(column: str, known: Collection[str]) -> None:
    if column not in known:
        raise UsageError(
            f"filter: the tables of Spark and of pipelines have no column {column}; a "
            "capture's own filters know it"
        )


def duck_sql(text: str, *, saved: Mapping[str, FilterSource] | None = None) -> str:
    """Returns a filter as a condition of DuckDB over the readable messages of a pipeline. Raises
    the same errors as ``filter_sql``.
    """
    return DuckSql().condition(parse_filter(text, saved=saved).condition)


def filter_sql(text: str, table: str = "messages") -> str:
    """Returns a filter as a Spark SQL condition over a table's readable columns:
    ``readable(frame).where(filter_sql("vbucket = 5"))``.

    Raises UsageError if there is no such table, and PlacedError, which points at the error in the
    text.
    """
    columns = columns_of(table)
    if table == "messages":
        return SparkSql(columns).condition(parse_filter(text).condition)
    parsed = parse_record_filter(text, CONTRACTS[table].with_file)
    counts = [column.name for column in CONTRACTS[table].columns if column.kind == "counts"]
    return SparkSql({*columns, "file"}, counts).condition(parsed.condition)
