"""The options and columns of ``spark.read.format("dcp")``, checked when it is planned."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import pyarrow as pa

from dcpinspect.capture.remote import info
from dcpinspect.capture.stores import is_uri
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark.files import local_path, path_or_uri
from dcpinspect.spark.spark_schema import spark_type, table_schema
from dcpinspect.spark.units import BY_DIRECTORY, check_rule, files_of, units_of
from dcpinspect.tables import select
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.filter_tree import Compare, Constant
from dcpinspect.tables.times import length
from dcpinspect.text import did_you_mean, entries, escape
from dcpinspect.transport.tls.keylog import SEARCH

OnError = Literal["row", "fail", "skip"]

POINT, ERROR = pa.field("capture_point", pa.string()), pa.field("error", pa.string())
SCHEMA = pa.schema([*table_schema("messages"), POINT, ERROR])
"""All columns: those of messages, the capture point, and the reason why something could not be
read.

The last one, ``error``, must be asked for. Without it every row is a message, and ``count()``
counts messages.
"""

OPTIONS = dict(
    entries(
        """
        path: a capture, a pattern, or a directory of captures
        paths: several of these, as a JSON list; load([…]) sets it
        columns: names of the columns that are wanted, with commas
        opcodes: commands by name or number, as in --opcode of read
        vbuckets: numbers and ranges, as in 1,5-9
        connections: numbers and ranges of connections of their capture point
        statuses: statuses of responses, as in --status of read
        keys: a pattern of whole keys, as in user::*
        filter: a condition, as in --filter of read
        since: a time in UTC; messages from then on
        until: a time in UTC; messages before then
        port: ports besides the usual ones, with commas; auto finds others
        keylog: a file with secrets of TLS connections, which every executor has, or several as a
            JSON list
        tls_search: how many secrets and record numbers are tried for a connection that began before
            the capture
        capture_point: what files of one capture point have in common: dir, stem or name:NAME
        on_error: if something cannot be read, a row shows it (row), the job fails (fail), or
            nothing happens (skip)
        path_glob_filter: only files whose names match, as in *.pcapng
        modified_after: a time in UTC; files that were changed later
        modified_before: a time in UTC; files that were changed earlier
        max_files_per_trigger: in a stream: captures that one batch has at most
        rested: in a stream: a capture is read when it has not changed for this time, 5s by default
        """
    )
)
"""The options and their meanings. Spark ignores case, and here onError is the same as on_error."""
_NAMES = {name.replace("_", ""): name for name in OPTIONS}


@dataclass(frozen=True, slots=True)
class CaptureSlice:
    """The files that one task reads."""

    point: str
    files: tuple[str, ...]
    before: tuple[str, ...] = ()
    """Files in which messages may begin. Messages that end in these files are not wanted again."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Which messages of which captures are wanted, and which columns. Can be pickled."""

    paths: tuple[str, ...]
    columns: tuple[str, ...]
    """Names in ``SCHEMA``."""
    names: tuple[str, ...]
    """Names as the user writes them; only capitals differ."""
    selection: select.Selection = field(default_factory=select.Selection)
    since_ns: int | None = None
    until_ns: int | None = None
    extra_ports: tuple[int, ...] = ()
    find_ports: bool = False
    point_rule: str = BY_DIRECTORY
    on_error: OnError = "fail"
    name_pattern: str = "*"
    """Pattern for the names of wanted files."""
    after_ns: int | None = None
    before_ns: int | None = None
    """Wanted files were last changed between these times."""
    keylogs: tuple[str, ...] = ()
    tls_search: int = SEARCH
    most_files: int | None = None
    """Greatest number of files in a batch of a stream."""
    rested_ns: int = 5_000_000_000
    """A stream reads a capture when it has not changed for so many nanoseconds."""

    @property
    def schema(self) -> Any:
        """The Arrow schema of the wanted columns."""
        return pa.schema(
            [
                SCHEMA.field(name).with_name(spark_name)
                for name, spark_name in zip(self.columns, self.names, strict=True)
            ]
        )

    def task_parts(self, *, may_be_empty: bool = False) -> list[CaptureSlice]:
        """Returns what the tasks are to read, in the order of the paths. Raises UsageError for
        missing paths, unless ``may_be_empty``.
        """
        units, _ = units_of(
            {
                path: stamp
                for path, stamp in files_of(
                    self.paths, without="", may_be_empty=may_be_empty
                ).items()
                if self._counts(path)
            },
            self.point_rule,
            {},
        )
        points: dict[str, list[str]] = {}
        for unit in units:
            points.setdefault(unit.point, []).append(unit.path)
        return [CaptureSlice(point, tuple(files)) for point, files in points.items()]

    def _counts(self, path: str) -> bool:
        """Whether a file is wanted."""
        if not fnmatchcase(os.path.basename(path), self.name_pattern):
            return False
        if self.after_ns is None and self.before_ns is None:
            return True
        try:
            changed = (info(path).mtime_ns or 0) if is_uri(path) else os.stat(path).st_mtime_ns
        except OSError:  # the task will say why
            return True
        return (self.after_ns is None or changed > self.after_ns) and (
            self.before_ns is None or changed < self.before_ns
        )


def read_options(
    options: Mapping[str, str], schema: Mapping[str, str] | None = None
) -> SourceOptions:
    """Returns what the options ask for. ``schema``: names and Spark types of the columns, if the
    user or Spark has given them.

    Raises UsageError, which names the option.
    """
    values = _by_name(options)
    on_error: Any = values.get("on_error")
    if on_error not in (None, *get_args(OnError)):
        raise UsageError(
            f"option on_error: {escape(on_error)} is not known; write row, fail or skip"
        )
    names = _columns(values.get("columns"), shows_errors=on_error == "row")
    if schema is not None:
        _check_types(schema)
        if "columns" in values and [name.lower() for name in schema] != names:
            raise UsageError("option columns: the schema names other columns; give one of the two")
        names = [name.lower() for name in schema]
    on_error = on_error or ("row" if ERROR.name in names else "fail")
    if on_error == "row" and ERROR.name not in names:
        raise UsageError(
            "option on_error: a row says in the column error what could not be read; ask for "
            "that column, too"
        )
    extra_ports, find_ports = _ports(values.get("port"))
    return SourceOptions(
        _paths(values),
        tuple(names),
        tuple(names if schema is None else schema),
        _selection(values),
        _time(values, "since"),
        _time(values, "until"),
        extra_ports,
        find_ports,
        _option_value("capture_point", check_rule, values.get("capture_point", BY_DIRECTORY)),
        on_error,
        values.get("path_glob_filter", "*"),
        _time(values, "modified_after"),
        _time(values, "modified_before"),
        _keylogs(values.get("keylog")),
        _number(values, "tls_search", "how many secrets and record numbers are tried", 0, SEARCH),
        _number(values, "max_files_per_trigger", "how many captures a batch has at most", 1),
        length(values.get("rested", "5s"), "option rested"),
    )


def _by_name(options: Mapping[str, str]) -> dict[str, str]:
    values = {}
    for name, value in options.items():
        option = _NAMES.get(name.lower().replace("_", ""))
        if option is None:
            raise UsageError(
                f"option {escape(name)}: there is "
                f"none{did_you_mean(name, OPTIONS) or '; there are ' + ', '.join(OPTIONS)}"
            )
        values[option] = value
    return values


def _columns(text: str | None, *, shows_errors: bool) -> list[str]:
    if text is None:
        return [name for name in SCHEMA.names if shows_errors or name != ERROR.name]
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("option columns: name at least one, as in name,vbucket,by_seqno")
    for name in names:
        _check_column(name, "option columns")
        if names.count(name) > 1:
            raise UsageError(f"option columns: {name} is there twice")
    return names


def _check_column(name: str, where: str) -> None:
    if name == "_metadata":
        raise UsageError(
            f"{where} _metadata: there is none; the columns file, frame and capture_point say "
            "where a message is"
        )
    if name not in SCHEMA.names:
        close = did_you_mean(name, SCHEMA.names) or f"; there are {', '.join(SCHEMA.names)}"
        raise UsageError(f"{where} {escape(name)}: messages have no such column{close}")


def _check_types(schema: Mapping[str, str]) -> None:
    kinds = {field.name: field.dataType.simpleString() for field in spark_type(SCHEMA)}
    for name, kind in schema.items():
        _check_column(name.lower(), "schema")
        if kind != kinds[name.lower()]:
            raise UsageError(
                f"schema: {escape(name)} is {kinds[name.lower()]} here, and not "
                f"{escape(kind)}; cast it in the query"
            )


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    several = json.loads(options.get("paths") or "[]")
    paths = tuple(
        path_or_uri(path, "captures are read")
        for path in (*([options["path"]] if options.get("path") else []), *several)
    )
    if not paths:
        raise UsageError('name captures, as in spark.read.format("dcp").load("captures/")')
    return paths


def _keylogs(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    try:
        names = list(map(str, json.loads(text))) if text.startswith("[") else [text]
    except json.JSONDecodeError:
        raise UsageError('option keylog: write a path, or several as ["a.log", "b.log"]') from None
    return tuple(local_path(name, "key logs are read") for name in names)


def _number(
    options: Mapping[str, str], name: str, meaning: str, least: int, usual: int | None = None
) -> Any:
    text = options.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        above = " above 0" if least else ""
        raise UsageError(f"option {name}: {escape(text)} is no number{above}; write {meaning}")
    return int(text)


def _selection(options: Mapping[str, str]) -> select.Selection:
    def option_of(name: str, read: Callable[[str], Any], none: Any = ()) -> Any:
        return _option_value(name, read, options[name]) if name in options else none

    return select.Selection(
        vbuckets=option_of(
            "vbuckets", lambda text: select.number_ranges(text, "option vbuckets", limit=0xFFFF)
        ),
        commands=option_of("opcodes", select.commands, None),
        connections=option_of(
            "connections",
            lambda text: select.number_ranges(text, "option connections", limit=(1 << 31) - 1),
        ),
        keys=option_of("keys", select.key_pattern, None),
        statuses=option_of("statuses", select.statuses),
        filter=option_of(
            "filter", lambda text: FilterRows(parse_filter(text, name="option filter")), None
        ),
    )


def _option_value(name: str, read: Callable[[str], Any], text: str) -> Any:
    """Returns what ``read`` makes from the value of an option; its errors name the option."""
    try:
        return read(text)
    except UsageError as error:
        problem = str(error)
        raise UsageError(
            problem
            if problem.startswith("option ")
            else f"option {name}: {problem.partition(': ')[2] or problem}"
        ) from None


def _time(options: Mapping[str, str], name: str) -> int | None:
    """Returns a time, in the form that filters use, as nanoseconds since 1970."""
    if name not in options:
        return None
    quoted = options[name].replace("'", "''")
    condition = parse_filter(f"time = '{quoted}'", name=f"option {name}").condition
    assert isinstance(condition, Compare)
    assert isinstance(condition.right, Constant)
    return int(condition.right.value)


def _ports(text: str | None) -> tuple[tuple[int, ...], bool]:
    words: Sequence[str] = [] if text is None else [word.strip() for word in text.split(",")]
    for word in words:
        if word != "auto" and not (
            word.isascii() and word.isdecimal() and len(word) <= 5 and 0 < int(word) < 65_536
        ):
            raise UsageError(
                f"option port: {escape(word)} is no port; write numbers from 1 to 65535, or auto"
            )
    return tuple(int(word) for word in words if word != "auto"), "auto" in words
