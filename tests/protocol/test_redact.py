from __future__ import annotations

import hmac
import pickle
import struct

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.flex import encode_frames
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import Context, Message
from dcpinspect.protocol.redact import DIGITS, Redactor
from tests import builders
from tests.encode import encode, encode_document, encode_snappy
from tests.protocol.every import whole_messages

REDACTOR = Redactor(b"salt")
ON = Context("on")


def redacted(
    data: bytes, context: Context = ON, missing: tuple[tuple[int, int], ...] = ()
) -> Message:
    return REDACTOR.message(annotate(data, context=context, missing=missing))


def pseudonym(text: bytes) -> str:
    return REDACTOR.replacement(text).decode()


def test_a_pseudonym_depends_on_text_and_salt_only() -> None:
    assert REDACTOR.replacement(b"key") == Redactor(b"salt").replacement(b"key")
    assert (
        len(
            {
                REDACTOR.replacement(b"key"),
                REDACTOR.replacement(b"Key"),
                Redactor(b"Salt").replacement(b"key"),
            }
        )
        == 3
    )
    assert Redactor().replacement(b"key") != Redactor().replacement(b"key")
    assert len(REDACTOR.replacement(b"key")) == DIGITS
    assert REDACTOR.replacement(b"") == b""


def test_it_is_the_hmac_that_anybody_with_the_salt_can_make() -> None:
    # printf key | openssl dgst -sha256 -hmac salt
    assert REDACTOR.replacement(b"key") == b"95a47c9b4fdb78ca55bc2ee4423b2b0f"
    for salt in (b"", b"s" * 63, b"s" * 64, b"s" * 65, b"s" * 300):
        expected = hmac.digest(salt, b"key", "sha256").hex()
        assert Redactor(salt).replacement(b"key").decode() == expected[:32]


def test_pseudonyms_may_be_shorter_also_in_another_process() -> None:
    short = Redactor(b"salt", 16)
    for redactor in (short, pickle.loads(pickle.dumps(short))):  # noqa: S301 - our own
        assert redactor.replacement(b"key") == b"95a47c9b4fdb78ca"


def test_a_key_keeps_its_collection() -> None:
    message = redacted(builders.mutation(key=b"\x08key"))
    field = message.field("key")
    assert field is not None
    collection, key = field.fields
    assert (message.collection_id, collection.value, collection.raw) == (8, 8, b"\x08")
    assert message.key == pseudonym(b"key").encode() == key.raw
    assert (field.value, field.raw, field.size) == (
        pseudonym(b"key"),
        b"\x08" + pseudonym(b"key").encode(),
        4,
    )
    assert (key.redacted, collection.redacted) == (True, False)


def test_a_value_keeps_what_it_is() -> None:
    message = redacted(builders.mutation(key=b"\x00k", value=b'{"a":1}'))
    assert message.value is not None
    assert (message.value.encoding, message.value.size) == ("json", 7)
    assert message.value.body == b'"' + REDACTOR.replacement(b'{"a":1}') + b'"'
    assert message.problems == []


def test_bytes_of_the_wire_are_zeros_where_something_was() -> None:
    data = builders.mutation(key=b"\x08key", value=b'{"a":1}')
    assert redacted(data).data == data.replace(b"key", bytes(3)).replace(b'{"a":1}', bytes(7))


def test_xattrs_have_neither_names_nor_values() -> None:
    value, datatype = encode_document(
        '{"a":1}', xattrs={"_sync": '{"rev":1}'}, json=True, snappy=True
    )
    message = redacted(encode("dcp_mutation", key="k", datatype=datatype, value=value))
    assert message.value is not None
    assert message.value.xattrs == (
        (REDACTOR.replacement(b"_sync"), b'"' + REDACTOR.replacement(b'{"rev":1}') + b'"'),
    )
    assert message.value.body == b'"' + REDACTOR.replacement(b'{"a":1}') + b'"'
    field = message.field("value")
    assert field is not None
    xattrs, body = field.fields
    assert (xattrs.fields[0].name, xattrs.fields[0].value) == (
        pseudonym(b"_sync"),
        pseudonym(b'{"rev":1}'),
    )
    assert (body.value, body.redacted, field.redacted, xattrs.redacted) == (
        pseudonym(b'{"a":1}'),
        True,
        True,
        True,
    )


def test_records_keep_their_numbers() -> None:
    record = struct.pack(">QQQIIIHBB", 1, 2, 3, 7, 4, 5, 4, 1, 9) + b"\x08key" + b'{"a":1}'
    message = redacted(encode("dcp_cache_transfer", value=record * 2))
    for item in message.fields[-2:]:
        parts = {part.name: part for part in item.fields}
        assert (parts["by_seqno"].value, parts["key_length"].value) == (2, 4)
        assert (parts["key"].value, parts["value"].raw) == (
            pseudonym(b"key"),
            REDACTOR.replacement(b'{"a":1}'),
        )
        assert b"key" not in item.raw
        assert item.raw[:40] == record[:40]


def test_names_of_users_go_from_the_framing_extras_and_all_else_stays() -> None:
    frames = encode_frames([(2, b"\x00\x05"), (4, b"alice"), (0, b""), (9, b"alice")])
    data = bytearray(builders.message(magic=0x08, opcode=0x00, key=b"k"))
    data = data[:24] + frames + data[24:]
    data[2], data[8:12] = len(frames), (len(data) - 24).to_bytes(4, "big")
    field = redacted(bytes(data)).field("framing_extras")
    assert field is not None
    sid, user, barrier, unknown = field.fields
    assert (sid.fields[0].value, barrier.raw, barrier.redacted) == (5, b"\x00", False)
    assert user.fields[0].value == pseudonym(b"alice")
    assert user.raw == b"\x45" + pseudonym(b"alice").encode()
    assert unknown.redacted
    assert b"alice" not in field.raw


@pytest.mark.parametrize(
    "data",
    [
        encode("dcp_control", key="set_noop_interval", value="120"),
        builders.message(opcode=0x53, extras=bytes(48), value=b'{"collections":["8"]}'),
        builders.message(opcode=0x21, key=b"SCRAM-SHA512"),
        builders.message(magic=0x81, opcode=0x20, value=b"SCRAM-SHA512 PLAIN"),
        builders.message(opcode=0x3F, value=b"async=0"),
    ],
    ids=["control", "stream request", "mechanism", "mechanisms", "deletion"],
)
def test_what_names_nothing_stays(data: bytes) -> None:
    before, after = annotate(data, context=ON), redacted(data)
    assert (after.fields, after.key, after.value, after.data) == (
        before.fields,
        before.key,
        before.value,
        before.data,
    )


@pytest.mark.parametrize(
    "data",
    [
        encode("dcp_open", key="eq_dcpq:a-name", flags=["producer"]),
        encode("dcp_control", key="consumer_name", value="a-name"),
        encode("hello", key='{"a":"a-name"}', features=[{"feature": 0x12}]),
        builders.message(opcode=0x89, key=b"a-name"),
        builders.message(magic=0x81, opcode=0xB5, value=b'{"name":"a-name"}', datatype=1),
        builders.message(opcode=0x5F, extras=bytes(13), key=b"a-name", value=bytes(16)),
        encode("dcp_control", key="a-name", value="true"),
        encode("dcp_control", key="set_priority", value="a-name"),
        builders.message(
            opcode=0x53, extras=bytes(48), value=encode_snappy(b"a-name" * 9), datatype=2
        ),
        builders.message(opcode=0x21, key=b"a-name"),
        builders.message(opcode=0x23, key=b"a-name"),
    ],
    ids=[
        "open",
        "consumer",
        "hello",
        "bucket",
        "map",
        "event",
        "control",
        "setting",
        "stream-request",
        "mechanism",
        "property",
    ],
)
def test_names_of_things_go(data: bytes) -> None:
    message = redacted(data)
    assert b"a-name" not in message.data
    assert "a-name" not in repr(message)


@pytest.mark.parametrize("datatype", [0, 2])
def test_a_stream_request_keeps_its_ids_and_nothing_else(datatype: int) -> None:
    value = b'{"collections":["8"],"uid":"a-name"}'
    data = encode_snappy(value) if datatype else value
    message = redacted(
        builders.message(opcode=0x53, extras=bytes(48), value=data, datatype=datatype)
    )
    field = message.field("value")
    assert field is not None
    assert message.value is not None
    assert field.value == f'{{"collections":["8"],"uid":"{pseudonym(b"a-name")}"}}'
    assert (message.value.encoding, message.value.body, field.raw) == (
        "json",
        field.value.encode(),
        field.value.encode(),
    )
    assert (field.redacted, field.size, message.data[24 + 48 :]) == (
        True,
        len(data),
        bytes(len(data)),
    )


def test_a_value_is_replaced_once_whatever_else_is() -> None:
    frames = encode_frames([(4, b"alice")])
    data = bytearray(
        builders.message(magic=0x08, opcode=0x02, extras=bytes(8), key=b"k", value=b"v")
    )
    data = data[:24] + frames + data[24:]
    data[2], data[3], data[8:12] = len(frames), 1, (len(data) - 24).to_bytes(4, "big")
    message = redacted(bytes(data))
    assert message.value is not None
    assert message.value.body == REDACTOR.replacement(b"v")
    assert message.key == REDACTOR.replacement(b"k")


def test_a_number_that_is_a_document_is_hidden() -> None:
    message = redacted(builders.message(magic=0x81, opcode=0x05, value=(42).to_bytes(8, "big")))
    field = message.field("counter")
    assert field is not None
    assert (field.hidden, field.raw, field.value) == (True, b"", None)
    assert message.data[24:] == bytes(8)


def test_credentials_stay_hidden() -> None:
    message = redacted(builders.message(opcode=0x21, key=b"PLAIN", value=b"\0user\0password"))
    assert [field.hidden for field in message.fields if field.name == "value"] == [True]
    assert message.key == b"PLAIN"


def test_what_is_missing_stays_missing() -> None:
    data = builders.mutation(key=b"\x08key", value=b"0123456789")
    message = redacted(data, missing=((len(data) - 4, len(data)),))
    field = message.field("value")
    assert field is not None
    assert (field.missing, field.value, field.raw) == (True, None, pseudonym(b"012345").encode())


def test_of_messages_whose_lengths_contradict_each_other_no_number_of_the_body_stays_whatever_the_layout() -> (
    None
):
    """Such as a path of a sub-document that is longer than the value: what its length is read from
    may be a text.
    """
    commands = set()
    for data in whole_messages():
        before = annotate(data, context=ON)
        wrong = {one.rule for one in before.problems if one.severity == "error"}
        if not wrong & {
            "length-mismatch",
            "extras-length",
            "failover-log-size",
            "cache-transfer-record",
        }:
            continue
        commands.add(before.name)
        body = [
            field
            for field in redacted(data).fields
            if field.offset >= HEADER_SIZE + before.framing_size
        ]
        shown = [
            field.name for outer in body for field in outer.walk() if isinstance(field.value, int)
        ]
        assert shown == [], (before.name, wrong)
    assert len(commands) > 150
    assert "subdoc_get" in commands
