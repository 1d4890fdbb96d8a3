"""The columns of the messages table: name, kind and meaning, in one place for JSON, Arrow, filters
and documentation.

Columns that only some messages have come from the layouts, so a new field there is a new column
here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dcpinspect.errors import UsageError
from dcpinspect.protocol.fields import Field, FieldKind, Layout, RecordList
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.tables.column_kinds import Column, ColumnKind, columns
from dcpinspect.text import did_you_mean, escape

BASE = columns(
    """
    row i64: number of the message in the reading, from 1
    file text: capture file
    frame i64: least packet number, in its file, that carried bytes of the message
    last_frame i64: greatest such packet number
    time time: capture time of the last packet that carried bytes of the message, UTC
    time_ns i64: the same, nanoseconds since 1970
    relative_ns i64: nanoseconds since the first packet of the reading
    connection i64: TCP connection, from 1 in order of first packet
    client text: address of the side that opened the connection
    server text: address of the side that accepted it
    direction text: from client to server, or back
    stream_offset i64: payload bytes of this direction before the message
    length i64: bytes of the whole message on the wire
    side text: what the message is to the exchange that it belongs to
    magic u8: first byte
    opcode u8: command, as a number
    name text: command, by name
    layout text: generation of the layout that fits; null when none does
    vbucket u16: vbucket; of a response, its request's
    vbucket_from text: where the vbucket is known from; null: from the message itself
    status u16: status of a response
    status_name text: status of a response, by name
    opaque u32: the four opaque bytes, big-endian
    cas hex64: the CAS: the version of the document
    datatype words: bits of the datatype, by name
    sid u16: DCP stream-id
    collection_id u32: collection of the key
    collection text: its name, as scope.collection; 0x8 where no message before told it
    key text: key without the collection id; null when it is not UTF-8
    key_bytes bytes: key without the collection id
    value_size i64: bytes of the value on the wire
    request_row i64: row of the request that a response answers
    request_key text: key of that request, without the collection id; null when it is not UTF-8
    request_stream_offset i64: stream offset of that request
    rtt_ns i64: nanoseconds from that request to the response
    missing_bytes i64: bytes of the message that the capture does not hold
    problem text: first rule that the message breaks
    """,
)

FIELD_KINDS: dict[FieldKind, ColumnKind] = {
    FieldKind.U8: "u8",
    FieldKind.U16: "u16",
    FieldKind.U32: "u32",
    FieldKind.U64: "u64",
    FieldKind.SEQNO: "u64",
    FieldKind.UUID: "hex64",
    FieldKind.CAS: "hex64",
    FieldKind.TIME: "u32",
    FieldKind.ID: "u32",
    FieldKind.OPAQUE: "u32",
    FieldKind.STATUS: "u16",
}


def _numbers(layout: Layout) -> Iterator[tuple[str, Field]]:
    """The numbers of a layout under each of their names."""
    for spec in (*layout.extras, *layout.value):
        if isinstance(spec, Field) and not spec.reserved and spec.kind in FIELD_KINDS:
            yield from ((name, spec) for name in (spec.name, spec.alias) if name)


def _specific() -> tuple[Column, ...]:
    base = {column.name for column in BASE}
    fields_of: dict[str, list[tuple[Layout, Field]]] = {
        name: []
        for layout in LAYOUTS
        if layout.columns
        for name, _ in _numbers(layout)
        if name not in base
    }
    for layout in LAYOUTS:
        for name, spec in _numbers(layout):
            if name in fields_of:
                fields_of[name].append((layout, spec))
    return tuple(_column(name, several) for name, several in fields_of.items())


def _column(name: str, several: Sequence[tuple[Layout, Field]]) -> Column:
    """The column of all fields of a name, as wide as the widest."""
    spec = max((spec for _, spec in several), key=lambda spec: spec.kind.size)
    meanings: dict[str, list[tuple[str, str]]] = {}
    for layout, field in several:
        meanings.setdefault(field.doc, []).append(
            (opcode_name(layout.opcode, server=layout.server), layout.side)
        )
    return Column(
        name,
        "words" if spec.flags else "word" if spec.words else FIELD_KINDS[spec.kind],
        meaning_by_command(meanings),
        spec=spec,
    )


_MOST_COMMANDS = 4
"""Commands of one meaning that are named."""


def meaning_by_command(meanings: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """Returns what a column holds; by command if commands differ, and by side if sides differ.
    ``meanings``: with commands and sides.
    """
    if len(meanings) == 1:
        return next(iter(meanings))
    command_count = Counter(
        command for places_of in meanings.values() for command in dict(places_of)
    )
    texts = []
    for meaning, places_of in meanings.items():
        commands = list(
            dict.fromkeys(
                command if command_count[command] == 1 else f"{command} {side}"
                for command, side in places_of
            )
        )
        more = ", …" if len(commands) > _MOST_COMMANDS else ""
        texts.append(f"{', '.join(commands[:_MOST_COMMANDS])}{more}: {meaning}")
    return "; ".join(texts)


def _lists() -> tuple[Column, ...]:
    runs = {
        item.name: item
        for layout in LAYOUTS
        if layout.columns
        for item in layout.value
        if isinstance(item, RecordList)
    }
    return tuple(Column(name, "records", run.doc, records=run) for name, run in runs.items())


SPECIFIC = _specific() + _lists()
"""Columns that only some messages have; null elsewhere."""

COLUMNS = BASE + SPECIFIC
"""The columns of a table by default."""

ON_REQUEST = (
    Column(
        "value",
        "text",
        "value, unwrapped: uncompressed, without xattrs; bytes that are not UTF-8 as 0x and "
        "digits; up to 64 KiB",
    ),
)
"""Columns that are made only if named: they take time, and as much memory as all others."""

BY_NAME = {column.name: column for column in COLUMNS + ON_REQUEST}


def is_ordered(name: str) -> bool:
    """Whether rows can be sorted by a column."""
    return BY_NAME[name].family not in ("list", "records", "bytes")


def column_name(name: str, where: str) -> str:
    """Returns the name if a column has it. Raises UsageError, which says ``where`` it was given and
    what may have been meant.
    """
    if name not in BY_NAME:
        close = did_you_mean(name, BY_NAME) or f"; there are {', '.join(BY_NAME)}"
        raise UsageError(f"{where} {escape(name)}: messages have no such column{close}")
    return name
