"""DCP snapshot marker (0x56), in all its generations.

The value's length tells the v2 generations apart before the version byte does: the published
example of v2.0 has version 1, and intermediate builds had a v2.2 without its last field.
"""

from __future__ import annotations

from collections.abc import Mapping

from dcpinspect.protocol.fields import Check
from dcpinspect.protocol.flags import SNAPSHOT_FLAGS
from dcpinspect.protocol.layout_text import layouts


def _version_says(version: int) -> Check:
    def check(numbers: Mapping[str, int]) -> tuple[str, str] | None:
        if numbers.get("version", version) == version:
            return None
        return (
            "version",
            f"version byte says 2.{numbers['version']}, the length of the value says 2.{version}",
        )

    return check


_NAMED = {
    "type": {"flags": SNAPSHOT_FLAGS},
    # The first generation with extras had a number, 0 memory and 1 disk; since 3.0 there are bits.
    "first-type": {
        "flags": SNAPSHOT_FLAGS,
        "values": {
            0: "memory, as servers before 3.0 number it",
            1: "memory; from a server before 3.0: disk",
        },
    },
    "is_2.0": _version_says(0),
    "is_2.2": _version_says(2),
}

# The marker is answered only if the ack flag was set, once the whole snapshot was received.
LAYOUTS = layouts(
    """
    v2.0-value
        value start_seqno seqno (Start Seqno): first seqno the snapshot may contain
        value end_seqno seqno (End Seqno): last seqno of the snapshot
        value snapshot_type u32 (Snapshot Type) &type: where the items come from and what to expect
        value max_visible_seqno seqno (Max Visible Seqno): highest committed seqno in the snapshot
        value high_completed_seqno seqno (High Completed Seqno): highest committed or aborted seqno;
            valid with the disk flag only
    DCP_SNAPSHOT_MARKER request
        extras start_seqno seqno (Start Seqno): first seqno the snapshot may contain
        extras end_seqno seqno (End Seqno): last seqno of the snapshot
        extras snapshot_type u32 (Snapshot Type) &first-type: where the items come from and what to expect
    DCP_SNAPSHOT_MARKER request v2.0
        extras version u8 (Version) [0 v2.0, 1 v2.1, 2 v2.2]: how the value is encoded
        use: v2.0-value
        check: is_2.0
    DCP_SNAPSHOT_MARKER request v2.2
        extras version u8 (Version) default=2 [0 v2.0, 1 v2.1, 2 v2.2]: how the value is encoded
        use: v2.0-value
        value purge_seqno seqno (Purge Seqno): deletions up to here may have been purged
        value high_prepared_seqno seqno (High Prepared Seqno): highest prepared seqno; valid with
            the disk flag only
        check: is_2.2
    DCP_SNAPSHOT_MARKER request v2.1 legacy
        extras version u8 (Version) default=1 [0 v2.0, 1 v2.1, 2 v2.2]: how the value is encoded
        use: v2.0-value
        value timestamp u64 (Timestamp): time of the snapshot, nanoseconds since 1970
        note: in the headers of 7.0 to 7.6 only, never sent
        when: 0 1 1
    DCP_SNAPSHOT_MARKER request v2.2-short legacy
        extras version u8 (Version) default=2 [0 v2.0, 1 v2.1, 2 v2.2]: how the value is encoded
        use: v2.0-value
        value purge_seqno seqno (Purge Seqno): deletions up to here may have been purged
        note: as the specification lists it, without high prepared seqno; 8.0 sends and accepts 52
            bytes only
        when: 0 1 2
    DCP_SNAPSHOT_MARKER request upr legacy
        spec: UPR transport specification, snapshot marker
        note: opens a snapshot of unknown range
    DCP_SNAPSHOT_MARKER response
    """,
    "dcp/documentation/commands/snapshot-marker.md",
    _NAMED,
)
