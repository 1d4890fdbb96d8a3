"""Queries in Spark SQL over a pipeline's output. Tables are readable, and never changed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dcpinspect.errors import PlacedError, UsageError
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.spark_schema import TABLES, ddl
from dcpinspect.spark.spark_session import SparkFailedError
from dcpinspect.spark.stored import CONNECTION_ID, SCHEMAS
from dcpinspect.spark.views import in_order, readable
from dcpinspect.text import did_you_mean, escape, one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.sql.ansi.enabled": "true",  # what cannot be computed is an error, not null
    "spark.sql.runSQLOnFiles": "false",  # queries reach only the tables, no files
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",  # ${…} is not replaced
}
_SHOWS = ("describe", "desc", "explain", "show")
"""Statements that are not queries, but change nothing."""
_QUERIES = ("(", "from", "map", "reduce", "select", "table", "values", "with")
_WITHIN = "SELECT * FROM (\n"
_COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)


class SparkQuery:
    """A session of its own in which the tables of an output directory are views."""

    def __init__(
        self, spark: SparkSession, manifest: Manifest, *, condition: str | None = None
    ) -> None:
        """Opens the tables. ``condition``: restricts ``messages``; ``filter_sql`` made it."""
        # it prints every error as JSON, which is also raised
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        self._names = manifest.table_names
        self._spark = spark.newSession()
        for name, value in SETTINGS.items():
            self._spark.conf.set(name, value)
        for name in self._names:
            frame = table(self._spark, manifest, name)
            if name == "messages" and condition is not None:
                frame = frame.where(condition)
            frame.createOrReplaceTempView(name)

    def answer(self, text: str) -> Any:
        """Returns the result of a query as a ``pyarrow.Table``.

        Raises UsageError for what Spark refuses, at its place if known, and for a statement that is
        not a query.
        """
        # these characters stand for bytes that are not UTF-8
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError(
                "query: it is not UTF-8; other keys are compared as bytes, as in key_bytes = x'ff'"
            )
        text = text.rstrip("; \t\r\n")
        start = _COMMENTS.sub("", text)
        if not start:
            raise UsageError(
                "the query is empty; write one, as in select name, count(*) from messages "
                "group by name"
            )
        word = re.match(r"\(|\w*", start)[0].lower()  # type: ignore[index] # matches always
        if word not in _SHOWS:
            if word not in _QUERIES:
                raise PlacedError(
                    "query",
                    f"it begins with select, with or values; {_no_query(start)}",
                    text,
                    len(text) - len(start),
                )
            # in parentheses only a query is allowed, and none that writes data
            with self._own_errors(text, before=_WITHIN):
                self._spark.sql(f"{_WITHIN}{text}\n)")
        with self._own_errors(text):
            return _plain(self._spark.sql(text).toArrow())

    @contextmanager
    def _own_errors(self, text: str, *, before: str = "") -> Iterator[None]:
        """Turns exceptions of Spark into our own. ``before``: the text before the user's."""
        # deferred: already loaded, because there is a session
        from pyspark.errors import PySparkException

        try:
            yield
        except PySparkException as error:
            reason = _error_text(error, self._names)
            if error.getCondition() is None and not isinstance(error, _theirs()):
                raise SparkFailedError(f"the query failed in Spark: {reason}") from error
            offset = _error_position(error, before + text)
            if offset is None or not len(before) <= offset <= len(before) + len(text):
                raise UsageError(f"query: {reason}") from error
            raise PlacedError("query", reason, text, offset - len(before)) from error


def table(spark: SparkSession, manifest: Manifest, name: str) -> DataFrame:
    """Returns a table with readable columns: the columns of captures first, then those that only
    pipelines have, then the 64-bit columns.

    Raises UsageError if there is no such table.
    """
    if name not in manifest.table_names:
        close = (
            did_you_mean(name, manifest.table_names)
            or f"; there are {', '.join(manifest.table_names)}"
        )
        raise UsageError(f"table {escape(name)}: there is none{close}")
    if name == "messages":
        numbers = _stored(spark, manifest, "connections").select(CONNECTION_ID.name, "connection")
        frame = _stored(spark, manifest, name).join(
            numbers.hint("broadcast"), CONNECTION_ID.name, "left"
        )
    else:
        frame = _stored(spark, manifest, name)
    if name not in TABLES:
        return frame
    return readable(frame.select(*in_order(frame.columns, name)), name)


def _stored(spark: SparkSession, manifest: Manifest, name: str) -> DataFrame:
    from pyspark.sql.functions import lit

    compacted, schema = manifest.compacted(name), ddl(SCHEMAS[name])
    own_files = set(manifest.files(name)).difference(*(paths for _, paths in compacted))
    frame = (
        spark.read.schema(schema).parquet(*map(_for_spark, sorted(own_files)))
        if own_files
        else spark.createDataFrame([], schema)
    )
    for values, paths in compacted:
        compacted_frame = spark.read.schema(schema).parquet(*map(_for_spark, paths))
        frame = frame.unionByName(
            compacted_frame.withColumns({column: lit(value) for column, value in values.items()})
        )
    return frame


def _for_spark(path: str) -> str:
    """Returns the name of a file for Hadoop's file systems."""
    return f"s3a{path.removeprefix('s3')}" if path.startswith("s3://") else path


def _no_query(start: str) -> str:
    word = re.match(r"\S*", start)[0]  # type: ignore[index] # matches always
    return f"{one_line(word)[:40]} is none of them, and tables of a pipeline are read, not changed"


def _theirs() -> tuple[type[Exception], ...]:
    """Returns the exception types that are about the text of a query."""
    from pyspark.errors import AnalysisException, ParseException

    return (AnalysisException, ParseException)


def _error_text(error: Any, names: Sequence[str]) -> str:
    """Returns the text of an error of Spark on one line."""
    parameters = error.getMessageParameters() or {}
    if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
        name = str(parameters.get("relationName", "")).replace("`", "")
        return (
            "there is no table "
            f"{one_line(name)}{did_you_mean(name, names) or '; there are ' + ', '.join(names)}"
        )
    text = re.split(r"\n\s*(?:== SQL|==|;|'?\w+ \[)", str(error))[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\] ", "", text)
    text = re.split(r" SQLSTATE: ", text)[0]
    return (
        one_line(
            re.sub(
                r'(?: If necessary)? set "?spark\.[^;.]*?" to "?\w+"? to bypass this error\.',
                "",
                text,
            )
        )
        .strip()
        .rstrip(".;")
    )


def _error_position(error: Any, text: str) -> int | None:
    """Returns the character of the text that an error of Spark is about, if the error says so."""
    for context in error.getQueryContext() or ():
        if context.fragment() and context.startIndex() >= 0:
            return int(context.startIndex())
    position = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    if position is None:
        return None
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: int(position[1]) - 1]) + int(position[2])


def _plain(table: Any) -> Any:
    """Returns a result without types that no other output has: DECIMAL of whole numbers below 2**64
    becomes unsigned again.
    """
    for index, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and (field.type.precision, field.type.scale) == (20, 0):
            try:
                table = table.set_column(index, field.name, table.column(index).cast(pa.uint64()))
            except pa.ArrowInvalid:
                continue  # the user's own numbers, below 0
    return table
