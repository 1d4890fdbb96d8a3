"""``dcpinspect pipeline sql``: runs a query over the tables of a pipeline, in DuckDB on this
machine, or in Spark.
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcpinspect.cli import options
from dcpinspect.cli.output import open_output
from dcpinspect.cli.pipeline_options import Out
from dcpinspect.cli.progress import StepProgress
from dcpinspect.cli.sql import STDIN, read_query
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dcpinspect.spark.manifest import Manifest
    from dcpinspect.tables.filter_tree import FilterSource

    Answer = tuple[Any, Iterable[Any]]
    """The schema of a result, and its record batches."""
    Saved = Mapping[str, FilterSource] | None

PipelineFilter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="SQL",
        help=(
            "Only messages for which this is true are in the table messages, as with read --filter."
        ),
    ),
]


class Engine(StrEnum):
    """The engine that runs the query."""

    DUCKDB = "duckdb"
    SPARK = "spark"


def sql(
    context: typer.Context,
    out: Out,
    query: Annotated[
        str, typer.Argument(metavar='"QUERY"', help="The query. - reads it from standard input.")
    ],
    result: options.Output,
    spark: options.SparkSession,
    filter_: PipelineFilter = None,
    engine: Annotated[
        Engine | None,
        typer.Option(
            "--engine",
            help=(
                "Who answers, and in whose SQL. By default, it is duckdb, on this machine, or "
                "spark if --master or --conf is given."
            ),
        ),
    ] = None,
) -> int:
    """Run a query over the tables of a pipeline, as in "show tables" or "describe streams"."""
    format_, settings = result.format(context), spark.settings()
    asks_spark = spark.master is not None or bool(settings)
    if engine is Engine.DUCKDB and asks_spark:
        raise UsageError(
            f"{'--conf' if spark.master is None else '--master'}: is for Spark; leave it out, "
            "or write --engine spark"
        )
    text = read_query() if query == STDIN else query

    from dcpinspect.spark.manifest import Manifest  # deferred: --help and completion do not need it

    manifest = Manifest.newest(out)
    saved = options.saved_filters(context.obj) if filter_ is not None else None
    if engine is Engine.SPARK or (engine is None and asks_spark):
        answer = _of_spark(text, manifest, filter_, saved, spark.master, settings)
    else:
        answer = _of_duckdb(text, manifest, filter_, saved)
    with answer as (schema, batches), open_output(result.output, format_, ()) as file:
        format_.write(file, schema, batches, guard=result.csv_guard)
    return 0


@contextmanager
def _of_duckdb(
    text: str, manifest: Manifest, filter_: str | None, saved: Saved
) -> Iterator[Answer]:
    from dcpinspect.spark.duckdb_sql import TableQuery
    from dcpinspect.spark.spark_filter import duck_sql

    condition = None if filter_ is None else duck_sql(filter_, saved=saved)
    with TableQuery(text, manifest, condition=condition) as query:
        rows = query.result()
        yield rows.schema, rows


@contextmanager
def _of_spark(
    text: str,
    manifest: Manifest,
    filter_: str | None,
    saved: Saved,
    master: str | None,
    settings: dict[str, str],
) -> Iterator[Answer]:
    from dcpinspect.spark.spark_filter import filter_sql
    from dcpinspect.spark.spark_session import session, watched
    from dcpinspect.spark.spark_sql import SparkQuery
    from dcpinspect.spark.tasks import JVM

    condition = None if filter_ is None else filter_sql(filter_, saved=saved)
    with StepProgress() as steps, session(master, {**JVM, **settings}) as spark:

        def ask() -> Any:
            return SparkQuery(spark, manifest, condition=condition).answer(text)

        rows = watched(spark, ask, partial(steps.show, "asking"), complain)
    yield rows.schema, rows.to_batches()
