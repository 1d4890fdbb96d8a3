"""Which rows of a table of records somebody wants to see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dcpinspect.protocol.columns import Mask, Numbers
from dcpinspect.tables.filter import Filter, parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.filter_tree import Source
from dcpinspect.tables.records import RecordColumn, RecordKind, Records, RecordTable
from dcpinspect.tables.schema import Column, ColumnKind

_KINDS: dict[RecordKind, ColumnKind] = {
    "number": "i64",
    "u64": "u64",
    "text": "text",
    "word": "text",
    "hex64": "hex64",
    "time": "time",
    "words": "words",
}
"""Kinds of columns that a filter can speak of."""


def filter_columns(table: RecordTable) -> dict[str, Column]:
    """The columns of a table that a filter can speak of, by name."""
    return {column.name: _column(column, _KINDS[column.kind]) for column in table.columns if column.kind in _KINDS}


def _column(column: RecordColumn, kind: ColumnKind) -> Column:
    return Column(column.name, kind, column.doc, words=column.words)


def parse_record_filter(text: str, table: RecordTable, *, saved: Mapping[str, Source] | None = None) -> Filter:
    """A filter over the columns of this table, in the language of messages' filters. Raises PlacedError, which points at the mistake.

    ``saved``: filters that it may call ``@name``.
    """
    return parse_filter(text, saved=saved, columns=filter_columns(table))


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """Conditions on records; all must be met."""

    vbuckets: Sequence[range] = ()
    connections: Sequence[range] = ()
    filter: Filter | None = None

    def of(self, records: Records) -> Records:
        """The records that meet them, in order."""
        keep = np.ones(len(records), dtype=np.bool_)
        for name, ranges in (("vbucket", self.vbuckets), ("connection", self.connections)):
            if ranges:
                keep &= _are_among(records, _holder(records, name), ranges)
        if self.filter is not None:
            table = records.arrow(self.filter.columns)
            columns = [table.column(name).combine_chunks() for name in self.filter.columns]
            keep &= np.isin(np.arange(len(records)), FilterRows(self.filter).numbers(columns, np.arange(len(records))))
        return records if keep.all() else records.take(np.flatnonzero(keep))


def _holder(records: Records, name: str) -> str:
    """The column that says of which vbucket or connection, or connections, a record is."""
    return name if name in records.columns else f"{name}s"


def _are_among(records: Records, column: str, ranges: Sequence[range]) -> Mask:
    values = records.columns[column]
    if isinstance(values, Numbers):
        found: Mask = np.any([(values.values >= one.start) & (values.values < one.stop) for one in ranges], axis=0)
        return found if values.valid is None else found & values.valid
    return np.array([_is_among(value, ranges) for value in records.values(column)], dtype=np.bool_)


def _is_among(value: int | list[int] | None, ranges: Sequence[range]) -> bool:
    numbers = value if isinstance(value, list) else [] if value is None else [value]
    return any(number in one for number in numbers for one in ranges)
