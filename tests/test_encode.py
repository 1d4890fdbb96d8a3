"""Messages written by field name."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.fields import Field, FieldKind, Layout, RecordList
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.message import Context
from tests.encode import encode, encode_document, encode_items, encode_parts


def test_a_header_counts_its_sections() -> None:
    data = encode_parts(
        0x08, 0x57, framing=b"\x22\0\1", extras=bytes(31), key=b"key", value=b"value"
    )
    assert data[:12].hex() == "085703031f0000000000002a"


def test_a_header_may_claim_other_framing_extras() -> None:
    assert encode_parts(0x08, 0x58, framing=b"\x22\0\1", framing_size=0)[2] == 0


@pytest.mark.parametrize(
    ("server", "flex", "side", "magic"),
    [
        (False, False, "request", 0x80),
        (False, False, "response", 0x81),
        (False, True, "request", 0x08),
        (False, True, "response", 0x18),
        (True, False, "request", 0x82),
        (True, False, "response", 0x83),
    ],
)
def test_side_framing_and_table_choose_the_magic(
    server: bool, flex: bool, side: str, magic: int
) -> None:
    assert encode(1, side, server=server, flex=flex)[0] == magic  # type: ignore[arg-type]


def test_frames_make_flex_framing() -> None:
    assert encode("dcp_noop", frames=[(2, b"\0\1")])[:4].hex() == "085c0300"


def test_a_collection_id_is_put_before_the_key() -> None:
    assert encode("dcp_mutation", key="k", collection=0x5555)[-4:] == b"\xd5\xaa\x01k"


@pytest.mark.parametrize("flags", [0x06, ["disk", "checkpoint"], ("checkpoint", "0x02")])
def test_flags_are_numbers_or_names(flags: object) -> None:
    assert encode("dcp_snapshot_marker", generation="v1", snapshot_type=flags)[-4:] == bytes(
        (0, 0, 0, 6)
    )


@pytest.mark.parametrize("state", [2, "replica", "0x2"])
def test_an_enumeration_is_a_number_or_a_word(state: object) -> None:
    assert encode("dcp_set_vbucket_state", state=state)[-1] == 2


def test_the_fields_choose_the_generation() -> None:
    assert encode("dcp_deletion", key="k", delete_time=5)[4] == 21


def test_the_generation_can_be_named() -> None:
    assert encode("dcp_mutation", generation="upr", key="k")[4] == 30


def test_the_numbers_that_a_layout_asks_for_are_written() -> None:
    data = encode("dcp_system_event", event=3, version=0, key="s", manifest_uid=1, scope_id=9)
    assert (annotate(data).generation, annotate(data).problems) == ("v0", [])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"opcode": "dcp_nothing"}, "no command is called dcp_nothing"),
        (
            {"opcode": "dcp_noop", "by_seqno": 1},
            "no request layout of dcp_noop has generation None and the fields",
        ),
        ({"opcode": "dcp_mutation", "generation": "v9"}, r"there are: v1 \(by_seqno, expiration"),
        ({"opcode": "dcp_set_vbucket_state", "state": "asleep"}, "state has no value 'asleep'"),
    ],
)
def test_what_fits_no_layout_is_refused_with_what_there_is(
    arguments: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        encode(**arguments)  # type: ignore[arg-type]


def test_a_length_field_follows_from_what_it_measures() -> None:
    items = (Field("size", 0, FieldKind.U16, ""), Field("text", 2, FieldKind.TEXT, "", size="size"))
    assert encode_items(items, {"text": "abc"}) == b"\0\3abc"


def test_a_length_field_may_be_given() -> None:
    items = (Field("size", 0, FieldKind.U16, ""), Field("text", 2, FieldKind.TEXT, "", size="size"))
    assert encode_items(items, {"text": "abc", "size": 9}) == b"\0\x09abc"


def test_records_follow_each_other() -> None:
    items = (
        RecordList(
            "pairs", (Field("a", 0, FieldKind.U8, ""), Field("b", 1, FieldKind.I64, "")), ""
        ),
    )
    assert encode_items(items, {"pairs": [{"a": 1}, {"b": -1}]}) == b"\1" + bytes(9) + b"\xff" * 8


@pytest.mark.parametrize("json", [False, True])
@pytest.mark.parametrize("snappy", [False, True])
@pytest.mark.parametrize("xattrs", [None, {"_sync": "1", "user": '"x"'}])
def test_a_document_comes_back_under_any_datatype(
    json: bool, snappy: bool, xattrs: dict[str, str] | None
) -> None:
    value, datatype = encode_document('{"a":1}', xattrs=xattrs, json=json, snappy=snappy)
    message = annotate(
        encode("dcp_mutation", key="k", value=value, datatype=datatype), context=Context("off")
    )
    assert message.value is not None
    assert (message.problems, message.value.body) == ([], b'{"a":1}')
    assert message.value.xattrs == tuple(
        (key.encode(), text.encode()) for key, text in (xattrs or {}).items()
    )


def _zeros(layout: Layout) -> bytes:
    """A message of this layout whose numbers are 0, but for those that choose it; an unknown event
    has another number.
    """
    extras = bytearray((b"\xff" if layout.generation == "unknown" else b"\0") * layout.extras_size)
    for offset, size, number in layout.when:
        extras[offset : offset + size] = number.to_bytes(size, "big")
    magic = (0x82 if layout.server else 0x80) + (layout.side == "response")
    status = layout.status[0] if isinstance(layout.status, tuple) else 0
    key = b"key" if layout.key is not None else b""
    value = bytes(layout.value_size or 0)
    return encode_parts(
        magic,
        layout.opcode,
        extras=bytes(extras),
        key=key,
        value=value,
        specific=status if layout.side == "response" else 0,
    )


def test_no_layout_is_hidden_behind_another() -> None:
    for layout in LAYOUTS:
        message = annotate(_zeros(layout), context=Context("off"))
        assert message.layout is not None
        assert (message.layout.extras, message.layout.generation) == (
            layout.extras,
            layout.generation,
        )
