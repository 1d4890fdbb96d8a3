"""The formats that results are written in: a class each, registered in ``FORMATS``, where ``--format`` and names of files find it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dcpinspect.capture.folders import has_name_of_capture
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape
from dcpinspect.export.target import ARROW_STREAM, TableWriter, Target

if TYPE_CHECKING:
    from dcpinspect.export.json import JsonArray
    from dcpinspect.export.message_writers import FirstTime, MessageWriter, Wishes
    from dcpinspect.tables.records import Records

Paint = Callable[[str, str], str]
"""(text, style) -> text."""


@dataclass(frozen=True, slots=True)
class Report:
    """What has forms of its own besides its table; each is made when it is asked for."""

    lines: Callable[[Paint], Iterable[str]]
    records: Callable[[], Records]
    sarif: Callable[[], dict[str, Any]] | None = None
    """Findings have it."""


class Format(ABC):
    """A form that results are written in. All that depends on the format is here, so that a new one is one class more."""

    name: str
    suffixes: Sequence[str]
    """What names of its files end in."""
    is_binary = False
    """A terminal can do nothing with it."""
    is_text = False
    """Its lines are for people, who see best what fits a line."""
    options: Sequence[str] = ()
    """Parameters of commands that this format does something with, and not every format."""

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def report(self, target: Target, report: Report, *, guard: bool = True) -> None:
        """Write a report in the form that this format has for it. ``guard``: as for ``TableFormat.table``."""


class TableFormat(Format):
    """A form of messages and tables."""

    shows_whole = False
    """Messages are shown whole, unless columns are asked for."""
    may_repeat_names = False
    """Two columns may have one name, and none is lost."""

    @abstractmethod
    def table(self, target: Target, schema: Any, *, guard: bool = True, has_escapes: bool = False) -> TableWriter:
        """What writes the record batches of a table with the columns of an Arrow schema.

        ``guard``: CSV with an apostrophe before texts that a spreadsheet would run. ``has_escapes``: texts have them for bytes that are
        no UTF-8. Raises UsageError for a column of a type that the format cannot have.
        """

    def messages(self, target: Target, wishes: Wishes, first_time: FirstTime) -> MessageWriter:
        """What writes messages. ``first_time`` tells the time of the first packet, in nanoseconds."""
        from dcpinspect.export.message_writers import ColumnsWriter  # deferred, as all that formats need: --help does without

        return ColumnsWriter(target, wishes, partial(self.table, target), is_text=self.is_text, is_binary=self.is_binary)

    def write(self, target: Target, schema: Any, batches: Iterable[Any], *, guard: bool = True, has_escapes: bool = False) -> None:
        """Write a table to the end, or until ``target`` pauses for good: it is complete with the rows written until then.

        Raises UsageError as ``table``, and for two columns of one name where one of them would be lost.
        """
        twice = [name for name, count in Counter(schema.names).items() if count > 1]
        if twice and not self.may_repeat_names:
            raise UsageError(f"--format {self}: two columns are called {escape(twice[0])}; give one of them another name")
        write, end = self.table(target, schema, guard=guard, has_escapes=has_escapes)
        try:
            for batch in batches:
                write(batch)
                target.flush()
                target.pause()
        finally:
            end()
            target.is_complete = True

    def records(self, target: Target, records: Records, columns: Sequence[str] | None = None, *, guard: bool = True) -> None:
        """Write a table of records: these columns, or all."""
        table = records.arrow(columns)
        self.write(target, table.schema, table.to_batches(), guard=guard, has_escapes=True)

    def report(self, target: Target, report: Report, *, guard: bool = True) -> None:
        """Write its table."""
        self.records(target, report.records(), guard=guard)


class Text(TableFormat):
    """Lines for people."""

    name = "text"
    suffixes = (".txt",)
    is_text = shows_whole = may_repeat_names = True
    options = ("verbose", "hex_grid", "time", "values", "check", "messages", "width", "ascii_", "seqnos")

    def messages(self, target: Target, wishes: Wishes, first_time: FirstTime) -> MessageWriter:
        """A line each, unless columns are asked for."""
        from dcpinspect.export.message_writers import LinesWriter

        return LinesWriter(target, wishes, first_time) if wishes.columns is None else super().messages(target, wishes, first_time)

    def table(self, target: Target, schema: Any, *, guard: bool = True, has_escapes: bool = False) -> TableWriter:
        """Columns below each other, the heading first."""
        from dcpinspect.render.lines import counted
        from dcpinspect.render.table import TextTable

        table = TextTable(schema, width=target.width(), has_escapes=has_escapes)
        paint = target.painter()
        styles = iter(["bold"])  # the heading comes first

        def painted(lines: Iterable[str]) -> Iterator[str]:
            for line in lines:
                style = next(styles, "")
                if style and table.left_out:  # before the heading: rows may come for long
                    yield paint(f"{counted(table.left_out, 'more column')}: ask for fewer, or for --format csv", "dim") + "\n"
                yield paint(line, style) + "\n"

        def put(lines: Iterable[str]) -> None:
            target.write("".join(painted(lines)).encode())

        return lambda batch: put(table.lines(batch)), lambda: put(table.end())

    def report(self, target: Target, report: Report, *, guard: bool = True) -> None:
        """Write its lines."""
        target.put("".join(f"{line}\n" for line in report.lines(target.painter())))
        target.is_complete = True


class Json(TableFormat):
    """An array of objects."""

    name = "json"
    suffixes: Sequence[str] = (".json",)
    shows_whole = True
    options: Sequence[str] = ("fields", "values")

    def frame(self) -> JsonArray:
        """What stands around the objects."""
        from dcpinspect.export.json import JsonArray

        return JsonArray()

    def messages(self, target: Target, wishes: Wishes, first_time: FirstTime) -> MessageWriter:
        """Annotated objects, unless columns are asked for."""
        from dcpinspect.export.message_writers import JsonWriter

        return JsonWriter(target, wishes, self.frame()) if wishes.columns is None else super().messages(target, wishes, first_time)

    def table(self, target: Target, schema: Any, *, guard: bool = True, has_escapes: bool = False) -> TableWriter:
        """An object a row."""
        from dcpinspect.export.json_table import json_objects

        frame = self.frame()
        return lambda batch: target.put(frame.all(json_objects(batch))), lambda: target.write(frame.end())

    def records(self, target: Target, records: Records, columns: Sequence[str] | None = None, *, guard: bool = True) -> None:
        """Write the records of the contract, which other formats have in their Arrow form."""
        from dcpinspect.export.json_table import plain_json

        kept = None if columns is None else {"schema", *columns}
        objects = ({key: value for key, value in one.items() if kept is None or key in kept} for one in records.records())
        frame = self.frame()
        target.put(frame.all(map(plain_json, objects)) + frame.end())
        target.is_complete = True


class NdJson(Json):
    """An object a line."""

    name = "ndjson"
    suffixes = (".ndjson", ".jsonl")
    options = ("fields", "values", "check")

    def frame(self) -> JsonArray:
        """What stands around the objects: the end of the line."""
        from dcpinspect.export.json import JsonLines

        return JsonLines()


class Csv(TableFormat):
    """A line a row, the names of the columns first."""

    name = "csv"
    suffixes = (".csv",)
    may_repeat_names = True
    options = ("csv_guard",)

    def messages(self, target: Target, wishes: Wishes, first_time: FirstTime) -> MessageWriter:
        """Cells for columns, those that have a place in a cell if none are asked for."""
        from dcpinspect.export.message_writers import CsvWriter

        return CsvWriter(target, wishes)

    def table(self, target: Target, schema: Any, *, guard: bool = True, has_escapes: bool = False) -> TableWriter:
        """Cells as ``csv`` has them."""
        from dcpinspect.export.csv import csv_lines
        from dcpinspect.export.csv_rows import csv_heading

        target.put(csv_heading(schema.names))
        return lambda batch: target.put_lines(csv_lines(batch, guard=guard)), lambda: None


class Parquet(TableFormat):
    """Columns for data frames, compressed."""

    name = "parquet"
    suffixes = (".parquet",)
    is_binary = True

    def table(self, target: Target, schema: Any, *, guard: bool = True, has_escapes: bool = False) -> TableWriter:
        """Row groups, written while the rows come."""
        from dcpinspect.export.columnar import ParquetFile

        file = ParquetFile(target, schema)
        return file.write, file.close


class Arrow(TableFormat):
    """Columns as they are in memory, in a file with an index, or in a stream where there is no going back."""

    name = "arrow"
    suffixes = (".arrow", ARROW_STREAM)
    is_binary = True

    def table(self, target: Target, schema: Any, *, guard: bool = True, has_escapes: bool = False) -> TableWriter:
        """Record batches as they come."""
        from dcpinspect.export.columnar import ArrowFile

        file = ArrowFile(target, schema, is_stream=target.is_stream)
        return file.write, file.close


class Sarif(Format):
    """What is wrong, as tools that collect findings take it; of nothing else."""

    name = "sarif"
    suffixes = (".sarif",)

    def report(self, target: Target, report: Report, *, guard: bool = True) -> None:
        """Write the log."""
        from dcpinspect.export.json_table import plain_json

        assert report.sarif is not None
        target.put(plain_json(report.sarif()) + b"\n")
        target.is_complete = True


TEXT = Text()
JSON = Json()
SARIF = Sarif()
FORMATS: dict[str, TableFormat] = {one.name: one for one in (TEXT, JSON, NdJson(), Csv(), Parquet(), Arrow())}
"""Those of all commands, by name."""
SUFFIXES = {suffix: one for one in FORMATS.values() for suffix in one.suffixes}
"""What the names of files end in."""


def format_of(path: str) -> TableFormat:
    """The format that a file's name asks for. Raises UsageError, saying what names there are."""
    suffix = os.path.splitext(path)[1]
    if suffix.lower() in SUFFIXES:
        return SUFFIXES[suffix.lower()]
    what = f"no format has names in {escape(suffix)}" if suffix else "its name says no format"
    packets = "'dcpinspect read CAPTURE -w FILE' writes packets; for a table " if has_name_of_capture(path) else ""
    raise UsageError(f"{escape(path)}: {what}; {packets}end it in {', '.join(SUFFIXES)}, or give --format")
