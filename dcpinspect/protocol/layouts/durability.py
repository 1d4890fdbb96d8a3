"""Durable writes (6.5): DCP prepare (0x60), seqno acknowledged, commit, abort (0x63)."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.flags import DURABILITY_LEVELS
from dcpinspect.protocol.opcodes import Opcode

_PREPARE = "dcp/documentation/commands/prepare.md"
_ACK = "dcp/documentation/commands/seqno-acknowledged.md"
_COMMIT = "dcp/documentation/commands/commit.md"
_ABORT = "dcp/documentation/commands/abort.md"

_KEY = Field("key", 0, FieldKind.KEY, "key of the document", "Key")
_PREPARED = Field("prepared_seqno", 0, FieldKind.SEQNO, "seqno of the prepare", "prepared seqno")

LAYOUTS = (
    # As long as a mutation's extras, with another tail: the two never share a layout.
    Layout(
        Opcode.DCP_PREPARE,
        "request",
        "v1",
        _PREPARE,
        extras=(
            Field("by_seqno", 0, FieldKind.SEQNO, "the seqno of this change", "by_seqno"),
            Field(
                "rev_seqno", 8, FieldKind.U64, "how many times the document changed", "rev_seqno"
            ),
            Field("item_flags", 16, FieldKind.U32, "the client's own flags", "flags"),
            Field("expiration", 20, FieldKind.TIME, "when the document expires", "expiration"),
            Field("lock_time", 24, FieldKind.U32, "0 from servers", "lock time", reserved=True),
            Field(
                "nru",
                28,
                FieldKind.U8,
                "0 to 3: not recently used; 0 to 255: frequency, after supports_hifi_MFU",
                "nru",
            ),
            Field(
                "deleted",
                29,
                FieldKind.U8,
                "1: a durable deletion",
                "deleted",
                values={0: "no", 1: "yes"},
            ),
            Field(
                "durability_level",
                30,
                FieldKind.U8,
                "what the write waits for",
                "durability",
                values=DURABILITY_LEVELS,
            ),
        ),
        key=_KEY,
        value=(Field("value", 0, FieldKind.DOCUMENT, "the document", "Value"),),
        value_required=False,
    ),
    Layout(Opcode.DCP_PREPARE, "response", "v1", _PREPARE),
    Layout(
        Opcode.DCP_SEQNO_ACKNOWLEDGED,
        "request",
        "v1",
        _ACK,
        extras=(
            Field(
                "prepared_seqno",
                0,
                FieldKind.SEQNO,
                "all prepares up to here are safe on the replica",
                "prepared seqno",
            ),
        ),
    ),
    Layout(Opcode.DCP_SEQNO_ACKNOWLEDGED, "response", "v1", _ACK),
    Layout(
        Opcode.DCP_COMMIT,
        "request",
        "v1",
        _COMMIT,
        extras=(
            _PREPARED,
            Field(
                "commit_seqno",
                8,
                FieldKind.SEQNO,
                "the seqno of this commit",
                "commit seqno",
                alias="by_seqno",
            ),
        ),
        key=_KEY,
    ),
    Layout(Opcode.DCP_COMMIT, "response", "v1", _COMMIT),
    Layout(
        Opcode.DCP_ABORT,
        "request",
        "v1",
        _ABORT,
        extras=(
            _PREPARED,
            Field(
                "abort_seqno",
                8,
                FieldKind.SEQNO,
                "the seqno of this abort",
                "abort seqno",
                alias="by_seqno",
            ),
        ),
        key=_KEY,
    ),
    Layout(Opcode.DCP_ABORT, "response", "v1", _ABORT),
)
