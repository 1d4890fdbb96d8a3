"""The manifest: what an output directory is after a run, the versions of its tables and what the next run needs.

A run writes all its files under new names, then a new version of each table, and then its row in the table of runs, which is there as a
whole or not at all. Whoever reads takes the versions that the newest row names; so an interrupted run changes nothing, and the next one
takes back what it has left.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from dcpinspect.capture.stores import is_uri
from dcpinspect.errors import DcpInspectError, UsageError
from dcpinspect.escape import escape
from dcpinspect.parts import Part
from dcpinspect.spark import delta, files, runs
from dcpinspect.spark.attempts import Written, attempt
from dcpinspect.spark.bundles import Bundled, read_index
from dcpinspect.spark.disputes import ENDING as GAPS
from dcpinspect.spark.pieces import TABLES, Piece, divided
from dcpinspect.spark.pieces import read as read_pieces
from dcpinspect.spark.pieces import write as write_piece
from dcpinspect.spark.places import place, reached
from dcpinspect.spark.record_files import WrittenAnew
from dcpinspect.spark.runs import Run
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.scan import Report
from dcpinspect.spark.stored import PARTITIONS, SCHEMAS, TOLD
from dcpinspect.spark.units import Unit

if TYPE_CHECKING:
    from deltalake import DeltaTable

FOLDER = "_manifest"
FORMAT, WHOLE, BEFORE = "dcpinspect.pipeline/3", "dcpinspect.pipeline/2", "dcpinspect.pipeline/1"
"""Name and version of what a manifest says; that which was no pieces; and that whose tables had no logs, of which packets can be taken."""
RAW, PARTS = "raw", "parts"
FEW = ".few"
"""What the name of a part's file ends with that lacks the snapshots and gaps which the whole does without."""
BATCH = "batch="


@dataclass(frozen=True, slots=True)
class Read:
    """A unit that was read, or could not be."""

    unit: Unit
    report: Report
    batch: int
    """Run that read it."""
    base: int
    """Number, over all units, of its first packet."""
    bundles: str = ""
    """File of its bundles; empty where there is none."""
    more: tuple[tuple[str, int], ...] = ()
    """Others, where several tasks scanned the unit, and the number in the unit of the first packet in each."""
    continued: bool = False
    """It has been read again, further; the later reading is the one that tables name."""
    after: str = ""
    """File of the bundles of the reading that went less far, which has the packets before; empty where there is none."""
    skipped: int = 0
    """How many these are."""
    begins: bool = False
    """A later reading has only what follows its packets, so these count."""

    expired: bool = False
    """It left the tables because of its age; its bytes are still known, so that it is not read again."""

    @property
    def pieces(self) -> list[tuple[str, int]]:
        """All files of its bundles, with the number in the unit of the first packet in each."""
        return [(self.bundles, 0), *self.more] if self.bundles else []

    @property
    def counts(self) -> bool:
        """Whether the tables have what it told."""
        return not (self.is_bad or self.expired or (self.continued and not self.begins))

    @property
    def is_bad(self) -> bool:
        """Whether nothing could be read of it."""
        return self.report.error is not None


@dataclass(frozen=True, slots=True)
class Kept:
    """A part: what was found in some components of a point, and where that is kept."""

    point: str
    file: str
    """Of the part itself."""
    messages: tuple[str, ...]
    """Files of its messages."""
    rows: int
    """Messages in them."""
    closed: tuple[str, ...] = ()
    """Its TLS connections that no key opened, each as ``secrets.closed_by`` says it; nothing in that is secret."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """Of groups that have other addresses at the other point: their keys here and there, in hex."""
    state: str = ""
    """File with what it takes to go on with it, where its connections may; as ``states`` has it."""
    folded: str = ""
    """Which packets that has seen, as ``states.mark_of`` says it."""
    ending: tuple[str, ...] = ()
    """Those of ``messages`` that only the end of the captures completed, which leave where it goes on."""
    ending_rows: int = 0
    """Messages in these."""
    looks: tuple[str, ...] = ()
    """Files of what is wrong with messages by themselves, of tasks that did not follow its connections."""
    is_copy: bool = False
    """Its connections were captured at another point, too, and there is more of them there; messages and tables are of that."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """By table that parts have files of: its file, if it has rows there."""
    of_whole: str = ""
    """What these depend on besides the part, as ``record_files.mark_of`` says it."""

    @property
    def batch(self) -> int:
        """Run that read it."""
        return int(self.file.split("/")[1].removeprefix(BATCH))


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of an output directory."""

    out: str
    """Path from the root, or a URI."""
    number: int = 0
    """Runs that came to their end; 0: none did."""
    program: str = ""
    """Version that wrote the parts."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """By which connections are found."""
    points: Mapping[str, str] = field(default_factory=dict)
    """Names of capture points, by what makes them one."""
    units: Sequence[Read] = ()
    """In the order in which they were numbered."""
    parts: Sequence[Kept] = ()
    tables: Mapping[str, int] = field(default_factory=dict)
    """Their versions; none where they had no logs yet."""
    state: str = ""
    """Name of the file that has all of this but the tables; captures and parts are in those of ``pieces``."""
    pieces: Sequence[Piece] = ()
    """Of ``units``, and of the tables captures and bad."""
    part_pieces: Sequence[Piece] = ()
    kept: Manifest | None = field(default=None, compare=False, repr=False)
    """As it was when the pieces were written."""
    salt: Salt | None = None
    """By which packets and parts are encrypted, where it is redacted. It is not kept."""
    opened: dict[tuple[str, int], DeltaTable] = field(default_factory=dict, compare=False, repr=False)
    """Tables that were opened, by name and version: storage takes a while for each, and a run asks a dozen times. None is written to."""

    @classmethod
    def at(cls, out: str | os.PathLike[str]) -> Self:
        """The newest state of a directory, number 0 where no run has ended yet.

        Raises UsageError where it is no output of a pipeline, or one of another version.
        """
        if not os.fspath(out):
            raise UsageError("-o: names nothing; name a directory for the tables")
        if any(ord(character) < 32 or ord(character) == 127 for character in os.fspath(out)):
            raise UsageError(f"{escape(os.fspath(out))}: no table can be in a directory with such characters in its name; name another one")
        folder = files.absolute(reached(os.fspath(out), "tables are written"))
        try:
            if os.path.isfile(folder):
                raise UsageError(f"{escape(os.fspath(out))}: is a file; name a directory for the tables")
            if (run := runs.newest(folder)) is not None:
                return cls._read(f"{folder}/{FOLDER}/{run.state}", folder, run)
            stems = [name.removesuffix(".json") for name in files.names_in(f"{folder}/{FOLDER}") if name.endswith(".json")]
            if numbers := [int(stem) for stem in stems if stem.isdecimal()]:  # of before there were logs
                return cls._read(f"{folder}/{FOLDER}/{max(numbers)}.json", folder, Run(max(numbers), "", {}, ""))
            if not {FOLDER, *_OURS}.issuperset(files.names_in(folder)):
                raise UsageError(f"{escape(os.fspath(out))}: has files of something else in it; name a new directory for the tables")
        except OSError as error:
            raise UsageError(f"{escape(os.fspath(out))}: cannot be looked at ({delta.said(error)})") from error
        return cls(folder)

    @classmethod
    def newest(cls, out: str | os.PathLike[str]) -> Self:
        """The newest state of a directory that a pipeline has written. Raises UsageError where there is none."""
        folder = files.absolute(place(os.fspath(out), "tables are read"))
        if not (is_uri(folder) or os.path.isdir(f"{folder}/{FOLDER}")) or not (found := cls.at(folder)).number:
            raise UsageError(f"{escape(os.fspath(out))}: no pipeline has written here; 'dcpinspect pipeline run CAPTURES… -o OUT' does")
        if not found.tables:
            what = f"{escape(os.fspath(out))}: was written by a version of dcpinspect before its tables were Delta tables"
            raise UsageError(f"{what}; run the pipeline again, which takes its packets from there")
        return found

    @classmethod
    def _read(cls, path: str, folder: str, run: Run) -> Self:
        try:
            content = json.loads(files.content(path))
            if content.get("format") not in ((FORMAT, WHOLE) if run.state else (BEFORE,)):
                raise UsageError(f"{escape(path)}: is not of this version ({FORMAT}); run the pipeline into a new directory")
            pieces, part_pieces = ([Piece(**one) for one in content.get(name, ())] for name in ("pieces", "part_pieces"))
            units = read_pieces(f"{folder}/{FOLDER}", pieces) if pieces else list(enumerate(content["units"]))
            parts = read_pieces(f"{folder}/{FOLDER}", part_pieces) if pieces else list(enumerate(content["parts"]))
            found = cls(
                folder,
                run.number,
                run.program,
                content["options"],
                content["points"],
                [_read_unit(one) for _, one in sorted(units, key=lambda one: one[0])],
                [_read_part(one) for _, one in parts],
                run.tables,
                run.state,
                pieces=pieces,
                part_pieces=part_pieces,
            )
            return replace(found, kept=found)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"{escape(path)}: is damaged ({escape(str(error))})"
            raise UsageError(f"{what}; run the pipeline into a new directory") from error

    @property
    def is_redacted(self) -> bool:
        """Whether tables have pseudonyms, and the rest is encrypted."""
        return bool(self.options.get("redacted"))

    def with_salt(self, path: str | None) -> Self:
        """The same with the salt, where it is redacted; ``path``: its file, None: the usual one. Raises UsageError for another salt."""
        if not self.is_redacted:
            if path is not None:
                raise UsageError(f"--salt-file {escape(path)}: {escape(self.out)} is not redacted; leave it out")
            return self
        salt = Salt.of(self.out, path)
        if salt.mark != self.options["redacted"]:
            raise UsageError(
                f"{escape(salt.path)}: is not the salt that {escape(self.out)} was redacted with; name its file with --salt-file"
            )
        return replace(self, salt=salt)

    def table(self, name: str) -> DeltaTable:
        """A table as this state has it. It is for reading only."""
        version = self.tables[name]
        if (found := self.opened.get((name, version))) is None:
            found = self.opened[name, version] = delta.settled(self.path(name), version)
        return found

    def dataset(self, name: str) -> Any:
        """A table as a dataset of Arrow, which leaves out files and row groups in which nothing can be that is wanted."""
        return delta.dataset(self.table(name), SCHEMAS[name])

    def files(self, name: str) -> list[str]:
        """The Parquet files of a table, absolute."""
        return [self.path(f"{name}/{one}") for one in self.paths(name)]

    def compacted(self, name: str) -> list[tuple[dict[str, Any], list[str]]]:
        """The files of a table that others have written, by partition; these lack the columns that it is partitioned by."""
        found: dict[tuple[Any, ...], list[str]] = {}
        by = PARTITIONS if name == "messages" else ()
        for path, values in delta.partitions(self.table(name), by):
            if not path.startswith(BATCH):
                found.setdefault(values, []).append(self.path(f"{name}/{path}"))
        return [(dict(zip(by, values, strict=True)), paths) for values, paths in found.items()]

    @property
    def table_names(self) -> list[str]:
        """The tables that a query may name."""
        return [name for name in SCHEMAS if name in self.tables]  # an older version may not have had all

    def index(self, number: int) -> Any:
        """What the index of a unit says. Raises OSError where it is not there any more."""
        return pa.concat_tables(read_index(self.path(name), self.salt) for name, _ in self.units[number].pieces)

    def bundled(self, number: int, keys: Sequence[bytes]) -> list[Bundled]:
        """The packets of some groups of a unit."""
        one = self.units[number]
        return [Bundled(self.path(name), number, one.base, keys, first, self.salt) for name, first in one.pieces]

    def path(self, name: str) -> str:
        """A file that the manifest names, absolute."""
        return f"{self.out}/{name}"

    @property
    def counting(self) -> list[int]:
        """Numbers of the units that count: they could be read, none has been read again, further, and none is too old."""
        return [number for number, one in enumerate(self.units) if one.counts]

    def settled(self) -> Manifest:
        """The same with the newest versions of the tables: what runs left in them that did not end is taken back, old files are removed."""
        opened = {}
        for name, last in self.tables.items():
            folder = self.path(name)
            newest = delta.opened(folder)
            table = delta.settled(folder, last, newest)
            if table.version() < newest.version():
                delta.restore(folder, table.version(), self.number)
                table = delta.opened(folder)
            delta.sweep(table)
            opened[name, table.version()] = table
        found = dict(opened.keys())
        for name in SCHEMAS.keys() - found.keys():
            files.remove_folder(self.path(f"{name}/_delta_log"))  # of a first run that did not end
        return replace(self, tables=found, opened=opened)

    def with_tables(self, written: Mapping[str, WrittenAnew], messages: Sequence[Written], gone: Collection[Kept] | None) -> Manifest:
        """The same with the versions of the tables that have these files, which nobody takes for those of a run until ``commit``.

        ``messages``: new files of that table; ``gone``: parts whose messages leave, None: all of them. Raises UsageError where another run
        was quicker.
        """
        versions = dict(self.tables)
        for name, (new, leave) in written.items():
            versions[name] = self._committed(name, new, self.tables.get(name), leave if len(leave) < len(self.paths(name)) else None)
        base = self.tables.get("messages")
        base, of_parts = (base, None) if gone is None or base is None else self._without(gone, base)
        versions["messages"] = self._committed("messages", messages, base, of_parts)
        return replace(self, tables=versions)

    def _committed(self, name: str, new: Sequence[Written], base: int | None, gone: Collection[str] | None) -> int:
        folder = self.path(name)
        by, told = (PARTITIONS, TOLD) if name == "messages" else ((), ())
        added = [delta.add_action(one.path.removeprefix(f"{folder}/"), one.size, one.statistics, by) for one in new]
        return delta.commit(folder, SCHEMAS[name], added, run=self.number + 1, base=base, gone=gone, by=by, told=told)

    def has_rows_of(self, part: Kept, there: Mapping[str, Collection[str]]) -> bool:
        """Whether the files of a part are in the tables still; ``there``: the files of each."""
        return all(name.removeprefix(f"{table}/") in there[table] for table, name in part.tables.items())

    def paths(self, name: str) -> list[str]:
        """The files of a table, as paths in its folder; none of one that is not there yet."""
        return delta.paths(self.table(name)) if name in self.tables else []

    def of_parts_gone(self, name: str) -> list[str]:
        """The files of a table that leave, because no part has them any more, or others have written them."""
        now = {part.tables.get(name, "").removeprefix(f"{name}/") for part in self.parts}
        return [one for one in self.paths(name) if one not in now]

    def _without(self, gone: Collection[Kept], base: int) -> tuple[int, list[str]]:
        """The files of messages that leave with parts, and the version to take them from: one without what was compacted of these."""
        folder = self.path("messages")
        there = set(delta.paths(delta.opened(folder, base)))
        own = {part.file: [one.removeprefix("messages/") for one in part.messages] for part in gone}
        compacted = [part for part in gone if not there.issuperset(own[part.file])]
        if compacted:
            ids = [one for part in compacted for one in Part.from_bytes(files.content(self.path(part.file), self.salt)).opened_by.tolist()]
            base = delta.without(folder, base, f"connection_id in ({', '.join(map(str, ids))})", self.number + 1)
            there = set(delta.paths(delta.opened(folder, base)))
        return base, [name for part in gone for name in own[part.file] if name in there]

    def divided(self, *, anew: bool = False) -> Manifest:
        """The same with the pieces that it is to be written in; ``anew``: all of them."""
        run, before = self.number + 1, self.kept
        if anew or before is None or not all(map(self._has_pieces, TABLES)):
            return replace(self, pieces=divided((), (), {}, run, attempt()), part_pieces=divided((), (), {}, run, attempt()))
        last, now = last_of(before.units), last_of(self.units)
        changed = {one.batch for point, one in last.items() if now.get(point) is not one and one.report.problems}  # it was a note
        for pair in zip_longest(before.units, self.units):
            if pair[0] is not pair[1]:
                changed.update(one.batch for one in pair if one is not None)
        parts = ({id(one): one for one in side} for side in (before.parts, self.parts))
        old, new = parts
        others = {one.batch for number, one in (old | new).items() if not (number in old and number in new)}
        units_of, parts_of = (Counter(one.batch for one in side) for side in (self.units, self.parts))
        return replace(
            self,
            pieces=divided(before.pieces, changed, units_of, run, attempt()),
            part_pieces=divided(before.part_pieces, others, parts_of, run, attempt()),
        )

    def _has_pieces(self, name: str) -> bool:
        """Whether a table has the files of the pieces still, and nobody has compacted them."""
        assert self.kept is not None
        return {one.rows for one in self.kept.pieces} == set(self.paths(name))

    def replaced(self, name: str) -> list[str]:
        """The files of a table in pieces that leave, because these are written again."""
        stay = {one.rows for one in self.pieces}
        return [one for one in self.paths(name) if one not in stay]

    def commit(self) -> Manifest:
        """Makes this the newest state, with the next number. Raises UsageError where another run was quicker."""
        run = self.number + 1
        found = self if any(one.run == run for one in self.pieces) else self.divided(anew=True)
        found = replace(found, number=run, state=f"{run}-{attempt()}.json")
        for pieces, everything in ((found.pieces, found.units), (found.part_pieces, found.parts)):
            for piece in pieces:
                if piece.run == run:
                    write_piece(self.path(FOLDER), piece, everything)
        content = {
            "format": FORMAT,
            "options": dict(found.options),
            "points": dict(found.points),
            "pieces": [asdict(one) for one in found.pieces],
            "part_pieces": [asdict(one) for one in found.part_pieces],
        }
        files.write(self.path(f"{FOLDER}/{found.state}"), json.dumps(content).encode())
        runs.commit(self.out, Run(found.number, found.program, found.tables, found.state))
        return replace(found, kept=found)

    def clean(self, since: int = 0) -> None:
        """Removes what is no longer needed: what runs left that did not end, attempts that do not count, and what later runs replaced.

        ``since``: only packets and parts that runs wrote from this one on, since others may still be read. Files of tables stay as long as
        somebody may read an older version. An attempt may go on writing, so what cannot go stays.
        """
        bundles = [name for one in self.units if one.counts for piece, _ in one.pieces for name in (piece, f"{piece}.index")]
        parts = [f"{part.file}{ending}" for part in self.parts for ending in ("", FEW, GAPS, ".keys", ".paths")]
        beside = [name for part in self.parts for name in (part.state, *part.looks)]
        self._keep((RAW, PARTS), {*bundles, *parts, *beside}, since=since)
        for name in SCHEMAS:
            own: set[str] = set()
            if name in self.tables:
                own = {f"{name}/{one}" for one in delta.paths(self.table(name))}
            self._keep((name,), own, since=self.number if own or name in self.tables else 0)
        if self.tables and not since:
            delta.sweep(delta.opened(self.path(runs.TABLE)))
            states = {self.state, *(one.state for one in (*self.pieces, *self.part_pieces))}
            for name in files.names_in(self.path(FOLDER)):
                if name[:1].isdecimal() and name not in states:
                    files.remove(self.path(f"{FOLDER}/{name}"))

    def _keep(self, folders: Iterable[str], named: Collection[str], *, since: int) -> None:
        """Removes what is not named of what runs wrote from ``since`` on."""
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
        """While it is entered no other run writes here. Raises UsageError where one does. A run that fails leaves nothing that is new."""
        import fcntl  # deferred: Windows has none, and only runs lock

        if is_uri(self.out):  # nothing locks there: of two that commit the same table one is refused
            yield
            return
        folder, lock = Path(self.path(FOLDER)), Path(self.path(f"{FOLDER}/lock"))
        new = [one for one in (folder, *folder.parents) if not one.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(f"{escape(self.out)}: another run is writing here; wait for its end") from None
            try:
                yield
            except BaseException:
                with suppress(DcpInspectError, OSError):
                    self.at(self.out).take_back()
                if new:
                    lock.unlink()
                for one in new:
                    with suppress(OSError):  # not empty: something was committed
                        one.rmdir()
                raise

    def take_back(self) -> None:
        """Removes what a run has left that did not end, and folders that are empty then."""
        self.settled().clean()
        for name in _OURS:
            with suppress(OSError):
                os.rmdir(self.path(name))


_OURS = (RAW, PARTS, runs.TABLE, *SCHEMAS)
"""Directories that runs write."""


def last_of(units: Iterable[Read]) -> dict[str, Read]:
    """The last capture of each point, as far as it could be read."""
    return {one.unit.point: one for one in units if not one.continued and not one.is_bad}


def _read_part(content: dict[str, Any]) -> Kept:
    return Kept(**{**content, **{name: tuple(content.get(name, ())) for name in ("messages", "closed", "ending", "looks")}})


def _read_unit(content: dict[str, Any]) -> Read:
    report = dict(content["report"])
    report["problems"] = [tuple(one) for one in report["problems"]]
    report["joins"], report["tunnels"] = ([tuple(one) for one in report[name]] for name in ("joins", "tunnels"))
    more = tuple((name, first) for name, first in content.get("more", ()))
    return Read(**{**content, "unit": Unit(**content["unit"]), "report": Report(**report), "more": more})
