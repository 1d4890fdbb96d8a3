"""A filter at work: DuckDB evaluates it on the columns of a batch that it reads, and on no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dcpinspect.protocol.columns import Rows
from dcpinspect.tables.duck import connect
from dcpinspect.tables.filter import Filter
from dcpinspect.tables.filter_sql import Sql
from dcpinspect.tables.messages import MessageBatch

_idle: list[Any] = []
"""Databases that no filter uses at the moment: one takes 15 ms to open, a filter over a million messages as much."""


class FilterRows:
    """Picks the messages for which a filter is true."""

    def __init__(self, filter_: Filter) -> None:
        self.filter = filter_
        self._query = f"select place from batch where {Sql().condition(filter_.condition)}"  # noqa: S608 - made from the tree alone

    def prepare(self) -> None:
        """Load what the first batch would wait for, half a second."""
        from dcpinspect.tables.arrow import arrow_schema  # deferred, as below

        none = arrow_schema(self.filter.columns).empty_table()
        self.numbers([column.combine_chunks() for column in none.columns], np.empty(0, np.int64))

    def rows(self, batch: MessageBatch, rows: Rows) -> Rows:
        """Those of these messages for which the filter is true, in order."""
        if not len(rows):
            return rows
        from dcpinspect.tables.arrow import record_batch  # deferred: 0.1 s, for who filters

        return self.numbers(record_batch(batch, rows, self.filter.columns).columns, rows)

    def numbers(self, columns: Sequence[Any], numbers: Rows) -> Rows:
        """Those of these ascending numbers for whose rows it is true; ``columns`` are the filter's as Arrow arrays, chunked or not."""
        import pyarrow as pa

        try:
            database = _idle.pop()  # for this thread alone
        except IndexError:
            database = connect(threads=1)  # a batch is computed in less time than threads take to start
        table = pa.Table.from_arrays([*columns, pa.array(numbers)], names=[*self.filter.columns, "place"])
        database.register("batch", table)
        try:
            kept: Rows = database.execute(self._query).fetchnumpy()["place"]
        except RuntimeError as error:
            raise KeyboardInterrupt from error  # as which it came, before DuckDB took it
        database.unregister("batch")
        _idle.append(database)  # unless something went wrong in it
        return np.sort(kept)
