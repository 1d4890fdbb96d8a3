"""``dcpinspect pipeline sql``: runs a query over the tables of a pipeline, in DuckDB."""

from __future__ import annotations

from typing import Annotated

import typer

from dcpinspect.cli import options
from dcpinspect.cli.choices import as_option
from dcpinspect.cli.output import open_output
from dcpinspect.cli.pipeline_options import Out
from dcpinspect.cli.sql import STDIN, read_query

PipelineFilter = Annotated[
    str | None,
    as_option(
        "--filter SQL",
        "Only messages for which this is true are in the table messages, as with read --filter.",
    ),
]


def sql(
    context: typer.Context,
    out: Out,
    query: Annotated[str, as_option('"QUERY"', "The query. - reads it from standard input.")],
    result: options.Output,
    filter_: PipelineFilter = None,
) -> int:
    """Run a query over the tables of a pipeline, as in "show tables" or "describe streams"."""
    format_ = result.format(context)
    text = read_query() if query == STDIN else query

    # deferred: --help and completion do not need them
    from dcpinspect.spark.duckdb_sql import TableQuery
    from dcpinspect.spark.manifest import Manifest
    from dcpinspect.spark.spark_filter import duck_sql

    manifest, condition = Manifest.newest(out), None
    if filter_ is not None:
        condition = duck_sql(filter_, saved=options.saved_filters(context.obj))
    with (
        TableQuery(text, manifest, condition=condition) as query_of_tables,
        open_output(result.output, format_, ()) as file,
    ):
        rows = query_of_tables.result()
        format_.write(file, rows.schema, rows, guard=result.csv_guard)
    return 0
