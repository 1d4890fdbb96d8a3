"""What ``annotate`` promises for any bytes, and what it says of each kind of damage."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given, settings

from dcpinspect.protocol.annotate import MAX_RECORDS, annotate
from dcpinspect.protocol.message import Context, Message
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode
from tests.encode import encode, encode_parts
from tests.protocol.damage import assert_inside, assert_tiles
from tests.protocol.strategies import contexts, gaps, messages

ON = Context("on")
OFF = Context("off")


def rules(message: Message) -> list[str]:
    return [problem.rule for problem in message.problems]


@pytest.mark.slow
@settings(deadline=None, max_examples=600)
@given(data=messages, context=contexts, missing=gaps)
def test_any_bytes_with_any_holes_give_fields_that_tile_the_message_and_no_exception(
    data: bytes, context: Context, missing: list[tuple[int, int]]
) -> None:
    holed = bytearray(data)
    for start, end in missing:
        holed[start:end] = bytes(len(holed[start:end]))
    message = annotate(bytes(holed), context=context, missing=missing)
    assert_tiles(message)
    assert_inside(message, len(data))


@settings(deadline=None, max_examples=300)
@given(data=messages, missing=gaps)
def test_no_field_shows_bytes_that_the_capture_does_not_hold(
    data: bytes, missing: list[tuple[int, int]]
) -> None:
    for field in annotate(data, context=ON, missing=missing).fields:
        shown = range(field.offset, field.offset + len(field.raw))
        assert not any(
            start in shown or (start < field.offset < end and field.raw) for start, end in missing
        )


@settings(deadline=None, max_examples=300)
@given(data=messages, context=contexts)
def test_the_same_bytes_are_read_the_same_twice(data: bytes, context: Context) -> None:
    assert annotate(data, context=context) == annotate(data, context=context)


def test_no_bytes_are_a_truncated_header() -> None:
    message = annotate(b"")
    assert [(problem.rule, problem.offset, problem.reason) for problem in message.problems] == [
        ("truncated", 0, "header ends 24 bytes early")
    ]


def test_a_cut_body_names_the_field_it_ends_in() -> None:
    data = encode("dcp_mutation", key=b"hello", value=b"world", by_seqno=4)
    message = annotate(data[:49])
    assert [(problem.field, problem.offset, problem.reason) for problem in message.problems] == [
        ("lock_time", 49, "message ends 16 bytes early, in lock_time")
    ]


def test_a_hole_in_the_lengths_leaves_the_body_undivided() -> None:
    data = encode("dcp_mutation", key=b"hello", value=b"world")
    message = annotate(data, missing=[(9, 10)])
    assert (message.header, message.fields[-1].name, message.fields[-1].size) == (
        None,
        "body",
        len(data) - 24,
    )


def test_a_hole_after_the_lengths_leaves_the_sections_divided() -> None:
    data = encode("dcp_mutation", key=b"hello", value=b"world", by_seqno=4)
    message = annotate(data, missing=[(12, 30)])
    assert [field.name for field in message.fields if field.missing] == [
        "opaque",
        "cas",
        "by_seqno",
    ]


def test_an_unknown_magic_is_reported_and_its_body_is_not_divided() -> None:
    message = annotate(encode_parts(0x42, 0x57, extras=bytes(31)))
    assert (rules(message), message.fields[-1].name) == (["bad-magic"], "body")


def test_an_unknown_opcode_shows_raw_sections() -> None:
    message = annotate(encode_parts(0x80, 0x7E, extras=b"\1\2", key=b"k", value=b"v"))
    assert message.name == "opcode_0x7e"
    assert [(field.name, field.raw) for field in message.fields[-3:]] == [
        ("extras", b"\1\2"),
        ("key", b"k"),
        ("value", b"v"),
    ]


@pytest.mark.parametrize("opcode", [0x68, 0x69])
def test_an_opcode_of_development_builds_says_so(opcode: int) -> None:
    assert "development build" in annotate(encode_parts(0x80, opcode)).problems[0].reason


@pytest.mark.parametrize("bit", [0x08, 0x10, 0x20, 0x40, 0x80])
def test_an_undefined_datatype_bit_is_an_error(bit: int) -> None:
    message = annotate(encode("dcp_mutation", key=b"k", value=b"v", datatype=bit), context=OFF)
    assert rules(message) == ["undefined-datatype"]


def test_a_body_of_more_than_30_mib_is_suspect() -> None:
    data = bytearray(encode("dcp_noop"))
    data[8:12] = (31 << 20).to_bytes(4, "big")
    assert rules(annotate(bytes(data))) == ["oversized-body", "unexpected-section", "truncated"]


def test_lengths_that_contradict_each_other_offer_the_body_that_would_fit() -> None:
    data = bytearray(encode("dcp_buffer_acknowledgement", ack_bytes=4096))
    data[8:12] = bytes(4)
    assert annotate(bytes(data)).problems[0].reason == (
        "extras 4 + key 0 exceed body 0; with a body of 4 it is a dcp_buffer_acknowledgement "
        "in the v1 layout"
    )


def test_extras_of_a_length_nobody_defined_are_shown_raw_and_key_and_value_still_read() -> None:
    message = annotate(
        encode_parts(0x80, 0x57, extras=bytes(33), key=b"hello", value=b"world"), context=OFF
    )
    assert (rules(message), message.key, message.value and message.value.body) == (
        ["extras-length"],
        b"hello",
        b"world",
    )


# -- keys
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "key", "collection"),
    [
        ("on", b"hello", 8),
        ("inferred", b"hello", 8),
        ("off", b"\x08hello", None),
        ("unknown", b"\x08hello", None),
    ],
)
def test_a_collection_id_is_read_as_negotiated_and_never_guessed(
    state: str, key: bytes, collection: int | None
) -> None:
    message = annotate(encode("dcp_mutation", key=b"hello", collection=8), context=Context(state))  # type: ignore[arg-type]
    assert (message.key, message.collection_id) == (key, collection)


@pytest.mark.parametrize(
    "key", [b"\x81\0k", b"\xff\xff\xff\xff\xff\x01k", b"\x03k", b"\x08", b"\xff"]
)
def test_a_key_without_a_valid_collection_id_is_an_error_and_shown_whole(key: bytes) -> None:
    message = annotate(encode("dcp_mutation", key=key), context=ON)
    assert (rules(message), message.key) == (["bad-collection-prefix"], key)


@pytest.mark.parametrize(
    "command", ["dcp_control", "dcp_open", "dcp_system_event", "select_bucket", "stat"]
)
def test_keys_that_are_names_have_no_collection_id(command: str) -> None:
    assert annotate(encode(command, key=b"\x08name", value=b"1"), context=ON).collection_id is None


def test_a_key_that_is_not_utf8_keeps_its_bytes() -> None:
    message = annotate(encode("dcp_mutation", key=b"\xff\xfe"), context=OFF)
    field = message.field("key")
    assert field is not None
    assert field.value == b"\xff\xfe"


# -- framing extras
# -----------------------------------------------------------------------------------


def test_255_bytes_of_framing_extras_are_all_shown() -> None:
    message = annotate(
        encode_parts(0x08, 0x57, framing=bytes(255), extras=bytes(31), key=b"k"), context=OFF
    )
    framing = message.field("framing_extras")
    assert framing is not None
    assert len(framing.fields) == 255


def test_a_frame_that_runs_over_the_end_is_an_error() -> None:
    message = annotate(encode_parts(0x08, 0x5C, framing=b"\x22\x00"))
    assert [(problem.rule, problem.offset) for problem in message.problems] == [
        ("bad-framing-extras", 24)
    ]


@pytest.mark.parametrize(
    "frame", [(2, b"\1"), (0, b"x"), (1, b"\1\2"), (5, b"x"), (7, b"\1"), (4, b"")]
)
def test_a_known_frame_of_another_size_is_an_error(frame: tuple[int, bytes]) -> None:
    assert rules(annotate(encode("dcp_noop", frames=[frame]))) == ["bad-framing-extras"]


def test_an_unknown_frame_is_shown_raw_and_noted() -> None:
    message = annotate(encode("dcp_noop", frames=[(200, b"abc")]))
    framing = message.field("framing_extras")
    assert framing is not None
    assert (framing.fields[0].name, framing.fields[0].meaning) == ("frame_200", "id 200, unknown")
    assert [
        (problem.rule, problem.severity, problem.field, problem.offset)
        for problem in message.problems
    ] == [("bad-framing-extras", "note", "framing_extras.frame_200", 24)]


@pytest.mark.parametrize(("command", "size"), [("dcp_deletion", 21), ("dcp_expiration", 20)])
def test_a_stream_id_that_the_header_does_not_count_is_found(command: str, size: int) -> None:
    opcode = Opcode[command.upper()]
    data = encode_parts(
        0x08, opcode, framing=b"\x22\0\x47", extras=bytes(size), key=b"k", framing_size=0
    )
    message = annotate(data, context=OFF)
    assert (message.sid, message.key, rules(message)) == (71, b"k", ["undeclared-stream-id"])


# -- records
# ------------------------------------------------------------------------------------------


def test_what_follows_a_length_that_is_not_in_the_capture_stays_undivided() -> None:
    record = pack(">QQQIIIHBB", 1, 2, 3, 5, 0, 0, 2, 0, 0) + b"\0k" + b"value"
    data = encode("dcp_cache_transfer", value=record * 2)
    message = annotate(data, context=ON, missing=[(48, 52)])
    assert_tiles(message)
    assert rules(message) == []


def test_a_failover_log_that_is_no_multiple_of_16_names_the_entry_that_is_cut() -> None:
    message = annotate(encode_parts(0x81, 0x54, value=bytes(20)))
    assert [(problem.rule, problem.offset, problem.reason) for problem in message.problems] == [
        ("failover-log-size", 40, "only 4 of the 16 bytes of entry 1 are there")
    ]


def test_an_empty_failover_log_is_reported() -> None:
    assert rules(annotate(encode_parts(0x81, 0x54))) == ["failover-log-size"]


@pytest.mark.parametrize(
    "opcode",
    [
        Opcode.DCP_GET_FAILOVER_LOG,
        Opcode.HELLO,
        Opcode.GET_ALL_VB_SEQNOS,
        Opcode.SUBDOC_MULTI_LOOKUP,
    ],
)
def test_a_length_of_gigabytes_does_not_become_as_many_records(opcode: Opcode) -> None:
    data = bytearray(encode_parts(0x81, opcode, value=bytes(40)))
    data[8:12] = b"\xff\xff\xff\xf0"
    message = annotate(bytes(data))
    assert_tiles(message)
    assert len(message.fields) < 40


def test_records_beyond_any_real_number_are_not_divided() -> None:
    message = annotate(encode("hello", value=bytes(2 * MAX_RECORDS + 2)))
    assert [problem.reason for problem in message.problems] == ["only 16384 features are divided"]


# -- credentials
# --------------------------------------------------------------------------------------

_SECRET = b"n,,n=user,r=s3cret"
_SECRETS = {
    "sasl auth": encode_parts(0x80, Opcode.SASL_AUTH, key=b"SCRAM-SHA1", value=_SECRET),
    "sasl step": encode_parts(0x80, Opcode.SASL_STEP, key=b"SCRAM-SHA1", value=_SECRET),
    "sasl challenge": encode_parts(0x81, Opcode.SASL_AUTH, specific=0x21, value=_SECRET),
    "sasl refusal": encode_parts(0x81, Opcode.SASL_AUTH, specific=0x20, value=_SECRET),
    "sasl in flex framing": encode_parts(
        0x18, Opcode.SASL_STEP, framing=b"\x02\0\x10", value=_SECRET
    ),
    "authentication pushed": encode_parts(0x82, ServerOpcode.AUTHENTICATE, value=_SECRET),
    "authentication answered": encode_parts(0x83, ServerOpcode.AUTHENTICATE, value=_SECRET),
    "auth token": encode_parts(0x80, Opcode.REGISTER_AUTH_TOKEN, key=b"name", value=_SECRET),
    "chronicle token": encode_parts(0x80, Opcode.SET_CHRONICLE_AUTH_TOKEN, value=_SECRET),
    "encryption keys": encode_parts(
        0x80, Opcode.SET_ACTIVE_ENCRYPTION_KEYS, key=b"b", value=_SECRET
    ),
    "permissions": encode_parts(0x80, Opcode.UPDATE_USER_PERMISSIONS, key=b"u", value=_SECRET),
    "new bucket": encode_parts(0x80, Opcode.CREATE_BUCKET, key=b"b", value=_SECRET),
    "storage credentials": encode_parts(0x80, Opcode.DELETE_FUSION_NAMESPACE, value=_SECRET),
    "control token": encode_parts(0x80, Opcode.SET_CTRL_TOKEN, extras=b"tk-s3cr!"),
}


def _shown(message: Message) -> bytes:
    """Everything a reader of the fields sees."""
    seen = b""
    for field in message.fields:
        for part in field.walk():
            seen += (
                b"|"
                + part.raw
                + b"|"
                + str(part.value).encode()
                + b"|"
                + str(part.meaning).encode()
            )
    return seen + (message.value.body if message.value is not None else b"")


@pytest.mark.parametrize("name", _SECRETS)
def test_credentials_are_measured_and_never_shown(name: str) -> None:
    message = annotate(_SECRETS[name])
    hidden = [field for field in message.fields if field.hidden]
    assert {(field.raw, field.value) for field in hidden} == {(b"", None)}
    assert b"s3cr" not in _shown(message)


@pytest.mark.parametrize("name", _SECRETS)
def test_credentials_stay_hidden_when_the_message_is_damaged(name: str) -> None:
    whole = _SECRETS[name]
    for cut in range(len(whole)):
        assert b"s3cr" not in _shown(annotate(whole[:cut])), cut
    for at in (2, 3, 4, 8, 9, 10, 11):
        for step in (1, -1, 0x80):
            damaged = bytearray(whole)
            damaged[at] = (damaged[at] + step) & 0xFF
            if whole[0] in (0x80, 0x82) and at in (2, 3) and step != -1:
                # a longer key names the mechanism by bytes that were credentials: nothing tells
                # them apart
                continue
            assert b"s3cr" not in _shown(annotate(bytes(damaged))), (at, step)


@pytest.mark.parametrize(
    ("magic", "opcode"),
    [(0x80, Opcode.SET_CTRL_TOKEN), (0x81, Opcode.GET_CTRL_TOKEN), (0x80, Opcode.SHUTDOWN)],
)
def test_a_session_token_in_the_cas_is_hidden(magic: int, opcode: Opcode) -> None:
    data = encode_parts(
        magic, opcode, extras=bytes(8) if magic == 0x80 else b"", cas=0x1234_5678_9ABC_DEF0
    )
    field = annotate(data).field("cas")
    assert field is not None
    assert (field.hidden, field.raw, field.value) == (True, b"", None)
