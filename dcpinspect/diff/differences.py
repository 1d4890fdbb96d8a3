"""Finds what differs between two sides: DuckDB joins their tables, and results become records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dcpinspect.closable import Closable
from dcpinspect.diff import queries
from dcpinspect.diff.difference_columns import (
    DIFFERENCES,
    FIELDS,
    MOST,
    SIDES,
    SINGLE,
    VERDICT_OF,
    BranchProgress,
    DifferenceRow,
    Differences,
)
from dcpinspect.diff.events_on_disk import SHELVES, UNKNOWN, Log, groups, newest
from dcpinspect.diff.reading_side import BUCKET_SHIFT, ComparisonSide
from dcpinspect.errors import SpoolError
from dcpinspect.protocol.datatype import DATATYPE_NAMES
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.reading.store.spool import Spool
from dcpinspect.streams import words as w
from dcpinspect.tables.duckdb import connect

if TYPE_CHECKING:
    import duckdb


def evidence(kind: str, lacks: str | None, row: Mapping[str, Any]) -> str:
    """Returns the sentence; ``row``: the result row of the query for this kind."""
    side = (lacks or "").upper()
    if kind == "differs":
        return "both sides have it: " + ", ".join(_differs(field, row) for field in row["fields"])
    if kind == "filter":
        return f"A asked for {' and '.join(row['a_asks'])}; B for {' and '.join(row['b_asks'])}"
    if kind == "snapshot":
        return (
            f"{row['ends']:,} ends are on one side only; A has {row['a_ends']:,}, B "
            f"{row['b_ends']:,}"
        )
    if kind == "no-stream":
        return f"no stream of the vbucket is in {side}'s capture"
    if kind == "rolled-back":
        return (
            f"the latest failover log of {'A' if lacks == 'b' else 'B'} does not have its "
            "branch up to there"
        )
    if kind == "other-history":
        departure = (
            f", which left this one at {row['snapshot_start']}"
            if row["snapshot_start"] is not None
            else ""
        )
        return f"{side}'s failover log has another branch there{departure}"
    where = f"connection {row['connection']} of {side}"
    if kind == "before-capture":
        return f"{side}'s capture begins after seqno {row['began']}"
    if row["reached"] is not None:
        behind = (
            ", with capture loss behind that" if row["is_lost"] and kind == "not-reached" else ""
        )
        more = ", with capture loss within that" if kind == "capture-loss" else behind
        return f"{side}'s streams cover {row['began'] + 1}–{row['reached']}{more}"
    gap = (
        f"{where} goes from {row['gap_after']} to {row['gap_before']}"
        if row["gap_after"] is not None
        else f"{where} covers it"
    )
    if kind == "not-sent" and row["cause"] == w.UNEXPLAINED and row["high"] is None:
        return f"{gap}, and nothing explains the gap"
    if row["high"] is None:
        return gap
    if row["gap_before"] is not None and row["gap_before"] > row["high"]:
        return f"{gap}, beyond the end of its snapshot at {row['high']}"
    return f"{gap} in a snapshot that ends at {row['high']}"


def _differs(field: str, row: Mapping[str, Any]) -> str:
    if field == "cas":
        return f"CAS 0x{row['a_cas']:016x} and 0x{row['b_cas']:016x}"
    return {
        "key": "another key",
        "state": "one stores, the other deletes",
        "datatype": "another datatype",
        "value": "another value",
    }[field]


MEMORY = "1GiB"
"""Greatest amount of memory that DuckDB uses; it puts the rest into the spool's folder."""
MOST_EVENTS = 1 << 20
"""Greatest number of events of both sides that are compared at once, unless one file has more."""


class SideComparison(Closable):
    """A database in which two sides are compared. Use it as a context manager."""

    def __init__(self, spool: Spool) -> None:
        """``spool``: where the database puts what does not fit into memory."""
        self._spool = spool
        self._database: duckdb.DuckDBPyConnection = connect(
            memory_limit=MEMORY, temp_directory=str(spool.path("sorting"))
        )
        self._sides: dict[str, ComparisonSide] = {}
        self._buckets: dict[int, str] = {}

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def compare(self, a: ComparisonSide, b: ComparisonSide) -> Differences:
        """Returns what differs between two sides that were read, once. Raises SpoolError."""
        import duckdb  # deferred, as in connect

        try:
            return self._compare(a, b)
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            if "bad allocation" in str(error):
                raise  # by the system: no room in the folder helps
            raise SpoolError(self._spool.folder, OSError(str(error).partition("\n")[0])) from error

    def _compare(self, a: ComparisonSide, b: ComparisonSide) -> Differences:
        self._sides = {"a": a, "b": b}
        names = sorted({name for side in (a, b) for name in side.buckets if name is not None})
        # with a single bucket, streams that do not name theirs belong to it too
        self._buckets = dict(enumerate(names, int(len(names) > 1)))
        for side in (a, b):
            side.name_buckets({name: number for number, name in self._buckets.items()})
        logs, assumed, doubted = _logs(a, b)
        differences = Differences(assumed, len(doubted))
        self._load_table("doubted", pa.table({"vbucket": pa.array(sorted(doubted), pa.uint32())}))
        tables = {name: side.tables(logs[name]) for name, side in self._sides.items()}
        counts = [
            count_a + count_b
            for count_a, count_b in zip(a.events.counts, b.events.counts, strict=True)
        ]
        for numbers in groups(counts, MOST_EVENTS):
            for name, side in self._sides.items():
                self._load(name, numbers, side.event_batches(logs[name], numbers), tables[name])
            self._join()
            self._add_differences(differences, numbers)
        differences.in_order()
        return differences

    def _load(
        self, name: str, numbers: Sequence[int], batches: Iterator[Any], tables: Mapping[str, Any]
    ) -> None:
        """Creates the tables of one side, with the vbuckets of these files."""
        first = next(batches)
        self._load_table(
            f"events_{name}",
            pa.RecordBatchReader.from_batches(first.schema, chain((first,), batches)),
        )
        for table, rows in tables.items():
            shelf = rows.column("vbucket").to_numpy() % SHELVES
            self._load_table(f"{table}_{name}", rows.filter(pa.array(np.isin(shelf, numbers))))
        for query in (queries.ONCE, queries.NEWEST, queries.COLLECTIONS):
            self._run(query, side=name)

    def _load_table(self, table: str, rows: Any) -> None:
        self._database.register("given", rows)
        self._run(f"create or replace table {table} as from given")
        self._database.unregister("given")

    def _join(self) -> None:
        self._run(queries.UNEQUAL)
        words = {
            "loss": w.LOSS,
            "rollback": w.ROLLBACK,
            "resumed": w.RESUMED,
            "unexplained": w.UNEXPLAINED,
            "ranks": list(queries.RANKS),
            "single": SINGLE,
        }
        for lacks, has in (SIDES, SIDES[::-1]):
            self._run(queries.MISSING, lacks=lacks, has=has)
        for lacks, has in (SIDES, SIDES[::-1]):
            for query in queries.WHY:
                self._run(query, lacks=lacks, has=has, **words)

    def _add_differences(self, differences: Differences, numbers: Sequence[int]) -> None:
        """Adds to ``differences`` what the tables of these vbuckets show."""
        for kind, lacks, events, vbuckets in self._database.execute(queries.COUNTS).fetchall():
            if vbuckets:
                differences.count(kind, lacks, int(events or 0), vbuckets)
        rows = self._differing()
        snapshots = queries.SNAPSHOTS.format(loss=w.LOSS)
        for kind, query in (("filter", queries.FILTERS), ("snapshot", snapshots)):
            found = self._rows(query)
            rows += [
                _record(kind, row, first=row.get("first"), last=row.get("last")) for row in found
            ]
            if found:
                differences.count(kind, None, 0, len(found))
        for lacks, has in (SIDES, SIDES[::-1]):
            rows += self._missing(lacks, has)
            differences.events[lacks] += self._query_number(f"select count(*) from once_{lacks}")
            differences.vbuckets[lacks] += self._query_number(
                f"select count(distinct vbucket) from branches_{lacks}"
            )
        differences.common += self._query_number(
            "select (select count(*) from once_a) - (select count(*) from unequal where b_lacks)"
        )
        differences.reached += [
            BranchProgress(vbucket % (1 << BUCKET_SHIFT), *row)
            for vbucket, *row in self._database.execute(queries.REACHED).fetchall()
        ]
        differences.shows |= {
            shows for (shows,) in self._database.execute(queries.SHOWS).fetchall()
        }
        self._add_keys(rows, numbers)
        for row in rows:
            bucket, row["vbucket"] = divmod(row["vbucket"], 1 << BUCKET_SHIFT)
            row["bucket"] = self._buckets.get(bucket)
        differences.rows += rows

    def _run(self, text: str, **words: object) -> None:
        self._database.execute(text.format(**words) if words else text)

    def _query_number(self, text: str) -> int:
        ((number,),) = self._database.execute(text).fetchall()
        return int(number)

    def _rows(self, text: str) -> list[DifferenceRow]:
        rows: list[DifferenceRow] = self._database.sql(text).to_arrow_table().to_pylist()
        return rows

    # -- records

    def _differing(self) -> list[DifferenceRow]:
        rows = self._rows(
            "select * from unequal where not a_lacks and not b_lacks order by vbucket, uuid, "
            f"seqno limit {MOST}"
        )
        for row in rows:
            row["fields"] = [name for name in FIELDS if row[f"differs_{name}"]]
        return [
            _record(
                "differs",
                row,
                events=1,
                first=row["seqno"],
                collection_id=_number_or_none(row["a_collection"]),
                fields=row["fields"],
            )
            | _side_columns(row, "a")
            | _side_columns(row, "b")
            for row in rows
        ]

    def _missing(self, lacks: str, has: str) -> list[DifferenceRow]:
        rows = self._rows(
            f"select r.*, {', '.join(f'u.{has}_{name}' for name in _OF_EVENT)} from"
            " (select *, row_number() over (partition by kind order by vbucket, uuid, "
            f"first_seqno) as place from runs_{lacks}) r"
            f" join unequal u on u.{lacks}_lacks and u.{has}_row = r.row where place <= {MOST}"
        )
        return [
            _record(
                row["kind"],
                row,
                events=row["events"],
                first=row["first_seqno"],
                last=row["last_seqno"],
                lacks=lacks,
            )
            | {
                "collection_id": _number_or_none(row[f"{has}_collection"]),
                f"{lacks}_connection": row["connection"],
            }
            | _side_columns(row, has)
            for row in rows
        ]

    def _add_keys(self, rows: Sequence[DifferenceRow], numbers: Sequence[int]) -> None:
        for name, side in self._sides.items():
            row_numbers = [
                row[f"{name}_row"]
                for row in rows
                if row[f"{name}_row"] is not None and row["key"] is None
            ]
            if not row_numbers:
                continue
            self._database.register(
                "wanted", pa.table({"row": pa.array(sorted(set(row_numbers)), pa.int64())})
            )
            reader = pa.RecordBatchReader.from_batches(
                pa.schema([("row", pa.int64()), ("key_text", pa.string())]), side.keys(numbers)
            )
            self._database.register("given", reader)
            key_of_row = dict(
                self._database.execute(
                    "select row, key_text from given semi join wanted using (row)"
                ).fetchall()
            )
            for row in rows:
                row["key"] = (
                    row["key"] if row["key"] is not None else key_of_row.get(row[f"{name}_row"])
                )


_OF_EVENT = ("opcode", "collection", "cas", "datatype", "row", "time", "connection")
"""What is recorded of an event that the other side lacks."""


def _record(
    kind: str,
    row: DifferenceRow,
    *,
    first: int | None = None,
    last: int | None = None,
    events: int | None = None,
    lacks: str | None = None,
    **more: Any,
) -> DifferenceRow:
    record: DifferenceRow = {column.name: None for column in DIFFERENCES.columns}
    return record | {
        "kind": kind,
        "verdict": VERDICT_OF[kind],
        "vbucket": row["vbucket"],
        "vbucket_uuid": row.get("uuid") or None,
        "lacks": lacks,
        "first_seqno": first,
        "last_seqno": first if last is None else last,
        "events": events,
        "evidence": evidence(kind, lacks, row),
        **more,
    }


def _side_columns(row: DifferenceRow, side: str) -> DifferenceRow:
    """Returns what one side's event is, and where it stands, as columns of a record."""
    columns = {
        f"{side}_{name}": row[f"{side}_{name}"] for name in ("cas", "connection", "row", "time")
    }
    return columns | {
        f"{side}_name": opcode_name(row[f"{side}_opcode"]),
        f"{side}_datatype": list(DATATYPE_NAMES[row[f"{side}_datatype"]]),
    }


def _number_or_none(number: int) -> int | None:
    return number if number >= 0 else None


def _logs(
    a: ComparisonSide, b: ComparisonSide
) -> tuple[dict[str, list[Log]], dict[str, int], set[int]]:
    """Returns the logs by which the sides are compared, and what is assumed of them.

    These are: the log of every stream of each side; for each side the number of vbuckets with a
    compared stream whose own log was not captured; and those of these vbuckets that have several logs to
    choose from.
    """
    newest_logs = {side.name: newest(side.places, side.logs) for side in (a, b)}
    different: dict[int, set[Log]] = {}
    for side in (a, b):
        for number, log in side.logs.items():
            different.setdefault(int(side.places[number]), set()).add(log)
    side_logs, assumed, doubted = {}, {}, set()
    for side, other_side in ((a, b), (b, a)):
        without_own_log, logs = set[int](), list[Log]()
        may_deliver = side.may_deliver().tolist()
        for number, vbucket in enumerate(side.places.tolist()):
            told_log = side.logs.get(number)
            if told_log is None and may_deliver[number]:
                without_own_log.add(vbucket)
            logs.append(
                told_log
                or newest_logs[side.name].get(vbucket)
                or newest_logs[other_side.name].get(vbucket, UNKNOWN)
            )
        side_logs[side.name], assumed[side.name] = logs, len(without_own_log)
        doubted |= {vbucket for vbucket in without_own_log if len(different.get(vbucket, ())) > 1}
    return side_logs, assumed, doubted
