"""The JSON Schema of a message and of a record of each table, made from what they are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dcpinspect.diff.difference_columns import DIFFERENCES, PATHS
from dcpinspect.findings.finding import OVER
from dcpinspect.findings.finding_records import FINDINGS
from dcpinspect.findings.logs.log_events import LOG_EVENTS
from dcpinspect.output.export.json import SCHEMA, has_names, is_worded
from dcpinspect.protocol.fields import Field, FieldKind, Layout, RecordList
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.streams.story import EVENTS
from dcpinspect.streams.table_columns import ALL, CONNECTIONS, GAPS, INFO, SNAPSHOTS, STREAMS
from dcpinspect.tables.column_kinds import KINDS, Column
from dcpinspect.tables.io_series import IO
from dcpinspect.tables.message_statistics import STATS
from dcpinspect.tables.record_tables import FILE, RecordTable
from dcpinspect.tables.schema import BY_NAME, meaning_by_command
from dcpinspect.text import entries

_HEX64 = {"type": "string", "pattern": "^0x[0-9a-f]{16}$"}
_HEX = {"type": "string", "pattern": "^([0-9a-f]{2})*$"}
_TEXT_OR_HEX = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"hex": _HEX},
            "required": ["hex"],
            "additionalProperties": False,
        },
    ]
}
_STRING = {"type": "string"}
_NAME = {**_STRING, "description": "name of the number, if it has one"}
_COUNT = {"type": "integer", "minimum": 0}
_WORDS = {"type": "array", "items": {"type": "string"}}
_ANY_JSON = {"type": ["object", "array", "string", "number", "boolean", "null"]}


def _integer(least: int, greatest: int | None = None, **more: Any) -> dict[str, Any]:
    """Returns the schema of a whole number within bounds."""
    bounds = {} if greatest is None else {"maximum": greatest}
    return {"type": "integer", "minimum": least, **bounds, **more}


def maybe(kind: str, **more: Any) -> dict[str, Any]:
    """Returns the schema of a simple value that may be null."""
    return {"type": [kind, "null"], **more}


def record(required: str, **properties: Any) -> dict[str, Any]:
    """Returns the schema of an object. ``required``: the keys that it always has."""
    return {"type": "object", "properties": properties, "required": required.split()}


def _always(description: str) -> dict[str, Any]:
    return {"const": True, "description": description}


def list_of(items: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Returns the schema of a list."""
    return {"type": "array", "items": items, **more}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _of_field(spec: Field) -> dict[str, Any]:
    if spec.flags:
        return _WORDS
    if spec.words:
        return {"type": "string"}
    if is_worded(spec):
        return {"anyOf": [_COUNT, {"enum": [*(spec.values or {}).values()]}]}
    if spec.kind in (FieldKind.UUID, FieldKind.CAS):
        return _HEX64
    if spec.kind is FieldKind.I64:
        return {"type": "integer"}
    return _COUNT if spec.kind.size else _TEXT_OR_HEX


def _specific() -> dict[str, Any]:
    """Returns the keys that only some messages have, of all layouts; one of two types has both, and
    one of several meanings all, as columns.
    """
    forms_of: dict[str, list[dict[str, Any]]] = {}
    meanings_of: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for layout in LAYOUTS:
        command = opcode_name(layout.opcode, server=layout.server)
        for name, form in _keys(layout):
            doc = form.pop("description")
            meanings_of.setdefault(name, {}).setdefault(doc, []).append((command, layout.side))
            forms = forms_of.setdefault(name, [])
            if form not in forms:
                forms.append(form)
    return {
        name: {
            **(forms[0] if len(forms) == 1 else {"anyOf": forms}),
            "description": meaning_by_command(meanings_of[name]),
        }
        for name, forms in sorted(forms_of.items())
    }


def _keys(layout: Layout) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the keys of a layout's messages, each with its form and description."""
    for item in (*layout.extras, *layout.value):
        if isinstance(item, RecordList):
            single = len(item.fields) == 1
            inner = {
                field.name: {**_nullable(_of_field(field)), "description": field.doc}
                for field in item.fields
            }
            names = {f"{field.name}_name": _NAME for field in item.fields if has_names(field)}
            # where a length was not captured, what it measures is not there
            always = [field.name for field in item.fields if field.kind.size]
            records = (
                {"type": "string"}
                if single
                else {"type": "object", "properties": inner | names, "required": always}
            )
            yield item.name, {"type": "array", "items": records, "description": item.doc}
            continue
        for slot in item.slots:
            kinds: dict[str, dict[str, Any]] = {
                "u64": _COUNT,
                "u32": _COUNT,
                "bool": {"type": "boolean"},
                "string": _TEXT_OR_HEX,
            }
            yield slot.name, {**kinds[slot.kind], "description": slot.doc}
        if item.name in ("key", "value") or item.reserved:
            continue
        for name in (item.name, item.alias):
            if name:
                yield name, {**_nullable(_of_field(item)), "description": item.doc}
        if has_names(item):
            yield f"{item.name}_name", dict(_NAME)


def message_schema() -> dict[str, Any]:
    """Returns the schema of one message object."""
    base: dict[str, Any] = {
        "schema": {"const": SCHEMA},
        "row": _integer(1, description="number of the message in the reading, before any filter"),
        "file": _TEXT_OR_HEX,
        "frame": _integer(
            1, description="least packet number, in its file, that carried bytes of the message"
        ),
        "last_frame": _integer(1, description="greatest such packet number"),
        "time": {
            "type": "string",
            "pattern": r"^-?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$",
            "description": "of the last such packet",
        },
        "connection": _integer(1),
        "client": _STRING,
        "server": _STRING,
        "direction": {"enum": ["c2s", "s2c"]},
        "stream_offset": _integer(
            0, description="payload bytes of this direction before the message"
        ),
        "length": _integer(24, description="bytes of the whole message on the wire"),
        "side": {"enum": ["request", "response"]},
        "magic": _integer(0, 255),
        "opcode": _integer(0, 255),
        "name": _STRING,
        "layout": maybe("string", description="generation of the layout that fits"),
        "vbucket": maybe("integer", minimum=0, maximum=65535),
        "status": _nullable(
            record(
                "code name meaning",
                code=_integer(0, 65535),
                name={**_STRING, "description": "name of the status"},
                meaning=_STRING,
            )
        ),
        "opaque": maybe("integer", minimum=0, maximum=4294967295),
        "cas": {
            **_nullable(_HEX64),
            "description": "null for a session token, or if it is not in the capture",
        },
        "datatype": _WORDS,
        "sid": maybe("integer", description="DCP stream-id"),
        "collection_id": maybe("integer", minimum=0, maximum=4294967295),
        "collection": maybe(
            "string",
            description="its name, as scope.collection; 0x8 where no message before told it",
        ),
        "key": _nullable(_TEXT_OR_HEX),
        "problems": list_of(
            record(
                "field offset reason",
                rule=_STRING,
                severity={"enum": ["error", "warning", "note"]},
                field=_STRING,
                offset=_COUNT,
                reason=_STRING,
            )
        ),
        "missing": list_of(
            list_of(_COUNT, minItems=2, maxItems=2),
            description="byte ranges [start, end) of the message that the capture does not hold",
        ),
        "value": _nullable({"$ref": "#/$defs/value"}),
    }
    optional: dict[str, Any] = {
        "last_file": _TEXT_OR_HEX,
        "vbucket_from": {"const": "request"},
        "request_row": _integer(1),
        "request_stream_offset": _COUNT,
        "rtt_ns": {"type": "integer"},
        "sync": {"const": "heuristic"},
        "fields": list_of({"$ref": "#/$defs/field"}, description="they tile the message"),
        "note": {"type": "string", "description": "written on it in the terminal UI"},
    }
    specific = {name: form for name, form in _specific().items() if name not in base}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A message, as dcpinspect exports it",
        "type": "object",
        "properties": {**base, **optional, **specific},
        "required": list(base),
        "additionalProperties": False,
        "$defs": {
            "field": {
                **record(
                    "name label offset size hex value meaning",
                    name={**_STRING, "description": "name of the field"},
                    label=_STRING,
                    offset=_COUNT,
                    size=_COUNT,
                    hex=_nullable(_HEX),
                    value={
                        "type": ["integer", "string", "boolean", "null"],
                        "description": "what the field holds",
                    },
                    meaning=maybe("string"),
                    fields=list_of({"$ref": "#/$defs/field"}),
                    inflated=_always("offsets count in the uncompressed value"),
                    hidden=_always("credentials"),
                    redacted=_always(
                        "hex and value are a pseudonym; the size is that of the bytes on the wire"
                    ),
                    missing={"const": True},
                ),
                "additionalProperties": False,
            },
            "value": {
                **record(
                    "encoding compressed size",
                    encoding={"enum": ["json", "text", "binary", "fields", "hidden", "missing"]},
                    compressed={"enum": ["snappy", None]},
                    size=_COUNT,
                    inflated_size=_COUNT,
                    json=_ANY_JSON,
                    text=_STRING,
                    hex=_HEX,
                    xattrs={"type": "object", "additionalProperties": _ANY_JSON},
                    truncated={"const": True},
                ),
                "additionalProperties": False,
            },
        },
    }


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
        "title": f"A record of the kind {table.name}, as dcpinspect exports it",
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
        "severity": {"enum": ["error", "warning", None], "description": "of a finding"},
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


def _described(schema: Any) -> Any:
    """Returns a schema, each member with a description: its own, or that of the column of messages
    that has its name, or the one below.
    """
    if isinstance(schema, list):
        return [_described(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _described(value) for key, value in schema.items()}
    for name, form in inner.get("properties", {}).items():
        if not form.get("description"):
            column = BY_NAME.get(name)
            form["description"] = _MEANINGS.get(name) or ("" if column is None else column.doc)
    return inner


_MEANINGS = dict(
    entries(
        """
        schema: name and version of the contract
        problems: what is wrong with the bytes of the message
        last_file: file of the last packet, where it is another one
        sync: heuristic: found by trying, so nothing proves that a message begins here
        hex: the bytes, two digits each
        code: the number of it
        meaning: in words
        rule: the rule that it is against
        severity: error, warning or note
        field: the field that it is about
        offset: bytes from the start of the message
        reason: what is wrong
        label: name in the specification
        size: number of bytes
        fields: its parts
        missing: not all of it was captured
        encoding: how its bytes are to be read
        compressed: how it was compressed on the wire; null: it was not
        inflated_size: number of bytes after decompression
        json: the value, if it is JSON
        text: as text
        xattrs: extended attributes of the document, by name
        truncated: only its beginning is shown
        uuid: vbucket uuid of the branch
        seqno: where the branch began
        vbuckets: numbers of its vbuckets
        message: what happened, in words
        rows: rows of the messages that show it
        facts: numbers and names of the case, which differ from case to case
        first_time: time of the first message
        last_time: time of the last message
        count: how often it was seen
        over: whether it is over at the end: recovered, open, or neither
        over_row: row of the message with which it was over
        connections: rows of the table of connections
        streams: rows of the table of streams
        snapshots: rows of the table of snapshots
        gaps: rows of the table of gaps
        events: what happened, in order
        stream: which of the streams of the connection and vbucket, from 1
        """
    )
)
"""Descriptions of members that are no columns, or have none of their own."""
_TABLES = (*ALL, FINDINGS, DIFFERENCES, PATHS, INFO, IO, STATS, LOG_EVENTS)
SCHEMAS = {
    "message": _described(message_schema()),
    **{table.name: _described(table_schema(table)) for table in _TABLES},
    "timeline": _described(timeline_schema()),
}
"""Schemas by the names of their outputs."""
