"""The tables made from messages (connections, streams, snapshots, gaps, vbuckets): their columns,
as Arrow and as records.

Records always have every key; it is null if it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.tables.column_kinds import Column, arrow_type
from dcpinspect.text import name_text

GREATEST = 2**64 - 1
"""A number that programs which count in doubles, as jq, would round; columns where it stands for
something else have a word for it.
"""
FILE = Column("file", "text", "capture that the record begins in")
"""Further column of every record if several captures are read."""


@dataclass(frozen=True, slots=True)
class RecordTable:
    """A kind of record."""

    name: str
    """Name of one record: ``stream``."""
    columns: tuple[Column, ...]
    version: int = 1
    """Version of its JSON, which changes when a key means something else."""

    @property
    def schema(self) -> str:
        """Name and version of the contract."""
        return f"dcpinspect.{self.name}/{self.version}"

    @property
    def with_file(self) -> RecordTable:
        """The table with the column of the capture, for readings of several captures."""
        return RecordTable(self.name, (*self.columns, FILE), self.version)


@dataclass(frozen=True, slots=True)
class WordColumn:
    """A column of words, each as its number in a list; -1 is null."""

    codes: IntArray
    words: Sequence[Any]


@dataclass(frozen=True, slots=True)
class LazyColumn:
    """A column whose values are made only on request: sentences, lists."""

    size: int
    make: Callable[[IntArray], Sequence[Any]]
    """Returns the values of some rows."""
    arrow: Callable[[IntArray], Any] | None = None
    """Returns the values as an Arrow array, if this is faster than to convert them."""

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        """Pickles the values: what makes them needs the reading."""
        return list, (list(self.make(np.arange(self.size))),)


ColumnValues = NumberColumn | WordColumn | LazyColumn | Sequence[Any]
"""Numbers with a mask for null, words, values made on request, or plain values with None for null.
"""


class Records:
    """The rows of a table, by column."""

    def __init__(
        self,
        table: RecordTable,
        columns: Mapping[str, ColumnValues],
        size: int,
        *,
        file: IntArray | None = None,
    ) -> None:
        """``columns``: one for each of the table's columns, with ``size`` values.

        ``file``: number of the capture that each row begins in.
        """
        self.table = table
        self.columns = columns
        self._size = size
        self._file = np.full(size, -1) if file is None else file

    @classmethod
    def of_rows(cls, table: RecordTable, rows: Sequence[Mapping[str, Any]]) -> Self:
        """Returns these rows as a table; a column that a row does not have is null."""
        columns = {column.name: [row.get(column.name) for row in rows] for column in table.columns}
        return cls(table, columns, len(rows))

    def __len__(self) -> int:
        return self._size

    def values(self, name: str) -> list[Any]:
        """Returns a column as plain values, null as None."""
        return _plain_values(self.columns[name])

    def rows(self, *names: str) -> Iterator[Any]:
        """Yields the values of these columns, or of all, row by row."""
        return zip(*map(self.values, names or self.names), strict=True)

    def row_dicts(self, *names: str) -> list[dict[str, Any]]:
        """Returns the same with the names of the columns."""
        names = names or self.names
        return [dict(zip(names, row, strict=True)) for row in self.rows(*names)]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(column.name for column in self.table.columns)

    def rows_with(self, name: str, value: Any) -> IntArray:
        """Returns the rows that have this value in a column."""
        values = self.columns[name]
        if isinstance(values, WordColumn):
            return np.flatnonzero(
                np.isin(
                    values.codes, [code for code, word in enumerate(values.words) if word == value]
                )
            )
        if isinstance(values, NumberColumn):
            return np.flatnonzero((values.values == value) & values.is_known)
        return np.array(
            [row for row, row_value in enumerate(self.values(name)) if row_value == value],
            dtype=np.int64,
        )

    def has_values(self, name: str) -> bool:
        """Whether a column has a value that is not null."""
        values = self.columns[name]
        if isinstance(values, NumberColumn):
            return len(self) > 0 if values.valid is None else bool(values.valid.any())
        if isinstance(values, WordColumn):
            return bool((values.codes >= 0).any())
        if isinstance(values, LazyColumn):
            return any(values.make(np.array([row]))[0] is not None for row in range(values.size))
        return any(value is not None for value in values)

    def records(self) -> list[dict[str, Any]]:
        """Returns all rows in order, with the keys of the contract, ready for JSON."""
        columns = [
            [_plain(column, value) for value in self.values(column.name)]
            for column in self.table.columns
        ]
        names = ["schema", *(column.name for column in self.table.columns)]
        return [
            dict(zip(names, (self.table.schema, *row), strict=True))
            for row in zip(*columns, strict=True)
        ]

    def take(self, rows: IntArray) -> Records:
        """Returns some of the rows, in the given order."""
        columns = {name: _taken(values, rows) for name, values in self.columns.items()}
        return Records(self.table, columns, len(rows), file=self._file[rows])

    def view(self, rows: IntArray) -> Records:
        """Returns the same as ``take``, with each column taken whenever it is asked for: for a few
        rows of each of many streams, that is less work and memory.
        """
        return Records(self.table, _Columns(self.columns, rows), len(rows), file=self._file[rows])

    def with_file(self, files: Sequence[str]) -> Records:
        """Returns the same rows with the name of the capture that each begins in. ``files``: all
        captures of the reading.
        """
        return Records(
            self.table.with_file,
            {**self.columns, FILE.name: WordColumn(self._file, [*map(name_text, files)])},
            self._size,
            file=self._file,
        )

    def with_column(self, name: str, values: ColumnValues) -> Records:
        """Returns the same rows with other values in a column."""
        return Records(self.table, {**self.columns, name: values}, self._size, file=self._file)

    def head(self, size: int) -> Records:
        """Returns the first rows."""
        return self if size >= len(self) else self.take(np.arange(size))

    def arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Returns all rows as a ``pyarrow.Table``, with these columns or all; a time in
        microseconds has a further column ``…_ns`` with all digits.
        """
        import pyarrow as pa  # deferred: not everyone who tracks streams exports them

        arrays, fields = [], []
        for column in self.table.columns:
            if (
                columns is not None
                and column.name not in columns
                and f"{column.name}_ns" not in columns
            ):
                continue  # sentences and lists take time to make
            for name, kind, values in _arrow_columns(column, self.columns[column.name]):
                arrays.append(
                    values
                    if isinstance(values, (pa.Array, pa.ChunkedArray))
                    else pa.array(values, kind)
                )
                fields.append(pa.field(name, kind))
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        return table if columns is None else table.select(list(columns))


def time_text(time_ns: int) -> str:
    """Writes a time as RFC 3339 with nine digits, in UTC."""
    seconds, fraction = divmod(time_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def hex64(value: int) -> str:
    """Writes a CAS or a UUID as in JSON."""
    return f"0x{value & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def worded(values: ColumnValues) -> WordColumn:
    """Returns a column of words as ``WordColumn``, whatever its form."""
    if isinstance(values, WordColumn):
        return values
    plain = _plain_values(values)
    words = list(dict.fromkeys(word for word in plain if word is not None))
    codes = {word: number for number, word in enumerate(words)}
    return WordColumn(np.array([codes.get(word, -1) for word in plain], dtype=np.int64), words)


def counted(numbers: IntArray, words: Sequence[str], *, with_zeros: bool = False) -> LazyColumn:
    """Returns a column of counts by word; ``numbers`` has a column for each word. ``with_zeros``:
    includes counts of 0.
    """

    def plain(rows: IntArray) -> list[dict[str, int]]:
        several = (zip(words, row, strict=True) for row in numbers[rows].tolist())
        return [{word: number for word, number in row if number or with_zeros} for row in several]

    def arrow(rows: IntArray) -> Any:
        import pyarrow as pa  # deferred, as above

        chunk = numbers[rows]
        row, word = np.nonzero((chunk != 0) | with_zeros)
        ends = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=len(rows))))).astype(
            np.int32
        )
        return pa.MapArray.from_arrays(
            ends,
            pa.array(words, pa.string()).take(pa.array(word)),
            pa.array(chunk[row, word], pa.int64()),
        )

    return LazyColumn(len(numbers), plain, arrow)


class _Columns(Mapping[str, ColumnValues]):
    """Some rows of columns."""

    def __init__(self, columns: Mapping[str, ColumnValues], rows: IntArray) -> None:
        self._columns, self._rows = columns, rows

    def __getitem__(self, name: str) -> ColumnValues:
        return _taken(self._columns[name], self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _taken(values: ColumnValues, rows: IntArray) -> ColumnValues:
    if isinstance(values, NumberColumn):
        return values.take(rows)
    if isinstance(values, WordColumn):
        return WordColumn(values.codes[rows], values.words)
    if isinstance(values, LazyColumn):
        arrow = values.arrow
        return LazyColumn(
            len(rows),
            lambda some: values.make(rows[some]),
            None if arrow is None else lambda some: arrow(rows[some]),
        )
    return [values[row] for row in rows.tolist()]


def _plain_values(values: ColumnValues) -> list[Any]:
    if isinstance(values, NumberColumn):
        plain: list[Any] = values.values.tolist()
        if values.valid is None:
            return plain
        return [
            plain_value if ok else None
            for plain_value, ok in zip(plain, values.valid.tolist(), strict=True)
        ]
    if isinstance(values, WordColumn):
        words = [*values.words, None]
        return [words[code] for code in values.codes.tolist()]
    if isinstance(values, LazyColumn):
        return list(values.make(np.arange(values.size)))
    return list(values)


def _plain(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column.kind == "hex64":
        return hex64(value)
    if column.kind == "u64" and column.words and value == GREATEST:
        return column.words[0]
    if column.kind == "time":
        return time_text(value)
    if column.kind == "log":
        return [{"uuid": hex64(uuid), "seqno": seqno} for uuid, seqno in value]
    return value


def _arrow_columns(column: Column, values: ColumnValues) -> list[tuple[str, Any, Any]]:
    import pyarrow as pa  # deferred, as above

    kind = arrow_type(column)
    if isinstance(values, WordColumn):
        # there may be more words than rows
        used, codes = np.unique(values.codes, return_inverse=True)
        words = [values.words[code] for code in used[used >= 0].tolist()]
        of_row = codes.reshape(-1) - int((used < 0).any())
        return [
            (
                column.name,
                kind,
                pa.array(_for_arrow(column, words), kind).take(pa.array(of_row, mask=of_row < 0)),
            )
        ]
    if isinstance(values, NumberColumn) and column.kind == "hex64":
        from dcpinspect.tables.arrow_types import hex64 as hex_texts  # deferred, as above

        return [(column.name, kind, hex_texts(values))]
    if isinstance(values, NumberColumn) and column.kind in ("i64", "u64", "time"):
        mask = None if values.valid is None else ~values.valid
        if column.kind == "time":
            exact = pa.array(values.values, pa.int64(), mask=mask)
            return [
                (column.name, kind, pa.array(values.values // 1000, kind, mask=mask)),
                (f"{column.name}_ns", pa.int64(), exact),
            ]
        return [(column.name, kind, pa.array(values.values, kind, mask=mask))]
    if isinstance(values, LazyColumn) and values.arrow is not None:
        return [(column.name, kind, values.arrow(np.arange(values.size)))]
    plain = _plain_values(values)
    if column.kind == "time":
        micros = [None if value is None else value // 1000 for value in plain]
        return [(column.name, kind, micros), (f"{column.name}_ns", pa.int64(), plain)]
    return [(column.name, kind, _for_arrow(column, plain))]


def _for_arrow(column: Column, plain: Sequence[Any]) -> list[Any]:
    """Returns plain values in the form from which an array of the column's type is made."""
    if column.kind in ("object", "objects", "cases"):
        import orjson  # deferred: few columns are objects

        return [None if value is None else orjson.dumps(value).decode() for value in plain]
    if column.kind in ("controls", "counts"):
        return [None if value is None else list(value.items()) for value in plain]
    if column.kind == "u64":
        return list(plain)  # a number for "no end", too
    return [_plain(column, value) for value in plain]
