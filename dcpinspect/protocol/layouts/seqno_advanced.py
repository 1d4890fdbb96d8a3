"""DCP seqno advanced (0x64) and OSO snapshot (0x65), both 7.0."""

from dcpinspect.protocol.flags import OSO_FLAGS
from dcpinspect.protocol.layout_text import layouts

LAYOUTS = layouts(
    """
    DCP_SEQNO_ADVANCED request
        extras by_seqno seqno (by_seqno): the stream is here, by events that this client does not
            see
    DCP_SEQNO_ADVANCED response
    DCP_OSO_SNAPSHOT request
        spec: dcp/documentation/commands/oso_snapshot.md
        extras flags u32 &bounds: where the OSO snapshot begins and ends
    DCP_OSO_SNAPSHOT response
        spec: dcp/documentation/commands/oso_snapshot.md
    """,
    "dcp/documentation/commands/seqno-advanced.md",
    {"bounds": {"flags": OSO_FLAGS}},
)
