"""The tables of a run that are made from all parts together, and those of its captures, written as Parquet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dcpinspect.capture.batch import Column
from dcpinspect.escape import escape
from dcpinspect.findings.record import finding_records, with_counts
from dcpinspect.findings.registry import ORDINARY, RULES
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.parts import SET_APART, Merged
from dcpinspect.render.lines import counted
from dcpinspect.render.verdict import damage_of
from dcpinspect.spark import delta
from dcpinspect.spark.attempts import Written
from dcpinspect.spark.manifest import BATCH, Manifest, ManifestPart, Read, last_of
from dcpinspect.spark.paths import read_paths
from dcpinspect.spark.record_files import WrittenAnew, pieces, written_anew, written_rows
from dcpinspect.spark.scan import ADDRESS_BYTES
from dcpinspect.spark.schema import kept
from dcpinspect.spark.stored import BAD, CAPTURES, CONNECTIONS, PATHS
from dcpinspect.spark.whole import RunResults
from dcpinspect.streams.tables import NAMES
from dcpinspect.tables.records import Records
from dcpinspect.transport.connections import endpoint_text


def write_tables(found_in: RunResults, batch: int, there: Mapping[str, Sequence[str]]) -> dict[str, WrittenAnew]:
    """Writes what is new in all tables that need everything. Returns the changes by table.

    ``there``: the files of each table so far, as paths in its folder.
    """
    manifest, everything = found_in.manifest, found_in.merged
    made = everything.tracker.tables(everything.links, everything.files)
    tables: dict[str, Records] = {name: getattr(made, name) for name in NAMES if name not in SET_APART}
    assert everything.checker is not None
    checker = everything.checker.only(ORDINARY)
    found = checker.findings(everything.links, everything.coverage)
    tables["vbuckets"] = with_counts(tables["vbuckets"], found, checker.clients(everything.links))
    tables["findings"] = finding_records(found, RULES, everything.files)
    arrow = {name: pieces(name, records) for name, records in tables.items()}
    arrow["connections"] = iter([_connections(pa.concat_tables(arrow["connections"]), found_in)])
    paths = pa.concat_tables([PATHS.empty_table(), *(read_paths(manifest.path(part.file)) for part in manifest.parts if part.is_copy)])
    arrow["paths"] = iter([paths.sort_by([("first_time_ns", "ascending"), ("direction", "ascending")])])
    return {name: written_anew(f"{manifest.out}/{name}", f"{BATCH}{batch}", rows, there[name]) for name, rows in arrow.items()}


def write_captures(manifest: Manifest, batch: int) -> dict[str, WrittenAnew]:
    """Writes what a run changes in the tables of captures and their problems. Returns the changes by table."""
    pieced: dict[str, list[Written]] = {}
    for piece in (one for one in manifest.pieces if one.run == batch):
        rows = {
            "captures": _captures(manifest, piece.batches),
            "bad": pa.Table.from_pylist(list(problems(manifest, piece.batches)), schema=BAD),
        }
        for name, table in rows.items():
            pieced.setdefault(name, []).append(written_rows(f"{manifest.out}/{name}/{piece.rows}", iter([table])))
    return {name: WrittenAnew(new, manifest.replaced(name)) for name, new in pieced.items()}


def _connections(table: Any, found_in: RunResults) -> Any:
    """Returns the table of connections with ids and points, and with the copies of connections, which have no number."""
    rows = _placed(table, found_in.merged, list(zip(found_in.kept, found_in.begun, strict=True)))
    copies = kept(
        "connections", found_in.copies.tracker.tables(found_in.copies.links, found_in.copies.files).by_name["connections"].arrow()
    )
    places: dict[frozenset[str], list[tuple[int, int]]] = {}
    ends = zip(*(rows[name].to_pylist() for name in ("client", "server", "first_time_ns", "connection_id")), strict=True)
    for client, server, first, one in ends:
        places.setdefault(frozenset((client, server)), []).append((first, one))
    originals = {(escape(one.point), _ends(here)): _ends(there) for one, _ in found_in.copied for here, there in one.originals.items()}
    found = _placed(copies, found_in.copies, found_in.copied)
    of = [
        _nearest(places, originals.get((row["capture_point"], ends), ends), row["first_time_ns"])
        for row in found.select(["client", "server", "first_time_ns", "capture_point"]).to_pylist()
        for ends in [frozenset((row["client"], row["server"]))]
    ]
    found = found.set_column(found.schema.get_field_index("duplicate_of"), "duplicate_of", pa.array(of, pa.int64()))
    found = found.set_column(found.schema.get_field_index("connection"), "connection", pa.nulls(len(found), pa.int64()))
    return pa.concat_tables([rows, found])


def _nearest(places: Mapping[frozenset[str], Sequence[tuple[int, int]]], ends: frozenset[str], first_ns: int) -> int | None:
    """Returns the connection between two ends that began nearest to this time."""
    known = places.get(ends)
    return None if known is None else min(known, key=lambda place: abs(place[0] - first_ns))[1]


def _ends(key: str) -> frozenset[str]:
    """Returns both ends of a group, written as in tables, from its key in hex."""
    octets = bytes.fromhex(key)
    words, ports = np.frombuffer(octets[:ADDRESS_BYTES], ">u4").astype(np.int64), np.frombuffer(octets[ADDRESS_BYTES:], ">u2")
    return frozenset((endpoint_text(words[:4], int(ports[0])), endpoint_text(words[4:], int(ports[1]))))


def _placed(table: Any, everything: Merged, parts: Sequence[tuple[ManifestPart, Column]]) -> Any:
    """Returns the connections of parts, with their ids and points."""
    count = 1 + max((link.number for link in everything.links), default=0)
    ids, points = np.zeros(count, np.int64), np.zeros(count, np.int64)
    names = list(dict.fromkeys(one.point for one, _ in parts))
    for (one, begun), numbers in zip(parts, everything.numbers, strict=False):  # if there are no parts, one empty part stands in for them
        chosen = numbers[1:] < count
        ids[numbers[1:][chosen]] = begun[chosen]
        points[numbers[1:][chosen]] = names.index(one.point)
    number = table["connection"].to_numpy()
    columns = {name: table[name] for name in table.column_names}
    columns["connection_id"] = pa.array(ids[number])
    columns["capture_point"] = pa.array(list(map(escape, names)), pa.string()).take(pa.array(points[number]))
    columns["duplicate_of"] = pa.nulls(len(table), pa.int64())
    return pa.table([columns[field.name] for field in CONNECTIONS], schema=CONNECTIONS)


def _captures(manifest: Manifest, batches: Container[int]) -> Any:
    """Returns the table of the captures that these runs have read. A file that has grown has one row: that of its last reading."""
    rows = []
    last = last_of(manifest.units)
    for one in manifest.units:
        if one.continued or one.batch not in batches:
            continue
        report = one.report
        rows.append(
            {
                "file": escape(one.unit.name),
                "capture_point": escape(one.unit.point),
                "path": escape(one.unit.path),
                "state": _state(one, last),
                "format": report.format or None,
                "bytes": report.size if not one.is_bad else one.unit.size,
                "first_time": None if report.first_ns is None else report.first_ns // 1000,
                "first_time_ns": report.first_ns,
                "last_time": None if report.last_ns is None else report.last_ns // 1000,
                "last_time_ns": report.last_ns,
                "packets": report.packets,
                "used": report.shipped,
                "problems": len(report.problems) + one.is_bad,
                "batch": one.batch,
            }
        )
    return pa.Table.from_pylist(rows, schema=CAPTURES)


def states(manifest: Manifest, batches: Container[int] | None = None) -> list[str]:
    """Returns the states of captures: ``ok``, ``damaged``, ``bad``, or ``expired``. ``batches``: only of these runs."""
    last = last_of(manifest.units)
    return [_state(one, last) for one in manifest.units if not one.continued and (batches is None or one.batch in batches)]


def _state(one: Read, last: Mapping[str, Read]) -> str:
    if one.expired:
        return "expired"
    if one.is_bad:
        return "bad"
    is_whole = all(_severity(one, what, last) == "note" for _, what in one.report.problems)
    return "ok" if is_whole else "damaged"


def problems(manifest: Manifest, batches: Container[int] | None = None) -> Iterable[dict[str, Any]]:
    """Yields the problems of captures, row by row. ``batches``: only of captures that these runs read."""
    last = last_of(manifest.units)
    for one in manifest.units:
        if one.continued or one.expired or (batches is not None and one.batch not in batches):
            continue
        place = {"file": escape(one.unit.name), "capture_point": escape(one.unit.point)}
        if one.report.error is not None:
            yield {**place, "severity": "error", "offset": None, "what": escape(one.report.error)}
        for offset, what in one.report.problems:
            yield {**place, "severity": _severity(one, what, last), "offset": offset, "what": escape(what)}


def damage(manifest: Manifest) -> str:
    """Returns the problems of captures in a few words."""
    found = list(problems(manifest))
    unread = sum(row["severity"] == "error" for row in found)
    damaged = damage_of((row["file"], row["what"]) for row in found if row["severity"] == "warning")
    return " · ".join(filter(None, [f"{counted(unread, 'file')} could not be read" if unread else "", damaged]))


def _severity(one: Read, what: str, last: Mapping[str, Read]) -> str:
    """Returns how bad a problem is. The newest capture of a point usually ends inside a record, because it is being written: only a note.

    ``last``: the result of ``last_of``.
    """
    is_end = what.startswith(("the last record is cut short", "the last block is cut short"))
    return "note" if is_end and last.get(one.unit.point) is one else "warning"


def rows_of(manifest: Manifest) -> Mapping[str, int]:
    """Returns the number of rows of every table."""
    return {name: delta.rows(manifest.table(name)) for name in manifest.tables}


def findings_of(manifest: Manifest) -> dict[str, int]:
    """Returns the number of findings by severity, the worst first."""
    found = Counter(manifest.dataset("findings").to_table(columns=["severity"])["severity"].to_pylist())
    return {severity: found[severity] for severity in SEVERITIES if severity in found}
