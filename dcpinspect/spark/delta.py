"""Delta tables: the log beside the Parquet files says which files form each version of a table.
``deltalake`` reads and writes the log.

Tasks write the files, and a commit names them. Readers of Delta see only whole versions, and can
read old ones.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import SubTreeFileSystem

from dcpinspect.capture.stores import options
from dcpinspect.errors import OutputError, UsageError
from dcpinspect.spark import files
from dcpinspect.text import clip, escape

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

RUN = "dcpinspectRun"
"""Key in the ``commitInfo`` of our commits: the number of the run."""
CHANGES = "dcpinspectChanges"
"""Key there: how many files come and go."""
KEPT_DAYS = 1
"""Number of days for which files stay that the newest version does not need, so that readers of
older versions can continue.
"""
CONFIGURATION = {"delta.deletedFileRetentionDuration": f"interval {KEPT_DAYS} days"}
Bounds = Mapping[str, tuple[Any, Any]]
"""The least and the greatest value of columns, in the form of the log."""
_MILLISECOND = 1000
"""Microseconds in a millisecond: statistics of times have no finer resolution."""


def open_table(folder: str, version: int | None = None) -> DeltaTable:
    """Opens the newest or an earlier version of a table. Raises UsageError if there is no table, or
    not this version any more, or if its commit is empty or lacks lines: a machine that lost power
    leaves that, and ``deltalake`` takes it for a commit with fewer changes.
    """
    from deltalake.exceptions import DeltaError

    library = _library()
    try:
        table: DeltaTable = library.DeltaTable(
            folder, version=version, storage_options=options(folder)
        )
        _check(folder, f"_delta_log/{table.version():020}.json")
    except (DeltaError, OSError) as error:
        version_name = "as it is now" if version is None else f"in version {version}"
        raise UsageError(
            f"{escape(folder)}: is no Delta table that can be read {version_name} ({error_text(error)})"
        ) from error
    return table


def _check(folder: str, entry: str) -> None:
    """Raises OSError if a commit lost its bytes, or its last lines. It may be gone, if the log has
    it in a checkpoint.
    """
    if not files.exists(path := f"{folder}/{entry}"):
        return
    lines = [line for line in files.content(path).splitlines() if line.strip()]
    if not lines:
        raise OSError(f"{entry} is empty; restore it, or write the output again")
    count = sum(line.startswith((b'{"add":', b'{"remove":')) for line in lines)
    stated_count = (json.loads(lines[0]).get("commitInfo") or {}).get(CHANGES, count)
    if count != stated_count:
        raise OSError(
            f"{entry} was cut short: it has {count} of {stated_count} changes; restore it, or write the "
            "output again"
        )


def exists(folder: str) -> bool:
    """Whether there is a table. Raises OSError if unknown, UsageError if it is damaged."""
    library = _library()
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        library.DeltaTable(folder, storage_options=options(folder))
    except TableNotFoundError:
        return False
    except DeltaError as error:
        raise UsageError(
            f"{escape(folder)}: is no Delta table that can be read ({error_text(error)})"
        ) from error
    return True


def settled(folder: str, version: int, newest: DeltaTable | None = None) -> DeltaTable:
    """Returns a table as a run left it in ``version``, or as others have compacted it since; never
    as an unfinished later run left it.

    ``newest``: the newest version of the table, if it is open already.
    """
    table = open_table(folder) if newest is None else newest
    while table.version() > version and any(
        RUN in entry for entry in table.history(table.version() - version)
    ):
        table = open_table(folder, table.version() - 1)
    return table if table.version() >= version else open_table(folder, version)


class TableForm(NamedTuple):
    """What the log says of all versions of a table."""

    schema: Any
    by: Sequence[str] = ()
    """Columns that the table is partitioned by."""
    bounded: Sequence[str] = ()
    """Columns of which the log has the least and the greatest value in each file."""


def commit(
    folder: str,
    form: TableForm,
    added: Sequence[AddAction],
    *,
    run: int,
    base: int | None,
    gone: Collection[str] | None = None,
) -> int:
    """Adds files to a table, removes others, and returns the new version.

    ``base``: the version before; None: the table is created. ``gone``: paths of the files to
    remove; None: all. Raises UsageError if another version follows ``base`` already, and
    OutputError if the log cannot be written.
    """
    library = _library()
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.transaction import CommitProperties, RemoveAction, create_table_with_add_actions

    table_schema, by = library.Schema.from_arrow(form.schema), list(form.by)

    def properties(count: int) -> CommitProperties:
        return CommitProperties(custom_metadata={RUN: run, CHANGES: count}, max_commit_retries=0)

    try:
        if base is None:
            if exists(folder):
                raise FileExistsError(folder)
            # deltalake takes a missing statistic for null, and would then find nothing, unless it
            # knows which columns have statistics
            skipping = (
                {"delta.dataSkippingStatsColumns": ",".join(form.bounded)}
                if form.bounded
                else {"delta.dataSkippingNumIndexedCols": "0"}
            )
            create_table_with_add_actions(
                folder,
                table_schema,
                list(added),
                partition_by=by,
                configuration={**CONFIGURATION, **skipping},
                storage_options=options(folder),
                commit_properties=properties(len(added)),
            )
            return 0
        table = open_table(folder, base)
        actions: list[Any] = list(added)
        if gone:
            now = int(time.time() * 1000)
            there = {action["path"]: action for action in _actions(table)}
            actions += [
                RemoveAction(path, True, now, there[path]["size_bytes"], _values(there[path], by))
                for path in sorted(gone)
            ]
        if not actions and gone is not None:
            return base
        overwritten = len(table.file_uris()) if gone is None else 0
        table.create_write_transaction(
            actions,
            "overwrite" if gone is None else "append",
            table_schema,
            by,
            commit_properties=properties(len(actions) + overwritten),
        )
    except (CommitFailedError, FileExistsError) as error:
        raise UsageError(
            f"{escape(folder)}: another run has written here since; run it again"
        ) from error
    except (DeltaError, OSError) as error:
        raise OutputError(f"{escape(folder)}: cannot be committed ({error_text(error)})") from error
    return base + 1


def without(folder: str, base: int, condition: str, run: int) -> int:
    """Removes the rows for which a condition is true, and returns the new version. Files that also
    have other rows are written again.
    """
    from deltalake.transaction import CommitProperties

    table = open_table(folder, base)
    table.delete(
        condition,
        commit_properties=CommitProperties(custom_metadata={RUN: run}, max_commit_retries=0),
    )
    return int(table.version())


def dataset(table: DeltaTable, schema: Any) -> Any:
    """Returns a version as a dataset of Arrow, which skips files and row groups that cannot contain
    wanted rows.
    """
    filesystem, inner = files.system(unquote(table.table_uri.removeprefix("file://")).rstrip("/"))
    return table.to_pyarrow_dataset(filesystem=SubTreeFileSystem(inner, filesystem), schema=schema)


def restore(folder: str, version: int, run: int) -> None:
    """Restores an earlier version of a table as a new version."""
    from deltalake.transaction import CommitProperties

    open_table(folder).restore(
        version, commit_properties=CommitProperties(custom_metadata={RUN: run})
    )


def sweep(table: DeltaTable) -> None:
    """Removes the files that no version has needed for so long that nobody can be reading them.

    If there are any, this makes a new version.
    """
    if table.vacuum(dry_run=True):
        table.vacuum(dry_run=False)


def paths(table: DeltaTable) -> list[str]:
    """Returns the files of a version, as paths in the folder of the table."""
    return [action["path"] for action in _actions(table)]


def partitions(table: DeltaTable, by: Sequence[str]) -> list[tuple[str, tuple[Any, ...]]]:
    """Returns the files of a version, and the values of each file in the columns that the table is
    partitioned by.
    """
    return [
        (action["path"], tuple(action[f"partition.{name}"] for name in by))
        for action in _actions(table)
    ]


def rows(table: DeltaTable) -> int:
    """Returns the number of rows of a version."""
    return sum(action["num_records"] for action in _actions(table))


def add_action(
    path: str, size: int, rows: int, bounds: Bounds, by: Collection[str] = ()
) -> AddAction:
    """Describes a new file of a table for its log.

    ``path``: in the folder of the table. ``by``: the columns that the table is partitioned by; the
    file has one value in each.
    """
    from deltalake.transaction import AddAction

    low, high = (
        {name: bound[end] for name, bound in bounds.items() if name not in by} for end in (0, 1)
    )
    statistics = {"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": {}}
    values = {name: bounds[name][0] for name in by}
    return AddAction(path, size, values, int(time.time() * 1000), True, json.dumps(statistics))


def bounds_of(metadata: pq.FileMetaData, names: Collection[str]) -> Bounds:
    """Returns the least and the greatest value in columns of a Parquet file, which are nowhere
    null, so that queries can skip the file without opening it.
    """
    bounds = {}
    for index in range(metadata.num_columns):
        if (name := metadata.schema.column(index).path) in names:
            groups = range(metadata.num_row_groups)
            of_groups = [metadata.row_group(group).column(index).statistics for group in groups]
            low, high = min(group.min for group in of_groups), max(group.max for group in of_groups)
            bounds[name] = _log_value(low), _log_value(high, is_high=True)
    return bounds


def _log_value(value: Any, *, is_high: bool = False) -> Any:
    """Returns a value in the form of the log; the greatest time is rounded up."""
    if isinstance(value, datetime):
        up = timedelta(microseconds=-value.microsecond % _MILLISECOND if is_high else 0)
        return (
            (value + up).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    return value.isoformat() if isinstance(value, date) else value


def _actions(table: DeltaTable) -> list[dict[str, Any]]:
    actions: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return actions


def _values(action: Mapping[str, Any], by: Sequence[str]) -> dict[str, str | None]:
    return {
        name: None if (value := action[f"partition.{name}"]) is None else str(value) for name in by
    }


def error_text(error: BaseException) -> str:
    """Returns the text of an error on one line."""
    text = re.sub(r"\x1b\[[\d;]*m|↳", "", str(error))
    return clip(escape(" ".join(text.split()) or type(error).__name__), 200)


def _library() -> Any:
    try:
        import deltalake  # deferred: takes 50 ms
    except ModuleNotFoundError:
        raise UsageError(
            "the tables of a pipeline need deltalake; install dcpinspect[spark]"
        ) from None
    return deltalake
