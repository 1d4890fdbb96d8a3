"""Parts of documents by path (0xc5 to 0xd3)."""

from __future__ import annotations

from functools import partial

from dcpinspect.protocol.fields import Bit, Field, FieldKind, Layout, RecordList
from dcpinspect.protocol.layouts.keyvalue import MUTATION_SEQNO
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status

_SPEC = "Subdocument.md"

PATH_FLAGS = (
    Bit(0x01, "create-parents", "make the objects on the way"),
    Bit(0x04, "xattr", "the path is in an xattr"),
    Bit(0x10, "expand-macros", "replace macros in the value"),
    Bit(0x20, "binary", "the value is not JSON"),
)
DOC_FLAGS = (
    Bit(0x01, "mkdoc", "create the document if it is not there"),
    Bit(0x02, "add", "fail if the document is there"),
    Bit(0x04, "access-deleted", "deleted documents count"),
    Bit(0x08, "create-as-deleted", "create the document deleted"),
    Bit(0x10, "revive", "bring a deleted document back"),
    Bit(0x20, "replica-read", "a replica may answer"),
)

_KEY = Field("key", 0, FieldKind.KEY, "key of the document", "Key")
_PATH = (
    Field("path_length", 0, FieldKind.U16, "bytes of the path", "path length"),
    Field("path_flags", 2, FieldKind.U8, "how to walk the path", "flags", flags=PATH_FLAGS),
)
_RESULT = (Field("value", 0, FieldKind.JSON, "the value at the path", "Value"),)


def _expiry(offset: int) -> Field:
    return Field("expiration", offset, FieldKind.TIME, "when the document expires", "expiration")


def _doc_flags(offset: int) -> Field:
    return Field(
        "doc_flags", offset, FieldKind.U8, "how to treat the document", "doc flags", flags=DOC_FLAGS
    )


_layout = partial(Layout, generation="v1", spec=_SPEC, columns=False)

_LOOKUP_VALUE = (Field("path", 0, FieldKind.TEXT, "path", "Path", size="path_length"),)
_MUTATION_VALUE = (
    *_LOOKUP_VALUE,
    Field("fragment", 0, FieldKind.BYTES, "what to put there", "Fragment"),
)

_LOOKUP_SPECS = RecordList(
    "specs",
    (
        Field("command", 0, FieldKind.COMMAND, "lookup", "opcode"),
        Field("path_flags", 1, FieldKind.U8, "how to walk the path", "flags", flags=PATH_FLAGS),
        Field("path_length", 2, FieldKind.U16, "bytes of the path", "path length"),
        Field("path", 4, FieldKind.TEXT, "path", "path", size="path_length"),
    ),
    "lookups, in order",
    "lookup",
    at_least=1,
)
_MUTATION_SPECS = RecordList(
    "specs",
    (
        Field("command", 0, FieldKind.COMMAND, "mutation", "opcode"),
        Field("path_flags", 1, FieldKind.U8, "how to walk the path", "flags", flags=PATH_FLAGS),
        Field("path_length", 2, FieldKind.U16, "bytes of the path", "path length"),
        Field("value_length", 4, FieldKind.U32, "bytes of the value", "value length"),
        Field("path", 8, FieldKind.TEXT, "path", "path", size="path_length"),
        Field("fragment", 8, FieldKind.BYTES, "what to put there", "value", size="value_length"),
    ),
    "mutations, in order",
    "mutation",
    at_least=1,
)
_LOOKUP_RESULTS = RecordList(
    "results",
    (
        Field("result_status", 0, FieldKind.STATUS, "outcome of one lookup", "status"),
        Field("value_length", 2, FieldKind.U32, "bytes of the result", "value length"),
        Field("result", 6, FieldKind.BYTES, "the value at the path", "value", size="value_length"),
    ),
    "a result for each lookup",
    "result",
)
_MUTATION_RESULTS = RecordList(
    "results",
    (
        Field("index", 0, FieldKind.U8, "which mutation", "index"),
        Field("result_status", 1, FieldKind.STATUS, "its outcome", "status"),
        Field("value_length", 3, FieldKind.U32, "bytes of the result", "value length"),
        Field(
            "result", 7, FieldKind.BYTES, "the new value at the path", "value", size="value_length"
        ),
    ),
    "results of the mutations that have one",
    "result",
)
_MUTATION_FAILURE = (
    Field("index", 0, FieldKind.U8, "the mutation that failed", "index"),
    Field("result_status", 1, FieldKind.STATUS, "why", "status"),
)
_MULTI = (
    Status.SUCCESS,
    Status.SUBDOC_MULTI_PATH_FAILURE,
    Status.SUBDOC_SUCCESS_DELETED,
    Status.SUBDOC_MULTI_PATH_FAILURE_DELETED,
)
_FAILED = (Status.SUBDOC_MULTI_PATH_FAILURE, Status.SUBDOC_MULTI_PATH_FAILURE_DELETED)

_LOOKUPS = (Opcode.SUBDOC_GET, Opcode.SUBDOC_EXISTS, Opcode.SUBDOC_GET_COUNT)
_MUTATIONS = (
    Opcode.SUBDOC_DICT_ADD,
    Opcode.SUBDOC_DICT_UPSERT,
    Opcode.SUBDOC_DELETE,
    Opcode.SUBDOC_REPLACE,
    Opcode.SUBDOC_ARRAY_PUSH_LAST,
    Opcode.SUBDOC_ARRAY_PUSH_FIRST,
    Opcode.SUBDOC_ARRAY_INSERT,
    Opcode.SUBDOC_ARRAY_ADD_UNIQUE,
    Opcode.SUBDOC_COUNTER,
    Opcode.SUBDOC_REPLACE_BODY_WITH_XATTR,
)

LAYOUTS = (
    *(
        layout
        for opcode in _LOOKUPS
        for layout in (
            _layout(
                opcode, "request", extras=_PATH, key=_KEY, value=_LOOKUP_VALUE, value_required=False
            ),
            _layout(
                opcode,
                "request",
                extras=(*_PATH, _doc_flags(3)),
                key=_KEY,
                value=_LOOKUP_VALUE,
                value_required=False,
            ),
            _layout(opcode, "response", value=_RESULT, value_required=False),
        )
    ),
    *(
        layout
        for opcode in _MUTATIONS
        for layout in (
            *(
                _layout(
                    opcode,
                    "request",
                    extras=(*_PATH, *tail),
                    key=_KEY,
                    value=_MUTATION_VALUE,
                    value_required=False,
                )
                for tail in ((), (_doc_flags(3),), (_expiry(3),), (_expiry(3), _doc_flags(7)))
            ),
            _layout(opcode, "response", value=_RESULT, value_required=False),
            _layout(
                opcode,
                "response",
                generation="mutation-seqno",
                extras=MUTATION_SEQNO,
                value=_RESULT,
                value_required=False,
            ),
        )
    ),
    *(
        _layout(
            Opcode.SUBDOC_MULTI_LOOKUP, "request", extras=extras, key=_KEY, value=(_LOOKUP_SPECS,)
        )
        for extras in ((), (_doc_flags(0),))
    ),
    _layout(
        Opcode.SUBDOC_MULTI_LOOKUP,
        "response",
        value=(_LOOKUP_RESULTS,),
        status=_MULTI,
        value_required=False,
    ),
    *(
        _layout(
            Opcode.SUBDOC_MULTI_MUTATION,
            "request",
            extras=extras,
            key=_KEY,
            value=(_MUTATION_SPECS,),
        )
        for extras in ((), (_doc_flags(0),), (_expiry(0),), (_expiry(0), _doc_flags(4)))
    ),
    _layout(
        Opcode.SUBDOC_MULTI_MUTATION,
        "response",
        generation="failure",
        value=_MUTATION_FAILURE,
        status=_FAILED,
    ),
    _layout(
        Opcode.SUBDOC_MULTI_MUTATION,
        "response",
        value=(_MUTATION_RESULTS,),
        status=_MULTI,
        value_required=False,
    ),
    _layout(
        Opcode.SUBDOC_MULTI_MUTATION,
        "response",
        generation="mutation-seqno",
        extras=MUTATION_SEQNO,
        value=(_MUTATION_RESULTS,),
        status=_MULTI,
        value_required=False,
    ),
)
