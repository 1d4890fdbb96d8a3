"""Outputs of the pipeline, beside what a reading of the uncut capture tells."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.pipeline import Options, Summary, run
from dcpinspect.spark.spark_schema import STORED_COLUMNS, message_rows, spark_table
from dcpinspect.spark.task_runner import TaskRunner
from dcpinspect.spark.views import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW = re.compile(r"\brows? \d+((,| to| and| or) \d+)*")
_FRAME = re.compile(r"\bframes? \d+( of [^\s,;]+)?( and (frame )?\d+( of [^\s,;]+)?)?")
Item = TypeVar("Item")
Result = TypeVar("Result")

NUMBERED = ("row", "request_row", "rows", "file", "files", "frame", "frames", "last_frame")
"""What depends on how a capture is cut, besides the rows of tables, which end so."""


class Here(TaskRunner):
    """Tasks done in this process, all that goes to them and comes back pickled as it would be."""

    processors = 2

    def map(
        self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]
    ) -> list[Result]:
        """As ``Tasks`` has it, last first."""
        assert what
        assert len(items) == len(sizes)
        again = _as_sent(work)
        return [_as_sent(again(_as_sent(item))) for item in reversed(items)][::-1]


def _as_sent(value: Item) -> Item:
    return pickle.loads(pickle.dumps(value))  # type: ignore[no-any-return] # noqa: S301 - as Spark sends it


@contextmanager
def here() -> Iterator[Here]:
    yield Here()


def ran(out: Path | str, *captures: Path | str, **options: Any) -> Summary:
    """A run in this process."""
    return run(Options([str(one) for one in captures], str(out), **options), here)


def of_spark(spark: SparkSession, out: Manifest, text: str, *, condition: str | None = None) -> Any:
    """What Spark answers over the tables of an output. ``condition``: of the messages."""
    for name in out.table_names:
        frame = table(spark, out, name)
        if name == "messages" and condition is not None:
            frame = frame.where(condition)
        frame.createOrReplaceTempView(name)
    return spark.sql(text).toArrow()


def stored(out: Path | str, *, cut: bool) -> dict[str, list[dict[str, Any]]]:
    """The tables of an output; messages, snapshots and gaps by their rows. ``cut``: without what
    depends on how it was cut.
    """
    manifest = Manifest.newest(out)
    tables = {}
    for name in manifest.tables:
        if name not in ("captures", "bad", "paths"):
            tables[name] = manifest.dataset(name).to_table().to_pylist()
    tables["connections"] = [row for row in tables["connections"] if row["duplicate_of"] is None]
    number = {row["connection_id"]: row["connection"] for row in tables["connections"]}
    for row in tables["connections"]:
        for extra in ("connection_id", "capture_point", "duplicate_of"):
            del row[extra]
    messages = sorted(tables["messages"], key=lambda row: row["row"])
    tables["messages"] = [
        {
            "connection": number[row["connection_id"]],
            **{name: row.get(name) for name in STORED_COLUMNS},
        }
        for row in messages
    ]
    return _comparable(tables, cut=cut)


def told(
    *captures: Path | str, cut: bool, redactor: Redactor | None = None, **options: Any
) -> dict[str, list[dict[str, Any]]]:
    """The tables of a reading in the same form."""
    messages = []
    with Reading([str(one) for one in captures], **options) as reading:
        reading.check(redactor=redactor)
        for batch in reading:
            rows = message_rows(
                batch.redacted(redactor), np.arange(len(batch)), ("connection", *STORED_COLUMNS)
            )
            messages += rows.to_pylist()
        tables = {
            name: spark_table(name, records.arrow()).to_pylist()
            for name, records in reading.by_name().items()
        }
    return _comparable({**tables, "messages": messages}, cut=cut)


def _comparable(
    tables: dict[str, list[dict[str, Any]]], *, cut: bool
) -> dict[str, list[dict[str, Any]]]:
    tables["snapshots"].sort(key=lambda row: row["row"])  # each part has its own
    tables["gaps"].sort(
        key=lambda row: (row["rows"], row["after_seqno"], row["connection"], row["stream"])
    )
    return {name: [_without_numbers(row, cut=cut) for row in rows] for name, rows in tables.items()}


def _without_numbers(value: Any, *, cut: bool) -> Any:
    """A value without the numbers of rows in it, and without files and frames where these are
    cut.
    """
    if isinstance(value, dict):
        gone = {"row", "rows", "file", "files"} | (set(NUMBERED) if cut else set())
        return {
            key: _without_numbers(
                json.loads(one) if key == "cases" and isinstance(one, str) else one, cut=cut
            )
            for key, one in value.items()
            if key not in gone
            and not key.endswith("_row")
            and not (cut and key.endswith(("_frame", "_file")))
        }
    if isinstance(value, str):
        text = _ROW.sub("row N", value)
        return _FRAME.sub("frames N", text) if cut else text
    return [_without_numbers(one, cut=cut) for one in value] if isinstance(value, list) else value
