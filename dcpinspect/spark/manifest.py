"""The manifest: which files of an output directory count.

A run writes all its files under new names and then one manifest, which appears as a whole or not at all. Whoever reads takes the newest
manifest and the files that it names, and no others; so an interrupted run changes nothing, and what it left is removed by the next one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from dcpinspect.errors import UsageError
from dcpinspect.escape import escape
from dcpinspect.spark.places import local_path
from dcpinspect.spark.scan import Report
from dcpinspect.spark.schema import TABLES
from dcpinspect.spark.units import Unit

FOLDER = "_manifest"
FORMAT = "dcpinspect.pipeline/1"
"""Name and version of what a manifest says."""
RAW, PARTS = "raw", "parts"
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
    continued: bool = False
    """It has been read again, further; the later reading counts."""

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
    """Client randoms, which are no secrets, of its TLS connections that no key opened; empty ones where the start was not captured."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """Of groups that have other addresses at the other point: their keys here and there, in hex."""
    is_copy: bool = False
    """Its connections were captured at another point, too, and there is more of them there; messages and tables are of that."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of an output directory."""

    out: Path
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
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Parquet files of the tables but messages."""

    @classmethod
    def at(cls, out: str | os.PathLike[str]) -> Self:
        """The newest state of a directory, number 0 where no run has ended yet.

        Raises UsageError where it is no output of a pipeline, or one of another version.
        """
        folder = Path(local_path(os.fspath(out), "tables are written"))
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{escape(os.fspath(out))}: is a file; name a directory for the tables")
        numbers = [int(path.stem) for path in (folder / FOLDER).glob("*.json") if path.stem.isdigit()]
        if not numbers:
            if folder.is_dir() and any(path.name != FOLDER and path.name not in _OURS for path in folder.iterdir()):
                raise UsageError(f"{escape(os.fspath(out))}: has files of something else in it; name a new directory for the tables")
            return cls(folder)
        return cls._read(folder, max(numbers))

    @classmethod
    def newest(cls, out: str | os.PathLike[str]) -> Self:
        """The newest state of a directory that a pipeline has written. Raises UsageError where there is none."""
        folder = Path(local_path(os.fspath(out), "tables are read"))
        if not (folder / FOLDER).is_dir() or not (found := cls.at(folder)).number:
            raise UsageError(f"{escape(os.fspath(out))}: no pipeline has written here; 'dcpinspect pipeline run CAPTURES… -o OUT' does")
        return found

    @classmethod
    def _read(cls, folder: Path, number: int) -> Self:
        path = folder / FOLDER / f"{number}.json"
        try:
            content = json.loads(path.read_text("utf-8"))
            if content.get("format") != FORMAT:
                raise UsageError(f"{escape(os.fspath(path))}: is not of this version ({FORMAT}); run the pipeline into a new directory")
            return cls(
                folder,
                number,
                content["program"],
                content["options"],
                content["points"],
                [_read_unit(one) for one in content["units"]],
                [Kept(**{**one, "messages": tuple(one["messages"]), "closed": tuple(one.get("closed", ()))}) for one in content["parts"]],
                content["tables"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"{escape(os.fspath(path))}: is damaged ({escape(str(error))})"
            raise UsageError(f"{what}; run the pipeline into a new directory") from error

    def files(self, table: str) -> list[str]:
        """The Parquet files of a table, absolute."""
        names = [name for part in self.parts for name in part.messages] if table == "messages" else self.tables.get(table, ())
        return [os.fspath((self.out / name).absolute()) for name in names]

    @property
    def table_names(self) -> list[str]:
        """The tables that a query may name."""
        return [*TABLES, *(name for name in self.tables if name not in TABLES)]

    def path(self, name: str) -> str:
        """A file that the manifest names, absolute."""
        return os.fspath((self.out / name).absolute())

    @property
    def counting(self) -> list[int]:
        """Numbers of the units that count: they could be read, and none has been read again, further."""
        return [number for number, one in enumerate(self.units) if not one.is_bad and not one.continued]

    @property
    def named(self) -> set[str]:
        """The files that this state names, as paths in the directory."""
        bundles = [name for one in self.units if one.bundles and not one.continued for name in (one.bundles, f"{one.bundles}.index")]
        parts = [name for part in self.parts for name in (part.file, f"{part.file}.keys", *part.messages)]
        return {*bundles, *parts, *(name for names in self.tables.values() for name in names)}

    def commit(self) -> Manifest:
        """Makes this the newest state, with the next number. Raises UsageError where another run was quicker."""
        found = replace(self, number=self.number + 1)
        folder = self.out / FOLDER
        content = {
            "format": FORMAT,
            "program": found.program,
            "options": dict(found.options),
            "points": dict(found.points),
            "units": [asdict(one) for one in found.units],
            "parts": [asdict(one) for one in found.parts],
            "tables": {name: list(files) for name, files in found.tables.items()},
        }
        temporary = folder / f"{found.number}.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            _appear(temporary, folder / f"{found.number}.json")
        except FileExistsError:
            raise UsageError(f"{escape(os.fspath(self.out))}: another run has written here since; run it again") from None
        finally:
            temporary.unlink(missing_ok=True)
        return found

    def clean(self, batch: int | None = None) -> None:
        """Removes what this state does not name: what interrupted runs left, what later ones replaced, and attempts that do not count.

        ``batch``: only what this run wrote, since others may still be read. An attempt may go on writing, so what cannot go stays.
        """
        named = self.named
        only = f"{BATCH}{'*' if batch is None else batch}"
        for folder in _OURS:
            for path in sorted((self.out / folder).glob(f"{only}/**/*"), reverse=True):
                if not path.is_dir() and path.relative_to(self.out).as_posix() not in named:
                    path.unlink(missing_ok=True)
            for path in (self.out / folder).glob(only):
                with suppress(OSError):
                    path.rmdir()
        if batch is None:
            for path in (self.out / FOLDER).iterdir():
                if path.suffix in (".claim", ".tmp") or (path.suffix == ".json" and path.stem.isdigit() and int(path.stem) < self.number):
                    path.unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While it is entered no other run writes here. Raises UsageError where one does."""
        import fcntl  # deferred: Windows has none, and only runs lock

        (self.out / FOLDER).mkdir(parents=True, exist_ok=True)
        with (self.out / FOLDER / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(f"{escape(os.fspath(self.out))}: another run is writing here; wait for its end") from None
            yield


def _appear(temporary: Path, path: Path) -> None:
    """Gives a whole file its name. Raises FileExistsError where there is one of that name, which renaming would replace."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # network and object storage, and memory cards, have no hard links
        claim = path.with_suffix(".claim")
        claim.touch(exist_ok=False)
        try:
            if path.exists():
                raise FileExistsError(path) from None
            temporary.replace(path)
        finally:
            claim.unlink()


_OURS = (RAW, PARTS, *TABLES, "captures", "bad")
"""Directories that runs write, each with directories ``batch=N``."""


def _read_unit(content: dict[str, Any]) -> Read:
    report = dict(content["report"])
    report["problems"] = [tuple(one) for one in report["problems"]]
    report["joins"], report["tunnels"] = ([tuple(one) for one in report[name]] for name in ("joins", "tunnels"))
    return Read(**{**content, "unit": Unit(**content["unit"]), "report": Report(**report)})
