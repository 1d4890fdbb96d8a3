"""Documents by key: get, store, counters, touch, lock and their quiet forms."""

from __future__ import annotations

from functools import partial

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status

_SPEC = "BinaryProtocol.md"

_KEY = Field("key", 0, FieldKind.KEY, "key of the document", "Key")
_DOCUMENT = (Field("value", 0, FieldKind.DOCUMENT, "the document", "Value"),)
_FLAGS = Field("item_flags", 0, FieldKind.U32, "the client's own flags", "flags")
_EXPIRY = "when the document expires"
_EXPIRATION = (Field("expiration", 0, FieldKind.TIME, _EXPIRY, "expiration"),)
_COLLECTION = Field("collection_id", 0, FieldKind.ID, "only this collection", "collection id")

MUTATION_SEQNO = (
    Field(
        "vbucket_uuid",
        0,
        FieldKind.UUID,
        "branch of the history (HELLO feature MUTATION_SEQNO)",
        "vb UUID",
    ),
    Field("seqno", 8, FieldKind.SEQNO, "seqno of the change", "seqno"),
)


_layout = partial(Layout, generation="v1", spec=_SPEC, columns=False)


def stored(opcode: Opcode) -> tuple[Layout, ...]:
    """Returns the answers of a command that changes a document: empty, or the change's place."""
    return (
        _layout(opcode, "response"),
        _layout(opcode, "response", generation="mutation-seqno", extras=MUTATION_SEQNO),
    )


def _get_family() -> tuple[Layout, ...]:
    layouts: list[Layout] = []
    requests: dict[Opcode, list[tuple[Field, ...]]] = {
        opcode: [()]
        for opcode in (
            Opcode.GET,
            Opcode.GETQ,
            Opcode.GETK,
            Opcode.GETKQ,
            Opcode.GET_REPLICA,
            Opcode.GET_EX,
            Opcode.GET_EX_REPLICA,
        )
    }
    requests[Opcode.GAT] = requests[Opcode.GATQ] = [_EXPIRATION]
    requests[Opcode.GET_LOCKED] = [
        (),
        (Field("lock_seconds", 0, FieldKind.U32, "seconds to lock; 0: the default", "lock time"),),
    ]
    for opcode, forms in requests.items():
        layouts += [_layout(opcode, "request", extras=extras, key=_KEY) for extras in forms]
        echoed = _KEY if opcode in (Opcode.GETK, Opcode.GETKQ) else None
        for extras in ((_FLAGS,), ()):
            layouts.append(
                _layout(
                    opcode,
                    "response",
                    extras=extras,
                    value=_DOCUMENT,
                    value_required=False,
                    key=echoed,
                    key_required=False,
                )
            )
    # A miss echoes the key, too (memcached proto_bin.c, kv_engine get_context.cc); an error with
    # more to say does not.
    error_text = (Field("value", 0, FieldKind.ERROR, "why there is none", "Value"),)
    layouts += [
        _layout(
            opcode,
            "response",
            generation="miss",
            key=_KEY,
            key_required=False,
            value=error_text,
            value_required=False,
            status=(Status.KEY_ENOENT,),
        )
        for opcode in (Opcode.GETK, Opcode.GETKQ)
    ]
    return tuple(layouts)


def _key_family() -> tuple[Layout, ...]:
    return (
        _layout(Opcode.TOUCH, "request", extras=_EXPIRATION, key=_KEY),
        _layout(Opcode.TOUCH, "response"),
        _layout(Opcode.TOUCH, "response", extras=(_FLAGS,)),
        _layout(Opcode.UNLOCK_KEY, "request", key=_KEY),
        _layout(Opcode.UNLOCK_KEY, "response"),
        _layout(Opcode.EVICT_KEY, "request", key=_KEY),
        _layout(
            Opcode.EVICT_KEY,
            "response",
            value=(Field("value", 0, FieldKind.TEXT, "text", "Value"),),
            value_required=False,
        ),
    )


def _other_keys_family() -> tuple[Layout, ...]:
    return (
        _layout(Opcode.GET_RANDOM_KEY, "request"),
        _layout(
            Opcode.GET_RANDOM_KEY,
            "request",
            generation="collection",
            extras=(_COLLECTION,),
        ),
        _layout(
            Opcode.GET_RANDOM_KEY,
            "request",
            generation="xattr",
            extras=(
                _COLLECTION,
                Field(
                    "include_xattr",
                    4,
                    FieldKind.U8,
                    "1: with xattrs",
                    "include xattr",
                    values={0: "no", 1: "yes"},
                ),
            ),
        ),
        _layout(
            Opcode.GET_RANDOM_KEY,
            "response",
            extras=(_FLAGS,),
            key=_KEY,
            value=_DOCUMENT,
            value_required=False,
        ),
        _layout(Opcode.GET_RANDOM_KEY, "response", key=_KEY, value=_DOCUMENT, value_required=False),
        _layout(Opcode.GET_KEYS, "request", key=_KEY),
        _layout(
            Opcode.GET_KEYS,
            "request",
            extras=(Field("count", 0, FieldKind.U32, "how many", "count"),),
            key=_KEY,
        ),
        _layout(
            Opcode.GET_KEYS,
            "response",
            value=(Field("value", 0, FieldKind.BYTES, "keys, each after its u16 length", "Value"),),
            value_required=False,
        ),
    )


def _store_family() -> tuple[Layout, ...]:
    layouts: list[Layout] = []
    extras = (_FLAGS, Field("expiration", 4, FieldKind.TIME, _EXPIRY, "expiration"))
    for opcode in (
        Opcode.SET,
        Opcode.ADD,
        Opcode.REPLACE,
        Opcode.SETQ,
        Opcode.ADDQ,
        Opcode.REPLACEQ,
    ):
        layouts.append(
            _layout(
                opcode, "request", extras=extras, key=_KEY, value=_DOCUMENT, value_required=False
            )
        )
        layouts += stored(opcode)
    for opcode in (Opcode.APPEND, Opcode.PREPEND, Opcode.APPENDQ, Opcode.PREPENDQ):
        layouts.append(_layout(opcode, "request", key=_KEY, value=_DOCUMENT, value_required=False))
        layouts += stored(opcode)
    for opcode in (Opcode.DELETE, Opcode.DELETEQ):
        layouts.append(_layout(opcode, "request", key=_KEY))
        layouts += stored(opcode)
    counter = (
        Field("delta", 0, FieldKind.U64, "how much to add or subtract", "delta", private=True),
        Field(
            "initial",
            8,
            FieldKind.U64,
            "value of a counter that is not there yet",
            "initial",
            private=True,
        ),
        Field(
            "expiration",
            16,
            FieldKind.U32,
            _EXPIRY,
            "expiration",
            values={0xFFFF_FFFF: "do not create"},
        ),
    )
    number = (Field("counter", 0, FieldKind.U64, "value of the counter", "value", private=True),)
    for opcode in (Opcode.INCREMENT, Opcode.DECREMENT, Opcode.INCREMENTQ, Opcode.DECREMENTQ):
        layouts.append(_layout(opcode, "request", extras=counter, key=_KEY))
        layouts.append(_layout(opcode, "response", value=number))
        layouts.append(
            _layout(
                opcode, "response", generation="mutation-seqno", extras=MUTATION_SEQNO, value=number
            )
        )
    for opcode in (Opcode.FLUSH, Opcode.FLUSHQ):
        layouts.append(
            _layout(
                opcode,
                "request",
                extras=(Field("expiration", 0, FieldKind.U32, "seconds to wait", "expiry"),),
            )
        )
        layouts.append(_layout(opcode, "request"))
        layouts.append(_layout(opcode, "response"))
    return tuple(layouts)


LAYOUTS = _get_family() + _key_family() + _other_keys_family() + _store_family()
