"""The columns of all tables, and their kinds: what a kind is in Arrow, in the JSON Schema, in
filters and in lists of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import entries

if TYPE_CHECKING:
    from dcpinspect.protocol.fields import Field, RecordList

KindFamily = Literal["number", "text", "hex", "time", "bytes", "list", "truth", "records"]
"""Columns of the same family can be compared."""


@dataclass(frozen=True, slots=True)
class KindDefinition:
    """A kind of values."""

    arrow: Callable[[Any], Any]
    """Gets the module ``pyarrow``, which takes long to load, and returns the type."""
    json: Mapping[str, Any]
    """The JSON Schema of a value that is not null."""
    said: str
    """What lists of columns call it."""
    family: KindFamily | None = None
    """Which columns a filter may compare it with; None: filters cannot use it."""


def _plain(
    arrow: str, json: Mapping[str, Any], said: str, family: KindFamily | None = None
) -> KindDefinition:
    return KindDefinition(lambda pa: getattr(pa, arrow)(), json, said, family)


def _number(name: str, arrow: str, *bounds: int) -> KindDefinition:
    return _plain(
        arrow,
        {"type": "integer", **dict(zip(("minimum", "maximum"), bounds, strict=False))},
        name,
        "number",
    )


def _list(
    of: KindDefinition, said: str = "list", family: KindFamily | None = None
) -> KindDefinition:
    return KindDefinition(
        lambda pa: pa.list_(of.arrow(pa)), {"type": "array", "items": of.json}, said, family
    )


def _struct(**of: KindDefinition) -> KindDefinition:
    members = {name: member.json for name, member in of.items()}
    json = {
        "type": "object",
        "properties": members,
        "required": list(of),
        "additionalProperties": False,
    }
    return KindDefinition(
        lambda pa: pa.struct([(name, member.arrow(pa)) for name, member in of.items()]),
        json,
        "record",
    )


def _map(of: KindDefinition, said: str, family: KindFamily | None = None) -> KindDefinition:
    return KindDefinition(
        lambda pa: pa.map_(pa.string(), of.arrow(pa)),
        {"type": "object", "additionalProperties": of.json},
        said,
        family,
    )


_I64, _U64 = _number("i64", "int64"), _number("u64", "uint64", 0, 2**64 - 1)
_TEXT = _plain("string", {"type": "string"}, "text", "text")
_HEX64 = _plain("string", {"type": "string", "pattern": "^0x[0-9a-f]{16}$"}, "0x-text", "hex")
_TIME = {"type": "string", "pattern": r"^-?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$"}
_FLOAT = _plain("float64", {"type": "number"}, "float")
_STATUS = _plain("string", {"type": ["string", "null"]}, "text")
_DIRECTION = _plain("string", {"enum": ["c2s", "s2c"]}, "text")
_PLACE = _struct(connection=_I64, direction=_DIRECTION, stream_offset=_I64, file=_TEXT, frame=_I64)

ColumnKind = Literal[
    "u8",
    "u16",
    "u32",
    "u64",
    "i64",
    "seconds",
    "fraction",
    "text",
    "word",
    "hex64",
    "time",
    "bytes",
    "bool",
    "words",
    "numbers",
    "seqnos",
    "records",
    "counts",
    "controls",
    "log",
    "places",
    "object",
    "objects",
    "cases",
]
KINDS: dict[ColumnKind, KindDefinition] = {
    "u8": _number("u8", "uint8", 0, 2**8 - 1),
    "u16": _number("u16", "uint16", 0, 2**16 - 1),
    "u32": _number("u32", "uint32", 0, 2**32 - 1),
    "u64": _U64,
    "i64": _I64,
    "seconds": _FLOAT,
    "fraction": _FLOAT,
    "text": _TEXT,
    "word": _TEXT,  # one of a list
    "hex64": _HEX64,  # a number in tables
    "time": KindDefinition(
        lambda pa: pa.timestamp("us", "UTC"), _TIME, "time", "time"
    ),  # nanoseconds since 1970 in tables
    "bytes": _plain("binary", {"type": "string"}, "bytes", "bytes"),
    "bool": _plain("bool_", {"type": "boolean"}, "boolean", "truth"),
    "words": _list(_TEXT, family="list"),
    "numbers": _list(_I64, family="list"),
    "seqnos": _list(_U64),
    "records": _list(
        _plain("null", {}, ""), "records", "records"
    ),  # of layouts, which say what is in them
    "counts": _map(_number("i64", "int64", 0), "counts", "number"),  # a filter compares their sum
    "controls": _map(_struct(value=_TEXT, status=_STATUS), "controls"),
    "log": _list(_struct(uuid=_HEX64, seqno=_U64), "records", "records"),  # a failover log
    "places": _list(_PLACE, "records"),  # of messages
    # JSON, which is a text in Arrow
    "object": _plain("string", {"type": "object"}, "object"),
    "objects": _plain("string", {"type": "array", "items": {"type": "object"}}, "objects"),
    "cases": _plain(
        "string", {"type": "array"}, "cases"
    ),  # of each connection and vbucket that a finding is about
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: a key of a record, a column of Arrow, a JSON Schema property."""

    name: str
    kind: ColumnKind
    doc: str
    words: tuple[str, ...] = ()
    """Possible values of a word, or keys of counts; empty: not limited."""
    spec: Field | None = None
    """The field of the layouts that a column of messages holds."""
    records: RecordList | None = None
    """The run of records of the layouts that a column of messages holds as a list."""

    @property
    def family(self) -> KindFamily | None:
        """The family of its values in filters; None: filters cannot use it."""
        return KINDS[self.kind].family


def columns(*texts: str, **words: tuple[str, ...]) -> tuple[Column, ...]:
    """Returns the columns that texts declare, in entries such as ``vbucket i64: what it is``.
    ``words``: by column, the possible values of a word, or keys of counts.
    """
    declared = []
    for head, doc in chain.from_iterable(map(entries, texts)):
        name, kind = head.split()
        assert kind in KINDS, f"{name} is of no kind {kind}"
        declared.append(Column(name, kind, doc, words.pop(name, ())))
    assert not words, f"no column is called {', '.join(words)}"
    return tuple(declared)


def arrow_type(column: Column) -> Any:
    """Returns the Arrow type of a column."""
    import pyarrow as pa  # deferred: not everyone who makes tables exports them

    return KINDS[column.kind].arrow(pa)
