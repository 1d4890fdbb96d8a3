"""DCP noop (0x5c), buffer acknowledgement (0x5d) and control (0x5e): keeping a connection going."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.protocol_words import name_of_control, value_of_control

_NOOP = "dcp/documentation/commands/no-op.md"
_ACK = "dcp/documentation/commands/buffer-ack.md"
_CONTROL = "dcp/documentation/commands/control.md"

CONTROL_KEY = Field("key", 0, FieldKind.TEXT, "what is set", "Key", shown=name_of_control)
CONTROL_VALUE = Field("value", 0, FieldKind.TEXT, "to what", "Value", shown=value_of_control)

LAYOUTS = (
    Layout(Opcode.DCP_NOOP, "request", "v1", _NOOP),
    Layout(Opcode.DCP_NOOP, "response", "v1", _NOOP),
    Layout(
        Opcode.DCP_BUFFER_ACKNOWLEDGEMENT,
        "request",
        "v1",
        _ACK,
        extras=(
            Field(
                "ack_bytes",
                0,
                FieldKind.U32,
                "bytes of flow-control window given back",
                "buffer bytes",
            ),
        ),
    ),
    Layout(Opcode.DCP_BUFFER_ACKNOWLEDGEMENT, "response", "v1", _ACK),
    Layout(
        Opcode.DCP_CONTROL,
        "request",
        "v1",
        _CONTROL,
        key=CONTROL_KEY,
        value=(CONTROL_VALUE,),
    ),
    Layout(Opcode.DCP_CONTROL, "response", "v1", _CONTROL),
)
