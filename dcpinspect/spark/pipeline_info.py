"""Summarizes an output: captures, points, consumers, findings by cause, and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any

from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.spark.duckdb_sql import TableQuery
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.outputs import problems, rows_of
from dcpinspect.spark.outputs import states as states_of
from dcpinspect.streams.session import service_of
from dcpinspect.tables.record_tables import time_text
from dcpinspect.text import words_of

INFO = "dcpinspect.pipeline_info/1"
"""Name and version of the contract."""


def pipeline_info(manifest: Manifest) -> dict[str, Any]:
    """Returns the whole summary, for JSON."""
    counting = [
        unit_read for unit_read in manifest.units if unit_read.counts and not unit_read.continued
    ]  # the last reading of a file has all of its packets
    points = []
    for point in dict.fromkeys(
        unit_read.unit.point for unit_read in manifest.units if not unit_read.expired
    ):
        point_units = [unit_read for unit_read in counting if unit_read.unit.point == point]
        times = [
            time
            for unit_read in point_units
            for time in (unit_read.first_ns, unit_read.last_ns)
            if time is not None
        ]
        points.append(
            {
                "point": point,
                "captures": len(point_units),
                "bytes": sum(unit_read.report.size for unit_read in point_units),
                "packets": sum(unit_read.report.packets for unit_read in point_units),
                "first_time": time_text(min(times)) if times else None,
                "last_time": time_text(max(times)) if times else None,
            }
        )
    states = states_of(manifest)
    return {
        "schema": INFO,
        "runs": manifest.number,
        "program": manifest.program,
        "options": dict(manifest.options),
        "captures": {state: states.count(state) for state in ("ok", "damaged", "bad", "expired")},
        "points": points,
        "consumers": _consumers(manifest),
        "findings": _findings(manifest),
        "tables": dict(rows_of(manifest)),
        "problems": list(problems(manifest)),
    }


def _rows(manifest: Manifest, table: str, columns: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = manifest.dataset(table).to_table(columns=columns).to_pylist()
    return rows


def _consumers(manifest: Manifest) -> list[dict[str, Any]]:
    """Describes each client over all its connections, nodes and captures: servers, times, and
    number of requested vbuckets.

    Clients are those of the table of vbuckets.
    """
    vbuckets_asked: Counter[str] = Counter()
    verdicts: dict[str, Counter[str]] = {}
    client_of: dict[int, str] = {}
    for row in _rows(manifest, "vbuckets", ["client", "vbucket", "verdict", "connections"]):
        vbuckets_asked[row["client"]] += 1
        verdicts.setdefault(row["client"], Counter())[row["verdict"]] += 1
        client_of.update(dict.fromkeys(row["connections"], row["client"]))
    rows_of_client: dict[str, list[dict[str, Any]]] = {}
    columns = [*words_of("connection client server name agent bucket first_time_ns last_time_ns")]
    for row in _rows(manifest, "connections", columns):
        if row["connection"] is not None:
            rows_of_client.setdefault(
                client_of.get(row["connection"]) or _without_vbuckets(row, vbuckets_asked), []
            ).append(row)
    return [
        {
            "client": client,
            "vbuckets": vbuckets_asked[client],
            "verdicts": dict(verdicts.get(client, Counter()).most_common()),
            "connections": [row["connection"] for row in rows],
            "servers": list(
                dict.fromkeys(
                    row["server"] for row in sorted(rows, key=lambda row: row["first_time_ns"])
                )
            ),
            "first_time": time_text(min(row["first_time_ns"] for row in rows)),
            "last_time": time_text(max(row["last_time_ns"] for row in rows)),
        }
        for client, rows in sorted(
            rows_of_client.items(), key=lambda item: (-vbuckets_asked[item[0]], item[0])
        )
    ]


def _without_vbuckets(row: dict[str, Any], known: Container[str]) -> str:
    """Returns the client of a connection without any vbucket: one of the ``known`` clients, if its
    name says so.
    """
    host, name = row["client"].rpartition(":")[0], row["name"]
    named = (
        f"{host} {service_of(name.encode())}" if name else f"{host} {row['agent'] or ''}".rstrip()
    )
    return next(
        (
            client
            for client in (f"{named}@{row['bucket']}", f"{host} connection {row['connection']}?")
            if client in known
        ),
        named,
    )


_BY_CAUSE = """
    select severity, rule, cause, count(*) as findings, sum("count")::bigint as "count",
        len(list_distinct(flatten(list(connections)))) as connections,
        len(list_distinct(flatten(list(vbuckets)))) as vbuckets
    from findings where effect_of is null
    group by severity, rule, cause order by findings desc, rule, cause nulls first
"""


def _findings(manifest: Manifest) -> list[dict[str, Any]]:
    """Groups the findings by rule and cause: the worst first, then the most frequent. Effects of
    others are left out.
    """
    with TableQuery(_BY_CAUSE, manifest) as query:
        causes = [cause for batch in query.result() for cause in batch.to_pylist()]
    return sorted(causes, key=lambda cause: SEVERITIES.index(cause["severity"]))
