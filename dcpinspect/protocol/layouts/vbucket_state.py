"""DCP flush (0x5a) and set vbucket state (0x5b)."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.flags import VBUCKET_STATES
from dcpinspect.protocol.opcodes import Opcode

_FLUSH = "dcp/documentation/commands/flush.md"
_STATE = "dcp/documentation/commands/set-vbucket-state.md"

LAYOUTS = (
    Layout(Opcode.DCP_FLUSH, "request", "v1", _FLUSH),
    Layout(Opcode.DCP_FLUSH, "response", "v1", _FLUSH),
    Layout(
        Opcode.DCP_SET_VBUCKET_STATE,
        "request",
        "v1",
        _STATE,
        extras=(
            Field(
                "state",
                0,
                FieldKind.U8,
                "state the consumer's vbucket takes",
                "state",
                values=VBUCKET_STATES,
                words=True,
                # The UPR transport specification, and old dissectors, have 2 pending and 3 replica.
                first_generation={2: 3, 3: 2},
            ),
        ),
    ),
    Layout(Opcode.DCP_SET_VBUCKET_STATE, "response", "v1", _STATE),
)
