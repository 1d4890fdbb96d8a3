"""``dcpinspect pipeline sql``: a query in Spark SQL over the tables that a pipeline wrote."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import choose_format, opened
from dcpinspect.cli.progress import Steps
from dcpinspect.cli.sql import STDIN, read_query

Filter = Annotated[
    str | None,
    typer.Option("--filter", metavar="SQL", help="Only messages for which this is true are in the table messages, as with read --filter."),
]


def sql(
    context: typer.Context,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The directory that a pipeline wrote.")],
    query: Annotated[str, typer.Argument(metavar='"QUERY"', help="The query. - reads it from standard input.")],
    filter_: Filter = None,
    format_name: options.OutputFormat = None,
    output: options.OutputFile = None,
    csv_guard: options.CsvGuard = True,
    master: options.SparkMaster = None,
    conf: options.SparkConf = None,
) -> int:
    """Run a query in Spark SQL over the tables of a pipeline, as in "show tables" or "describe streams"."""
    format_ = choose_format(format_name, output)
    options.refuse_unused(context, format_)
    text = read_query() if query == STDIN else query

    from dcpinspect.spark.filter import filter_sql  # deferred: --help and completion do without
    from dcpinspect.spark.manifest import Manifest
    from dcpinspect.spark.query import Query
    from dcpinspect.spark.session import session, watched

    manifest = Manifest.newest(out)
    condition = filter_sql(filter_, saved=options.saved_filters(context.obj)) if filter_ is not None else None
    with Steps() as steps, session(master, options.spark_settings(conf)) as spark:

        def ask() -> Any:
            return Query(spark, manifest, condition=condition).answer(text)

        found = watched(spark, ask, partial(steps.show, "asking"))
    with opened(output, format_, ()) as file:
        format_.write(file, found.schema, interrupts.between(found.to_batches()), guard=csv_guard)
    return 0
