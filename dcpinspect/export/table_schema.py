"""The JSON Schema of a record of each table, made from the table's own columns.

``python -m dcpinspect.export.table_schema`` writes the schemas to ``schemas``, which is part of the package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcpinspect.comparison.contracts import DIFFERENCES, PATHS
from dcpinspect.findings.finding import OVER
from dcpinspect.findings.record import FINDINGS
from dcpinspect.logs.events import LOG_EVENTS
from dcpinspect.streams.contracts import ALL, CONNECTIONS, GAPS, INFO, SNAPSHOTS, STREAMS
from dcpinspect.streams.story import EVENTS
from dcpinspect.tables.io import IO
from dcpinspect.tables.messages import DIRECTIONS
from dcpinspect.tables.records import FILE, RecordColumn, RecordTable
from dcpinspect.tables.statistics import STATS

_U64 = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
_HEX64 = {"type": "string", "pattern": "^0x[0-9a-f]{16}$"}
_TEXT = {"type": "string"}
_TIME = {"type": "string", "pattern": r"^-?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$"}
_KINDS: dict[str, dict[str, Any]] = {
    "number": {"type": "integer"},
    "u64": _U64,
    "text": _TEXT,
    "word": _TEXT,
    "hex64": _HEX64,
    "time": _TIME,
    "seconds": {"type": "number"},
    "fraction": {"type": "number"},
    "words": {"type": "array", "items": _TEXT},
    "numbers": {"type": "array", "items": {"type": "integer"}},
    "object": {"type": "object"},
    "objects": {"type": "array", "items": {"type": "object"}},
    "controls": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {"value": _TEXT, "status": {"type": ["string", "null"]}},
            "required": ["value", "status"],
            "additionalProperties": False,
        },
    },
    "log": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"uuid": _HEX64, "seqno": _U64},
            "required": ["uuid", "seqno"],
            "additionalProperties": False,
        },
    },
    "counts": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    "seqnos": {"type": "array", "items": _U64},
    "places": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "connection": {"type": "integer"},
                "direction": {"enum": list(DIRECTIONS)},
                "stream_offset": {"type": "integer"},
                "file": _TEXT,
                "frame": {"type": "integer"},
            },
            "required": ["connection", "direction", "stream_offset", "file", "frame"],
            "additionalProperties": False,
        },
    },
    "cases": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "client": {"type": ["string", "null"]},
                "connection": {"type": ["integer", "null"]},
                "vbuckets": {"type": "array", "items": {"type": "integer"}},
                "sid": {"type": ["integer", "null"]},
                "message": _TEXT,
                "rows": {"type": "array", "items": {"type": "integer"}},
                "seqnos": {"type": "array", "items": _U64},
                "facts": {"type": "object", "additionalProperties": {"type": ["integer", "string"]}},
                "first_time": {"anyOf": [_TIME, {"type": "null"}]},
                "last_time": {"anyOf": [_TIME, {"type": "null"}]},
                "count": {"type": "integer"},
                "over": {"enum": list(OVER)},
                "over_row": {"type": ["integer", "null"]},
            },
            "required": ["client", "connection", "vbuckets", "message", "rows", "seqnos", "facts", "count", "over"],
        },
    },
}


def table_schema(table: RecordTable) -> dict[str, Any]:
    """Returns the schema of one record. Every key is always there; further keys may be added within the version."""
    properties = {"schema": {"const": table.schema}, **{column.name: _of(column) for column in table.columns}}
    properties["file"] = {**_TEXT, "description": f"{FILE.doc}, where several are read"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A record of the {table.name}s, as dcpinspect exports it",
        "type": "object",
        "properties": properties,
        "required": ["schema", *(column.name for column in table.columns)],
    }


def _of(column: RecordColumn) -> dict[str, Any]:
    """Returns the schema of a column; any column may be null."""
    form = dict(_KINDS[column.kind])
    if column.kind == "word" and column.words:
        form = {"enum": list(column.words)}
    elif column.kind == "counts" and column.words:
        form["propertyNames"] = {"enum": list(column.words)}
    return {"anyOf": [form, {"type": "null"}], "description": column.doc}


def timeline_schema() -> dict[str, Any]:
    """Returns the schema of a timeline: one vbucket's part of the tables, and its events in order."""
    own = {f"{table.name}s": {"type": "array", "items": _inner(table)} for table in (STREAMS, SNAPSHOTS, GAPS)}
    shown = ("connection", "client", "server", "name", "verdict", "closed_by")
    connection = {column.name: _of(column) for column in CONNECTIONS.columns if column.name in shown}
    event = {
        "row": {"type": "integer", "description": "row of the message that shows it, or after which it was"},
        "time": {"anyOf": [_KINDS["time"], {"type": "null"}], "description": "of that message; null for a gap"},
        "connection": {"type": "integer"},
        "sid": {"type": ["integer", "null"]},
        "stream": {"type": "integer"},
        "event": {"enum": list(EVENTS)},
        "text": {"type": "string"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The timeline of a vbucket, as dcpinspect exports it",
        "type": "object",
        "properties": {
            "schema": {"const": "dcpinspect.timeline/1"},
            "vbucket": {"type": "integer"},
            "connections": {"type": "array", "items": {"type": "object", "properties": connection, "required": list(connection)}},
            **own,
            "events": {"type": "array", "items": {"type": "object", "properties": event, "required": list(event)}},
        },
        "required": ["schema", "vbucket", "connections", *own, "events"],
    }


def _inner(table: RecordTable) -> dict[str, Any]:
    return {key: value for key, value in table_schema(table).items() if not key.startswith("$")}


_TABLES = (*ALL, FINDINGS, DIFFERENCES, PATHS, INFO, IO, STATS, LOG_EVENTS)
SCHEMAS = {**{table.name: table_schema(table) for table in _TABLES}, "timeline": timeline_schema()}
"""Schemas by the names of their files."""


if __name__ == "__main__":
    import orjson

    for name, schema in SCHEMAS.items():
        path = Path(__file__).parent / "schemas" / f"{name}.json"
        path.write_bytes(orjson.dumps(schema, option=orjson.OPT_INDENT_2) + b"\n")
