"""DCP close stream (0x52)."""

from __future__ import annotations

from dcpinspect.protocol.fields import Layout
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "dcp/documentation/commands/close-stream.md"

LAYOUTS = (
    Layout(Opcode.DCP_CLOSE_STREAM, "request", "v1", _SPEC),
    Layout(Opcode.DCP_CLOSE_STREAM, "response", "v1", _SPEC),
)
