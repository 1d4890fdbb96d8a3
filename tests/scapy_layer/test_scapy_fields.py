from __future__ import annotations

from typing import Any

import pytest
from scapy.fields import (
    ByteEnumField,
    FlagsField,
    IntField,
    LongField,
    SignedLongField,
    XIntField,
    XLongField,
)
from scapy.packet import Packet

from dcpinspect.protocol.fields import Bit, Field, FieldKind, RecordList
from dcpinspect.scapy_layer.scapy_fields import (
    camel,
    measured,
    name_of,
    number_field,
    record_class,
    section_fields,
    sentence,
)
from tests.encode import encode_items

RECORDS = RecordList(
    "pairs",
    (
        Field("size", 0, FieldKind.U16, "bytes of the text"),
        Field("text", 2, FieldKind.TEXT, "a text", size="size"),
        Field("last", 2, FieldKind.U8, "a number"),
    ),
    "pairs of things",
    "pair",
)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (Field("n", 0, FieldKind.U32, ""), IntField),
        (Field("n", 0, FieldKind.SEQNO, ""), LongField),
        (Field("n", 0, FieldKind.I64, ""), SignedLongField),
        (Field("n", 0, FieldKind.UUID, ""), XLongField),
        (Field("n", 0, FieldKind.ID, ""), XIntField),
        (Field("n", 0, FieldKind.U8, "", values={1: "one"}), ByteEnumField),
        (
            Field("n", 0, FieldKind.U8, "", flags=(Bit(4, "four", ""),), values={0: "none"}),
            FlagsField,
        ),
    ],
)
def test_each_kind_of_number_has_its_field(spec: Field, kind: type[Any]) -> None:
    made = number_field(spec, 3)
    assert isinstance(made, kind)
    assert (made.name, made.default) == ("n", 3)


def test_a_record_is_what_the_encoder_makes_of_it() -> None:
    kind = record_class(RECORDS)
    assert bytes(kind(text=b"abc", last=7)) == encode_items(
        RECORDS.fields, {"text": "abc", "last": 7}
    )
    assert kind is record_class(RECORDS)


def test_records_are_read_up_to_the_end_of_their_section() -> None:
    class Section(Packet):
        name = "section"
        fields_desc = section_fields(
            (Field("first", 0, FieldKind.U8, ""), RECORDS),
            room=lambda packet: len(packet.original) - 1,
            measured={},
        )

        def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
            return b"", s

    data = bytes(Section(first=1, pairs=[{"text": b"a"}, {"text": b"bc", "last": 9}]))
    packet = Section(data + b"z")
    assert [(pair.size, pair.text, pair.last) for pair in packet.pairs] == [
        (1, b"a", 0),
        (2, b"bc", 9),
    ]
    assert packet.lastlayer().load == b"z"


def test_texts_are_known_by_the_number_that_measures_them() -> None:
    assert measured(RECORDS.fields) == {"size": "text"}


def test_names_of_scapys_methods_have_an_underscore() -> None:
    assert [name_of(Field(name, 0, FieldKind.U8, "")) for name in ("command", "by_seqno")] == [
        "command_",
        "by_seqno",
    ]


def test_names_and_sentences() -> None:
    assert camel("begin-collection v2.0") == "BeginCollectionV20"
    assert sentence("act for this user") == "Act for this user."
