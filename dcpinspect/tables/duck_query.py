"""A query in SQL and its result, in a DuckDB without access to else. Errors are one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from dcpinspect.closable import Closable
from dcpinspect.errors import PlacedError, UsageError
from dcpinspect.tables.arrow_types import in_pieces
from dcpinspect.tables.duckdb import connect
from dcpinspect.temporary import new_folder, remove
from dcpinspect.text import did_you_mean, one_line

MEMORY = "1GiB"
"""Greatest amount of memory that DuckDB may use at a time."""
SLICE = 1 << 14
"""Number of rows of a scanned table that are made at once."""
AT_ONCE = 1 << 11
"""Number of rows of a result that DuckDB hands over at once, as many as it computes at once; of
values of a MiB, Arrow takes no more.
"""
MOST_BYTES = 64 << 20
"""Greatest size in bytes of a batch of a result, and so of one row: as Python objects, and as text,
it takes several times as much.
"""


class DuckQuery(Closable):
    """A query with a database of its own; the caller adds tables to it. Use as a context manager;
    the result ends with the context.
    """

    def __init__(self, text: str, tables: Collection[str], **settings: int) -> None:
        """Opens the database. ``tables``: names that errors suggest. ``settings``: of DuckDB."""
        self._text = text
        self._names = tables
        self._folder = new_folder()
        self.database = connect(memory_limit=MEMORY, temp_directory=self._folder, **settings)

    @property
    def failure(self) -> Exception | None:
        """The exception that ended a scan of a table; DuckDB knows only its text."""
        return None

    def close(self) -> None:
        """Closes the database, and removes its temporary files."""
        self.database.close()
        remove(self._folder)

    def result(self) -> QueryRows:
        """Returns the rows of the last statement, after running those before it.

        Raises UsageError for what DuckDB refuses, at its place if known.
        """
        # these characters stand for bytes that are not UTF-8
        if any("\ud800" <= character <= "\udfff" for character in self._text):
            raise UsageError(
                "query: it is not UTF-8; other keys are compared as bytes, as in key_bytes = "
                "'\\xff'::blob"
            )
        statements = self._own_errors(
            self._text, lambda: self.database.extract_statements(self._text)
        )
        if not statements:
            raise UsageError(
                "the query is empty; write one, as in select name, count(*) from messages "
                "group by name"
            )
        if any(statement.type is duckdb.StatementType.SELECT for statement in statements[:-1]):
            raise UsageError(
                "query: only the rows of the last statement are printed; give each select to a "
                "command of its own"
            )
        *before, last = (statement.query for statement in statements)
        for text in before:
            self._own_errors(text, partial(self._done, text))
        reader = self._own_errors(last, lambda: self.database.sql(last).to_arrow_reader(AT_ONCE))
        return QueryRows(reader, lambda step: self._own_errors(last, step))

    def _done(self, text: str) -> None:
        self.database.execute(text).fetchall()

    def _own_errors(self, text: str, step: Callable[[], Any]) -> Any:
        """Returns the result of ``inlined``, or turns its failure into one of our exceptions."""
        try:
            return step()
        except (
            duckdb.Error,
            pa.ArrowException,
            OSError,
            RuntimeError,
        ) as error:  # Arrow uses Python's own for wrong input
            if self.failure is not None:
                raise self.failure from None
            if type(error) is RuntimeError:
                raise
            raise self._explained(text, error) from error

    def _explained(self, text: str, error: Exception) -> UsageError:
        """Returns an error of DuckDB in a line, with the place in the text that it is about."""
        if isinstance(error, duckdb.OutOfMemoryException):
            return UsageError(
                f"query: it needs more than {MEMORY} of memory at once, for a list or text "
                "that cannot wait on disk; ask for less"
            )
        reason, position = self._text_and_position(error)
        if position is None and isinstance(error, duckdb.Error):
            prefix = "explain "
            try:  # errors of relations lack the place, but errors of explain have it
                self.database.execute(prefix + text)
            except duckdb.Error as again:
                same, again_at = self._text_and_position(again)
                position = (
                    again_at - len(prefix) if same == reason and again_at is not None else None
                )
        if position is None or not 0 <= position <= len(text.encode()):
            return UsageError(f"query: {reason}")
        return PlacedError(
            "query", reason, text, len(text.encode()[:position].decode(errors="ignore"))
        )

    def _text_and_position(self, error: Exception) -> tuple[str, int | None]:
        """Returns the text of an error of DuckDB on one line, and the byte of the query that it is
        about, if the error says so.
        """
        text = str(error)
        try:
            details = json.loads(text[text.index("{") :])
            reason, position = details["exception_message"], details.get("position")
        except (ValueError, KeyError, TypeError):
            reason, position = text.partition(" Error: ")[2] or text, None
        for theirs, ours in _OUR_WORDS:
            reason = re.sub(theirs, ours, reason)
        if (refused := _TO_CHANGE.match(reason)) is not None and (
            refused[1] or refused[2]
        ) in self._names:
            reason = _UNCHANGED
        reason = re.sub(
            r"(?s)(Table with name (.+) does not exist!).*",
            lambda refused: f"{refused[1]} {self._tables_like(refused[2])}",
            reason,
        )
        return one_line(reason), int(position) if position is not None else None

    def _tables_like(self, name: str) -> str:
        """Returns the names that may be meant by an unknown table; DuckDB itself would name its own
        catalogues.
        """
        close = did_you_mean(name, self._names)
        return close.replace("; d", "D") if close else f"There are {', '.join(self._names)}"


_UNCHANGED = (
    "tables of captures cannot be changed; make one of your own, as in create table t as "
    "from messages"
)
_TO_CHANGE = re.compile(
    r'Existing object "(.+)" is of type View, trying to|View with name "(.+)" already exists'
)
"""What DuckDB says of a table of captures, a view there, that shall be dropped or made."""
_OUR_WORDS = (
    (
        "file system operations are disabled by configuration",
        "queries reach the tables of the captures, and nothing else",
    ),
    (r'\s*Use "SET .*', ""),  # users cannot change settings
    (r"^\S+ is not an table$", _UNCHANGED),
    ("^Can only (update|delete from) base table$", _UNCHANGED),
    ("^Can only modify view with ALTER VIEW statement$", _UNCHANGED),
    (
        r"(?s)^(Could not convert string .* to U?INT\d+)$",
        r"\1: compare with a number; 'dcpinspect explain COLUMN' lists those that have names",
    ),
)


class QueryRows:
    """The rows of a result, record batch by record batch; ``schema`` has its columns."""

    def __init__(self, reader: Any, raising: Callable[[Callable[[], Any]], Any]) -> None:
        self.schema = reader.schema
        self._reader = reader
        self._raising = raising

    def __iter__(self) -> Iterator[Any]:
        """Yields the record batches. Raises UsageError for errors that only making rows shows."""
        batches = iter(self._reader)
        while (batch := self._raising(lambda: next(batches, None))) is not None:
            for piece in in_pieces(batch, MOST_BYTES):
                if piece.nbytes > MOST_BYTES:
                    raise UsageError(
                        f"query: a row of its result has {piece.nbytes >> 20:,} MiB, and the most "
                        f"is {MOST_BYTES >> 20}; ask for less, or for several rows"
                    )
                yield piece
