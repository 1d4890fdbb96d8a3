"""Messages as Scapy packets: the header, and above it a class for each layout of the table.

Lengths are computed if they are not given. A body without a layout, or one that does not fit it, is
``Raw`` above the header; bytes that begin no message are ``Raw``, too. The messages of a segment
stand one above the other; bytes after them that begin no message are ``Padding``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from scapy import fields as scapy_fields
from scapy.config import conf
from scapy.fields import ConditionalField, MultiEnumField
from scapy.layers.inet import TCP
from scapy.packet import Packet, bind_bottom_up, bind_layers

from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.fields import Layout, MessageSide
from dcpinspect.protocol.header import HEADER_SIZE, MAGIC_DOCS, Header, Magic, header_fields
from dcpinspect.protocol.layout_choice import ERROR_VALUE, LayoutChoice, choose
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import ServerOpcode, Trait, opcode_doc, opcode_name, opcode_traits
from dcpinspect.protocol.secrecy import Secrecy, hides_value, names_credentials, secrecy
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.protocol.statuses import Status
from dcpinspect.scapy_layer.frames import FramesField
from dcpinspect.scapy_layer.scapy_fields import (
    OPCODES,
    STATUSES,
    SecretField,
    Suggesting,
    TextField,
    UnknownFieldError,
    camel,
    doc_text,
    field_names,
    measured,
    number_class,
    number_field,
    packet_class,
    section_fields,
    unknown_field,
    unknown_word,
    value_text,
)

PORT = 11210
"""Port that is bound to the layer. 11207 is not bound, for it carries TLS."""
MAX_MESSAGES = 64
"""Greatest number of messages of one segment: more than a full segment on Ethernet can hold.

Scapy calls itself for each layer, and Python limits the depth of calls.
"""

_MAGICS: dict[tuple[bool, MessageSide], Magic] = {
    (False, "request"): Magic.REQUEST,
    (False, "response"): Magic.RESPONSE,
    (True, "request"): Magic.SERVER_REQUEST,
    (True, "response"): Magic.SERVER_RESPONSE,
}
_FLEX = {Magic.REQUEST: Magic.FLEX_REQUEST, Magic.RESPONSE: Magic.FLEX_RESPONSE}
_RESPONSES = (Magic.RESPONSE, Magic.FLEX_RESPONSE, Magic.SERVER_RESPONSE)
_SERVER = (Magic.SERVER_REQUEST, Magic.SERVER_RESPONSE)
_OPCODES: dict[int, dict[int, str]] = {
    False: OPCODES,
    True: {int(opcode): opcode.name.lower() for opcode in ServerOpcode},
}
_FIELDS = {
    field.name: field
    for magic in (Magic.FLEX_RESPONSE, Magic.FLEX_REQUEST)
    for field in header_fields(magic)
}


# -- header


def _magic(packet: Any) -> int:
    """Returns the packet's magic; without one, the magic that its framing extras give it."""
    magic = int(packet.getfieldval("magic"))
    if "magic" not in packet.fields and packet.getfieldval("framing_extras"):
        return {int(plain): int(flex) for plain, flex in _FLEX.items()}.get(magic, magic)
    return magic


def _is_flex(packet: Any) -> bool:
    return _magic(packet) in _FLEX.values()


def _is_response(packet: Any) -> bool:
    return _magic(packet) in _RESPONSES


def _is_server(packet: Any) -> bool:
    return _magic(packet) in _SERVER


class MagicField(number_class(scapy_fields.XByteEnumField)):  # type: ignore[misc] # made here
    """The first byte. Not given, it becomes a magic that allows the framing extras."""

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        """Adds the byte."""
        del val
        return s + bytes((_magic(pkt),))


class KeyLengthField(number_class(scapy_fields.ShortField)):  # type: ignore[misc] # made here
    """The length of the key: one byte if there are framing extras, else two."""

    def getfield(self, pkt: Any, s: bytes) -> Any:
        """Reads the number from one byte or two."""
        return (s[1:], s[0]) if _is_flex(pkt) else super().getfield(pkt, s)

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        """Adds the number as one byte or two."""
        return s + struct.pack(">B" if _is_flex(pkt) else ">H", val or 0)


class CasField(number_class(scapy_fields.XLongField)):  # type: ignore[misc] # made here
    """The CAS, or a session token, which is a credential."""

    def i2repr(self, pkt: Any, x: Any) -> str:
        """Returns the number, unless it is a token."""
        has_token = Trait.TOKEN in opcode_traits(pkt.opcode, server=_is_server(pkt))
        return "hidden, 8 bytes" if has_token else str(super().i2repr(pkt, x))


class DCP(Suggesting):
    """The header of a message: 24 bytes, and the framing extras."""

    name = "DCP"
    match_subclass = True
    __slots__ = ("built_size", "framing_size", "origin")
    built_size: int | None
    """Bytes of the message and all that follow, while the messages before them are built."""
    framing_size: int
    """Number of bytes of framing extras that were dissected, even if the header did not count them.
    """
    origin: Any
    """Where the message is in a reading: an ``Origin`` if from ``DCPSession``, else None."""
    fields_desc: ClassVar[list[Any]] = [
        MagicField(
            "magic", int(Magic.REQUEST), {int(magic): doc for magic, doc in MAGIC_DOCS.items()}
        ),
        number_class(MultiEnumField)("opcode", 0, _OPCODES, depends_on=_is_server, fmt="B"),
        ConditionalField(number_field(_FIELDS["framing_extras_length"], None), _is_flex),
        KeyLengthField("key_length", None),
        number_field(_FIELDS["extras_length"], None),
        number_field(_FIELDS["datatype"], 0),
        ConditionalField(
            number_field(_FIELDS["vbucket"], 0), lambda packet: not _is_response(packet)
        ),
        ConditionalField(number_field(_FIELDS["status"], 0), _is_response),
        number_field(_FIELDS["total_body_length"], None),
        number_field(_FIELDS["opaque"], 0),
        CasField("cas", 0),
        FramesField("framing_extras", []),
    ]

    def __init__(self, *args: Any, **fields: Any) -> None:
        self.built_size = None
        self.framing_size = 0
        self.origin = None
        try:
            super().__init__(*args, **fields)
        except AttributeError as error:
            raise AttributeError(unknown_field(str(error), "DCP", _names(DCP))) from None

    @classmethod
    def dispatch_hook(cls, _pkt: bytes = b"", *args: Any, **fields: Any) -> type[Packet]:
        """Returns ``Raw`` for bytes that begin no message: a segment may begin inside one."""
        del args, fields
        begins = not _pkt or (len(_pkt) >= HEADER_SIZE and _pkt[0] in MAGIC_DOCS)
        return cls if begins else conf.raw_layer

    @classmethod
    def tcp_reassemble(
        cls, data: bytes, metadata: dict[str, Any], session: dict[str, Any]
    ) -> Packet | None:
        """Returns the first message of stream bytes without holes, for ``StreamSocket(socket,
        DCP)``; the bytes after it are ``Padding``.
        """
        del session
        size = (
            HEADER_SIZE + int.from_bytes(data[8:12], "big")
            if len(data) >= HEADER_SIZE
            else HEADER_SIZE
        )
        metadata["tcp_min_len"] = size
        if len(data) < size:
            return None
        message = cls(data[:size])
        if data[size:]:
            message.add_payload(conf.padding_layer(data[size:]))
        return message

    def header(self) -> Header:
        """Returns the numbers of the header; lengths that are still to be computed are 0."""
        return Header(
            magic=_magic(self),
            opcode=self.opcode,
            framing_size=(self.framing_extras_length or 0) if _is_flex(self) else 0,
            key_size=self.key_length or 0,
            extras_size=self.extras_length or 0,
            datatype=int(self.datatype),
            specific=self.status if _is_response(self) else self.vbucket,
            body_size=self.total_body_length or 0,
            opaque=self.opaque,
            cas=self.cas,
        )

    def do_build(self) -> bytes:
        """Returns the bytes of the message and of those that follow it."""
        following = self.payload.getlayer(DCP)
        if following is not None:
            following.built_size = None
        built: bytes = super().do_build()
        self.built_size = len(built)
        return built

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Returns the message with the lengths that were not given."""
        following = self.payload.getlayer(DCP)
        body_size = len(pay)
        if following is not None:  # Scapy may have built a copy of the message
            body_size -= (
                len(following.do_build()) if following.built_size is None else following.built_size
            )
        layout = self.payload.layout if isinstance(self.payload, MessageBody) else None
        framing_size = len(pkt) - HEADER_SIZE
        built = bytearray(pkt)
        if _is_flex(self) and self.framing_extras_length is None:
            built[2] = framing_size
        if self.key_length is None and layout is not None and layout.key is not None:
            first = 3 if _is_flex(self) else 2
            built[first:4] = len(self.payload.key).to_bytes(4 - first, "big")
        if self.extras_length is None and layout is not None:
            built[4] = layout.extras_size
        if self.total_body_length is None:
            built[8:12] = (framing_size + body_size).to_bytes(4, "big")
        return bytes(built) + pay

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Returns the class of the layout that fits."""
        header = self.header()
        value_size = header.body_size - self.framing_size - header.extras_size - header.key_size
        decided = secrecy(header.opcode, header.side, server=header.is_server)
        stranger = conf.raw_layer if decided in (Secrecy.OPEN, Secrecy.UNKNOWN) else HiddenBody
        if decided is Secrecy.UNKNOWN and names_credentials(payload):
            stranger = HiddenBody
        if value_size < 0 or len(payload) < header.extras_size:
            return stranger
        choice = choose(header, payload[: header.extras_size], value_size)
        layout = choice.layout
        if layout is None or not choice.extras_fit or not choice.value_fits:
            return stranger
        if (header.key_size and layout.key is None) or (value_size and not layout.value):
            return stranger
        kind = _BY_LAYOUT.get(id(layout), McbpError)
        if decided is Secrecy.DESCRIBED:
            is_secret = self._is_secret(choice, payload[header.extras_size :], header)
        else:
            is_secret = kind is McbpError and stranger is HiddenBody and bool(payload)
        return HiddenBody if is_secret else kind

    @staticmethod
    def _is_secret(choice: LayoutChoice, payload: bytes, header: Header) -> bool:
        """Whether the value of an administrative command must not be shown."""
        key, value = payload[: header.key_size], payload[header.key_size :]
        if value and header.datatype & datatypes.SNAPPY:
            try:
                value = decode_snappy(value)
            except SnappyError:
                return True
        is_hidden = hides_value(choice, header.opcode, header.side, server=header.is_server)
        return bool(value) and (is_hidden or names_credentials(value, key))

    def do_dissect_payload(self, s: bytes) -> None:
        """Dissects the body, then the other messages of the segment."""
        size = max(0, (self.total_body_length or 0) - self.framing_size)
        self._dissect_body(s[:size], is_empty=not size)
        last: Packet = self
        undissected = s[size:]
        for _ in range(1, MAX_MESSAGES):
            if not undissected or DCP.dispatch_hook(undissected) is not DCP:
                break
            size = HEADER_SIZE + int.from_bytes(undissected[8:12], "big")
            message = DCP(
                undissected[:size], stop_dissection_after=self.stop_dissection_after, _internal=1
            )
            last.add_payload(message)
            last, undissected = message, undissected[size:]
        if undissected and conf.padding:
            last.add_payload(conf.padding_layer(undissected))

    def _dissect_body(self, body: bytes, *, is_empty: bool) -> None:
        """Dissects the body; a message without a body has a class of its own, too."""
        super().do_dissect_payload(body)
        if is_empty:
            kind = self.guess_payload_class(body)
            if kind is not conf.raw_layer:
                empty = kind(_internal=1, _underlayer=self)
                empty.explicit = 1  # as for everything that was dissected
                self.add_payload(empty)

    def copy(self) -> Any:
        """Returns a copy, which has the same origin."""
        clone = super().copy()
        clone.framing_size, clone.origin = self.framing_size, self.origin
        return clone

    def hashret(self) -> bytes:
        """Returns what a response has in common with its request."""
        return struct.pack(">BI", self.opcode, self.opaque)

    def answers(self, other: Any) -> int:
        """Whether this is the response to ``other``."""
        is_pair = isinstance(other, DCP) and _is_response(self) and not _is_response(other)
        return int(is_pair and (self.opcode, self.opaque) == (other.opcode, other.opaque))

    def mysummary(self) -> Any:
        """Returns what happened, and where, for every message of a segment."""
        name = opcode_name(self.opcode, server=_is_server(self))
        if _is_response(self):
            return (
                f"DCP {name} response {STATUSES.get(self.status, self.status)} opaque "
                f"0x{self.opaque:08x}",
                [DCP],
            )
        return f"DCP {name} vbucket {self.vbucket} opaque 0x{self.opaque:08x}", [DCP]


class HiddenBody(Packet):
    """A body that may hold credentials and has no layout: sent and received, but never shown."""

    name = "hidden"
    fields_desc: ClassVar[list[Any]] = [
        SecretField("load", b"", length_from=lambda packet: len(packet.original))
    ]


# -- bodies


class MessageBody(Suggesting):
    """Extras, key and value of a message. The classes derived from it are made from the table."""

    name = "body"
    match_subclass = True
    show_summary = False
    layout: ClassVar[Layout]
    by_name: ClassVar[Mapping[str, Any]]
    """The fields by name."""
    chosen: ClassVar[Mapping[str, int]]
    """Numbers of fields that choose this layout."""
    variants: ClassVar[tuple[type[MessageBody], ...]] = ()
    """The classes of the message's layouts, this one first; empty for layouts but the first."""
    elsewhere: ClassVar[Mapping[str, Collection[int | None]]] = {}
    """By field the numbers that choose another layout; also the fields that only others have."""

    def __init__(self, _pkt: bytes = b"", *, generation: str | None = None, **fields: Any) -> None:
        kinds = self.variants or (type(self),)
        if generation is not None:
            generations = [kind.layout.generation for kind in kinds]
            if generation not in generations:
                # not where the class is chosen: Scapy takes any error there for unknown bytes
                raise ValueError(unknown_word("generation", generation, generations))
        try:
            super().__init__(_pkt, **fields)
        except UnknownFieldError:
            raise  # of a record
        except AttributeError as error:
            if str(error) not in (
                all_ := dict.fromkeys(name for kind in kinds for name in kind.by_name)
            ):
                raise AttributeError(unknown_field(str(error), type(self).__name__, all_)) from None
            raise self._unlike_all(str(error)) from None
        if self.variants and generation is None and not _pkt:
            for name, number in self.chosen.items():
                if isinstance(given := self.fields.get(name), int) and given != number:
                    raise self._unlike_all(name)

    def __setattr__(self, attr: str, val: Any) -> None:
        (self.setfieldval if attr in self.elsewhere else super().__setattr__)(attr, val)

    def setfieldval(self, attr: str, val: Any) -> None:
        """Assigns a field. Raises ValueError for what only another layout of the message has: this
        one would make wrong bytes of it.
        """
        if attr in self.elsewhere:
            numbers = self.elsewhere[attr]
            field = self.by_name.get(attr)
            if attr not in field_names(self) or (field and field.any2i(self, val) in numbers):
                raise ValueError(
                    f"{attr} {value_text(val)}: only another layout of {_class_name(self.layout)} "
                    "has this; give it where the packet is made"
                )
        super().setfieldval(attr, val)

    def _unlike_all(self, name: str) -> AttributeError:
        """Returns the error about fields, or numbers in them, that no layout has together."""
        layouts_text = "; ".join(_shape(kind) or "none" for kind in self.variants or (type(self),))
        return AttributeError(
            f"{name}: no layout of {type(self).__name__} has these fields together; there are: "
            f"{layouts_text}"
        )


def _variant(
    cls: type[MessageBody], _pkt: bytes = b"", /, *, generation: str | None = None, **fields: Any
) -> type[MessageBody]:
    """Returns the class to make for these fields: that of the first layout with them all, or of the
    one that most of their numbers choose.
    """
    if _pkt or "_internal" in fields:
        return cls
    kinds = [kind for kind in cls.variants if generation in (None, kind.layout.generation)]
    best, most = None, -1
    try:
        for kind in kinds:
            if not fields.keys() <= kind.by_name.keys():
                continue
            names = [name for name in kind.chosen if name in fields]
            if len(names) > most and all(
                kind.by_name[name].any2i(None, fields[name]) == kind.chosen[name] for name in names
            ):
                best, most = kind, len(names)
    except ValueError:  # of a word, as making the packet will say
        best = None
    return best or (kinds[0] if generation is not None and kinds else cls)


def _shape(kind: type[MessageBody]) -> str:
    return ", ".join(
        f"{name}={field.i2repr(None, kind.chosen[name])}" if name in kind.chosen else name
        for name, field in kind.by_name.items()
    )


def _names(kind: type[Packet]) -> list[str]:
    return [field.name for field in kind.fields_desc]


def _chosen_by(layout: Layout) -> dict[str, int]:
    """Returns the numbers in its extras that a layout requires, or gives as its own."""
    required = {(offset, size): number for offset, size, number in layout.when}
    selectors = {
        field.name: required.get((field.offset, field.kind.size), field.default or None)
        for field in layout.extras
    }
    return {name: number for name, number in selectors.items() if number is not None}


def _elsewhere(
    own: type[MessageBody], kinds: Sequence[type[MessageBody]]
) -> dict[str, tuple[int | None, ...]]:
    """Returns what ``elsewhere`` of a class says, given the classes of its message."""
    return {
        name: tuple({sibling.chosen.get(name) for sibling in kinds} - {own.chosen.get(name)})
        for kind in kinds
        for name in kind.by_name
        if name not in own.by_name or any(name in sibling.chosen for sibling in kinds)
    }


def _key_size(packet: Any) -> int:
    return packet.underlayer.header().key_size if isinstance(packet.underlayer, DCP) else 0


def _value_size(packet: Any) -> int:
    under = packet.underlayer
    if not isinstance(under, DCP):
        return len(packet.original)
    header = under.header()
    return header.body_size - under.framing_size - header.extras_size - header.key_size


def _body_class(
    layout: Layout, name: str, base: type[MessageBody], attributes: Mapping[str, Any]
) -> type[MessageBody]:
    texts = measured((*layout.extras, *layout.value))
    selectors = _chosen_by(layout)
    fields = section_fields(layout.extras, numbers=selectors, measured=texts)
    if layout.key is not None:
        fields.append(TextField("key", b"", length_from=_key_size))
    fields += section_fields(layout.value, room=_value_size, measured=texts)
    header = {"magic": int(_MAGICS[layout.server, layout.side]), "opcode": int(layout.opcode)}
    if isinstance(layout.status, tuple) and Status.SUCCESS not in layout.status:
        header["status"] = int(layout.status[0])
    side = " response" if layout.side == "response" else ""
    items = (*layout.extras, *(() if layout.key is None else (layout.key,)), *layout.value)
    made: dict[str, Any] = {
        "name": f"{opcode_name(layout.opcode, server=layout.server)}{side} {layout.generation}",
        "fields_desc": fields,
        "layout": layout,
        "by_name": {field.name: field for field in fields},
        "chosen": selectors,
        "variants": (),
        "overload_fields": {DCP: header},
        "__doc__": doc_text(opcode_doc(layout.opcode, server=layout.server), items),
    }
    return packet_class(name, base, {**made, **attributes})


def _class_name(layout: Layout) -> str:
    command = opcode_name(layout.opcode, server=layout.server)
    kind = "McbpServer" if layout.server else "" if command.startswith("dcp_") else "Mcbp"
    return kind + camel(command) + ("Response" if layout.side == "response" else "")


def _classes() -> list[type[MessageBody]]:
    """Returns a class for each layout; layouts after the first of a message also have their
    generation in the name.
    """
    classes: list[type[MessageBody]] = []
    messages: dict[str, list[Layout]] = {}
    for layout in LAYOUTS:
        messages.setdefault(_class_name(layout), []).append(layout)
    for name, layouts in messages.items():
        first = _body_class(layouts[0], name, MessageBody, {"dispatch_hook": classmethod(_variant)})
        kinds = [first]
        for layout in layouts[1:]:
            variant = f"{name}_{re.sub('[^0-9A-Za-z]', '_', layout.generation)}"
            number = 1 + sum(
                re.fullmatch(rf"{variant}(_\d+)?", kind.__name__) is not None for kind in kinds
            )
            kinds.append(
                _body_class(layout, variant if number == 1 else f"{variant}_{number}", first, {})
            )
        first.variants = tuple(kinds)
        for kind in kinds:
            kind.elsewhere = _elsewhere(kind, kinds)
        lines = (line for kind in kinds for line in (kind.__doc__ or "").splitlines())
        first.__doc__ = "\n".join(dict.fromkeys(lines))
        classes += kinds
    return classes


_CLASSES = _classes()
_BY_LAYOUT = {id(kind.layout): kind for kind in _CLASSES}

MESSAGES: dict[str, type[MessageBody]] = {kind.__name__: kind for kind in _CLASSES}
"""The classes of all layouts, by name."""
globals().update(MESSAGES)

McbpError = _body_class(
    Layout(0, "response", "error", "", value=ERROR_VALUE, value_required=False, status="any"),
    "McbpError",
    MessageBody,
    {
        "name": "error",
        "overload_fields": {DCP: {"magic": int(Magic.RESPONSE)}},
        "__doc__": "Why a request was refused.",
    },
)
"""The body of any refused request; the header says which request it was."""

bind_bottom_up(TCP, DCP, sport=PORT)
bind_layers(TCP, DCP, dport=PORT)
