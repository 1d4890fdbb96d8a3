"""The manifest describes an output directory after a run: the versions of its tables, and what the
next run needs.

A run first writes all its files under new names, then a new version of each table, and at last its
row in the table of runs. This row exists completely or not at all. Readers use the versions that
the newest row names. So an interrupted run changes nothing, and the next run removes what it has
left.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from dcpinspect.capture.stores import is_uri
from dcpinspect.errors import DcpInspectError, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.reading.joining import ReadingPart
from dcpinspect.spark import delta, files, runs
from dcpinspect.spark.attempts import WrittenFile, attempt
from dcpinspect.spark.bundles import UnitBundles, read_index
from dcpinspect.spark.files import path_or_uri, reached
from dcpinspect.spark.part_disputes import ENDING as GAPS
from dcpinspect.spark.pieces import TABLES, ManifestPiece, divided
from dcpinspect.spark.pieces import read as read_pieces
from dcpinspect.spark.pieces import write as write_piece
from dcpinspect.spark.record_files import WrittenAnew
from dcpinspect.spark.runs import PipelineRun
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.scan import ScanReport
from dcpinspect.spark.spark_schema import BOUNDED, PARTITIONS, SCHEMAS
from dcpinspect.spark.units import Unit
from dcpinspect.temporary import at_end, not_at_end
from dcpinspect.text import escape
from dcpinspect.transport.clock_steps import Edges, Pause

if TYPE_CHECKING:
    from deltalake import DeltaTable

_commits: dict[str, bool] = {}
"""Outputs whose run has come to its commit, and whether it is through."""
_NO_FOLDER = re.compile(r"%[0-9A-Fa-f]{2}|\\|[\ud800-\udfff]")
FOLDER = "_manifest"
FORMAT = "dcpinspect.pipeline/3"
"""Name and version of a manifest."""
_OF_0_2 = re.compile(r"\d+\.json")
"""Matches names of manifests of dcpinspect 0.2.0, whose tables had no logs."""
RAW, PARTS = "raw", "parts"
FEW = ".few"
"""Ending of the file of a part without the snapshots and gaps that the whole does not need."""
BATCH = "batch="


@dataclass(frozen=True, slots=True)
class ReadUnit:
    """A unit that was read, or could not be read."""

    unit: Unit
    report: ScanReport
    batch: int
    """Number of the run that read the unit."""
    base: int
    """Number of the unit's first packet, over all units."""
    bundles: str = ""
    """File of its bundles; empty if there is none."""
    more: tuple[tuple[str, int], ...] = ()
    """Further files, if several tasks scanned the unit; each with its first packet's number."""
    continued: bool = False
    """Whether a later run read more of the same file; tables then name that later reading."""
    after: str = ""
    """File of the bundles of an earlier, shorter reading with the packets before; or empty."""
    skipped: int = 0
    """Number of packets in that earlier reading."""
    begins: bool = False
    """Whether a later reading has only the packets behind, so these still count."""
    goes_on: str = ""
    """File of the bundles of the unit where another one ends and this goes on, whatever their times
    say; or empty.
    """
    ahead: tuple[tuple[int, int], ...] = ()
    """What the clock is ahead of that of the unit before, besides its steps that the scan took out:
    from which packet of the unit on, and nanoseconds.
    """
    expired: bool = False
    """Whether the capture was removed from the tables because of its age. Its bytes are remembered,
    so that it is not read again.
    """

    @property
    def pieces(self) -> list[tuple[str, int]]:
        """All files of its bundles; with each, the number in the unit of its first packet."""
        return [(self.bundles, 0), *self.more] if self.bundles else []

    @property
    def first_ns(self) -> int | None:
        """Time of the first packet by the clock of the point; None if there is none."""
        first_ns = self.report.first_ns
        return None if first_ns is None else first_ns - dict(self.ahead).get(0, 0)

    @property
    def last_ns(self) -> int | None:
        """Time of the last packet by the clock of the point; None if there is none."""
        return None if self.report.last_ns is None else self.report.last_ns - self.ahead_ns

    @property
    def ahead_ns(self) -> int:
        """The last one of ``ahead``."""
        return self.ahead[-1][1] if self.ahead else 0

    @property
    def counts(self) -> bool:
        """Whether the tables include the capture."""
        return not (self.is_bad or self.expired or self.is_replaced)

    @property
    def is_replaced(self) -> bool:
        """Whether a later reading has all of the file."""
        return self.continued and not self.begins

    @property
    def is_bad(self) -> bool:
        """Whether the file could not be read at all."""
        return self.report.error is not None


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """A part: the results for some components of a point, and where they are stored."""

    point: str
    file: str
    """File of the part."""
    messages: tuple[str, ...]
    """Files of its messages."""
    rows: int
    """Number of messages in these files."""
    closed: tuple[str, ...] = ()
    """TLS connections of the part that no key opened, each in the form of ``secrets.closed_by``;
    nothing in them is secret.
    """
    originals: Mapping[str, str] = field(default_factory=dict)
    """For groups with other addresses at the other point: keys there by keys here, in hex."""
    state: str = ""
    """File with the state for continuing the part, if its connections may continue; see ``states``.
    """
    folded: str = ""
    """Digest of the packets that the state has seen, from ``states.mark_of``."""
    ending: tuple[str, ...] = ()
    """Those of ``messages`` with messages that were only completed by the end of the captures; they
    are removed when the part continues.
    """
    ending_rows: int = 0
    """Number of messages in the files of ``ending``."""
    looks: tuple[str, ...] = ()
    """Files of problems in messages and keys, from tasks that followed no connections."""
    ending_looks: tuple[str, ...] = ()
    """The same for messages in the files of ``ending``."""
    keys: tuple[str, ...] = ()
    """Files with what these tasks know of keys, which belong to ``state``."""
    is_copy: bool = False
    """Whether its connections were captured more completely at another point; messages and tables
    are then from that point.
    """
    tables: Mapping[str, str] = field(default_factory=dict)
    """File of the part's rows, for each table written by part, if the part has rows there."""
    of_whole: str = ""
    """Digest of what these rows depend on besides the part, from ``record_files.mark_of``."""

    @property
    def batch(self) -> int:
        """Number of the run that read the part."""
        return int(self.file.split("/")[1].removeprefix(BATCH))


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of an output directory."""

    out: str
    """Absolute path, or a URI."""
    number: int = 0
    """Number of completed runs."""
    program: str = ""
    """Version of the program that wrote the parts."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that decide how connections are found."""
    points: Mapping[str, str] = field(default_factory=dict)
    """Names of capture points, by what identifies the point."""
    units: Sequence[ReadUnit] = ()
    """Units in the order of their numbers."""
    parts: Sequence[ManifestPart] = ()
    tables: Mapping[str, int] = field(default_factory=dict)
    """Versions of the tables; empty if the tables have no logs yet."""
    state: str = ""
    """Name of the file with all but the tables; captures and parts are in ``pieces``."""
    pieces: Sequence[ManifestPiece] = ()
    """Pieces of ``units``, and of the tables ``captures`` and ``bad``."""
    part_pieces: Sequence[ManifestPiece] = ()
    kept: Manifest | None = field(default=None, compare=False, repr=False)
    """The manifest as it was when the pieces were written."""
    salt: Salt | None = None
    """Salt for encrypting packets and parts, if the output is redacted. The manifest's file does
    not contain it.
    """
    opened: dict[tuple[str, int], DeltaTable] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Open tables, by name and version, for reading only. Opening takes time in storage, and a run
    needs a dozen tables.
    """

    @classmethod
    def read_newest(cls, out: str | os.PathLike[str]) -> Self:
        """Reads the newest state of a directory; its number is 0 if no run has ended yet.

        Raises UsageError if the directory is not the output of a pipeline, or of another version.
        """
        path = os.fspath(out)
        name = escape(path)
        if not path:
            raise UsageError("-o: names nothing; name a directory for the tables")
        if any(ord(character) < 32 or ord(character) == 127 for character in path):
            raise UsageError(
                f"{name}: no table can be in a directory with such characters in its name; name "
                "another one"
            )
        folder = files.absolute(reached(path, "tables are written"))
        if not is_uri(folder) and _NO_FOLDER.search(folder):  # deltalake looks for another folder
            raise UsageError(
                f"{escape(folder)}: no table can be in a directory with %XX, a backslash, or "
                "what is no UTF-8 in its path"
            )
        try:
            if os.path.isfile(folder):
                raise UsageError(f"{name}: is a file; name a directory for the tables")
            if (run := runs.newest(folder)) is not None:
                return cls._read(f"{folder}/{FOLDER}/{run.state}", folder, run)
            if any(map(_OF_0_2.fullmatch, files.names_in(f"{folder}/{FOLDER}"))):
                raise UsageError(
                    f"{name}: was written by dcpinspect 0.2.0; run the pipeline into a new directory"
                )
            if not {FOLDER, *_OURS}.issuperset(files.names_in(folder)):
                raise UsageError(
                    f"{name}: has files of something else in it; name a new directory for the tables"
                )
        except OSError as error:
            raise UsageError(f"{name}: cannot be looked at ({delta.error_text(error)})") from error
        return cls(folder)

    @classmethod
    def newest(cls, out: str | os.PathLike[str]) -> Self:
        """Reads the newest state of a directory that a pipeline has written. Raises UsageError if
        there is none.
        """
        folder = files.absolute(path_or_uri(os.fspath(out), "tables are read"))
        if (
            not (is_uri(folder) or os.path.isdir(f"{folder}/{FOLDER}"))
            or not (manifest := cls.read_newest(folder)).number
        ):
            raise UsageError(
                f"{escape(os.fspath(out))}: no pipeline has written here; 'dcpinspect pipeline "
                "run CAPTURES… -o OUT' does"
            )
        return manifest

    @classmethod
    def _read(cls, path: str, folder: str, run: PipelineRun) -> Self:
        try:
            content = json.loads(files.content(path))
            if content.get("format") != FORMAT:
                raise UsageError(
                    f"{escape(path)}: is not of this version ({FORMAT}); run the pipeline into "
                    "a new directory"
                )
            pieces, part_pieces = (
                [ManifestPiece(**entry) for entry in content[name]]
                for name in ("pieces", "part_pieces")
            )
            units, part_entries = (
                read_pieces(f"{folder}/{FOLDER}", entries) for entries in (pieces, part_pieces)
            )
            manifest = cls(
                folder,
                run.number,
                run.program,
                content["options"],
                content["points"],
                [_read_unit(entry) for _, entry in sorted(units, key=lambda entry: entry[0])],
                [_read_part(entry) for _, entry in part_entries],
                run.tables,
                run.state,
                pieces=pieces,
                part_pieces=part_pieces,
            )
            return replace(manifest, kept=manifest)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"{escape(path)}: is damaged ({escape(str(error))})"
            raise UsageError(f"{message}; run the pipeline into a new directory") from error

    @property
    def is_redacted(self) -> bool:
        """Whether the tables have pseudonyms, and everything else is encrypted."""
        return bool(self.options.get("redacted"))

    def with_salt(self, path: str | None) -> Self:
        """Returns the manifest with the salt, if it is redacted.

        ``path``: the file of the salt, None: the usual one. Raises UsageError for a wrong salt.
        """
        if not self.is_redacted:
            if path is not None:
                raise UsageError(
                    f"--salt-file {escape(path)}: {escape(self.out)} is not redacted; leave it out"
                )
            return self
        salt = Salt.read_or_make(self.out, path)
        if salt.mark != self.options["redacted"]:
            raise UsageError(
                f"{escape(salt.path)}: is not the salt that {escape(self.out)} was redacted "
                "with; name its file with --salt-file"
            )
        return replace(self, salt=salt)

    def table(self, name: str) -> DeltaTable:
        """Returns a table as this state has it, for reading only."""
        version = self.tables[name]
        if (table := self.opened.get((name, version))) is None:
            table = self.opened[name, version] = delta.settled(self.path(name), version)
        return table

    def dataset(self, name: str) -> Any:
        """Returns a table as a dataset of Arrow, which skips files and row groups that cannot
        contain wanted rows.
        """
        return delta.dataset(self.table(name), SCHEMAS[name])

    def files(self, name: str) -> list[str]:
        """Returns the absolute paths of the Parquet files of a table."""
        return [self.path(f"{name}/{path}") for path in self.paths(name)]

    def compacted(self, name: str) -> list[tuple[dict[str, Any], list[str]]]:
        """Returns the files of a table that other programs have written, by partition. These files
        lack the columns of the partition.
        """
        paths_by_partition: dict[tuple[Any, ...], list[str]] = {}
        by = PARTITIONS if name == "messages" else ()
        for path, values in delta.partitions(self.table(name), by):
            if not path.startswith(BATCH):
                paths_by_partition.setdefault(values, []).append(self.path(f"{name}/{path}"))
        return [
            (dict(zip(by, values, strict=True)), paths)
            for values, paths in paths_by_partition.items()
        ]

    @property
    def table_names(self) -> list[str]:
        """Names of the tables that a query can use."""
        # an output of an older version may lack some tables
        return [name for name in SCHEMAS if name in self.tables]

    def index(self, number: int) -> Any:
        """Reads the index of a unit. Raises UsageError if it is gone or damaged."""
        return pa.concat_tables(
            read_index(self.path(name), self.salt) for name, _ in self.units[number].pieces
        )

    def edges(self, unit: ReadUnit, number: int = 0) -> Edges | None:
        """Returns the edges of a unit, the end by the clock of the point; None if they were not
        kept. ``number``: of their file. Raises UsageError.
        """
        if unit.report.ahead_ns is None or not (unit.counts and unit.pieces):
            return None
        (first, _), (_, last) = (
            UnitBundles(
                self.path(name), number, 0, (), first_packet, self.salt, ahead=ahead
            ).edges()
            for (name, first_packet), ahead in (
                (unit.pieces[0], ()),
                (unit.pieces[-1], unit.ahead),
            )
        )
        ahead_ns, pause = unit.report.ahead_ns + unit.ahead_ns, None
        if unit.report.pause is not None:
            packet, pause_ns, from_ns = unit.report.pause
            pause = Pause(packet, pause_ns, from_ns - unit.ahead_ns)
        return Edges(first, last, ahead_ns, pause, unit.report.leaps)

    def bundled(self, number: int, keys: Sequence[bytes]) -> list[UnitBundles]:
        """Returns the bundles of some groups of a unit."""
        unit = self.units[number]
        return [
            UnitBundles(
                self.path(name),
                number,
                unit.base,
                keys,
                first,
                self.salt,
                unit.report.cut > 0,
                unit.ahead,
            )
            for name, first in unit.pieces
        ]

    def path(self, name: str) -> str:
        """Returns the absolute path of a file that the manifest names."""
        return f"{self.out}/{name}"

    @property
    def counting(self) -> list[int]:
        """Numbers of the units that count: readable, not read longer since, and not expired."""
        return [number for number, unit in enumerate(self.units) if unit.counts]

    def settled(self) -> Manifest:
        """Returns the manifest with the newest versions of the tables. Undoes changes of unfinished
        runs, and removes old files.
        """
        open_tables = {}
        for name, last in self.tables.items():
            folder = self.path(name)
            newest = delta.open_table(folder)
            table = delta.settled(folder, last, newest)
            if table.version() < newest.version():
                delta.restore(folder, table.version(), self.number)
                table = delta.open_table(folder)
            delta.sweep(table)
            open_tables[name, table.version()] = table
        versions = dict(open_tables.keys())
        for name in SCHEMAS.keys() - versions.keys():
            files.remove_folder(self.path(f"{name}/_delta_log"))  # a first run did not end
        return replace(self, tables=versions, opened=open_tables)

    def with_tables(
        self,
        written: Mapping[str, WrittenAnew],
        messages: Sequence[WrittenFile],
        gone: Collection[ManifestPart] | None,
    ) -> Manifest:
        """Returns the manifest with new versions of the tables that have these files; readers
        ignore these versions until ``commit``.

        ``messages``: new files of that table. ``gone``: parts whose messages are removed, None:
        all. Raises UsageError if another run was quicker.
        """
        versions = dict(self.tables)
        for name, (new, leave) in written.items():
            versions[name] = self._committed(
                name,
                new,
                self.tables.get(name),
                leave if len(leave) < len(self.paths(name)) else None,
            )
        base = self.tables.get("messages")
        base, of_parts = (base, None) if gone is None or base is None else self._without(gone, base)
        versions["messages"] = self._committed("messages", messages, base, of_parts)
        return replace(self, tables=versions)

    def _committed(
        self,
        name: str,
        files: Sequence[WrittenFile],
        base: int | None,
        gone: Collection[str] | None,
    ) -> int:
        folder = self.path(name)
        form = delta.TableForm(
            SCHEMAS[name], *((PARTITIONS, BOUNDED) if name == "messages" else ())
        )
        added = [
            delta.add_action(
                written.path.removeprefix(f"{folder}/"),
                written.size,
                written.footer,
                written.bounds,
                form.by,
            )
            for written in files
        ]
        return delta.commit(folder, form, added, run=self.number + 1, base=base, gone=gone)

    def paths(self, name: str) -> list[str]:
        """Returns the files of a table, as paths in its folder; empty if there is no table yet."""
        return delta.paths(self.table(name)) if name in self.tables else []

    def of_parts_gone(self, name: str) -> list[str]:
        """Returns the files of a table that must be removed: no part has them any more, or other
        programs have written them.
        """
        now = {
            manifest_part.tables.get(name, "").removeprefix(f"{name}/")
            for manifest_part in self.parts
        }
        return [path for path in self.paths(name) if path not in now]

    def _without(self, gone: Collection[ManifestPart], base: int) -> tuple[int, list[str]]:
        """Returns the files of messages that must be removed with parts, and the version to remove
        them from.

        If others have compacted some of these files, that version is a new one without the rows of
        these parts.
        """
        folder = self.path("messages")
        there = set(delta.paths(delta.open_table(folder, base)))
        message_files = {
            manifest_part.file: [path.removeprefix("messages/") for path in manifest_part.messages]
            for manifest_part in gone
        }
        compacted = [
            manifest_part
            for manifest_part in gone
            if not there.issuperset(message_files[manifest_part.file])
        ]
        if compacted:
            ids = [
                path
                for manifest_part in compacted
                for path in ReadingPart.from_bytes(
                    files.content(self.path(manifest_part.file), self.salt)
                ).opened_by.tolist()
            ]
            base = delta.without(
                folder, base, f"connection_id in ({', '.join(map(str, ids))})", self.number + 1
            )
            there = set(delta.paths(delta.open_table(folder, base)))
        return base, [
            name
            for manifest_part in gone
            for name in message_files[manifest_part.file]
            if name in there
        ]

    def divided(self, *, anew: bool = False) -> Manifest:
        """Returns the manifest divided into pieces for writing. ``anew``: all pieces are new."""
        run, before = self.number + 1, self.kept
        if anew or before is None or not all(map(self._has_pieces, TABLES)):
            return replace(
                self,
                pieces=divided((), (), {}, run, attempt()),
                part_pieces=divided((), (), {}, run, attempt()),
            )
        last, now = last_of(before.units), last_of(self.units)
        # its problem was only a note while the capture was the last of its point
        changed = {
            entry.batch
            for point, entry in last.items()
            if now.get(point) is not entry and entry.report.problems
        }
        for pair in zip_longest(before.units, self.units):
            if pair[0] is not pair[1]:
                changed.update(entry.batch for entry in pair if entry is not None)
        old, new = (
            {id(entry): entry.batch for entry in side} for side in (before.parts, self.parts)
        )
        changed_batches = {(old | new)[number] for number in old.keys() ^ new.keys()}
        units_of, parts_of = (
            Counter(entry.batch for entry in side) for side in (self.units, self.parts)
        )
        return replace(
            self,
            pieces=divided(before.pieces, changed, units_of, run, attempt()),
            part_pieces=divided(before.part_pieces, changed_batches, parts_of, run, attempt()),
        )

    def _has_pieces(self, name: str) -> bool:
        """Whether a table still has exactly the pieces' files, so nobody has compacted them."""
        assert self.kept is not None
        return {piece.rows for piece in self.kept.pieces} == set(self.paths(name))

    def replaced(self, name: str) -> list[str]:
        """Returns the files of a table in pieces to remove, as their pieces are written again."""
        stay = {path.rows for path in self.pieces}
        return [path for path in self.paths(name) if path not in stay]

    def commit(self) -> Manifest:
        """Makes this the newest state, with the next number. Raises UsageError if another was."""
        run = self.number + 1
        is_divided = any(each_piece.run == run for each_piece in self.pieces)
        manifest = self if is_divided else self.divided(anew=True)
        manifest = replace(manifest, number=run, state=f"{run}-{attempt()}.json")
        for pieces, everything in (
            (manifest.pieces, manifest.units),
            (manifest.part_pieces, manifest.parts),
        ):
            for piece in pieces:
                if piece.run == run:
                    write_piece(self.path(FOLDER), piece, everything)
        content = {
            "format": FORMAT,
            "options": dict(manifest.options),
            "points": dict(manifest.points),
            "pieces": [asdict(each_piece) for each_piece in manifest.pieces],
            "part_pieces": [asdict(each_piece) for each_piece in manifest.part_pieces],
        }
        files.write(self.path(f"{FOLDER}/{manifest.state}"), json.dumps(content).encode())
        _commits[self.out] = False
        runs.commit(
            self.out,
            PipelineRun(manifest.number, manifest.program, manifest.tables, manifest.state),
        )
        _commits[self.out] = True
        return replace(manifest, kept=manifest)

    def clean(self, since: int = 0) -> None:
        """Removes files that are no longer needed: of unfinished runs, of attempts that do not
        count, and of runs that were replaced.

        ``since``: removes only packets and parts of runs from this number on, because older ones
        may still be read. Files of tables stay as long as a reader may use an older version. An
        attempt may still be writing, so files that cannot be removed stay.
        """
        bundles = [
            name
            for unit in self.units
            if unit.counts
            for piece, _ in unit.pieces
            for name in (piece, f"{piece}.index")
        ]
        part_files = [
            name
            for manifest_part in self.parts
            for name in (
                *(f"{manifest_part.file}{ending}" for ending in ("", FEW, GAPS, ".keys", ".paths")),
                manifest_part.state,
                *manifest_part.looks,
                *manifest_part.ending_looks,
                *manifest_part.keys,
            )
        ]
        self._keep((RAW, PARTS), {*bundles, *part_files}, since=since)
        for name in SCHEMAS:
            table_files = {f"{name}/{path}" for path in self.paths(name)}
            self._keep((name,), table_files, since=self.number if name in self.tables else 0)
        if self.tables and not since:
            delta.sweep(delta.open_table(self.path(runs.TABLE)))
            states = {self.state, *(piece.state for piece in (*self.pieces, *self.part_pieces))}
            for name in files.names_in(self.path(FOLDER)):
                if name[:1].isdecimal() and name not in states:
                    files.remove(self.path(f"{FOLDER}/{name}"))

    def _keep(self, folders: Iterable[str], named: Collection[str], *, since: int) -> None:
        """Removes the files that runs from ``since`` on wrote and that are not named."""
        for folder in folders:
            for batch in files.names_in(self.path(folder)):
                number = batch.removeprefix(BATCH)
                if not batch.startswith(BATCH) or not number.isdecimal() or int(number) < since:
                    continue
                where = f"{folder}/{batch}"
                for name in files.below(self.path(where)):
                    if f"{where}/{name}" not in named:
                        files.remove(self.path(f"{where}/{name}"))
                with suppress(OSError):
                    os.rmdir(self.path(where))  # storage has no empty folders

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the output, so that no other run writes to it. Raises UsageError if one does. A run
        that fails leaves no new files.
        """
        # storage has no locks; if two runs commit the same table, one is refused
        if is_uri(self.out):
            yield
            return
        folder, lock = Path(self.path(FOLDER)), Path(self.path(f"{FOLDER}/lock"))
        new = [new_folder for new_folder in (folder, *folder.parents) if not new_folder.exists()]

        def undo() -> None:
            if self.out in _commits:  # what counts is not known just now, or it is this run
                return
            with suppress(DcpInspectError, OSError):
                self.read_newest(self.out).take_back()
            if new:
                lock.unlink()
            for new_folder in new:
                with suppress(OSError):  # the folder is not empty if something was committed
                    new_folder.rmdir()

        _commits.pop(self.out, None)
        folder.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(
                    f"{escape(self.out)}: another run is writing here; wait for its end"
                ) from None
            at_end(undo)
            try:
                yield
            except BaseException:
                _commits.pop(self.out, None)
                undo()
                raise
            finally:
                not_at_end(undo)

    def take_back(self) -> None:
        """Removes what an unfinished run has left, and folders that are empty then."""
        self.settled().clean()
        for name in _OURS:
            with suppress(OSError):
                os.rmdir(self.path(name))


def after_signal(out: str) -> str:
    """Returns what a run that a signal ended has made of an output."""
    has_run = _commits.get(files.absolute(path_or_uri(out, "tables are written")))
    if has_run is None:
        return f"{escape(out)} is as it was before this run"
    if has_run:
        return f"{escape(out)} has this run"
    return f"whether {escape(out)} has this run, 'dcpinspect pipeline info' says"


_OURS = (RAW, PARTS, runs.TABLE, *SCHEMAS)
"""Directories that runs write."""


def last_of(units: Iterable[ReadUnit]) -> dict[str, ReadUnit]:
    """Returns the last readable capture of each point."""
    return {unit.unit.point: unit for unit in units if not unit.continued and not unit.is_bad}


def _read_part(content: dict[str, Any]) -> ManifestPart:
    lists = ("messages", "closed", "ending", "looks", "ending_looks", "keys")
    return ManifestPart(**{**content, **{name: tuple(content.get(name, ())) for name in lists}})


def _read_unit(content: dict[str, Any]) -> ReadUnit:
    report = dict(content["report"])
    report["problems"] = [tuple(values) for values in report["problems"]]
    for name in ("joins", "tunnels", "leaps"):
        report[name] = [tuple(values) for values in report.get(name, ())]
    pairs = {name: tuple(map(tuple, content.get(name, ()))) for name in ("more", "ahead")}
    return ReadUnit(
        **{**content, **pairs, "unit": Unit(**content["unit"]), "report": ScanReport(**report)}
    )
