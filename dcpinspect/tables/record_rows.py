"""Selects and sorts rows of a table of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NumberColumn, RowNumbers
from dcpinspect.tables.column_kinds import Column
from dcpinspect.tables.filter import Filter, parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.filter_tree import FilterSource
from dcpinspect.tables.record_tables import Records, RecordTable
from dcpinspect.tables.select import within


def filter_columns(table: RecordTable) -> dict[str, Column]:
    """Returns the columns of a table that a filter can use, by name: also ``findings.error``, one
    of the counts of ``findings``.
    """
    columns = {}
    for column in table.columns:
        if column.kind == "counts":
            columns[column.name] = Column(column.name, "i64", column.doc)  # their sum
            for word in column.words:
                columns[f"{column.name}.{word}"] = Column(
                    f"{column.name}.{word}", "i64", f"{column.doc}: {word}"
                )
        elif column.family is not None:
            columns[column.name] = column
    return columns


def parse_record_filter(
    text: str, table: RecordTable, *, saved: Mapping[str, FilterSource] | None = None
) -> Filter:
    """Parses a filter over the columns of a table, in the language of filters for messages. Raises
    PlacedError, which points at the mistake.

    ``saved``: filters that the text can use as ``@name``.
    """
    return parse_filter(text, saved=saved, columns=filter_columns(table))


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """Conditions on records; all must be met."""

    vbuckets: Sequence[range] = ()
    connections: Sequence[range] = ()
    filter: Filter | None = None
    bounds: tuple[int, int] | None = None
    """[from, to) in nanoseconds since 1970: selects records that last at some time between them."""
    sort: Sequence[str] = ()
    """Columns to sort by; records without a value come last. If empty, the order stays as it is."""
    is_reversed: bool = False
    """Whether the greatest values come first."""

    def matching(self, records: Records) -> Records:
        """Returns the records that meet the conditions, sorted."""
        keep = np.ones(len(records), dtype=np.bool_)
        for name, ranges in (("vbucket", self.vbuckets), ("connection", self.connections)):
            if ranges:  # some records have several connections
                column = name if name in records.columns else f"{name}s"
                keep &= _are_among(records, column, ranges)
        if self.bounds is not None:
            keep &= _are_within(records, *self.bounds)
        if self.filter is not None:
            columns = [_compared(records, name) for name in self.filter.columns]
            keep &= np.isin(
                np.arange(len(records)),
                FilterRows(self.filter).numbers(columns, np.arange(len(records))),
            )
        matching = records if keep.all() else records.take(np.flatnonzero(keep))
        if self.sort or self.is_reversed:
            return matching.take(_order(matching, self.sort, is_reversed=self.is_reversed))
        return matching


def _are_within(records: Records, since: int, until: int) -> BoolArray:
    """Returns which records last at some time from ``since`` to before ``until``. Every table has
    one or two columns of times.
    """
    names = [column.name for column in records.table.columns if column.kind == "time"]
    begin, end = (records.values(name) for name in (names[0], names[-1]))
    return np.array(
        [
            a is not None and b is not None and b >= since and a < until
            for a, b in zip(begin, end, strict=True)
        ],
        dtype=np.bool_,
    )


def sort_columns(table: RecordTable) -> list[str]:
    """Returns the columns of a table that records can be sorted by."""
    return [
        name
        for name, column in filter_columns(table).items()
        if column.family not in ("list", "records")
    ]


def _order(records: Records, columns: Sequence[str], *, is_reversed: bool) -> RowNumbers:
    import pyarrow as pa  # deferred: most users do not sort
    import pyarrow.compute as pc

    if not columns:
        return np.arange(len(records))[::-1]
    exact = {
        column.name: f"{column.name}_ns"
        for column in records.table.columns
        if column.kind == "time"
    }
    direction = "descending" if is_reversed else "ascending"
    table = pa.table(
        [_compared(records, exact.get(name, name)) for name in columns], names=list(columns)
    )
    keys = [(name, direction, "at_end") for name in columns]
    sorted_rows: RowNumbers = pc.sort_indices(table, sort_keys=keys).to_numpy()
    return sorted_rows.astype(np.int64)


def _compared(records: Records, name: str) -> Any:
    """Returns a column in the form for filters and sorting, as an Arrow array."""
    import pyarrow as pa  # deferred, as above

    base, _, word = name.partition(".")
    if {column.name: column.kind for column in records.table.columns}.get(base) != "counts":
        return records.arrow([name]).column(name).combine_chunks()
    counts = records.values(base)
    return pa.array(
        [
            None
            if row_counts is None
            else row_counts.get(word, 0)
            if word
            else sum(row_counts.values())
            for row_counts in counts
        ],
        pa.int64(),
    )


def _are_among(records: Records, column: str, ranges: Sequence[range]) -> BoolArray:
    values = records.columns[column]
    if isinstance(values, NumberColumn):
        return within(values.values, ranges) & values.is_known
    numbers = [
        value if isinstance(value, list) else [] if value is None else [value]
        for value in records.values(column)
    ]
    return np.array(
        [bool(within(np.array(row_numbers), ranges).any()) for row_numbers in numbers], np.bool_
    )
