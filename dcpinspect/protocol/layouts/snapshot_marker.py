"""DCP snapshot marker (0x56), in all its generations.

The value's length tells the v2 generations apart before the version byte does: the published
example of v2.0 has version 1, and intermediate builds had a v2.2 without its last field.
"""

from __future__ import annotations

from collections.abc import Mapping

from dcpinspect.protocol.fields import Check, Field, FieldKind, Layout
from dcpinspect.protocol.flags import SNAPSHOT_FLAGS
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "dcp/documentation/commands/snapshot-marker.md"

_START = "first seqno the snapshot may contain"
_END = "last seqno of the snapshot"
_TYPE = "where the items come from and what to expect"

_VERSIONS = {0: "v2.0", 1: "v2.1", 2: "v2.2"}


def _version(version: int) -> Field:
    return Field(
        "version",
        0,
        FieldKind.U8,
        "how the value is encoded",
        "Version",
        values=_VERSIONS,
        default=version,
    )


_V2_0 = (
    Field("start_seqno", 0, FieldKind.SEQNO, _START, "Start Seqno"),
    Field("end_seqno", 8, FieldKind.SEQNO, _END, "End Seqno"),
    Field("snapshot_type", 16, FieldKind.U32, _TYPE, "Snapshot Type", flags=SNAPSHOT_FLAGS),
    Field(
        "max_visible_seqno",
        20,
        FieldKind.SEQNO,
        "highest committed seqno in the snapshot",
        "Max Visible Seqno",
    ),
    Field(
        "high_completed_seqno",
        28,
        FieldKind.SEQNO,
        "highest committed or aborted seqno; valid with the disk flag only",
        "High Completed Seqno",
    ),
)
_PURGE = Field(
    "purge_seqno", 36, FieldKind.SEQNO, "deletions up to here may have been purged", "Purge Seqno"
)


def _version_says(version: int) -> Check:
    def check(numbers: Mapping[str, int]) -> tuple[str, str] | None:
        if numbers.get("version", version) == version:
            return None
        return (
            "version",
            f"version byte says 2.{numbers['version']}, the length of the value says 2.{version}",
        )

    return check


LAYOUTS = (
    Layout(
        Opcode.DCP_SNAPSHOT_MARKER,
        "request",
        "v1",
        _SPEC,
        extras=(
            Field("start_seqno", 0, FieldKind.SEQNO, _START, "Start Seqno"),
            Field("end_seqno", 8, FieldKind.SEQNO, _END, "End Seqno"),
            Field(
                "snapshot_type",
                16,
                FieldKind.U32,
                _TYPE,
                "Snapshot Type",
                flags=SNAPSHOT_FLAGS,
                # The first generation with extras had a number, 0 memory and 1 disk; since 3.0
                # there are bits.
                values={
                    0: "memory, as a number of the first generation",
                    1: "memory; as a number of the first generation: disk",
                },
            ),
        ),
    ),
    Layout(
        Opcode.DCP_SNAPSHOT_MARKER,
        "request",
        "v2.0",
        _SPEC,
        extras=(_version(0),),
        value=_V2_0,
        check=_version_says(0),
    ),
    Layout(
        Opcode.DCP_SNAPSHOT_MARKER,
        "request",
        "v2.2",
        _SPEC,
        extras=(_version(2),),
        value=(
            *_V2_0,
            _PURGE,
            Field(
                "high_prepared_seqno",
                44,
                FieldKind.SEQNO,
                "highest prepared seqno; valid with the disk flag only",
                "High Prepared Seqno",
            ),
        ),
        check=_version_says(2),
    ),
    Layout(
        Opcode.DCP_SNAPSHOT_MARKER,
        "request",
        "v2.1",
        _SPEC,
        extras=(_version(1),),
        value=(
            *_V2_0,
            Field(
                "timestamp",
                36,
                FieldKind.U64,
                "time of the snapshot, nanoseconds since 1970",
                "Timestamp",
            ),
        ),
        when=((0, 1, 1),),
        legacy=True,
        note="in the headers of 7.0 to 7.6 only, never sent",
    ),
    Layout(
        Opcode.DCP_SNAPSHOT_MARKER,
        "request",
        "v2.2-short",
        _SPEC,
        extras=(_version(2),),
        value=(*_V2_0, _PURGE),
        when=((0, 1, 2),),
        legacy=True,
        note=(
            "as the specification lists it, without high prepared seqno; 8.0 sends and accepts 52 "
            "bytes only"
        ),
    ),
    Layout(
        Opcode.DCP_SNAPSHOT_MARKER,
        "request",
        "upr",
        "UPR transport specification, snapshot marker",
        legacy=True,
        note="opens a snapshot of unknown range",
    ),
    # Only if the ack flag was set, once the whole snapshot was received.
    Layout(Opcode.DCP_SNAPSHOT_MARKER, "response", "v1", _SPEC),
)
