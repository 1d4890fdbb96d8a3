"""The table of runs: which version of each table belongs to a run. A run is complete only when its
row is in this table.

It is a Delta table like the others. Its newest version has one file, with a row for each run whose
tables can still be read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark import delta, files
from dcpinspect.spark.attempts import attempt
from dcpinspect.text import escape

if TYPE_CHECKING:
    from deltalake import DeltaTable

TABLE = "runs"
SCHEMA = pa.schema(
    [
        pa.field("run", pa.int64()),
        pa.field("time", pa.timestamp("us", "UTC")),  # when the run ended
        pa.field("program", pa.string()),
        pa.field("tables", pa.map_(pa.string(), pa.int64())),  # version of each table
        pa.field("state", pa.string()),  # file with what the next run needs
    ]
)
_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """A run that has ended."""

    number: int
    program: str
    tables: Mapping[str, int]
    """Version of each table."""
    state: str
    """Name of the file with what the next run needs."""


def newest(out: str) -> PipelineRun | None:
    """Returns the newest run; None if none has ended. Raises UsageError if it cannot be read."""
    folder = f"{out}/{TABLE}"
    if not delta.exists(folder):
        return None
    last = max(_rows(folder, delta.open_table(folder)), key=lambda row: int(row["run"]))
    return PipelineRun(last["run"], last["program"], dict(last["tables"]), last["state"])


def commit(out: str, run: PipelineRun) -> None:
    """Makes this the newest run. Raises UsageError if another run was quicker."""
    folder = f"{out}/{TABLE}"
    now = time.time_ns() // 1000
    base, before = None, []
    if delta.exists(folder):
        table = delta.open_table(folder)
        base, before = table.version(), _rows(folder, table)
    if before and max(row["run"] for row in before) != run.number - 1:
        raise UsageError(f"{escape(out)}: another run has written here since; run it again")
    rows = [row for row in before if now - row["time"].timestamp() * 1e6 < delta.KEPT_DAYS * _DAY]
    rows.append(
        {
            "run": run.number,
            "time": now,
            "program": run.program,
            "tables": list(run.tables.items()),
            "state": run.state,
        }
    )
    name = f"{run.number}-{attempt()}.parquet"
    path = f"{folder}/{name}"
    with files.created(path) as stream:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), stream, store_schema=False)
    delta.commit(
        folder,
        delta.TableForm(SCHEMA),
        [delta.add_action(name, files.size(path), len(rows), {})],
        run=run.number,
        base=base,
    )


def _rows(folder: str, table: DeltaTable) -> list[dict[str, Any]]:
    with files.reading_known_file(folder):
        rows: list[dict[str, Any]] = delta.dataset(table, SCHEMA).to_table().to_pylist()
    return rows
