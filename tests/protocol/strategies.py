"""Hostile input: any bytes, bytes under a plausible header, and published messages with a few bytes
changed.
"""

from __future__ import annotations

from hypothesis import strategies as st

from dcpinspect.protocol.header import Header, encode_header
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.message import Context
from tests.protocol.vectors import ALL

MAGICS = (0x80, 0x81, 0x08, 0x18, 0x82, 0x83)
COMMANDS = sorted({int(layout.opcode) for layout in LAYOUTS})
STATUSES = (0x00, 0x01, 0x07, 0x21, 0x23, 0x88, 0xCC, 0xFFFF)
EXTRAS = sorted({layout.extras_size for layout in LAYOUTS})

contexts = st.builds(
    Context,
    collections=st.sampled_from(("on", "off", "inferred", "unknown")),
    underlying_datatype=st.booleans(),
    generation=st.sampled_from(("unknown", "upr", "dcp")),
)


@st.composite
def plausible(draw: st.DrawFn) -> bytes:
    """A message whose header fits together, around any body: what reaches the layouts."""
    magic = draw(st.sampled_from(MAGICS))
    opcode = draw(st.sampled_from(COMMANDS) | st.integers(0, 255))
    framing = draw(st.binary(max_size=24)) if magic in (0x08, 0x18) else b""
    extras_size = draw(st.sampled_from(EXTRAS))
    extras = draw(st.binary(min_size=extras_size, max_size=extras_size))
    key = draw(st.binary(max_size=12))
    value = draw(st.binary(max_size=90))
    body = framing + extras + key + value
    specific = draw(st.sampled_from(STATUSES))
    datatype = draw(st.integers(0, 7) | st.integers(0, 255))
    return (
        encode_header(
            Header(
                magic,
                opcode,
                len(framing),
                len(key),
                extras_size,
                datatype,
                specific,
                len(body),
                1,
                2,
            )
        )
        + body
    )


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A published or packed message with up to four bytes changed."""
    data = bytearray(draw(st.sampled_from(ALL)).data)
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


messages = st.binary(max_size=120) | plausible() | mutated()

gaps = st.lists(
    st.tuples(st.integers(0, 130), st.integers(1, 60)).map(lambda gap: (gap[0], gap[0] + gap[1])),
    max_size=3,
)
