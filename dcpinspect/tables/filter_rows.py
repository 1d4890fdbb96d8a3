"""Evaluates filters: DuckDB reads only the columns of a batch that a filter needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.tables.duckdb import connect
from dcpinspect.tables.filter import Filter
from dcpinspect.tables.filter_sql import Sql
from dcpinspect.tables.messages import MessageBatch

_idle: list[Any] = []
"""Databases that no filter uses at the moment: opening one takes 15 ms, as long as a filter over a
million messages.
"""


class FilterRows:
    """Picks the messages that match a filter."""

    def __init__(self, filter_: Filter) -> None:
        self.filter = filter_
        self._query = f"select place from batch where {Sql().condition(filter_.condition)}"  # noqa: S608 - made from the tree alone

    def prepare(self) -> None:
        """Loads what the first batch would otherwise wait for, which takes half a second."""
        from dcpinspect.tables.arrow import arrow_schema  # deferred, as below

        none = arrow_schema(self.filter.columns).empty_table()
        self.numbers([column.combine_chunks() for column in none.columns], np.empty(0, np.int64))

    def rows(self, batch: MessageBatch, rows: RowNumbers) -> RowNumbers:
        """Returns those of these messages that match the filter, in order."""
        if not len(rows):
            return rows
        # deferred: takes 0.1 s, and only filters need it
        from dcpinspect.tables.arrow import record_batch

        return self.numbers(record_batch(batch, rows, self.filter.columns).columns, rows)

    def numbers(self, columns: Sequence[Any], numbers: RowNumbers) -> RowNumbers:
        """Returns those of the rising numbers whose rows match. ``columns``: columns of the filter
        as Arrow arrays, chunked or not.
        """
        matches: RowNumbers = _query_result(self._query, self.filter.columns, columns, numbers)[
            "place"
        ]
        return np.sort(matches)


class FirstTrue:
    """Finds, for each message, the first of several filters that matches."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._columns = sorted({name for one_filter in filters for name in one_filter.columns})
        cases = " ".join(
            f"when {Sql().condition(one_filter.condition)} then {number}"
            for number, one_filter in enumerate(filters, 1)
        )
        self._query = f"select place, case {cases} else 0 end as first from batch"  # noqa: S608 - made from the trees alone

    def numbers(self, batch: MessageBatch, rows: RowNumbers) -> RowNumbers:
        """Returns, for each of these messages, the number of the first filter that matches, from 1;
        0: none matches.
        """
        first_filter = np.zeros(len(rows), np.int64)
        if len(rows):
            from dcpinspect.tables.arrow import record_batch  # deferred, as above

            columns = record_batch(batch, rows, self._columns).columns
            answer = _query_result(self._query, self._columns, columns, np.arange(len(rows)))
            first_filter[answer["place"]] = answer["first"]
        return first_filter


def _query_result(
    query: str, names: Sequence[str], columns: Sequence[Any], numbers: RowNumbers
) -> dict[str, Any]:
    """Returns the result of a query over a table ``batch`` of these columns, with ``numbers`` as
    its column ``place``.
    """
    import pyarrow as pa

    try:
        database = _idle.pop()  # no other thread uses it now
    except IndexError:
        database = connect(threads=1)  # a batch is computed in less time than threads need to start
    table = pa.Table.from_arrays([*columns, pa.array(numbers)], names=[*names, "place"])
    database.register("batch", table)
    answer: dict[str, Any] = database.execute(query).fetchnumpy()
    database.unregister("batch")
    _idle.append(database)  # a database in which something failed is not used again
    return answer
