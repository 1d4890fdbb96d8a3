"""DCP open (0x50): a connection becomes a DCP connection."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.flags import OPEN_FLAGS
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "dcp/documentation/commands/open-connection.md"

LAYOUTS = (
    Layout(
        Opcode.DCP_OPEN,
        "request",
        "v1",
        _SPEC,
        extras=(
            Field(
                "reserved",
                0,
                FieldKind.U32,
                "unused; the first specification called it sequence number",
                "seqno",
                reserved=True,
            ),
            Field(
                "flags",
                4,
                FieldKind.U32,
                "what the connection is for",
                "flags",
                flags=OPEN_FLAGS,
                values={0: "consumer"},
            ),
        ),
        key=Field("key", 0, FieldKind.TEXT, "name of the connection, at most 200 bytes", "Key"),
        value=(
            Field(
                "value",
                0,
                FieldKind.JSON,
                "JSON object, only key consumer_name; since 6.5, on consumer connections",
                "Value",
            ),
        ),
        value_required=False,
    ),
    Layout(Opcode.DCP_OPEN, "response", "v1", _SPEC),
)
