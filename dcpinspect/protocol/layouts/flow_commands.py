"""DCP noop (0x5c), buffer acknowledgement (0x5d) and control (0x5e): keeping a connection going."""

from dcpinspect.protocol.fields import Field, FieldKind
from dcpinspect.protocol.layout_text import layouts
from dcpinspect.protocol.protocol_words import name_of_control, value_of_control

CONTROL_KEY = Field("key", 0, FieldKind.TEXT, "what is set", "Key", shown=name_of_control)
CONTROL_VALUE = Field("value", 0, FieldKind.TEXT, "to what", "Value", shown=value_of_control)

LAYOUTS = layouts(
    """
    DCP_NOOP request
    DCP_NOOP response
    DCP_BUFFER_ACKNOWLEDGEMENT request
        spec: dcp/documentation/commands/buffer-ack.md
        extras ack_bytes u32 (buffer bytes): bytes of flow-control window given back
    DCP_BUFFER_ACKNOWLEDGEMENT response
        spec: dcp/documentation/commands/buffer-ack.md
    DCP_CONTROL request
        spec: dcp/documentation/commands/control.md
        key: *key
        value: *value
    DCP_CONTROL response
        spec: dcp/documentation/commands/control.md
    """,
    "dcp/documentation/commands/no-op.md",
    {"key": CONTROL_KEY, "value": CONTROL_VALUE},
)
