"""Framing extras of the magics 0x08 and 0x18: a run of (id, length, data) elements before the
extras.

Source: kv_engine ``docs/BinaryProtocol.md``. The high nibble is the id, the low nibble the length;
15 means "15 plus the next byte", with the byte of the id first. Requests and responses number their
elements separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.fields import Field, MessageSide
from dcpinspect.protocol.flags import DURABILITY_LEVELS
from dcpinspect.protocol.layout_text import fields
from dcpinspect.protocol.message import Severity

ESCAPE = 15


@dataclass(frozen=True, slots=True)
class FrameSpec:
    """One known element of framing extras."""

    name: str
    doc: str
    sizes: tuple[int, ...] | None
    """Legal data lengths; None if any length of at least one byte is legal."""
    fields: tuple[Field, ...] = ()

    def allows(self, size: int) -> bool:
        """Returns whether this length of the data is legal."""
        return size > 0 if self.sizes is None else size in self.sizes


@dataclass(frozen=True, slots=True)
class Frame:
    """One element as found: ``data`` stands at ``data_offset`` of the framing extras."""

    id: int
    data: bytes
    offset: int
    data_offset: int


STREAM_ID = 2

_LEVELS = {"levels": {"values": DURABILITY_LEVELS}}

REQUEST_FRAMES = {
    0: FrameSpec("barrier", "execute alone, in order", (0,)),
    1: FrameSpec(
        "durability",
        "how far a write must get before it is answered",
        (1, 3),
        fields(
            """
            level u8 &levels: durability level
            timeout_ms u16: milliseconds; 0 and 65535 are reserved
            """,
            _LEVELS,
        ),
    ),
    STREAM_ID: FrameSpec(
        "stream_id",
        "DCP stream-id",
        (2,),
        fields("sid u16 [0 no stream-id is 0]: stream-id, 1 to 65535"),
    ),
    3: FrameSpec("open_tracing", "trace context of a 6.5 prototype", None),
    4: FrameSpec(
        "impersonate_user",
        "act for this user",
        None,
        fields("user text: user name; a leading ^ means the external domain"),
    ),
    5: FrameSpec("preserve_ttl", "keep the expiry that the document has", (0,)),
    6: FrameSpec(
        "impersonate_extra_privilege",
        "a privilege to add while acting for a user",
        None,
        fields("privilege text: name of the privilege"),
    ),
    7: FrameSpec(
        "impersonate_auth_token",
        "act for the user of a token (8.5)",
        (2,),
        fields("token_id u16: id of the token"),
    ),
}

RESPONSE_FRAMES = {
    number: FrameSpec(name, doc, (2,), fields(f"{name} u16: {unit}"))
    for number, (name, doc, unit) in enumerate(
        (
            ("server_duration", "time from receiving to sending", "n^1.74 / 2 microseconds"),
            ("read_units", "read units used", "units"),
            ("write_units", "write units used", "units"),
            ("throttle_duration", "time the request was held back", "n^1.74 / 2 microseconds"),
        )
    )
}

DURATIONS = frozenset({"server_duration", "throttle_duration"})


def frame_spec(side: MessageSide, frame_id: int) -> FrameSpec | None:
    """Returns the known element with this id, or None."""
    return (RESPONSE_FRAMES if side == "response" else REQUEST_FRAMES).get(frame_id)


def duration_us(encoded: int) -> float:
    """Returns the microseconds that an encoded duration stands for. The server truncates and some
    clients round, so it is good to 1 us.
    """
    return float(encoded**1.74 / 2)


def decode_frames(data: bytes) -> tuple[list[Frame], int]:
    """Returns the elements in framing extras, and how many bytes they fill.

    Fewer bytes than ``len(data)`` means that an element runs over the end at that place.
    """
    frames: list[Frame] = []
    offset = 0
    while offset < len(data):
        start = offset
        frame_id, size = data[offset] >> 4, data[offset] & 0x0F
        offset += 1
        if frame_id == ESCAPE:
            if offset >= len(data):
                return frames, start
            frame_id += data[offset]
            offset += 1
        if size == ESCAPE:
            if offset >= len(data):
                return frames, start
            size += data[offset]
            offset += 1
        if offset + size > len(data):
            return frames, start
        frames.append(Frame(frame_id, data[offset : offset + size], start, offset))
        offset += size
    return frames, offset


def framing_faults(side: MessageSide, data: bytes) -> Iterator[tuple[Severity, str, int, str]]:
    """Yields what is wrong with framing extras: how bad, the field's path, its offset, why."""
    frames, used = decode_frames(data)
    for frame in frames:
        known_frame = frame_spec(side, frame.id)
        if known_frame is None:
            yield (
                "note",
                f"framing_extras.frame_{frame.id}",
                frame.offset,
                f"framing extras with the unknown id {frame.id}",
            )
        elif not known_frame.allows(len(frame.data)):
            yield (
                "error",
                f"framing_extras.{known_frame.name}",
                frame.offset,
                f"{known_frame.name} of {len(frame.data)} bytes",
            )
    if used < len(data):
        yield "error", "framing_extras", used, "framing extras end inside an element"


def encode_frames(frames: Iterable[tuple[int, bytes]]) -> bytes:
    """Returns framing extras of (id, data) pairs; the way back from ``decode_frames``."""
    encoded = bytearray()
    for frame_id, data in frames:
        id_nibble, size_nibble = min(frame_id, ESCAPE), min(len(data), ESCAPE)
        encoded.append(id_nibble << 4 | size_nibble)
        if id_nibble == ESCAPE:
            encoded.append(frame_id - ESCAPE)
        if size_nibble == ESCAPE:
            encoded.append(len(data) - ESCAPE)
        encoded += data
    return bytes(encoded)
