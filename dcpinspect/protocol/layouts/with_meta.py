"""Documents with explicit metadata: mutate (0x4b), get (0xa0), set, add and delete with meta (0xa2
to 0xa9), return meta (0xb2).
"""

from __future__ import annotations

from functools import partial

from dcpinspect.protocol.fields import Bit, Field, FieldKind, Layout
from dcpinspect.protocol.layouts.keyvalue import stored
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "BinaryProtocol.md"

_KEY = Field("key", 0, FieldKind.KEY, "key of the document", "Key")
_DOCUMENT = (Field("value", 0, FieldKind.DOCUMENT, "the document", "Value"),)

OPTIONS = (
    Bit(0x01, "force", "skip the check for a newer document"),
    Bit(0x02, "force-accept", "accept although conflict resolution is of the other kind"),
    Bit(0x04, "regenerate-cas", "give the document a new CAS"),
    Bit(0x08, "skip-conflict-resolution", "store whatever is there"),
    Bit(0x10, "is-expiration", "the deletion is an expiration"),
)

_META = (
    Field("item_flags", 0, FieldKind.U32, "the client's own flags", "flags"),
    Field(
        "expiration", 4, FieldKind.TIME, "when the document expires or was deleted", "expiration"
    ),
    Field("rev_seqno", 8, FieldKind.U64, "how many times the document changed", "revseqno"),
    Field("meta_cas", 16, FieldKind.CAS, "version the document gets", "CAS"),
)
_OPTIONS = Field("options", 24, FieldKind.U32, "how to resolve conflicts", "options", flags=OPTIONS)


def _nmeta(offset: int) -> Field:
    return Field(
        "nmeta",
        offset,
        FieldKind.U16,
        "bytes of extended metadata at the end of the value",
        "meta length",
    )


_layout = partial(Layout, generation="v1", spec=_SPEC, columns=False)

_GOT = (
    Field(
        "deleted",
        0,
        FieldKind.U32,
        "1: the document is deleted",
        "deleted",
        values={0: "no", 1: "yes"},
    ),
    Field("item_flags", 4, FieldKind.U32, "the client's own flags", "flags"),
    Field("expiration", 8, FieldKind.TIME, "when the document expires", "exptime"),
    Field("rev_seqno", 12, FieldKind.U64, "how many times the document changed", "seqno"),
)

_METADATA = Field(
    "value",
    0,
    FieldKind.DOCUMENT,
    "the document, and after it a JSON object: command (add, set, delete), cas, expiration, flags, "
    "rev_seqno, options (0x04 regenerate-cas, 0x08 skip-conflict-resolution, 0x10 is-expiration, "
    "0x20 force-accept); cas_offsets and seqno_offsets, where in the xattrs the server writes the "
    "new CAS and seqno",
    "Value",
)

LAYOUTS = (
    *(
        layout
        for opcode in (Opcode.GET_META, Opcode.GETQ_META)
        for layout in (
            _layout(opcode, "request", key=_KEY),
            _layout(
                opcode,
                "request",
                extras=(Field("meta_version", 0, FieldKind.U8, "2: with the datatype", "version"),),
                key=_KEY,
            ),
            _layout(opcode, "response", extras=_GOT),
            _layout(
                opcode,
                "response",
                generation="v2",
                extras=(
                    *_GOT,
                    Field(
                        "stored_datatype", 20, FieldKind.U8, "datatype of the document", "datatype"
                    ),
                ),
            ),
        )
    ),
    *(
        layout
        for opcode in (
            Opcode.SET_WITH_META,
            Opcode.SETQ_WITH_META,
            Opcode.ADD_WITH_META,
            Opcode.ADDQ_WITH_META,
            Opcode.DEL_WITH_META,
            Opcode.DELQ_WITH_META,
        )
        for layout in (
            *(
                _layout(
                    opcode,
                    "request",
                    extras=(*_META, *tail),
                    key=_KEY,
                    value=_DOCUMENT,
                    value_required=False,
                )
                for tail in ((), (_nmeta(24),), (_OPTIONS,), (_OPTIONS, _nmeta(28)))
            ),
            *stored(opcode),
        )
    ),
    _layout(
        Opcode.RETURN_META,
        "request",
        extras=(
            Field(
                "operation",
                0,
                FieldKind.U32,
                "what to do",
                "type",
                values={1: "set", 2: "add", 3: "delete"},
            ),
            Field("item_flags", 4, FieldKind.U32, "the client's own flags", "flags"),
            Field("expiration", 8, FieldKind.TIME, "when the document expires", "expiration"),
        ),
        key=_KEY,
        value=_DOCUMENT,
        value_required=False,
    ),
    _layout(
        Opcode.RETURN_META,
        "response",
        extras=(
            Field("item_flags", 0, FieldKind.U32, "the client's own flags", "flags"),
            Field("expiration", 4, FieldKind.TIME, "when the document expires", "expiration"),
            Field("rev_seqno", 8, FieldKind.U64, "how many times the document changed", "seqno"),
        ),
    ),
    _layout(
        Opcode.MUTATE_WITH_META,
        "request",
        spec="mutate-with-meta.md",
        extras=(
            Field(
                "metadata_size",
                0,
                FieldKind.U32,
                "bytes of the JSON object at the end of the value",
                "metadata size",
            ),
        ),
        key=_KEY,
        value=(_METADATA,),
    ),
    *stored(Opcode.MUTATE_WITH_META),
)
