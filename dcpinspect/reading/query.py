"""SQL over the tables of captures: DuckDB's language, limited to these tables.

``messages`` is no copy. Each scan of it reads the captures from the start, makes only the columns
that the scan asks for, and applies the conditions that DuckDB hands down. So a query over any
capture needs the memory of its result and of what it sorts or groups. Of that it uses no more than
MEMORY: the rest goes to a temporary folder. The tables of streams are made once, when the first of
them is asked for, and kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from dcpinspect.capture.byte_source import STDIN
from dcpinspect.closable import Closable
from dcpinspect.errors import UsageError
from dcpinspect.findings.finding_records import CONTRACTS, needs_rules
from dcpinspect.findings.logs.log_events import event_records
from dcpinspect.findings.logs.log_reading import LogReading
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Packets, Reading
from dcpinspect.tables.arrow import arrow_schema, record_batch
from dcpinspect.tables.duck_query import SLICE, DuckQuery
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.record_tables import Records
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.tables.select import Selection
from dcpinspect.tables.times import TimeSpan


class QueriedCaptures(Closable):
    """Captures that a query reads, from the start for each scan. Use as a context manager."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        extra_ports: Sequence[int] = (),
        find_ports: bool = False,
        redactor: Redactor | None = None,
        span: TimeSpan | None = None,
    ) -> None:
        """Opens the captures. Raises CaptureError if a file cannot be read at all. The options are
        those of ``Reading``.

        ``redactor``: queries see its replacements for keys, and cannot tell what was there.
        ``span``: tables have what goes on in this span of time; all of the captures is read for
        that.
        """
        self.span = span
        self._redactor = redactor
        self._open: Callable[[], Reading] = lambda: Reading(
            paths, extra_ports=extra_ports, find_ports=find_ports
        )
        self.can_repeat = STDIN not in paths
        """Whether a second scan is possible: standard input flows by once."""
        self.readings = [self._open()]
        """One reading for each scan, and at least one."""
        self.scans = 0
        self.is_whole = False
        """Whether a scan came to the end of the captures."""
        self.failure: Exception | None = None
        """What ended a scan; DuckDB only knows its text."""
        self._tables: dict[str, Records] = {}
        self._has_findings = False
        self._one_makes_tables = Lock()
        self._end: int | None = None
        """Number of messages that the tables have, once a scan came to their end."""

    def close(self) -> None:
        """Frees the files."""
        for reading in self.readings:
            reading.capture.close()

    @property
    def source(self) -> Packets:
        """The files of the latest scan, and how far it is."""
        return self.readings[-1].capture

    def messages(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yields record batches of these columns of the messages, by one scan. Raises UsageError if
        no second scan is possible.
        """
        selection = Selection(span=self.span)
        with self._noting():
            for batch, count in self._scan(self._reading()):
                selected = selection.rows(batch)
                selected = selected[selected < count]
                for first in range(0, len(selected), SLICE):
                    yield record_batch(batch, selected[first : first + SLICE], columns)

    def records(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """Returns a table that is made from all messages, as a ``pyarrow.Table`` of these columns
        or all. Raises UsageError as ``messages`` does.
        """
        with self._one_makes_tables, self._noting():
            checks = needs_rules(name, columns) and not self._has_findings
            if not self._tables or checks:
                reading = self._reading()
                if checks or not self.can_repeat:
                    reading.check(redactor=self._redactor)
                    self._has_findings = True
                else:
                    reading.track(self._redactor)
                for _ in self._scan(reading):
                    pass
                self._tables = self._within(reading, reading.by_name())
        return self._tables[name].arrow(columns)

    def _within(self, reading: Reading, tables: dict[str, Records]) -> dict[str, Records]:
        """Returns the tables within the span of time, as the commands of tables select it."""
        if self.span is None:
            return tables
        from dcpinspect.findings.finding_records import finding_records
        from dcpinspect.findings.span import Span
        from dcpinspect.tables.record_rows import RecordSelection

        time = Span.from_bounds(
            self.span.within(reading.earliest_ns, reading.last_time_ns), reading.links
        )
        selected = {
            name: RecordSelection(bounds=time.bounds).matching(table)
            for name, table in tables.items()
            if name != "findings"
        }
        if "findings" in tables:
            names = reading.files
            selected["findings"] = finding_records(
                reading.findings(wanted=time.has_case_or_effect), names
            )
        return selected

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failure = error
            raise

    def _reading(self) -> Reading:
        """Returns a reading that has not begun."""
        self.scans += 1
        if self.scans > 1:
            if not self.can_repeat:
                raise UsageError(
                    "standard input can be read once, and the query reads it more often; write it "
                    "to a file, or, if it is messages that it reads twice, begin it with: with m "
                    "as materialized (from messages), and read m"
                )
            self.readings.append(self._open())
        return self.readings[-1]

    def _scan(self, reading: Reading) -> Iterator[tuple[MessageBatch, int]]:
        source, rows_given = iter(reading), 0
        while self._end is None or rows_given < self._end:
            batch = next(source, None)
            if batch is None:
                self.is_whole, self._end = True, rows_given
                return
            count = len(batch) if self._end is None else min(len(batch), self._end - rows_given)
            rows_given += count
            yield batch.redacted(self._redactor), count


class ScannedTable(pyarrow.dataset.InMemoryDataset):  # type: ignore[misc]  # Arrow has no types
    """A table whose rows are made anew by each scan. To DuckDB it is a dataset; DuckDB says what
    columns and rows it wants.
    """

    def __init__(self, schema: Any, rows: Callable[[Sequence[str]], Iterator[Any]]) -> None:
        """``rows(columns)``: returns record batches of these columns of ``schema``."""
        super().__init__(schema.empty_table())
        self._rows = rows

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> Any:  # noqa: A002 - DuckDB's words
        """Returns what DuckDB asks for: ``to_reader()`` of these columns, where ``filter``, an
        Arrow expression, is true.
        """
        names = self.schema.names if columns is None else list(columns)
        # An expression does not say which columns it reads; its text has all their names.
        read = set() if filter is None else set(re.findall(r"\w+", str(filter)))
        batches = self._rows([name for name in self.schema.names if name in read.union(names)])
        filtered = (batch if filter is None else batch.filter(filter) for batch in batches)
        schema = pa.schema([self.schema.field(name) for name in names])
        selected = (batch.select(names) for batch in filtered)
        reader = pa.RecordBatchReader.from_batches(schema, selected)
        return SimpleNamespace(to_reader=lambda: reader)


def _schema(name: str) -> Any:
    return (
        Records(CONTRACTS[name], {column.name: () for column in CONTRACTS[name].columns}, 0)
        .arrow()
        .schema
    )


TABLES = ("messages", *CONTRACTS)
"""Names of the tables that queries know."""


class Query(DuckQuery):
    """One text of SQL over the tables of captures, and its result."""

    def __init__(
        self,
        text: str,
        messages: Callable[[Sequence[str]], Iterator[Any]],
        table: Callable[[str, Sequence[str]], Any],
    ) -> None:
        """``messages``: yields record batches of these columns. ``table``: returns columns of a
        table, by its name.
        """
        super().__init__(text, TABLES)
        self.register("messages", ScannedTable(arrow_schema(list(BY_NAME)), messages))
        for name in CONTRACTS:
            self.register(name, ScannedTable(_schema(name), partial(_rows, table, name)))

    def register(self, name: str, table: ScannedTable) -> None:
        """Lets the text refer to a table under this name."""
        self.database.register(name, table)


def _rows(
    table: Callable[[str, Sequence[str]], Any], name: str, columns: Sequence[str]
) -> Iterator[Any]:
    yield from table(name, columns).to_batches(SLICE)


class ScannedQuery(Query):
    """The same over captures that each scan reads from the start."""

    def __init__(self, text: str, captures: QueriedCaptures) -> None:
        self._captures = captures
        super().__init__(text, captures.messages, captures.records)

    @property
    def failure(self) -> Exception | None:
        """What ended a scan of the captures."""
        return self._captures.failure

    def register_events(self, logs: Sequence[str]) -> None:
        """Lets the text refer to what these logs say, as ``log_events``. Raises CaptureError if a
        log cannot be read.
        """
        events = event_records(chain.from_iterable(map(LogReading, logs))).arrow()

        def rows(columns: Sequence[str]) -> Iterator[Any]:
            yield from events.select(list(columns)).to_batches(SLICE)

        self.register("log_events", ScannedTable(events.schema, rows))
