"""The JSON Schema of a record of each table, made from the table's own columns."""

from __future__ import annotations

from typing import Any

from dcpinspect.diff.difference_columns import DIFFERENCES, PATHS
from dcpinspect.findings.finding import OVER
from dcpinspect.findings.finding_records import FINDINGS
from dcpinspect.findings.logs.log_events import LOG_EVENTS
from dcpinspect.output.export.message_schema import list_of, maybe, message_schema, record
from dcpinspect.streams.story import EVENTS
from dcpinspect.streams.table_columns import ALL, CONNECTIONS, GAPS, INFO, SNAPSHOTS, STREAMS
from dcpinspect.tables.column_kinds import KINDS, Column
from dcpinspect.tables.io_series import IO
from dcpinspect.tables.message_statistics import STATS
from dcpinspect.tables.record_tables import FILE, RecordTable

_TEXT, _TIME = KINDS["text"].json, KINDS["time"].json
_CASES = list_of(
    record(
        "client connection vbuckets message rows seqnos facts count over",
        client=maybe("string"),
        connection=maybe("integer"),
        vbuckets=KINDS["numbers"].json,
        sid=maybe("integer"),
        message=_TEXT,
        rows=KINDS["numbers"].json,
        seqnos=KINDS["seqnos"].json,
        facts={"type": "object", "additionalProperties": {"type": ["integer", "string"]}},
        first_time={"anyOf": [_TIME, {"type": "null"}]},
        last_time={"anyOf": [_TIME, {"type": "null"}]},
        count={"type": "integer"},
        over={"enum": list(OVER)},
        over_row=maybe("integer"),
    )
)


def table_schema(table: RecordTable) -> dict[str, Any]:
    """Returns the schema of one record. Every key is always there; further keys may be added within
    the version.
    """
    properties = {
        "schema": {"const": table.schema},
        **{column.name: _column_schema(column) for column in table.columns},
    }
    properties["file"] = {**_TEXT, "description": f"{FILE.doc}, where several are read"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A record of the {table.name}s, as dcpinspect exports it",
        "type": "object",
        "properties": properties,
        "required": ["schema", *(column.name for column in table.columns)],
    }


def _column_schema(column: Column) -> dict[str, Any]:
    """Returns the schema of a column; any column may be null."""
    described = {"description": column.doc}
    form = dict(_CASES if column.kind == "cases" else KINDS[column.kind].json)
    if column.kind == "word" and column.words:
        form = {"enum": list(column.words)}
    elif column.kind == "counts" and column.words:
        form["propertyNames"] = {"enum": list(column.words)}
    elif column.kind == "u64" and column.words:
        return {"anyOf": [form, {"enum": list(column.words)}, {"type": "null"}], **described}
    return {"anyOf": [form, {"type": "null"}], **described}


def timeline_schema() -> dict[str, Any]:
    """Returns the schema of a timeline: a vbucket's part of the tables, and its events."""
    table_lists = {f"{table.name}s": list_of(_inner(table)) for table in (STREAMS, SNAPSHOTS, GAPS)}
    column_names = ("connection", "client", "server", "name", "verdict", "closed_by")
    connection = {
        column.name: _column_schema(column)
        for column in CONNECTIONS.columns
        if column.name in column_names
    }
    event = {
        "row": {
            "type": "integer",
            "description": "row of the message that shows it, or after which it was",
        },
        "time": {
            "anyOf": [_TIME, {"type": "null"}],
            "description": "of that message; null for a gap",
        },
        "connection": {"type": "integer"},
        "sid": maybe("integer"),
        "stream": {"type": "integer"},
        "event": {"enum": list(EVENTS)},
        "text": _TEXT,
    }
    columns = record(" ".join(connection), **connection)
    members = {
        "schema": {"const": "dcpinspect.timeline/2"},
        "vbucket": {"type": "integer"},
        "connections": list_of(columns),
        **table_lists,
        "events": list_of(record(" ".join(event), **event)),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The timeline of a vbucket, as dcpinspect exports it",
        **record(" ".join(members), **members),
    }


def _inner(table: RecordTable) -> dict[str, Any]:
    return {key: value for key, value in table_schema(table).items() if not key.startswith("$")}


_TABLES = (*ALL, FINDINGS, DIFFERENCES, PATHS, INFO, IO, STATS, LOG_EVENTS)
SCHEMAS = {
    "message": message_schema(),
    **{table.name: table_schema(table) for table in _TABLES},
    "timeline": timeline_schema(),
}
"""Schemas by the names of their outputs."""
