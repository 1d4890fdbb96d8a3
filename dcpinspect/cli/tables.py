"""Tables in each format: what every command writes that has rows and columns other than messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dcpinspect.cli import interrupts
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape
from dcpinspect.export.formats import Format

if TYPE_CHECKING:
    from dcpinspect.cli.output import Output
    from dcpinspect.tables.records import Records


def write_table(
    table: Any, format_: Format, output: Output, *, schema: str | None = None, guard: bool = True, has_escapes: bool = False
) -> int:
    """Write an Arrow table, or what reads record batches, to the end; how many rows there were.

    ``schema``: name and version of the contract (``dcpinspect.stream/1``), with which JSON objects begin. ``guard``: CSV with an
    apostrophe before texts that a spreadsheet would run. ``has_escapes``: texts have them for bytes that are no UTF-8. After Ctrl-C
    the output is complete with the rows written until then. Raises UsageError for two columns of one name, or of a type, that the
    format cannot have.
    """
    twice = [name for name, count in Counter(table.schema.names).items() if count > 1]
    if twice and format_ not in (Format.TEXT, Format.CSV):
        raise UsageError(f"--format {format_}: two columns are called {escape(twice[0])}; give one of them another name")
    write, end = table_writer(table.schema, format_, output, schema=schema, guard=guard, has_escapes=has_escapes)
    rows = 0
    try:
        for batch in interrupts.between(table.to_batches() if hasattr(table, "to_batches") else table):
            write(batch)
            rows += batch.num_rows
            output.flush()
            interrupts.check()
    finally:
        end()
        output.is_complete = True
    return rows


def write_records(records: Records, columns: Sequence[str] | None, format_: Format, output: Output, *, guard: bool = True) -> None:
    """Write a table of records: these columns, or all. JSON is the records of the contract; other formats are of its Arrow form."""
    if format_ in (Format.JSON, Format.NDJSON):
        from dcpinspect.export.json import JsonArray
        from dcpinspect.export.json_table import plain_json

        kept = None if columns is None else {"schema", *columns}
        objects = ({key: value for key, value in one.items() if kept is None or key in kept} for one in records.records())
        array = JsonArray()
        if format_ is Format.NDJSON:
            output.put(b"".join(plain_json(one) + b"\n" for one in objects))
        else:
            output.put(array.add(b"".join(array.BEFORE + plain_json(one) for one in objects)) + array.end())
        output.is_complete = True
        return
    write_table(records.arrow(columns), format_, output, guard=guard, has_escapes=True)


Write = Callable[[Any], None]
End = Callable[[], None]


def table_writer(
    columns: Any, format_: Format, output: Output, *, schema: str | None = None, guard: bool = True, has_escapes: bool = False
) -> tuple[Write, End]:
    """What writes the record batches of a table with these ``columns``, an Arrow schema, and what writes the end of the table."""
    if format_ is Format.TEXT:
        return _text(columns, output, has_escapes=has_escapes)
    if format_ is Format.CSV:
        return _csv(columns, output, guard=guard)
    if format_.is_binary:
        from dcpinspect.export.columnar import ColumnarFile

        file = ColumnarFile(output, columns, format_, is_stream=output.is_stream)
        return file.write, file.close
    return _json(format_, output, schema)


def _text(columns: Any, output: Output, *, has_escapes: bool) -> tuple[Write, End]:
    from dcpinspect.render.table import TextTable

    table = TextTable(columns, width=output.width(), has_escapes=has_escapes)
    paint = output.painter()
    styles = iter(["bold"])  # the heading comes first

    def put(lines: Iterable[str]) -> None:
        output.write("".join(paint(line, next(styles, "")) + "\n" for line in lines).encode())

    return lambda batch: put(table.lines(batch)), lambda: put(table.end())


def _csv(columns: Any, output: Output, *, guard: bool) -> tuple[Write, End]:
    from dcpinspect.export.csv import csv_lines
    from dcpinspect.export.csv_rows import csv_heading

    output.put(csv_heading(columns.names))
    return lambda batch: output.put_lines(csv_lines(batch, guard=guard)), lambda: None


def _json(format_: Format, output: Output, schema: str | None) -> tuple[Write, End]:
    from dcpinspect.export.json import JsonArray
    from dcpinspect.export.json_table import json_objects

    if format_ is Format.NDJSON:
        return lambda batch: output.put(b"".join(one + b"\n" for one in json_objects(batch, schema))), lambda: None
    array = JsonArray()

    def write(batch: Any) -> None:
        output.put(array.add(b"".join(array.BEFORE + one for one in json_objects(batch, schema))))

    def end() -> None:
        output.write(array.end())

    return write, end
