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
        kept: Rows = _asked(self._query, self.filter.columns, columns, numbers)["place"]
        return np.sort(kept)


class FirstTrue:
    """Says of each message which of several filters is the first that is true."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._columns = sorted({name for one in filters for name in one.columns})
        cases = " ".join(f"when {Sql().condition(one.condition)} then {number}" for number, one in enumerate(filters, 1))
        self._query = f"select place, case {cases} else 0 end as first from batch"  # noqa: S608 - made from the trees alone

    def numbers(self, batch: MessageBatch, rows: Rows) -> Rows:
        """For each of these messages the number of that filter, from 1; 0: none is true."""
        found = np.zeros(len(rows), np.int64)
        if len(rows):
            from dcpinspect.tables.arrow import record_batch  # deferred, as above

            columns = record_batch(batch, rows, self._columns).columns
            answer = _asked(self._query, self._columns, columns, np.arange(len(rows)))
            found[answer["place"]] = answer["first"]
        return found


def _asked(query: str, names: Sequence[str], columns: Sequence[Any], numbers: Rows) -> dict[str, Any]:
    """What a query says of a table ``batch`` of these columns, with the ``numbers`` as its column ``place``."""
    import pyarrow as pa

    try:
        database = _idle.pop()  # for this thread alone
    except IndexError:
        database = connect(threads=1)  # a batch is computed in less time than threads take to start
    table = pa.Table.from_arrays([*columns, pa.array(numbers)], names=[*names, "place"])
    database.register("batch", table)
    try:
        answer: dict[str, Any] = database.execute(query).fetchnumpy()
    except RuntimeError as error:
        raise KeyboardInterrupt from error  # as which it came, before DuckDB took it
    database.unregister("batch")
    _idle.append(database)  # unless something went wrong in it
    return answer
