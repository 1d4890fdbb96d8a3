"""DCP add stream (0x51): a manager tells a consumer to ask its producer for a stream."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.flags import STREAM_FLAGS
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "dcp/documentation/commands/add-stream.md"

LAYOUTS = (
    Layout(
        Opcode.DCP_ADD_STREAM,
        "request",
        "v1",
        _SPEC,
        extras=(Field("flags", 0, FieldKind.U32, "how to stream", "flags", flags=STREAM_FLAGS),),
    ),
    # A refusal that came back from the producer has these four bytes too; the consumer's own
    # refusal has none.
    Layout(
        Opcode.DCP_ADD_STREAM,
        "response",
        "v1",
        _SPEC,
        extras=(
            Field(
                "stream_opaque",
                0,
                FieldKind.OPAQUE,
                "opaque of the stream's later messages",
                "opaque",
            ),
        ),
        status="any",
    ),
)
