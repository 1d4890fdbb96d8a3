"""Failover log (DCP 0x54, and 0x96 on a plain connection): the history branches of a vbucket."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout, RecordList
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "dcp/documentation/commands/failover-log.md"

FAILOVER_LOG = RecordList(
    "failover_log",
    (
        Field("uuid", 0, FieldKind.UUID, "names a branch of the history", "vb UUID"),
        Field("seqno", 8, FieldKind.SEQNO, "seqno at which the branch began", "vb seqno"),
    ),
    "branches, the newest first",
    "entry",
    at_least=1,
)

LAYOUTS = tuple(
    layout
    for opcode in (Opcode.DCP_GET_FAILOVER_LOG, Opcode.GET_FAILOVER_LOG)
    for layout in (
        Layout(opcode, "request", "v1", _SPEC),
        Layout(opcode, "response", "v1", _SPEC, value=(FAILOVER_LOG,)),
    )
)
