"""Framing extras as Scapy packets: the elements between a header and its extras."""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.config import conf
from scapy.fields import ByteField, ShortField, StrField
from scapy.packet import Packet

from dcpinspect.protocol.fields import MessageSide
from dcpinspect.protocol.flex import (
    REQUEST_FRAMES,
    RESPONSE_FRAMES,
    Frame,
    FrameSpec,
    decode_frames,
    encode_frames,
)
from dcpinspect.protocol.header_columns import UNDECLARED_STREAM_ID, faults_of
from dcpinspect.scapy_layer.scapy_fields import (
    PacketsField,
    Suggesting,
    UnknownFieldError,
    camel,
    doc_text,
    number_field,
    packet_class,
    sentence,
)


class DcpFrame(Suggesting):
    """One element, of an unknown kind or of a wrong length."""

    name = "frame"
    fields_desc: ClassVar[list[Any]] = [ByteField("id", 0), StrField("data", b"")]

    def __init__(self, *args: Any, **fields: Any) -> None:
        try:
            super().__init__(*args, **fields)
        except AttributeError as error:
            raise UnknownFieldError(self, str(error)) from None

    def do_build(self) -> bytes:
        """Returns the element's bytes, which begin with nibbles for its kind and length."""
        return encode_frames([(self.id, self.data)])


class KnownFrame(DcpFrame):
    """One element whose data the table divides into fields."""

    name = "frame"
    fields_desc: ClassVar[list[Any]] = []
    spec: ClassVar[FrameSpec]
    frame_id: ClassVar[int]

    def do_build(self) -> bytes:
        """Returns the element's bytes, with its fields as data."""
        data = b""
        for field in self.fields_desc:
            data = field.addfield(self, data, self.getfieldval(field.name))
        return encode_frames([(self.frame_id, data)])

    @classmethod
    def fits(cls, data: bytes) -> bool:
        """Whether the data has a length that this kind may have."""
        return len(data) in cls.spec.sizes if cls.spec.sizes is not None else bool(data)


class OptionalShortField(ShortField):
    """Two bytes at the end of an element, which may be absent: None."""

    def getfield(self, pkt: Any, s: bytes) -> Any:
        """Returns None as the value if no bytes are left."""
        return super().getfield(pkt, s) if s else (s, None)

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        """Adds nothing for None."""
        return s if val is None else super().addfield(pkt, s, val)


def _kind(frame_id: int, spec: FrameSpec) -> type[KnownFrame]:
    fields: list[Any] = []
    for item in spec.fields:
        if not item.kind.size:
            fields.append(StrField(item.name, b""))
        elif spec.sizes is not None and item.offset >= min(spec.sizes):
            fields.append(OptionalShortField(item.name, None))
        else:
            fields.append(number_field(item, item.default))
    attributes = {
        "name": spec.name,
        "fields_desc": fields,
        "frame_id": frame_id,
        "spec": spec,
        "__doc__": doc_text(sentence(spec.doc), spec.fields),
    }
    return packet_class(f"DcpFrame{camel(spec.name)}", KnownFrame, attributes)


_KINDS: dict[MessageSide, dict[int, type[KnownFrame]]] = {
    "request": {number: _kind(number, spec) for number, spec in REQUEST_FRAMES.items()},
    "response": {number: _kind(number, spec) for number, spec in RESPONSE_FRAMES.items()},
}

FRAMES: dict[str, type[KnownFrame]] = {
    kind.__name__: kind for kinds in _KINDS.values() for kind in kinds.values()
}
"""The classes of known kinds, by name."""
globals().update(FRAMES)


class FramesField(PacketsField):
    """The list of elements; bytes that form no element are ``Raw`` at the end of the list."""

    expected = "packets, such as DcpFrameStreamId(sid=7)"

    def getfield(self, pkt: Any, s: bytes) -> Any:
        """Takes the bytes that the header says, or three if a server did not count a stream-id."""
        header = pkt.header()
        size = min(
            3 if faults_of(header, s[:1]) & UNDECLARED_STREAM_ID else header.framing_size, len(s)
        )
        frames, used = decode_frames(s[:size])
        packets: list[Packet] = [
            _packet(_KINDS[header.side].get(frame.id), frame) for frame in frames
        ]
        if used < size:
            packets.append(conf.raw_layer(s[used:size]))
        pkt.framing_size = size
        return s[size:], packets


def _packet(kind: type[KnownFrame] | None, frame: Frame) -> DcpFrame:
    if kind is not None and kind.fits(frame.data):
        return kind(frame.data)
    return DcpFrame(id=frame.id, data=frame.data)
