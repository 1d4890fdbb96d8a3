"""The formats of results: a class each, registered in ``FORMATS``, where ``--format`` and names of
files are looked up.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dcpinspect.capture.folders import has_name_of_capture
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.export.target import ARROW_STREAM, TableWriter, Target
from dcpinspect.text import counted, escape, words_of

if TYPE_CHECKING:
    from dcpinspect.output.export.json import JsonArray
    from dcpinspect.output.export.message_writers import FirstTime, MessageWriter, WriterOptions
    from dcpinspect.tables.record_tables import Records

Painter = Callable[[str, str], str]
"""Takes a text and a style, and returns the text in that style."""


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """A result that has further forms besides its table; each form is made only on request."""

    lines: Callable[[Painter], Iterable[str]]
    records: Callable[[], Records]


class Format(ABC):
    """A form in which results are written. Everything that depends on the format is here, so a new
    format is one more class.
    """

    name: str
    suffixes: Sequence[str]
    """Endings of its files."""
    is_binary = False
    """Whether a terminal cannot show the format."""
    is_text = False
    """Whether the format has lines for people, who read best what fits into a line."""
    options: Sequence[str] = ()
    """Parameters of commands that this format uses, but not every format."""

    shows_whole = False
    """Whether messages are shown whole, unless columns are asked for."""
    may_repeat_names = False
    """Whether two columns may have the same name, and none is lost."""

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def table(self, target: Target, schema: Any, *, has_escapes: bool = False) -> TableWriter:
        """Returns the functions that write the record batches of a table with the columns of an
        Arrow schema.

        ``has_escapes``: texts have escapes for bytes that are not UTF-8. Raises UsageError for a
        column of a type that the format does not have.
        """

    def messages(
        self, target: Target, wishes: WriterOptions, first_time: FirstTime
    ) -> MessageWriter:
        """Returns the writer of messages. ``first_time`` returns the first packet's time in ns."""
        from dcpinspect.output.export.message_writers import (
            ColumnsWriter,  # deferred, as everything that formats need: --help does not need it
        )

        return ColumnsWriter(
            target,
            wishes,
            partial(self.table, target),
            is_text=self.is_text,
            is_binary=self.is_binary,
        )

    def write(
        self, target: Target, schema: Any, batches: Iterable[Any], *, has_escapes: bool = False
    ) -> None:
        """Writes a table to its end.

        Raises UsageError as ``table`` does, and for two columns of the same name if one of them
        would be lost.
        """
        twice = [name for name, count in Counter(schema.names).items() if count > 1]
        if twice and not self.may_repeat_names:
            raise UsageError(
                f"--format {self}: two columns are called {escape(twice[0])}; give one of them "
                "another name"
            )
        write, end = self.table(target, schema, has_escapes=has_escapes)
        try:
            for batch in batches:
                write(batch)
                target.flush()
        finally:
            end()

    def records(
        self, target: Target, records: Records, columns: Sequence[str] | None = None
    ) -> None:
        """Writes a table of records, with these columns or all."""
        table = records.arrow(columns)
        self.write(target, table.schema, table.to_batches(), has_escapes=True)

    def report(self, target: Target, report: ReportFormat) -> None:
        """Writes a report in this format's own form, or its table."""
        self.records(target, report.records())


class Text(Format):
    """Lines for people."""

    name = "text"
    suffixes = (".txt",)
    is_text = shows_whole = may_repeat_names = True
    options = words_of("verbose hex_grid time values check messages width ascii_ seqnos")

    def messages(
        self, target: Target, wishes: WriterOptions, first_time: FirstTime
    ) -> MessageWriter:
        """Returns the writer of one line per message, or of columns if they are asked for."""
        from dcpinspect.output.export.message_writers import LinesWriter

        if wishes.columns is None:
            return LinesWriter(target, wishes, first_time)
        return super().messages(target, wishes, first_time)

    def table(self, target: Target, schema: Any, *, has_escapes: bool = False) -> TableWriter:
        """Writes aligned columns, the heading first."""
        from dcpinspect.output.render.table import TextTable

        table = TextTable(schema, width=target.width(), has_escapes=has_escapes)
        paint = target.painter()
        styles = iter(["bold"])  # the first line is the heading

        def painted(lines: Iterable[str]) -> Iterator[str]:
            for line in lines:
                style = next(styles, "")
                # stands before the heading, because further rows may come only much later
                if style and table.hidden:
                    yield (
                        paint(
                            f"{counted(len(table.hidden), 'more column')}: ask for fewer, or for "
                            "--format csv",
                            "dim",
                        )
                        + "\n"
                    )
                yield paint(line, style) + "\n"

        def write_painted(lines: Iterable[str]) -> None:
            target.write("".join(painted(lines)).encode())

        return lambda batch: write_painted(table.lines(batch)), lambda: write_painted(table.end())

    def records(
        self, target: Target, records: Records, columns: Sequence[str] | None = None
    ) -> None:
        """Writes aligned columns, and below each row what does not fit the width."""
        from dcpinspect.output.render.record_lines import record_lines

        paint = target.painter()
        lines = record_lines(
            records.arrow(columns),
            columns or (),
            width=target.width(),
            is_folded=True,
            paint=paint if paint("x", "bold") != "x" else None,
        )
        target.write_piece("".join(paint(line, style) + "\n" for line, style in lines))

    def report(self, target: Target, report: ReportFormat) -> None:
        """Writes the lines of the report."""
        target.write_piece("".join(f"{line}\n" for line in report.lines(target.painter())))


class Json(Format):
    """An array of objects."""

    name = "json"
    suffixes: Sequence[str] = (".json",)
    shows_whole = True
    options: Sequence[str] = ("fields", "values", "max_bytes")

    def frame(self) -> JsonArray:
        """Returns the frame around the objects."""
        from dcpinspect.output.export.json import JsonArray

        return JsonArray()

    def messages(
        self, target: Target, wishes: WriterOptions, first_time: FirstTime
    ) -> MessageWriter:
        """Returns the writer of annotated objects, or of columns if they are asked for."""
        from dcpinspect.output.export.message_writers import JsonWriter

        if wishes.columns is None:
            return JsonWriter(target, wishes, self.frame())
        return super().messages(target, wishes, first_time)

    def table(self, target: Target, schema: Any, *, has_escapes: bool = False) -> TableWriter:
        """Writes an object per row."""
        from dcpinspect.output.export.json_table import json_objects

        frame = self.frame()
        return lambda batch: target.write_piece(
            frame.piece(json_objects(batch))
        ), lambda: target.write(frame.end())

    def records(
        self, target: Target, records: Records, columns: Sequence[str] | None = None
    ) -> None:
        """Writes the records of the contract; other formats write their Arrow form."""
        from dcpinspect.output.export.bounded import command_bound, fitted
        from dcpinspect.output.export.json_table import plain_json

        names = None if columns is None else {"schema", *columns}
        objects = (
            {key: value for key, value in record_object.items() if names is None or key in names}
            for record_object in records.records()
        )
        # the one record of info, and the like
        if len(records) == 1 and command_bound.room is not None:
            objects = (fitted(record_object, command_bound.room - 2) for record_object in objects)
        frame = self.frame()
        target.write_piece(frame.piece(map(plain_json, objects)) + frame.end())


class NdJson(Json):
    """One object per line."""

    name = "ndjson"
    suffixes = (".ndjson", ".jsonl")
    options = ("fields", "values", "check", "max_bytes")

    def frame(self) -> JsonArray:
        """Returns the frame around the objects, which only has line ends."""
        from dcpinspect.output.export.json import JsonLines

        return JsonLines()


class Csv(Format):
    """One line per row, the names of the columns first."""

    name = "csv"
    suffixes = (".csv",)
    may_repeat_names = True
    options = ("csv_guard",)

    def messages(
        self, target: Target, wishes: WriterOptions, first_time: FirstTime
    ) -> MessageWriter:
        """Returns the writer of columns; by default of the columns that fit into cells."""
        from dcpinspect.output.export.csv_rows import DEFAULT_COLUMNS, CsvRows

        return CsvRows(target, wishes.columns or DEFAULT_COLUMNS)

    def table(self, target: Target, schema: Any, *, has_escapes: bool = False) -> TableWriter:
        """Writes cells in the form of ``csv``."""
        from dcpinspect.output.export.csv import csv_lines
        from dcpinspect.output.export.csv_rows import csv_heading

        target.write_piece(csv_heading(schema.names))
        return lambda batch: target.write_network_text(
            csv_lines(batch, guard=target.guards_csv)
        ), lambda: None


class Parquet(Format):
    """Columns for data frames, compressed."""

    name = "parquet"
    suffixes = (".parquet",)
    is_binary = True

    def table(self, target: Target, schema: Any, *, has_escapes: bool = False) -> TableWriter:
        """Writes row groups while the rows come."""
        from dcpinspect.output.export.columnar import ParquetFile

        file = ParquetFile(target, schema)
        return file.write, file.close


class Arrow(Format):
    """Columns in their form in memory, in a file with an index, or in a stream if the file can only
    be read from start to end.
    """

    name = "arrow"
    suffixes = (".arrow", ARROW_STREAM)
    is_binary = True

    def table(self, target: Target, schema: Any, *, has_escapes: bool = False) -> TableWriter:
        """Writes record batches as they come."""
        from dcpinspect.output.export.columnar import ArrowFile

        file = ArrowFile(target, schema, is_stream=target.is_stream)
        return file.write, file.close


TEXT = Text()
JSON = Json()
FORMATS: dict[str, Format] = {
    format_.name: format_ for format_ in (TEXT, JSON, NdJson(), Csv(), Parquet(), Arrow())
}
"""Formats of all commands, by name."""
SUFFIXES = {suffix: format_ for format_ in FORMATS.values() for suffix in format_.suffixes}
"""Formats by the endings of their files."""


def format_of(path: str) -> Format:
    """Returns the format that a file's name asks for. Raises UsageError with known endings."""
    suffix = os.path.splitext(path)[1]
    if suffix.lower() in SUFFIXES:
        return SUFFIXES[suffix.lower()]
    problem = f"no format has names in {escape(suffix)}" if suffix else "its name says no format"
    packets = (
        "'dcpinspect read CAPTURE -w FILE' writes packets; for a table "
        if has_name_of_capture(path)
        else ""
    )
    raise UsageError(
        f"{escape(path)}: {problem}; {packets}end it in {', '.join(SUFFIXES)}, or give --format"
    )
