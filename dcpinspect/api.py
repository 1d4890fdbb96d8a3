"""Captures for Python programs: ``dcpinspect.open``.

Tables go to Arrow, from where pandas, Polars and DuckDB take them. Any message can be had by its
row: its bytes, and every field.
"""

from __future__ import annotations

import json
import operator
import os
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from dcpinspect.capture.byte_source import STDIN
from dcpinspect.capture.folders import with_folders
from dcpinspect.capture.open import FileDamage
from dcpinspect.closable import Closable
from dcpinspect.coverage import Coverage
from dcpinspect.errors import CaptureError, ClosedError, UsageError
from dcpinspect.findings.finding import Finding, ranges
from dcpinspect.findings.finding_records import CONTRACTS, needs_rules
from dcpinspect.findings.registry import RULES
from dcpinspect.output.export.json import ValueLimit, dump, message_object, specific_numbers
from dcpinspect.output.overview import Overview, overview, overview_records
from dcpinspect.output.render.explanation import explained, messages_in
from dcpinspect.output.render.field_table import field_table
from dcpinspect.output.render.info_text import info_lines
from dcpinspect.output.render.vbucket_history import VbucketHistory
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.protocol.redact import Redactor
from dcpinspect.protocol.statuses import status_name
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.originals import FileState
from dcpinspect.reading.store.store import KEEP, Store
from dcpinspect.tables.arrow import arrow_schema, record_batch
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.messages import Endpoints, MessageBatch
from dcpinspect.tables.record_tables import Records
from dcpinspect.tables.schema import BY_NAME, COLUMNS, ON_REQUEST, column_name
from dcpinspect.text import counted, did_you_mean, escape
from dcpinspect.transport.connections import listed_ports
from dcpinspect.transport.tls.keylog import SEARCH, KeyLog

if TYPE_CHECKING:
    from dcpinspect.reading.query import Query

_NESTED = 2048
"""Twice the greatest number of levels of a JSON document, which may have 1024."""
_READ_AT_ONCE = 1 << 10
"""Number of messages whose bytes a query reads again in one go."""
_READ_AGAIN = frozenset(column.name for column in ON_REQUEST)
_TAKEN = 1 << 16
"""Number of rows in a record batch of those that met a filter."""

_TOLD_BY_BYTES: Mapping[str, Callable[[Message], Any]] = {
    "name": lambda message: message.name,
    "side": lambda message: message.header and message.header.side,
    "length": lambda message: message.size,
    "layout": lambda message: message.generation,
    "status_name": lambda message: (
        status_name(message.header.specific)
        if message.header is not None and message.header.side == "response"
        else None
    ),
}
"""Columns of ``messages`` that a message has without its reading."""

Name = str | os.PathLike[str]
Port = int | Literal["auto"]


class Text(str):
    """A text of several lines that Python shows as lines."""

    __slots__ = ()
    __repr__ = str.__str__


class Decoded:
    """One message with every field explained; ``str`` of it is the specification's field table.

    Each field is an attribute and an item: ``message.vbucket``, ``message["vbucket"]``. So is what
    JSON has of several fields, ``message.features``, and of a number, ``message.version_name``.
    """

    def __init__(self, message: Message) -> None:
        self._message = message

    @property
    def data(self) -> bytes:
        """The message as it was on the wire, header included."""
        return self.message.data

    @property
    def message(self) -> Message:
        """Everything that can be said of the message: ``name``, ``generation``, ``key``, ``value``,
        ``problems``, ``fields`` and more.
        """
        return self._message

    @property
    def fields(self) -> Sequence[FieldValue]:
        """The fields in wire order, which hold every byte of the message; each has the fields
        inside it in its own ``fields``.

        ``offset`` and ``size`` are in bytes from the start of the message.
        """
        return self.message.fields

    @property
    def _names(self) -> list[str]:
        """Names that can be asked for."""
        return [
            *_TOLD_BY_BYTES,
            *(field.name for top in self.fields for field in top.walk()),
            *specific_numbers(self.message),
        ]

    def __getitem__(self, name: str) -> Any:
        """Returns what the bytes alone tell of this column of ``messages``, or else the value of
        the first field of this name, or else what JSON has under it. Raises KeyError.
        """
        if name in _TOLD_BY_BYTES:
            return _TOLD_BY_BYTES[name](self.message)
        for top in self.fields:
            for field in top.walk():
                if field.name == name:
                    return field.value
        members = specific_numbers(self.message)
        if name in members:
            return members[name]
        raise KeyError(
            f"{escape(str(name))}: {self.message.name} has no such "
            f"field{did_you_mean(str(name), dict.fromkeys(self._names))}"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __dir__(self) -> Iterable[str]:
        return {*super().__dir__(), *self._names}

    def __str__(self) -> str:
        return "\n".join(field_table(self.message))

    def __repr__(self) -> str:
        return f"<{self.message.name}, {self._size}>"

    @property
    def _size(self) -> str:
        """The size, and whether something is wrong, as where bytes are missing."""
        problems = len(self.message.problems)
        return counted(len(self.data), "byte") + (
            f", {counted(problems, 'problem')}" if problems else ""
        )


class Annotation(Decoded):
    """One message of a recording. Its attributes and items are also the columns of ``messages``,
    which come before fields.
    """

    def __init__(self, batch: MessageBatch) -> None:
        self._batch = batch

    def __reduce__(self) -> tuple[type[Annotation], tuple[MessageBatch]]:
        """Pickles the message with its own addresses: those of the others need the reading."""
        ends, index = self._batch.endpoints, int(self._batch.connection[0]) - 1
        client, server = ({index: texts[index]} for texts in (ends.client, ends.server))
        addresses = Endpoints(client, server, ends.has_handshake)
        return Annotation, (replace(self._batch, endpoints=addresses),)

    @property
    def row(self) -> int:
        """Number of the message in the recording, from 1."""
        return int(self._batch.row[0])

    @property
    def data(self) -> bytes:
        """The message as it was on the wire, header included; zeros where the capture lacks bytes,
        and where private ones are redacted.
        """
        return self._batch.bytes_of(0) if self._batch.redactor is None else self.message.data

    @cached_property
    def message(self) -> Message:
        """Everything that can be said of the message, as of ``Decoded``."""
        return self._batch.annotate(0)

    @property
    def _names(self) -> list[str]:
        return [*BY_NAME, *super()._names]

    def __getitem__(self, name: str) -> Any:
        """Returns the value of this column of ``messages``, or else what ``Decoded`` has under this
        name. Raises KeyError.
        """
        if name in BY_NAME:
            return record_batch(self._batch, np.array([0]), [name]).column(name)[0].as_py()
        return super().__getitem__(name)

    def to_dict(self, *, fields: bool = True, values: ValueLimit = "full") -> dict[str, Any]:
        """Returns what ``dcpinspect read --format json`` prints of the message, as Python objects;
        ``dcpinspect schema message`` describes it.

        ``fields``: with the field table. ``values``: how much of a document, "full", "none" or so
        many bytes.
        """
        text = dump(message_object(self._batch, 0, fields=fields, values=values))
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + _NESTED)
        try:
            # keeps every digit of a document's numbers, which orjson does not
            message: dict[str, Any] = json.loads(text)
        finally:
            sys.setrecursionlimit(before)
        return message

    def __repr__(self) -> str:
        return f"<{self.message.name}, row {self.row}, {self._size}>"


class Info(dict[str, Any]):
    """What ``dcpinspect info --format json`` prints, as Python objects; ``str`` of it is what the
    command prints on a terminal of 80 columns; lists that it cuts are whole in the object.
    """

    def __init__(self, facts: Overview) -> None:
        [record] = overview_records(facts).records()
        super().__init__(record)
        self._text = "\n".join(info_lines(facts, hint='; info()["{}"] has all'))

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


class Recording(Closable):
    """The messages of one or more captures; ``dcpinspect.open`` makes one. A context manager, for
    one thread.

    Files are read again for each ``messages``, a batch at a time, so that memory does not grow with
    them. Once a caller asks for a message by its row, all messages are kept in a folder for
    temporary files (``TMPDIR``), 80 bytes a message, until ``close``. What comes from a pipe can
    only be read once, so it is kept from the start.
    """

    def __init__(
        self,
        paths: Name | Sequence[Name],
        *,
        port: Port | Sequence[Port] | None = None,
        keep: int | None = None,
        keylog: Name | Sequence[Name] = (),
        tls_search: int | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.paths = tuple(with_folders(_paths(paths, "open")))
        if not self.paths:
            raise UsageError("open: name at least one capture")
        self._ports = _ports(port)
        self._keys = KeyLog(
            _paths(keylog, "keylog"),
            search=SEARCH if tls_search is None else _integer(tls_search, "tls_search", 0),
        )
        self._keep = KEEP if keep is None else _integer(keep, "keep", 0, "number of bytes")
        self._redactor = redactor
        self._store: Store | None = None
        self._filling: Generator[MessageBatch, None, None] | None = None
        self._kept_by: Reading | None = None  # the reading that fills the store
        self._opened: Reading | None = None  # the last one that was begun
        self._done: Reading | None = None  # one that came to its end
        self._results: tuple[Reading, list[Finding], dict[str, Records]] | None = (
            None  # what was made of one that came to its end
        )
        self._is_closed = False
        self._is_pipe = any(
            name == STDIN or (os.path.exists(name) and not os.path.isfile(name))
            for name in self.paths
        )
        self._files = list[FileState]()
        if self._is_pipe:
            self._store = self._begun(check=True)
        else:
            for name in self.paths:
                with suppress(OSError, ValueError):  # it is somewhere else, or will be an error
                    self._files.append(FileState.of(name, os.path.abspath(name)))
            with self._read():  # so that a wrong file is an error now
                pass

    def __dir__(self) -> Iterable[str]:
        """Names for people, without those of programs that are made of this one."""
        return {*super().__dir__()} - {"batch", "gather", "matching", "query", "records"}

    def __repr__(self) -> str:
        size = "" if self._done is None else f", {counted(self._done.messages, 'message')}"
        return f"<recording of {', '.join(map(escape, self.paths))}{size}>"

    def close(self) -> None:
        """Forgets everything that was kept. What was made before stays."""
        self._is_closed = True
        if self._opened is not None:
            self._opened.capture.close()
        if self._store is not None:
            self._store.close()

    # -- tables

    def messages(
        self,
        columns: Iterable[str] | None = None,
        filter: str | None = None,  # noqa: A002 - as the command calls it
        *,
        limit: int | None = None,
    ) -> Any:
        """The table of messages as a ``pyarrow.RecordBatchReader``, in order of ``row``.

        Iterate over it for record batches of some 10,000 rows while the captures are read;
        ``read_all()`` is a ``pyarrow.Table``, ``read_pandas()`` a data frame; DuckDB and Polars
        take the reader as it is.

        ``columns``: names, in the order wanted; all by default. ``dcpinspect read --columns`` lists
        them: times are UTC and also nanoseconds since 1970 (``time_ns``, ``rtt_ns``), sizes and
        offsets are bytes, seqnos unsigned, CAS and UUIDs 0x-strings of 16 digits. ``filter``: SQL,
        as ``--filter`` has it: ``"name = 'dcp_mutation' and vbucket in (1, 5)"``. ``limit``: only
        so many, and no more is read than they need.

        Rows of a pipe that were dropped are left out, with a warning. Raises UsageError for a
        column or a filter that is wrong, and, while it is read, CaptureError.
        """
        self._check()
        names = _names(columns)
        filter_rows = (
            FilterRows(parse_filter(str(filter), name="filter")) if filter is not None else None
        )
        batches = (
            self._streamed(names, filter_rows)
            if self._store is None
            else self._stored_batches(self._store, names, filter_rows)
        )
        if limit is not None:
            most = min(_integer(limit, "limit", 0, "number of rows"), sys.maxsize)
            batches = _first(batches, most) if most else iter(())
        return pa.RecordBatchReader.from_batches(arrow_schema(names), batches)

    def table(self, name: str) -> Any:
        """Returns a ``pyarrow.Table``: connections, streams, snapshots, gaps, rollbacks, vbuckets
        or findings. Raises UsageError.
        """
        return self.records(name).arrow()

    def records(self, name: str, columns: Sequence[str] | None = None) -> Records:
        """Returns the table of this name as records, with the keys of its JSON contract. Raises
        UsageError. ``columns``: those that are wanted; others may have no values.
        """
        if str(name) not in CONTRACTS:
            raise UsageError(
                f"table {escape(str(name))}: there is "
                f"none{did_you_mean(str(name), CONTRACTS) or '; there are ' + ', '.join(CONTRACTS)}"
            )
        return self._made(check=needs_rules(name, columns))[1][name]

    def findings(self, rule: str | None = None) -> list[Finding]:
        """Returns what is wrong, worst first: what ``dcpinspect check`` says. ``places`` are the
        messages that show it, for ``annotate``; ``to_dict`` is what ``--format json`` prints.
        ``rule``: only those of this rule. Raises UsageError.
        """
        if rule is not None and str(rule) not in RULES:
            close = did_you_mean(str(rule), RULES)
            all_rules = "; 'dcpinspect check --list-rules' lists all"
            raise UsageError(f"rule {escape(str(rule))}: there is none{close or all_rules}")
        findings = [
            finding for finding in self._made(check=True)[0] if rule in (None, finding.rule)
        ]
        names = tuple(self._finished_reading().files)
        for finding in findings:
            finding.files = names
        return findings

    def info(self) -> Info:
        """Returns what is in the captures at a first look: what ``dcpinspect info`` prints."""
        return Info(overview(self._finished_reading(track=True)))

    def timeline(self, vbucket: int) -> VbucketHistory:
        """Returns the history of a vbucket: what ``dcpinspect timeline`` prints.

        ``events`` is what happened, in order; ``str`` lists it, and ``to_dict`` also has the
        streams, snapshots and gaps. Raises UsageError for a vbucket without streams.
        """
        history = VbucketHistory(_integer(vbucket, "vbucket"))
        if self._store is not None:
            store, reading = self._filled(), self._finished_reading(track=True)
            rows = store.of_vbucket(vbucket)
            for first in range(0, len(rows), _TAKEN):
                history.feed(store.messages(rows[first : first + _TAKEN]))
        else:
            with self._read(track=True) as reading, closing(reading.ahead()) as batches:
                for batch in batches:
                    history.feed(batch.redacted(self._redactor))
        history.read(reading, self._made(check=True)[1], findings=self.findings())
        if not history.streams:
            vbuckets = sorted(set(reading.tables.streams.values("vbucket")))
            raise UsageError(
                f"vbucket {escape(str(vbucket))}: no stream of it was captured; there are "
                f"{ranges(vbuckets) or 'none'}"
            )
        return history

    def report(self, path: Name, *, redact: bool = False, redact_salt: str | None = None) -> None:
        """Writes what ``dcpinspect report`` writes: a page if ``path`` ends in ``.html``, else
        Markdown.

        ``redact``: with pseudonyms for keys, values and names, by this salt or a random one. Raises
        UsageError and OutputError.
        """
        from dcpinspect.output.export.atomic import AtomicFile
        from dcpinspect.output.report.report_contents import of_reading
        from dcpinspect.output.report.written import format_of, written
        from dcpinspect.output.statistics import Statistics

        name = _path(path, "report")
        format_ = format_of(name)
        salt = None if redact_salt is None else _text(redact_salt, "redact_salt")
        redactor = Redactor(salt) if redact else None
        if redact and self._is_pipe:
            raise UsageError(
                "report: what came from a pipe was checked before; record it to a file to redact it"
            )
        statistics = Statistics()
        with Store() as store:
            if self._is_pipe:
                store, reading = self._filled(), self._finished_reading(track=True, check=True)
                for rows in _runs(store):
                    statistics.feed(store.messages(rows))
            else:
                reading = self._read(track=True, keeper=store)
                reading.check(redactor=redactor or self._redactor)
                with reading:
                    for batch in store.fill(reading):
                        statistics.feed(batch)
            with AtomicFile(name) as file:
                file.write_piece(written(format_, of_reading(reading, store, statistics.charts)))

    def gather(self, goes_on: Callable[[float], bool] = lambda _: True) -> None:
        """Reads the captures once and keeps what all other methods answer from: none of them reads
        all of the captures again.

        ``goes_on`` is called with the share that was read, 0 to 1, now and then; if it returns
        False, InterruptedError is raised, and the next call begins anew.
        """
        self._check()
        if self._store is None or self._kept_by is None or not self._kept_by.is_checking:
            if self._store is not None:
                self._store.close()
            self._store = self._begun(check=True)
        assert self._kept_by is not None, "a store has a reading that fills it"
        capture = self._kept_by.capture
        for _ in self._filling or ():
            if not goes_on(capture.position / (capture.size or 1)) and self._filling is not None:
                self._filling.close()
                raise InterruptedError
        self._made(check=True)

    def matching(self, filter: str | None = None) -> RowNumbers:  # noqa: A002 - as above
        """Returns the rows, of all kept, where a filter is true. Raises UsageError, PlacedError."""
        store = self._filled()
        if filter is None:
            return np.arange(store.first_row, store.rows + 1)
        return store.matching(FilterRows(parse_filter(str(filter), name="filter"))).astype(np.int64)

    def batch(self, rows: Sequence[int] | RowNumbers) -> MessageBatch:
        """Returns the messages with these rows, for what needs messages. Raises as ``bytes_of``."""
        return self._filled().messages(rows)

    def query(self, text: str) -> Query:
        """Returns a query in DuckDB's SQL over the tables, as ``dcpinspect sql`` has them: a
        context manager, whose ``result()`` iterates over ``pyarrow`` record batches. It reaches the
        tables of the captures, and nothing else.
        """
        # deferred: DuckDB takes 0.1 s, and only queries need it
        from dcpinspect.reading.query import Query

        store = self._filled()

        def messages(columns: Sequence[str]) -> Iterator[Any]:
            if not _READ_AGAIN.intersection(columns):
                yield from store.batches(columns)
                return
            # a query may stop early, and these columns take long
            for rows in _runs(store, _READ_AT_ONCE):
                yield store.batch_of(rows, columns)

        return Query(text, messages, lambda name, wanted: self.records(name, wanted).arrow(wanted))

    # -- one message

    def __len__(self) -> int:
        """Returns the number of messages in the captures; a pipe's also count if dropped."""
        return self._finished_reading().messages

    @property
    def rows(self) -> range:
        """The rows that ``bytes_of`` and ``annotate`` know: all, unless a pipe gave more."""
        store = self._filled()
        return range(store.first_row, store.rows + 1)

    def bytes_of(self, row: int) -> bytes:
        """Returns the bytes of the message with this row, header included, as they were on the
        wire; zeros where the capture lacks some.

        Raises RowError if there is no such row, NotKeptError if it is no longer kept, and
        ChangedCaptureError if the file is not what it was.
        """
        return self.annotate(row).data

    def annotate(self, row: int) -> Annotation:
        """Returns the message with this row and every field of it. Raises as ``bytes_of``."""
        return Annotation(self._filled().messages([_integer(row, "row")]))

    # -- the captures

    @property
    def coverage(self) -> Coverage:
        """What became of every packet and every byte of TCP payload."""
        return self._finished_reading().coverage

    @property
    def problems(self) -> list[FileDamage]:
        """Damaged places of the files: file, offset in bytes, what is wrong. Holes in TCP streams
        are in ``coverage``.
        """
        return self._finished_reading().capture.problems

    def _check(self) -> None:
        if self._is_closed:
            raise ClosedError("the recording is closed; open the captures again")

    def _read(
        self, *, track: bool = False, check: bool = False, keeper: Store | None = None
    ) -> Reading:
        self._check()
        if self._is_pipe and self._opened is not None:
            problem = "reading was interrupted, and earlier messages cannot be read again"
            raise CaptureError(", ".join(self.paths), problem, "record it to a file, and open that")
        for file in self._files:
            file.read(0, memoryview(b""))
        ports, find = self._ports
        self._opened = Reading(
            self.paths,
            extra_ports=ports,
            find_ports=find,
            track=track,
            keeper=keeper,
            keys=self._keys,
        )
        self._opened.redactor = self._redactor
        if check:
            self._opened.check(redactor=self._redactor)
        return self._opened

    def _begun(self, *, check: bool = False) -> Store:
        """Returns a store that ``_filling`` fills, as far as it is asked to."""
        store = Store(keep=self._keep)
        try:
            self._kept_by = self._read(track=True, check=check, keeper=store)
            self._filling = self._fill(store, self._kept_by)
        except BaseException:
            store.close()
            raise
        return store

    def _fill(self, store: Store, reading: Reading) -> Generator[MessageBatch, None, None]:
        try:
            with reading:
                yield from store.fill(reading)
        except BaseException:  # a part of the messages must not pass for all of them
            self._store = None
            store.close()
            raise
        self._done = reading

    def _filled(self) -> Store:
        self._check()
        store = self._store = self._store or self._begun()
        for _ in self._filling or ():
            pass
        return store

    def _finished_reading(self, *, track: bool = False, check: bool = False) -> Reading:
        """Returns a reading that came to its end."""
        self._check()
        if self._store is not None:
            self._filled()
        done = self._done
        if done is None or (track and not done.is_tracking) or (check and not done.is_checking):
            with self._read(track=track, check=check) as reading:
                for _ in reading:
                    pass
            self._done = done = reading
        return done

    def _made(self, *, check: bool) -> tuple[list[Finding], dict[str, Records]]:
        """Returns findings and tables, which are made once for a reading."""
        done = self._finished_reading(track=True, check=check)
        if self._results is None or self._results[0] is not done:
            findings, tables = (
                done.worked_out()[1:] if done.is_checking else ([], done.tables.by_name)
            )
            self._results = done, findings, tables
        return self._results[1:]

    def _streamed(self, names: Sequence[str], filter_rows: FilterRows | None) -> Iterator[Any]:
        """Yields record batches of captures that can be read again."""
        with self._read() as reading, closing(reading.ahead()) as batches:
            for batch in (as_read.redacted(self._redactor) for as_read in batches):
                rows = np.arange(len(batch))
                if filter_rows is not None:
                    rows = filter_rows.rows(batch, rows)
                if len(rows):
                    yield record_batch(batch, rows, names)
        self._done = self._done or reading

    def _stored_batches(
        self, store: Store, names: Sequence[str], filter_rows: FilterRows | None
    ) -> Iterator[Any]:
        """Yields record batches of what is in the store, and of what comes to it on the way."""
        row = 0
        while True:
            self._check()
            until = store.rows
            if store.first_row > row + 1:
                lost = f"rows {row + 1:,} to {store.first_row - 1:,} were dropped"
                warnings.warn(
                    f"{lost}; keep more than {self._keep:,} bytes, or read a file", stacklevel=2
                )
            if filter_rows is None:
                yield from store.batches(names, after=row)
            else:
                rows = store.matching(filter_rows, after=row)
                yield from (
                    store.batch_of(rows[start : start + _TAKEN].astype(np.int64), names)
                    for start in range(0, len(rows), _TAKEN)
                )
            row = until
            if next(self._filling or iter(()), None) is None and store.rows == row:
                return


def _first(batches: Iterator[Any], limit: int) -> Iterator[Any]:
    """Yields the first rows of record batches."""
    for batch in batches:
        yield batch.slice(0, limit)
        limit -= batch.num_rows
        if limit <= 0:
            return


def _runs(store: Store, most: int = _TAKEN) -> Iterator[RowNumbers]:
    """Yields the rows of a store, some at a time."""
    return (
        np.arange(first, min(first + most, store.rows + 1))
        for first in range(store.first_row, store.rows + 1, most)
    )


def decode(data: bytes | bytearray | memoryview) -> list[Decoded]:
    """Returns the messages in some bytes: see ``dcpinspect.decode``."""
    try:
        content = memoryview(data).tobytes()
    except TypeError:
        raise UsageError(
            f"decode takes bytes, not {type(data).__name__}: of text in hex, bytes.fromhex makes "
            "them, and dcpinspect.explain takes it as it is"
        ) from None
    return [Decoded(message) for _, message in messages_in(content)]


def explain(what: str | int) -> Text:
    """Returns what ``dcpinspect explain`` prints: see ``dcpinspect.explain``."""
    return Text("\n".join(explained(str(what))))


def _names(columns: Iterable[str] | None) -> list[str]:
    """Returns the columns that are wanted. Raises UsageError."""
    if columns is None:
        return [column.name for column in COLUMNS]
    if isinstance(columns, str):
        raise UsageError(
            f"columns {escape(columns)!r}: give a list of names, as in ['name', 'vbucket']"
        )
    if not isinstance(columns, Iterable):
        raise UsageError(f"columns {escape(repr(columns))}: give a list of names")
    names = [column_name(str(name), "columns:") for name in columns]
    if not names:
        raise UsageError("columns: name at least one, as in ['name', 'vbucket']")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"columns: {name} is there twice")
    return names


def _path(name: Any, parameter: str, more: str = "") -> str:
    """Returns the name of a file. ``more``: what may stand for one. Raises UsageError."""
    if not isinstance(name, str | os.PathLike) or not isinstance(path := os.fspath(name), str):
        raise UsageError(f"{parameter} {escape(repr(name))}: give the name of a file{more}")
    return path


def _paths(names: Name | Sequence[Name], parameter: str) -> list[str]:
    """Returns the names of files. Raises UsageError."""
    is_one = isinstance(names, str | bytes | os.PathLike) or hasattr(names, "read")
    listed = [names] if is_one or not isinstance(names, Iterable) else names
    return [_path(name, parameter, ", or a list of names") for name in listed]


def _integer(number: Any, parameter: str, least: int | None = None, what: str = "number") -> int:
    """Returns a whole number of any type, which is not below ``least``. Raises UsageError."""
    try:
        integer = operator.index(number)
    except TypeError:
        raise UsageError(f"{parameter} {escape(repr(number))}: give a whole number") from None
    if least is not None and integer < least:
        raise UsageError(f"{parameter} {integer}: give a {what}, {least} or more")
    return integer


def _text(text: Any, parameter: str) -> bytes:
    """Returns a text in UTF-8. Raises UsageError."""
    try:
        return str.encode(text)
    except (TypeError, UnicodeEncodeError):
        raise UsageError(f"{parameter} {escape(repr(text))}: give a text") from None


def _ports(ports: Port | Sequence[Port] | None) -> tuple[list[int], bool]:
    """Returns the named ports, and whether others are to be found. Raises UsageError."""
    listed = listed_ports(ports, words=["auto"])
    return [port for port in listed if port != "auto"], "auto" in listed
