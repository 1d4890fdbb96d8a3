"""A run of the pipeline: scans new captures, reads the parts that they affect, and writes the
tables again.

Bundles of captures that were read before stay as they are, and so do parts that nothing new belongs
to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, field, replace
from functools import cache, partial
from itertools import chain
from typing import Any

from dcpinspect.capture.rights import as_private_as
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.reading.joining import SET_APART
from dcpinspect.spark import files, plan
from dcpinspect.spark.analysis import PartResult, PartTask, analyse
from dcpinspect.spark.attempts import WrittenFile, attempt, verify
from dcpinspect.spark.files import local_path
from dcpinspect.spark.manifest import BATCH, FOLDER, RAW, Manifest, ManifestPart, ReadUnit
from dcpinspect.spark.output_reading import RunResults, names_of, ports, with_embedded
from dcpinspect.spark.outputs import findings_of, problems, rows_of, states, write_captures
from dcpinspect.spark.program import program
from dcpinspect.spark.record_files import WrittenAnew, write_part_rows
from dcpinspect.spark.run_tables import NewRows, RunParts, put_together, put_together_apart
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.scan import ScanReport, joined, scan
from dcpinspect.spark.secrets import Secrets, opens, secrets_at
from dcpinspect.spark.stretches import Stretch, stretches
from dcpinspect.spark.task_runner import TaskRunner
from dcpinspect.spark.units import BY_DIRECTORY, END, Unit, check_rule, digested, files_of, units_of
from dcpinspect.text import escape

SUMMARY = "dcpinspect.pipeline_run/1"
"""Name and version of the contract of the summary."""
FEW = 64
"""Greatest number of captures whose bytes the driver itself examines; for more, tasks do it."""
Path = str | os.PathLike[str]
TasksOf = Callable[[], AbstractContextManager[TaskRunner]]


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is asked to do."""

    captures: Sequence[str]
    out: str
    point_rule: str | None = None
    extra_ports: tuple[int, ...] | None = None
    find_ports: bool | None = None
    secrets: Secrets = field(default_factory=Secrets)
    """Where the secrets of TLS connections are; the output does not contain them."""
    fails: bool = False
    """Whether a capture that cannot be read ends the run."""
    redacts: bool | None = False
    """Whether names and documents are replaced; None: as in the runs before."""
    salt_file: str | None = None
    """File with the salt; None: the file beside the output with the same name and ``.salt``."""


@dataclass(slots=True)
class Summary:
    """What a run did."""

    out: str
    batch: int = 0
    captures: int = 0
    """Number of captures that were read."""
    known: int = 0
    """Number of captures that had been read before, or are copies of others."""
    copies: int = 0
    """Number of captures with the same bytes as other captures of this run."""
    expired: int = 0
    """Number of captures that were removed because of their age."""
    bytes: int = 0
    packets: int = 0
    messages: int = 0
    """Number of messages found: in new captures, and in older ones that were read again."""
    parts: int = 0
    kept_parts: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    """Number of rows of every table after the run."""
    findings: dict[str, int] = field(default_factory=dict)
    """Number of findings by severity after the run."""
    problems: list[dict[str, Any]] = field(default_factory=list)
    """Problems of the captures that were read."""
    quarantined: int = 0
    damaged: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all captures were read without damage."""
        return not (self.quarantined or self.damaged)

    @property
    def record(self) -> dict[str, Any]:
        """The whole summary, for JSON."""
        return {"schema": SUMMARY, **asdict(self)}


def checked_options(options: Options, keylog: Path | Sequence[Path], on_error: str) -> Options:
    """Checks what a program asks for, and returns the options of the run with its key logs, and
    with what happens on an error. Raises UsageError.
    """
    if on_error not in (choices := ("keep", "fail")):
        raise UsageError(f"on_error {escape(on_error)}: is not known; write {' or '.join(choices)}")
    for port in options.extra_ports or ():
        if not 0 < port < 1 << 16:
            raise UsageError(f"ports: {port} is no port; write numbers from 1 to 65535")
    secrets = secrets_at([local_path(path, "key logs are read") for path in paths_of(keylog)])
    return replace(options, secrets=secrets, fails=on_error == "fail")


def paths_of(paths: Path | Sequence[Path]) -> list[str]:
    """Returns one path, or several, as a list of texts."""
    if isinstance(paths, (str, os.PathLike)):
        return [os.fspath(paths)]
    return [os.fspath(path) for path in paths]


def run(
    options: Options, tasks_of: TasksOf, then: Callable[[RunResults], None] | None = None
) -> Summary:
    """Brings the tables at ``options.out`` up to date. Raises DcpInspectError; after an error or
    Ctrl-C the tables are as they were.

    ``then``: called with the results of all captures, once the tables have them; not called if
    there was nothing new. This process then puts the results together, and has all streams;
    otherwise a task does.
    """
    manifest = Manifest.read_newest(options.out)
    paths = files_of(options.captures, without=manifest.out)
    keylogs = [path for _, path in options.secrets.keylogs]
    with as_private_as([*paths, *keylogs, manifest.path(FOLDER)], manifest.out), manifest.locked():
        manifest = _with_options(Manifest.read_newest(options.out).settled(), options)
        manifest.clean()
        going = _RunInProgress(manifest, options, has_whole=then is not None)
        summary = going.run(paths, tasks_of)
        if then is not None and going.results is not None:
            then(going.results)
        return summary


def expire(options: Options, before_ns: int, tasks_of: TasksOf) -> Summary:
    """Removes captures whose last packet is older than ``before_ns`` from the tables, with all
    results that only they gave.

    Connections that continue in other captures are followed again, from their packets there. Raises
    DcpInspectError, as ``run`` does.
    """
    manifest = Manifest.newest(options.out)
    with as_private_as([manifest.path(FOLDER)], manifest.out), manifest.locked():
        manifest = _with_options(Manifest.newest(options.out).settled(), options)
        manifest.clean()
        return _RunInProgress(manifest, options).expire(before_ns, tasks_of)


def _with_options(manifest: Manifest, options: Options) -> Manifest:
    """Returns the manifest with the options of the run, which must be those of the runs before.
    Raises UsageError.
    """
    run_options = {
        "capture_point": options.point_rule
        if options.point_rule is None
        else check_rule(options.point_rule),
        "extra_ports": None if options.extra_ports is None else sorted(set(options.extra_ports)),
        "find_ports": options.find_ports,
    }
    if manifest.options.get("decrypted") and not options.secrets.keylogs:
        raise UsageError(
            f"--keylog: {escape(options.out)} was made with one; give it again, or name a new "
            "directory"
        )
    if not manifest.number:
        usual: dict[str, Any] = {
            "capture_point": BY_DIRECTORY,
            "extra_ports": [],
            "find_ports": False,
            "decrypted": False,
        }
        manifest = replace(
            manifest,
            options={
                **usual,
                **{name: value for name, value in run_options.items() if value is not None},
            },
        )
        if not options.redacts:
            return manifest.with_salt(options.salt_file)
        salt = Salt.read_or_make(manifest.out, options.salt_file, makes=True)
        return replace(manifest, options={**manifest.options, "redacted": salt.mark}, salt=salt)
    for name, value in run_options.items():
        if value is not None and value != manifest.options[name]:
            option = "--capture-point" if name == "capture_point" else "--port"
            raise UsageError(
                f"{option}: {escape(options.out)} was made with another one; leave it out, or "
                "name a new directory"
            )
    if options.redacts is not None and options.redacts != manifest.is_redacted:
        has = (
            "has pseudonyms; give --redact again"
            if manifest.is_redacted
            else "was written without it; leave it out"
        )
        raise UsageError(f"--redact: {escape(options.out)} {has}, or name a new directory")
    return manifest.with_salt(options.salt_file)


class _RunInProgress:
    def __init__(self, manifest: Manifest, options: Options, *, has_whole: bool = False) -> None:
        """``has_whole``: this process is to have the results of all captures."""
        self.manifest = manifest
        self.options = options
        self.batch = manifest.number + 1
        self.out = manifest.out
        self.written: list[WrittenFile] = []
        """Files of tasks that this run is to name."""
        self.summary = Summary(options.out, self.batch)
        self.has_whole = has_whole
        self.results: RunResults | None = None
        """Results of all captures, if they are wanted; None if there was nothing new."""

    def run(self, paths: Mapping[str, str], tasks_of: TasksOf) -> Summary:
        manifest = self.manifest
        with self._timed("whole"):
            before = [unit_read.unit for unit_read in manifest.units if not unit_read.continued]
            units, points = units_of(
                paths, manifest.options["capture_point"], manifest.points, before
            )
            is_many = sum(not unit.head for unit in units) > FEW
            new = [] if is_many else self._new(_digested(TaskRunner(), units))
            is_stale = bool(manifest.number) and manifest.program != program()
            opened_parts = _newly_readable(manifest, self.options.secrets)
            has_work = not manifest.number or is_stale or bool(opened_parts)
            if not (new or is_many or has_work):
                return self._as_before()
            start = time.monotonic()
            with tasks_of() as tasks:
                self._took("start", start)
                if is_many:
                    new = self._new(_digested(tasks, units))
                    if not (new or has_work):
                        return self._as_before()
                self._work(
                    tasks,
                    replace(manifest, points=points, program=program()),
                    new,
                    is_stale=is_stale,
                    opened_files=opened_parts,
                )
        return self.summary

    def _new(self, units: Sequence[Unit]) -> list[Unit]:
        """Returns the captures that were not read before."""
        new = plan.new_units(self.manifest, units)
        self.summary.known, self.summary.copies = len(units) - len(new), plan.copies_in(units)
        return new

    def expire(self, before_ns: int, tasks_of: TasksOf) -> Summary:
        manifest, last = self.manifest, plan.last_times(self.manifest.units)
        units, gone = list(manifest.units), []
        for number, time_ns in enumerate(last):
            if units[number].counts and time_ns is not None and time_ns < before_ns:
                units[number] = replace(units[number], expired=True)
                gone.append(units[number])
        self.summary.expired = sum(not unit.begins for unit in gone)
        if not gone:
            return self._as_before()
        with_secrets = {unit.unit.point for unit in gone if unit.report.secrets}
        with self._timed("whole"), tasks_of() as tasks:
            is_stale = manifest.program != program()
            opened_parts = _newly_readable(manifest, self.options.secrets)
            opened_parts |= {
                manifest_part.file
                for manifest_part in manifest.parts
                if manifest_part.point in with_secrets
            }
            done = self._work(
                tasks,
                replace(manifest, units=units, program=program()),
                [],
                is_stale=is_stale,
                opened_files=opened_parts,
            )
        done.clean()  # removes the packets at once
        return self.summary

    def _as_before(self) -> Summary:
        self.summary.batch, self.summary.kept_parts = self.manifest.number, len(self.manifest.parts)
        self.summary.rows = dict(rows_of(self.manifest))
        self.summary.findings = findings_of(self.manifest)
        return self.summary

    def _work(
        self,
        tasks: TaskRunner,
        manifest: Manifest,
        units: Sequence[Unit],
        *,
        is_stale: bool,
        opened_files: Collection[str],
    ) -> Manifest:
        """Does everything, and returns the manifest that it has committed."""
        secrets = self.options.secrets
        if secrets.keylogs:
            manifest = replace(manifest, options={**manifest.options, "decrypted": True})
        with self._timed("scan"):
            read = self._scanned(tasks, units)
        with self._timed("stitch"):
            manifest, is_renumbered = plan.numbered(manifest, read)
            if any(report.report.secrets for report in read):
                opened_files = {*opened_files, *_newly_readable(manifest, secrets)}
            stay, works = plan.divide(
                manifest,
                tasks.processors,
                anew=is_stale or is_renumbered,
                secrets=secrets,
                opened=opened_files,
            )
        with self._timed("analysis"):
            works, analysed = _analysed(tasks, works)
        with self._timed("merge"):
            manifest = replace(manifest, parts=[*stay, *map(self._manifest_part, works, analysed)])
            joining = RunParts.from_manifest(manifest, self.batch, secrets)
            if self.has_whole:
                self.results, together = put_together(joining, tasks)
            else:
                together = put_together_apart(joining, tasks)
        with self._timed("tables"):
            manifest_parts, rows = self._with_rows(tasks, manifest, together.rows)
        with self._timed("write"):
            manifest = replace(manifest, parts=manifest_parts).divided(anew=is_stale)
            tables = {**together.tables, **write_captures(manifest, self.batch)}
        with self._timed("commit"):
            messages = [report for report in self.written if report.path.endswith(".parquet")]
            verify([*self.written, *chain(*rows.values())])
            tables.update(
                (name, WrittenAnew(units, manifest.of_parts_gone(name)))
                for name, units in rows.items()
            )
            manifest = manifest.with_tables(
                tables, messages, _gone(self.manifest.parts, manifest_parts)
            ).commit()
            manifest.clean(self.batch)
        if self.results is not None:
            self.results = replace(self.results, manifest=manifest)
        self._sum_up(manifest, works=len(works))
        return manifest

    def _scanned(self, tasks: TaskRunner, units: Sequence[Unit]) -> list[ReadUnit]:
        total = max(1, sum(unit.size for unit in units))
        counts = [-(-tasks.processors * unit.size // total) for unit in units]
        begun = plan.begins_of(self.manifest, units)
        skipped = [0 if new_scan is None else new_scan.report.packets for new_scan in begun]
        scan_works = [
            (unit, [] if skip else stretches(unit.path, unit.size, count), skip)
            for unit, count, skip in zip(units, counts, skipped, strict=True)
        ]
        scans = self._scans(tasks, scan_works)
        again = [number for number, (report, _) in enumerate(scans) if report is None]
        for number, new_scan in zip(
            again, self._scans(tasks, [(units[number], [], 0) for number in again]), strict=True
        ):
            scans[number] = new_scan
        read = []
        for unit, before, (report, pieces) in zip(units, begun, scans, strict=True):
            assert report is not None, "a capture that is scanned in one stretch has no guesses"
            if report.error is not None and self.options.fails:
                raise CaptureError(
                    unit.name, report.error, "take it away, or leave out --on-error fail"
                )
            as_read = (
                replace(unit, size=report.size, head=report.head, tail=report.tail)
                if report.head
                else unit
            )
            (bundles, _), *more = pieces or [("", 0)]
            is_read = ReadUnit(as_read, report, self.batch, 0, bundles, tuple(more))
            read.append(is_read if before is None or is_read.is_bad else _gone_on(is_read, before))
            self.summary.captures += 1
            self.summary.bytes += report.size
            self.summary.packets += report.packets
        return read

    def _scans(
        self, tasks: TaskRunner, wanted: Sequence[tuple[Unit, Sequence[Stretch], int]]
    ) -> list[tuple[ScanReport | None, list[tuple[str, int]]]]:
        """Returns the reports on units, and the files of their bundles. A report is None if the
        stretches of its unit do not follow one another.

        ``wanted``: each unit, with its stretches, and the number of packets at its start to leave
        out.
        """
        items: list[tuple[str, str, Stretch | None, int]] = []
        sizes: list[int] = []
        for unit, unit_stretches, skip in wanted:
            for stretch in unit_stretches if len(unit_stretches) > 1 else (None,):
                stem = f"{self.out}/{RAW}/{BATCH}{self.batch}/{len(items):06}"
                items.append((unit.path, stem, stretch, skip))
                sizes.append(unit.size if stretch is None else stretch[1] - stretch[0])
        scanned = iter(
            tasks.map(
                "reading captures",
                partial(_scan, salt=self.manifest.salt, **ports(self.manifest)),
                items,
                sizes,
            )
        )
        reports_and_pieces: list[tuple[ScanReport | None, list[tuple[str, int]]]] = []
        for _, unit_stretches, _ in wanted:
            reports, pieces, first = [], [], 0
            for report, written in [next(scanned) for _ in range(max(1, len(unit_stretches)))]:
                reports.append(report)
                pieces += [
                    (self._relative(written_file.path), first) for written_file in written[:1]
                ]
                self.written += written
                first += report.packets
            reports_and_pieces.append((joined(reports) if len(reports) > 1 else reports[0], pieces))
        return reports_and_pieces

    def _manifest_part(self, work: PartTask, shares: Sequence[PartResult]) -> ManifestPart:
        """Returns a part. ``shares``: its tasks' results; the last followed the connections."""
        for share in shares:
            self.written += share.written
        before, last = work.before or ManifestPart("", "", (), 0), shares[-1].part
        rows = sum(share.part.rows for share in shares)
        self.summary.messages += rows

        def of_all(name: str) -> tuple[str, ...]:
            paths = (path for share in shares for path in getattr(share.part, name))
            return tuple(map(self._relative, paths))

        return replace(
            last,
            file=self._relative(last.file),
            messages=(*before.messages, *of_all("messages")),
            rows=rows + before.rows,
            state=self._relative(last.state),
            ending=tuple(map(self._relative, last.ending)),
            looks=(*before.looks, *of_all("looks")),
            ending_looks=of_all("ending_looks"),
            keys=of_all("keys") if last.state else (),
        )

    def _with_rows(
        self, tasks: TaskRunner, manifest: Manifest, new_rows: Sequence[NewRows]
    ) -> tuple[list[ManifestPart], dict[str, list[WrittenFile]]]:
        """Returns the parts with files of the tables that are written per part, and the new ones of
        these files.
        """
        manifest_parts = list(manifest.parts)
        # each table is a task, since a large connection is one part
        items = [
            (
                manifest.path(manifest_parts[rows_of_part.part].file),
                rows_of_part.of_whole,
                name,
                f"{self.out}/{name}/{BATCH}{self.batch}",
            )
            for rows_of_part in new_rows
            for name in SET_APART
        ]
        work = partial(write_part_rows, captures=names_of(manifest.units), salt=manifest.salt)
        sizes = [files.size(path) for path, *_ in items]
        written = iter(tasks.map("writing tables", work, items, sizes))
        rows: dict[str, list[WrittenFile]] = {name: [] for name in SET_APART}
        for rows_of_part in new_rows:
            of_part = {name: file for name in SET_APART if (file := next(written)) is not None}
            manifest_parts[rows_of_part.part] = replace(
                manifest_parts[rows_of_part.part],
                of_whole=rows_of_part.mark,
                tables={name: self._relative(file.path) for name, file in of_part.items()},
            )
            for name, file in of_part.items():
                rows[name].append(file)
        return manifest_parts, rows

    def _relative(self, path: str) -> str:
        return path.removeprefix(f"{self.out}/")

    def _sum_up(self, manifest: Manifest, *, works: int) -> None:
        summary = self.summary
        summary.parts, summary.kept_parts = works, len(manifest.parts) - works
        summary.rows, summary.findings = dict(rows_of(manifest)), findings_of(manifest)
        summary.problems = list(problems(manifest, {self.batch}))
        capture_states = states(manifest, {self.batch})
        summary.quarantined = capture_states.count("bad")
        summary.damaged = capture_states.count("damaged")

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self._took(what, start)

    def _took(self, what: str, start: float) -> None:
        self.summary.seconds[what] = round(time.monotonic() - start, 3)


def _analysed(
    tasks: TaskRunner, works: Sequence[PartTask]
) -> tuple[list[PartTask], list[list[PartResult]]]:
    """Returns the works as they were done, and the results of their shares.

    Works that cannot continue from a state are done from the first packet.
    """
    done = dict(enumerate(works))
    results: dict[int, list[PartResult]] = {}
    while open_works := [number for number in done if number not in results]:
        shares = [
            replace(done[number], share=share)
            for number in open_works
            for share in range(done[number].shares)
        ]
        result = iter(
            tasks.map(
                "following streams",
                analyse,
                shares,
                [outcome.size // outcome.shares for outcome in shares],
            )
        )
        for number in open_works:
            shares_done = [next(result) for _ in range(done[number].shares)]
            if all(outcome.goes_on for outcome in shares_done):
                results[number] = shares_done
            else:
                done[number] = done[number].from_first
    return [*done.values()], [results[number] for number in done]


def _gone(old: Sequence[ManifestPart], now: Sequence[ManifestPart]) -> list[ManifestPart] | None:
    """Returns earlier parts that are gone, each with those of its files of messages that must be
    removed; None if all files must be.
    """
    staying = {name for manifest_part in now for name in manifest_part.messages}
    files = {manifest_part.file for manifest_part in now}
    gone = [
        replace(
            manifest_part,
            messages=tuple(name for name in manifest_part.messages if name not in staying),
        )
        for manifest_part in old
        if manifest_part.file not in files
    ]
    if any(name in staying for manifest_part in old for name in manifest_part.messages):
        return gone
    return None


def _gone_on(later: ReadUnit, before: ReadUnit) -> ReadUnit:
    """Returns a reading that has only the packets after those of an earlier one."""
    report = replace(later.report, shipped=later.report.shipped + before.report.shipped)
    return replace(later, report=report, after=before.bundles, skipped=before.report.packets)


def _scan(
    item: tuple[str, str, Stretch | None, int], **ports: Any
) -> tuple[ScanReport, tuple[WrittenFile, ...]]:
    """Scans a capture to files of this attempt: the bundles, and their index."""
    path, stem, stretch, skipped = item
    target = f"{stem}.{attempt()}.arrow"
    report = scan(path, target, stretch=stretch, skipped=skipped, **ports)
    return report, () if report.error is not None else tuple(
        map(WrittenFile.from_file, (target, f"{target}.index"))
    )


def _digested(tasks: TaskRunner, units: Sequence[Unit]) -> list[Unit]:
    """Returns the units, all with digests; tasks examine the bytes of units without digests."""
    unknown = [unit for unit in units if not unit.head]
    looked_at = iter(
        tasks.map(
            "looking at captures", digested, unknown, [min(unit.size, 2 * END) for unit in unknown]
        )
    )
    return [unit if unit.head else next(looked_at) for unit in units]


def _newly_readable(manifest: Manifest, secrets: Secrets) -> set[str]:
    """Returns the files of the parts with connections that could not be decrypted before, but
    perhaps can be now.
    """
    of_point = cache(lambda point: with_embedded(manifest, secrets, point).read())
    # many connections say the same
    is_opened = cache(lambda point, closed: opens(of_point(point), closed))
    return {
        manifest_part.file
        for manifest_part in manifest.parts
        if any(is_opened(manifest_part.point, closed) for closed in manifest_part.closed)
    }
