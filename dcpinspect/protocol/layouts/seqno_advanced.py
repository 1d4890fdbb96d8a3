"""DCP seqno advanced (0x64) and OSO snapshot (0x65), both 7.0."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.flags import OSO_FLAGS
from dcpinspect.protocol.opcodes import Opcode

_ADVANCED = "dcp/documentation/commands/seqno-advanced.md"
_OSO = "dcp/documentation/commands/oso_snapshot.md"

LAYOUTS = (
    Layout(
        Opcode.DCP_SEQNO_ADVANCED,
        "request",
        "v1",
        _ADVANCED,
        extras=(
            Field(
                "by_seqno",
                0,
                FieldKind.SEQNO,
                "the stream is here, by events that this client does not see",
                "by_seqno",
            ),
        ),
    ),
    Layout(Opcode.DCP_SEQNO_ADVANCED, "response", "v1", _ADVANCED),
    Layout(
        Opcode.DCP_OSO_SNAPSHOT,
        "request",
        "v1",
        _OSO,
        extras=(
            Field(
                "flags",
                0,
                FieldKind.U32,
                "where the OSO snapshot begins and ends",
                "flags",
                flags=OSO_FLAGS,
            ),
        ),
    ),
    Layout(Opcode.DCP_OSO_SNAPSHOT, "response", "v1", _OSO),
)
