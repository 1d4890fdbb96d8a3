"""DCP stream end (0x55)."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.flags import STREAM_END_REASONS
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "dcp/documentation/commands/stream-end.md"

LAYOUTS = (
    Layout(
        Opcode.DCP_STREAM_END,
        "request",
        "v1",
        _SPEC,
        # 3 is never sent; current producers send 6 as 2.
        extras=(
            Field(
                "end_reason",
                0,
                FieldKind.U32,
                "why the stream ended",
                "flag",
                values=STREAM_END_REASONS,
                words=True,
                first_generation={
                    1: 2
                },  # "State Changed (0x01)" of the UPR transport specification
            ),
        ),
    ),
    Layout(Opcode.DCP_STREAM_END, "response", "v1", _SPEC),
)
