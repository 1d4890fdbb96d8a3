"""DCP flush (0x5a) and set vbucket state (0x5b)."""

from dcpinspect.protocol.flags import VBUCKET_STATES
from dcpinspect.protocol.layout_text import layouts

_STATES = {
    "values": VBUCKET_STATES,
    # The UPR transport specification, and old dissectors, have 2 pending and 3 replica.
    "first_generation": {2: 3, 3: 2},
}

LAYOUTS = layouts(
    """
    DCP_FLUSH request
    DCP_FLUSH response
    DCP_SET_VBUCKET_STATE request
        spec: dcp/documentation/commands/set-vbucket-state.md
        extras state u8 words &states: state the consumer's vbucket takes
    DCP_SET_VBUCKET_STATE response
        spec: dcp/documentation/commands/set-vbucket-state.md
    """,
    "dcp/documentation/commands/flush.md",
    {"states": _STATES},
)
