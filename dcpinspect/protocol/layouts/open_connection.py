"""DCP open (0x50): a connection becomes a DCP connection."""

from dcpinspect.protocol.flags import OPEN_FLAGS
from dcpinspect.protocol.layout_text import layouts

LAYOUTS = layouts(
    """
    DCP_OPEN request
        extras reserved u32 (seqno) reserved: unused; the first specification called it sequence
            number
        extras flags u32 &what: what the connection is for
        key text: name of the connection, at most 200 bytes
        value? json: JSON object, only key consumer_name; since 6.5, on consumer connections
    DCP_OPEN response
    """,
    "dcp/documentation/commands/open-connection.md",
    {"what": {"flags": OPEN_FLAGS, "values": {0: "consumer"}}},
)
