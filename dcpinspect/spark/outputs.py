"""The tables of a run made from all parts together, and of its captures, as Parquet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dcpinspect.arrays import IntArray
from dcpinspect.capture.open import series_of
from dcpinspect.findings.finding_records import finding_records, with_counts
from dcpinspect.findings.registry import ORDINARY
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.output.render.verdict import damage_of
from dcpinspect.reading.joining import SET_APART, MergedReading
from dcpinspect.spark import delta
from dcpinspect.spark.attempts import WrittenFile
from dcpinspect.spark.capture_points import read_paths
from dcpinspect.spark.manifest import BATCH, Manifest, ManifestPart, ReadUnit, last_of
from dcpinspect.spark.output_reading import RunResults
from dcpinspect.spark.record_files import WrittenAnew, pieces, written_anew, written_rows
from dcpinspect.spark.scan import ADDRESS_BYTES
from dcpinspect.spark.spark_schema import BAD, CAPTURES, CONNECTIONS, PATHS, spark_table
from dcpinspect.streams.tables import NAMES
from dcpinspect.tables.record_tables import Records
from dcpinspect.text import counted, escape
from dcpinspect.transport.capture_survey import CLOCKS_NS
from dcpinspect.transport.connections import endpoint_text


def write_tables(
    found_in: RunResults, batch: int, there: Mapping[str, Sequence[str]]
) -> dict[str, WrittenAnew]:
    """Writes what is new in all tables that need everything. Returns the changes by table.

    ``there``: the files of each table so far, as paths in its folder.
    """
    manifest, everything = found_in.manifest, found_in.merged
    made = everything.tracker.tables(everything.links, everything.files)
    tables: dict[str, Records] = {
        name: getattr(made, name) for name in NAMES if name not in SET_APART
    }
    assert everything.checker is not None
    checker = everything.checker.only(ORDINARY)
    findings = checker.findings(everything.links, everything.coverage)
    tables = with_counts(tables, findings, checker.clients(everything.links))
    tables["findings"] = finding_records(findings, everything.files)
    arrow = {name: pieces(name, records) for name, records in tables.items()}
    arrow["connections"] = iter([_connections(pa.concat_tables(arrow["connections"]), found_in)])
    paths = pa.concat_tables(
        [
            PATHS.empty_table(),
            *(
                read_paths(manifest.path(manifest_part.file))
                for manifest_part in manifest.parts
                if manifest_part.is_copy
            ),
        ]
    )
    arrow["paths"] = iter(
        [paths.sort_by([("first_time_ns", "ascending"), ("direction", "ascending")])]
    )
    return {
        name: written_anew(f"{manifest.out}/{name}", f"{BATCH}{batch}", rows, there[name])
        for name, rows in arrow.items()
    }


def write_captures(manifest: Manifest, batch: int) -> dict[str, WrittenAnew]:
    """Writes a run's changes of the tables of captures and problems. Returns them by table."""
    pieced: dict[str, list[WrittenFile]] = {}
    for piece in (new_piece for new_piece in manifest.pieces if new_piece.run == batch):
        rows = {
            "captures": _captures(manifest, piece.batches),
            "bad": pa.Table.from_pylist(list(problems(manifest, piece.batches)), schema=BAD),
        }
        for name, table in rows.items():
            pieced.setdefault(name, []).append(
                written_rows(f"{manifest.out}/{name}/{piece.rows}", iter([table]))
            )
    return {name: WrittenAnew(new, manifest.replaced(name)) for name, new in pieced.items()}


def _connections(table: Any, found_in: RunResults) -> Any:
    """Returns the table of connections with ids and points, and with the copies of connections,
    which have no number.
    """
    rows = _placed(table, found_in.merged, list(zip(found_in.kept, found_in.begun, strict=True)))
    copies = spark_table(
        "connections",
        found_in.copies.tracker.tables(found_in.copies.links, found_in.copies.files)
        .by_name["connections"]
        .arrow(),
    )
    connections_between: dict[frozenset[str], list[tuple[int, int]]] = {}
    ends = zip(
        *(
            rows[name].to_pylist()
            for name in ("client", "server", "first_time_ns", "connection_id")
        ),
        strict=True,
    )
    for client, server, first, connection_id in ends:
        connections_between.setdefault(frozenset((client, server)), []).append(
            (first, connection_id)
        )
    originals = {
        (escape(connection_id.point), _ends(ends_here)): _ends(there)
        for connection_id, _ in found_in.copied
        for ends_here, there in connection_id.originals.items()
    }
    copy_rows = _placed(copies, found_in.copies, found_in.copied)
    original_ids = [
        _nearest(
            connections_between,
            originals.get((row["capture_point"], ends), ends),
            row["first_time_ns"],
        )
        for row in copy_rows.select(
            ["client", "server", "first_time_ns", "capture_point"]
        ).to_pylist()
        for ends in [frozenset((row["client"], row["server"]))]
    ]
    for name, column in (
        ("duplicate_of", pa.array(original_ids, pa.int64())),
        ("connection", pa.nulls(len(copy_rows), pa.int64())),
    ):
        copy_rows = copy_rows.set_column(copy_rows.schema.get_field_index(name), name, column)
    return pa.concat_tables([rows, copy_rows])


def _nearest(
    places: Mapping[frozenset[str], Sequence[tuple[int, int]]], ends: frozenset[str], first_ns: int
) -> int | None:
    """Returns the connection between two ends that began nearest to this time."""
    candidates = places.get(ends)
    if candidates is None:
        return None
    return min(candidates, key=lambda connection: abs(connection[0] - first_ns))[1]


def _ends(key: str) -> frozenset[str]:
    """Returns both ends of a group, written as in tables, from its key in hex."""
    octets = bytes.fromhex(key)
    words = np.frombuffer(octets[:ADDRESS_BYTES], ">u4").astype(np.int64)
    ports = np.frombuffer(octets[ADDRESS_BYTES:], ">u2")
    return frozenset(
        (endpoint_text(words[:4], int(ports[0])), endpoint_text(words[4:], int(ports[1])))
    )


def _placed(
    table: Any, everything: MergedReading, parts: Sequence[tuple[ManifestPart, IntArray]]
) -> Any:
    """Returns the connections of parts, with their ids and points."""
    count = 1 + max((link.number for link in everything.links), default=0)
    ids, points = np.zeros(count, np.int64), np.zeros(count, np.int64)
    names = list(dict.fromkeys(manifest_part.point for manifest_part, _ in parts))
    # if there are no parts, one empty part stands in for them
    for (manifest_part, begun), numbers in zip(parts, everything.numbers, strict=False):
        is_row = numbers[1:] < count
        ids[numbers[1:][is_row]] = begun[is_row]
        points[numbers[1:][is_row]] = names.index(manifest_part.point)
    number = table["connection"].to_numpy()
    columns = {name: table[name] for name in table.column_names}
    columns["connection_id"] = pa.array(ids[number])
    columns["capture_point"] = pa.array(list(map(escape, names)), pa.string()).take(
        pa.array(points[number])
    )
    columns["duplicate_of"] = pa.nulls(len(table), pa.int64())
    return pa.table([columns[field.name] for field in CONNECTIONS], schema=CONNECTIONS)


def _captures(manifest: Manifest, batches: Container[int]) -> Any:
    """Returns the table of the captures that these runs have read. A file that has grown has one
    row: that of its last reading.
    """
    rows = []
    last = last_of(manifest.units)
    for unit in manifest.units:
        if unit.continued or unit.batch not in batches:
            continue
        report = unit.report
        rows.append(
            {
                "file": escape(unit.unit.name),
                "capture_point": escape(unit.unit.point),
                "path": escape(unit.unit.path),
                "state": _state(unit, last),
                "format": report.format or None,
                "bytes": report.size if not unit.is_bad else unit.unit.size,
                "first_time": None if unit.first_ns is None else unit.first_ns // 1000,
                "first_time_ns": unit.first_ns,
                "last_time": None if unit.last_ns is None else unit.last_ns // 1000,
                "last_time_ns": unit.last_ns,
                "packets": report.packets,
                "used": report.shipped,
                "problems": len(report.problems) + unit.is_bad,
                "batch": unit.batch,
            }
        )
    return pa.Table.from_pylist(rows, schema=CAPTURES)


def states(manifest: Manifest, batches: Container[int] | None = None) -> list[str]:
    """Returns the states of captures: ``ok``, ``damaged``, ``bad``, or ``expired``. ``batches``:
    only of these runs.
    """
    last = last_of(manifest.units)
    return [
        _state(unit, last)
        for unit in manifest.units
        if not unit.continued and (batches is None or unit.batch in batches)
    ]


def _state(one: ReadUnit, last: Mapping[str, ReadUnit]) -> str:
    if one.expired:
        return "expired"
    if one.is_bad:
        return "bad"
    is_whole = all(_severity(one, problem, last) == "note" for _, problem in one.report.problems)
    return "ok" if is_whole else "damaged"


def problems(manifest: Manifest, batches: Container[int] | None = None) -> Iterable[dict[str, Any]]:
    """Yields the problems of captures, row by row. ``batches``: those that these runs read."""
    last, beside = last_of(manifest.units), _beside(manifest.units)
    for unit in manifest.units:
        if unit.continued or unit.expired or (batches is not None and unit.batch not in batches):
            continue
        all_problems: list[tuple[str, int | None, str]] = []
        if unit.base in beside and not unit.is_bad:
            reason = (
                f"has packets of the same time as {escape(beside[unit.base].unit.name)}, and is of "
                "the same capture point: if it was recorded elsewhere, --capture-point stem keeps "
                "the two apart"
            )
            all_problems.append(("note", None, reason))
        if unit.report.error is not None:
            all_problems.append(("error", None, escape(unit.report.error)))
        all_problems += [
            (_severity(unit, problem, last), offset, escape(problem))
            for offset, problem in unit.report.problems
        ]
        columns = {"file": escape(unit.unit.name), "capture_point": escape(unit.unit.point)}
        for severity, offset, what in all_problems:
            yield {**columns, "severity": severity, "offset": offset, "what": what}


def _beside(units: Iterable[ReadUnit]) -> dict[int, ReadUnit]:
    """Returns, of each capture point, the first capture that cannot go on where another one ends,
    because both have packets of the same time: by number of its first packet, with the other one.
    """
    beside: dict[int, ReadUnit] = {}
    noted_points: set[str] = set()
    latest: dict[str, tuple[int, ReadUnit]] = {}
    timed = [
        (unit.first_ns, unit.last_ns, unit)
        for unit in units
        if unit.counts
        and not (unit.begins or unit.after)
        and unit.first_ns is not None
        and unit.last_ns is not None
    ]
    for first_ns, last_ns, unit in sorted(timed, key=lambda timed_unit: timed_unit[:2]):
        until_ns, other = latest.get(unit.unit.point, (first_ns, unit))
        is_ring = series_of(unit.unit.name) == series_of(other.unit.name)
        if until_ns - first_ns > CLOCKS_NS and not is_ring and unit.unit.point not in noted_points:
            beside[unit.base] = other
            noted_points.add(unit.unit.point)
        if last_ns >= until_ns:
            latest[unit.unit.point] = last_ns, unit
    return beside


def damage(manifest: Manifest) -> str:
    """Returns the problems of captures in a few words."""
    problem_rows = list(problems(manifest))
    unread = sum(row["severity"] == "error" for row in problem_rows)
    damaged = damage_of(
        (row["file"], row["what"]) for row in problem_rows if row["severity"] == "warning"
    )
    return " · ".join(
        filter(None, [f"{counted(unread, 'file')} could not be read" if unread else "", damaged])
    )


def _severity(one: ReadUnit, what: str, last: Mapping[str, ReadUnit]) -> str:
    """Returns how bad a problem is. The newest capture of a point usually ends inside a record,
    because it is being written: only a note.

    ``last``: the result of ``last_of``.
    """
    is_end = what.startswith(("the last record is cut short", "the last block is cut short"))
    return "note" if is_end and last.get(one.unit.point) is one else "warning"


def rows_of(manifest: Manifest) -> Mapping[str, int]:
    """Returns the number of rows of every table."""
    return {name: delta.rows(manifest.table(name)) for name in manifest.tables}


def findings_of(manifest: Manifest) -> dict[str, int]:
    """Returns the number of findings by severity, the worst first."""
    severity_counts = Counter(
        manifest.dataset("findings").to_table(columns=["severity"])["severity"].to_pylist()
    )
    return {
        severity: severity_counts[severity]
        for severity in SEVERITIES
        if severity in severity_counts
    }
