"""The fields of the table of layouts as fields of Scapy."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from scapy import fields as scapy_fields
from scapy.base_classes import Packet_metaclass
from scapy.fields import (
    FieldLenField,
    FlagsField,
    FlagValue,
    PacketListField,
    RawVal,
    StrFixedLenField,
    StrLenField,
)
from scapy.packet import Packet
from scapy.volatile import VolatileValue

from dcpinspect.protocol.annotate import MAX_RECORDS
from dcpinspect.protocol.features import FEATURES
from dcpinspect.protocol.fields import Field, FieldKind, LayoutItem, RecordList, Slot
from dcpinspect.protocol.flatbuffer import FlatBufferError, decode_table, encode_table
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.text import clip, did_you_mean, escape

P = TypeVar("P", bound=Packet)
Length = Callable[[Any], int]
"""Returns the number of bytes of a field, given the packet that has it.

``Any`` here and below: Scapy's packets have their fields as attributes.
"""

OPCODES = {int(opcode): opcode.name.lower() for opcode in Opcode}
STATUSES = {int(status): status.name.lower() for status in Status}

_MOST_WORDS = 40
"""Greatest number of words of a field that an error lists."""


_DEFERRED = (RawVal, VolatileValue, type(None))
"""Values that Scapy makes bytes of when it builds."""


class _NumberField(scapy_fields.Field[Any, Any]):
    """A number that may be given as a word, or flags as several."""

    def any2i(self, pkt: Any, x: Any) -> Any:
        """Returns the number. Raises ValueError, with the numbers or words there are."""
        if isinstance(x, bytes):
            x = x.decode(errors="replace")
        if isinstance(x, float):  # flags would lose the fraction
            self._check(x)
        try:
            value = super().any2i(pkt, x)
        except (KeyError, ValueError):
            self._check(x)
            raise
        for number in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(number, _DEFERRED):
                self._check(int(number) if isinstance(number, FlagValue) else number)
        return value

    def _check(self, number: Any) -> None:
        if isinstance(number, str | list | tuple):
            words = self._words()
            if len(words) > 1 or did_you_mean(str(number), words):  # one word may be a remark
                raise ValueError(unknown_word(self.name, number, words)) from None
        if hasattr(self, "sz"):  # not while the field is made, of the table's default
            check_number(self.name, number, int(8 * self.sz), signed=self.fmt[-1].islower())

    def _words(self) -> list[str]:
        if isinstance(self, FlagsField):
            return [name for name in self.names if not name.startswith("bit_")]
        table = "s2i_all" if isinstance(self, scapy_fields.MultiEnumField) else "s2i"
        return list(getattr(self, table, ()))


def number_class(kind: type[Any]) -> Any:
    """Returns the class of a field of numbers that says at once which numbers or words it takes."""
    return types.new_class(kind.__name__, (_NumberField, kind))


def check_number(name: str, value: Any, bits: int, *, signed: bool = False) -> None:
    """Raises ValueError for what is no number of so many bits."""
    first, last = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not hasattr(value, "__index__") or not first <= value <= last:
        raise ValueError(f"{name} {value_text(value)}: give a number from {first} to {last}")


def value_text(value: Any) -> str:
    """Returns what was given, short and safe for a terminal."""
    return clip(escape(repr(value)), 40)


class _BytesField(scapy_fields.Field[Any, Any]):
    """Bytes, which may be given as a text."""

    def any2i(self, pkt: Any, x: Any) -> Any:
        """Returns the bytes. Raises ValueError for what is neither bytes nor a text: Scapy makes
        zero bytes of a number.
        """
        for value in x if isinstance(x, list) else (x,):
            if not isinstance(value, (str, bytes, bytearray, memoryview, *_DEFERRED)):
                raise ValueError(f"{self.name} {value_text(value)}: give bytes or a text")
        return super().any2i(pkt, x)


def unknown_word(name: str, given: Any, words: Sequence[str]) -> str:
    """Returns the error about a value that is none of a field's words."""
    given_words = given.split("+") if isinstance(given, str) else given
    if not isinstance(given_words, list | tuple):
        given_words = [given]
    wrong = next((str(word) for word in given_words if word not in words), str(given))
    known_words = f"; there are {listed(words)}" if len(words) <= _MOST_WORDS else ""
    return f"{name} {escape(wrong)!r}: there is no such word{did_you_mean(wrong, words) or known_words}"


def listed(words: Iterable[str]) -> str:
    """Returns the words, each once, with a comma between them; in quotes if one has a comma."""
    unique = list(dict.fromkeys(words))
    return ", ".join(map(repr, unique) if any("," in word for word in unique) else unique)


_PLAIN = {
    1: number_class(scapy_fields.ByteField),
    2: number_class(scapy_fields.ShortField),
    4: number_class(scapy_fields.IntField),
    8: number_class(scapy_fields.LongField),
}
_NAMED = {
    1: number_class(scapy_fields.ByteEnumField),
    2: number_class(scapy_fields.ShortEnumField),
    4: number_class(scapy_fields.IntEnumField),
    8: number_class(scapy_fields.LongEnumField),
}
_LengthField = number_class(FieldLenField)
_FlagsField = number_class(FlagsField)
_XLongField = number_class(scapy_fields.XLongField)
_XIntField = number_class(scapy_fields.XIntField)
_OTHER = {
    FieldKind.I64: number_class(scapy_fields.SignedLongField),
    FieldKind.UUID: _XLongField,
    FieldKind.CAS: _XLongField,
    FieldKind.OPAQUE: _XIntField,
    FieldKind.ID: _XIntField,
}
_WORDS = {
    FieldKind.STATUS: STATUSES,
    FieldKind.FEATURE: {feature.code: feature.name for feature in FEATURES},
    FieldKind.COMMAND: OPCODES,
}
_FORMATS = {1: "B", 2: "H", 4: "I"}


class TextField(_BytesField, StrLenField):
    """Bytes of a length that is told elsewhere."""


class _FixedTextField(_BytesField, StrFixedLenField):
    """Bytes of one length."""


class SecretField(TextField):
    """Credentials: sent and received, but never shown."""

    def i2repr(self, pkt: Any, x: Any) -> str:
        """Returns how long the credentials are."""
        del pkt
        return f"hidden, {len(x)} bytes"


class Table(bytes):
    """A FlatBuffer, whose members can be read by name."""

    slots: tuple[Slot, ...]

    def __getitem__(self, key: Any) -> Any:
        """Returns a member, or its default if it is absent; for a number or a slice, bytes.

        Raises KeyError for a member that there is not, and FlatBufferError for bytes that are no
        such table.
        """
        if not isinstance(key, str):
            return super().__getitem__(key)
        members = {slot.name: value for slot, value, _, _ in decode_table(self, self.slots)}
        if key not in members:
            raise KeyError(unknown_field(key, "value", members))
        return members[key]


class TableField(TextField):
    """A FlatBuffer, which may be given as a dictionary of its slots."""

    __slots__ = ("slots",)

    def __init__(self, spec: Field, length_from: Length) -> None:
        super().__init__(spec.name, b"", length_from=length_from)
        self.slots = spec.slots

    def any2i(self, pkt: Any, x: Any) -> Any:
        """Returns the bytes, or for a dictionary the bytes that encode it. Raises ValueError for a
        slot that there is not, or that cannot have the value.
        """
        if not isinstance(x, dict):
            return super().any2i(pkt, x)
        slots = {slot.name: slot for slot in self.slots}
        for name, value in x.items():
            if name not in slots:
                raise ValueError(unknown_field(str(name), self.name, slots))
            if slots[name].kind != "string":
                check_number(name, value, {"u64": 64, "u32": 32, "bool": 1}[slots[name].kind])
            elif not isinstance(value, str):
                raise ValueError(f"{name} {value_text(value)}: give a text")
        return encode_table(self.slots, x)

    def i2h(self, pkt: Any, x: Any) -> Any:
        """Returns the bytes, of which members can be read by name."""
        if not isinstance(x, bytes):
            return super().i2h(pkt, x)
        table = Table(x)
        table.slots = self.slots
        return table

    def i2repr(self, pkt: Any, x: Any) -> str:
        """Returns the slots, or the bytes if they are not such a table."""
        try:
            table = decode_table(x, self.slots)
        except FlatBufferError:
            return super().i2repr(pkt, x)
        return ", ".join(f"{slot.name}={value!r}" for slot, value, _, size in table if size)


class PacketsField(PacketListField):
    """A sequence of packets. Scapy makes bytes of whatever is in it."""

    expected = "packets"

    def any2i(self, pkt: Any, x: Any) -> Any:
        """Returns the packets. Raises ValueError for what is none."""
        return super().any2i(pkt, self.packets(x if isinstance(x, list | tuple) else [x]))

    def packets(self, values: Iterable[Any]) -> list[Any]:
        """Returns the packets that are given. Raises ValueError for what is none."""
        return [self._packet(value) for value in values]

    def _packet(self, value: Any) -> Any:
        if isinstance(value, (Packet, *_DEFERRED)):
            return value
        raise ValueError(f"{self.name} {value_text(value)}: give {self.expected}")


class RecordsField(PacketsField):
    """A sequence of records, each of which may be given as a dictionary; records of one field also
    as what is in that.
    """

    def _packet(self, value: Any) -> Any:
        kind: Any = self.cls
        if isinstance(value, dict):
            known_names = field_names(kind())
            for name in value:
                if name not in known_names:
                    raise UnknownFieldError(kind(), name)
            return kind(**value)
        if isinstance(value, (Packet, *_DEFERRED)):
            return value
        names = [field.name for field in kind.fields_desc if not isinstance(field, FieldLenField)]
        if len(names) == 1:
            return kind(**{names[0]: value})
        raise ValueError(
            f"{self.name} {value_text(value)}: give dictionaries of {', '.join(names)}"
        )


def unknown_field(name: str, owner: str, known_names: Iterable[str]) -> str:
    """Returns the error about a field that does not exist."""
    return (
        f"{name}: {owner} has no such "
        f"field{did_you_mean(name, known_names) or '; there are ' + ', '.join(known_names)}"
    )


class UnknownFieldError(AttributeError):
    """A field that neither a packet nor its payloads have; it is only looked for what was meant if
    somebody reads the error.
    """

    def __init__(self, packet: Packet, name: str) -> None:
        super().__init__(name)
        self._packet = packet

    def __str__(self) -> str:
        return unknown_field(self.args[0], type(self._packet).__name__, field_names(self._packet))


def field_names(packet: Packet) -> dict[str, None]:
    """Returns the names of the fields of a packet and of all its payloads, in order."""
    return dict.fromkeys(
        field.name for layer in packet.iterpayloads() for field in layer.fields_desc
    )


class Suggesting(Packet):
    """A packet that says which field may have been meant by a wrong name, and does not take a slip
    for an attribute of its own.
    """

    def __getattr__(self, attr: str) -> Any:
        try:
            return super().__getattr__(attr)
        except AttributeError:
            raise UnknownFieldError(self, attr) from None

    def __setattr__(self, attr: str, val: Any) -> None:
        is_ours = (
            attr in self.__all_slots__ or attr in self.default_fields or hasattr(type(self), attr)
        )
        if (
            not is_ours
            and attr not in (known_names := field_names(self))
            and did_you_mean(attr, known_names)
        ):
            raise UnknownFieldError(self, attr)
        super().__setattr__(attr, val)

    def self_build(self) -> bytes:
        """Returns the bytes of this layer. Raises ValueError for what is wrong in a list, which may
        have changed since it was assigned.
        """
        field: Any
        for field in self.packetfields:
            packets = self.getfieldval(field.name)
            if packets and isinstance(packets, list):
                packets[:] = field.packets(packets)
        built: bytes = super().self_build()
        return built


class Record(Packet):
    """One record of a sequence."""

    name = "record"

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Leaves the bytes after the record to the next records."""
        return b"", s


def packet_class(name: str, base: type[P], attributes: Mapping[str, Any]) -> type[P]:
    """Returns a class of packets derived from ``base``, in the same module."""
    made: Any = Packet_metaclass(name, (base,), {"__module__": base.__module__, **attributes})
    kind: type[P] = made
    return kind


_records: dict[int, type[Packet]] = {}
RECORDS: dict[str, type[Packet]] = {}
"""The classes of records, by name: what ``command`` writes needs them."""


def record_class(records: RecordList) -> type[Packet]:
    """Returns the class of one record, which is made only once."""
    if id(records) not in _records:
        fields = section_fields(records.fields, measured=measured(records.fields))
        attributes = {
            "name": records.title,
            "fields_desc": fields,
            "__doc__": sentence(records.doc),
        }
        name = f"{camel(records.name)}Record"
        number = 1 + sum(known.partition("_")[0] == name for known in RECORDS)
        kind = packet_class(name if number == 1 else f"{name}_{number}", Record, attributes)
        _records[id(records)] = RECORDS[kind.__name__] = kind
    return _records[id(records)]


def name_of(spec: Field | RecordList) -> str:
    """Returns the table's name of a field; with an underscore if Scapy has a method of that name
    (``command_``, ``fragment_``).
    """
    return f"{spec.name}_" if hasattr(Packet, spec.name) else spec.name


def number_field(spec: Field, default: int | None) -> Any:
    """Returns a field of fixed size that holds a number."""
    name, size = name_of(spec), spec.kind.size
    words = _WORDS.get(spec.kind, spec.values)
    if spec.flags:
        return _FlagsField(name, default, 8 * size, {bit.mask: bit.name for bit in spec.flags})
    kind: Any = _NAMED[size] if words is not None else _OTHER.get(spec.kind, _PLAIN[size])
    return kind(name, default) if words is None else kind(name, default, dict(words))


def measured(items: Iterable[LayoutItem]) -> dict[str, str]:
    """Returns the names of texts, by the name of the number that says how long each text is."""
    return {
        item.size: name_of(item)
        for item in items
        if isinstance(item, Field) and isinstance(item.size, str)
    }


def section_fields(
    items: Sequence[LayoutItem],
    *,
    room: Length | None = None,
    numbers: Mapping[str, int] | None = None,
    measured: Mapping[str, str],
) -> list[Any]:
    """Returns the fields of a section of ``room`` bytes. ``numbers``: defaults to replace."""
    fields: list[Any] = []
    for item in items:
        if isinstance(item, RecordList):
            fields.append(
                RecordsField(
                    item.name,
                    [],
                    record_class(item),
                    length_from=_remaining_length(room, fields),
                    max_count=MAX_RECORDS,
                )
            )
        elif item.name in measured:
            fields.append(
                _LengthField(
                    name_of(item), None, length_of=measured[item.name], fmt=_FORMATS[item.kind.size]
                )
            )
        elif item.kind.size:
            fields.append(number_field(item, (numbers or {}).get(item.name, item.default)))
        elif isinstance(item.size, int):
            fields.append(_FixedTextField(name_of(item), b"", length=item.size))
        else:
            fields.append(
                _text_field(
                    item,
                    _remaining_length(room, fields)
                    if item.size is None
                    else _field_length(item.size),
                )
            )
    return fields


def _text_field(spec: Field, length: Length) -> Any:
    if spec.kind is FieldKind.FLATBUFFER:
        return TableField(spec, length)
    return (SecretField if spec.kind is FieldKind.SECRET else TextField)(
        name_of(spec), b"", length_from=length
    )


def _field_length(name: str) -> Length:
    return lambda packet: packet.getfieldval(name) or 0


def _remaining_length(room: Length | None, before: Sequence[Any]) -> Length:
    """Returns a function for how many bytes the fields ``before`` leave of the section."""
    earlier = tuple(before)

    def remaining(packet: Any) -> int:
        assert room is not None
        return max(
            0,
            room(packet)
            - sum(
                len(field.addfield(packet, b"", packet.getfieldval(field.name)))
                for field in earlier
            ),
        )

    return remaining


def doc_text(summary: str, items: Iterable[LayoutItem]) -> str:
    """Returns the docstring of a class with these fields."""
    fields = (f"{name_of(item)}: {item.doc}{_words_in_doc(item)}" for item in items)
    return "\n".join((summary, "", *fields)).strip()


def _words_in_doc(item: LayoutItem) -> str:
    if isinstance(item, RecordList):
        records = [field.name for field in record_class(item).fields_desc]
        return f" (dictionaries of {', '.join(records)})" if len(records) > 1 else " (a list)"
    if item.slots:
        return f" (bytes, or a dictionary of {', '.join(slot.name for slot in item.slots)})"
    words = [bit.name for bit in item.flags] or list((item.values or {}).values())
    return f" ({listed(words)})" if words else ""


def camel(text: str) -> str:
    """Returns ``DcpMutation`` for ``dcp_mutation``."""
    return "".join(word.capitalize() for word in re.split(r"[^0-9A-Za-z]+", text))


def sentence(text: str) -> str:
    """Returns a clause of the table as a docstring."""
    return f"{text[0].upper()}{text[1:]}."
