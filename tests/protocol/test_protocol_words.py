from __future__ import annotations

from itertools import chain

import pytest

from dcpinspect.protocol.control_keys import CONTROL_KEYS
from dcpinspect.protocol.fields import Field, LayoutItem
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.protocol_words import (
    MECHANISMS,
    ListOfWords,
    Words,
    error_map,
    name_of_control,
    stream_options,
    value_of_control,
    version_of_server,
)


def replaced(_: bytes) -> bytes:
    return b"?"


def test_words_stay_as_a_whole_and_in_lists_one_by_one() -> None:
    assert Words(MECHANISMS)(b"PLAIN", b"", replaced) == b"PLAIN"
    assert Words(MECHANISMS)(b"PLAIN alice", b"", replaced) == b"?"
    assert (
        ListOfWords(MECHANISMS)(b"PLAIN alice SCRAM-SHA512", b"", replaced)
        == b"PLAIN ? SCRAM-SHA512"
    )
    assert ListOfWords(MECHANISMS)(b"PLAIN\nalice", b"", replaced) == b"?"


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("enable_noop", "true", "true"),
        ("enable_noop", "True", "?"),
        ("set_noop_interval", "0.5", "0.5"),
        ("connection_buffer_size", "1048576", "1048576"),
        ("connection_buffer_size", "1" * 21, "?"),
        ("connection_buffer_size", "alice", "?"),
        ("set_priority", "high", "high"),
        ("backfill_order", "high", "?"),
        ("enable_out_of_order_snapshots", "true_with_seqno_advanced", "true_with_seqno_advanced"),
        ("consumer_name", "7", "?"),
        ("make_coffee", "true", "?"),
    ],
)
def test_controls_show_what_their_key_takes(key: str, value: str, shown: str) -> None:
    assert value_of_control(value.encode(), key.encode(), replaced) == shown.encode()


def test_known_controls_show_their_key() -> None:
    assert all(
        name_of_control(one.key.encode(), b"", replaced) == one.key.encode() for one in CONTROL_KEYS
    )
    assert (
        name_of_control(b"enable_", b"", replaced)
        == name_of_control(b"\xffenable_noop", b"", replaced)
        == b"?"
    )


def test_words_of_a_control_are_in_its_description() -> None:
    assert [
        (one.key, word) for one in CONTROL_KEYS for word in one.words if word not in one.values
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"collections":["8","a1"],"uid":"7f","sid":2}',
        b' {"scope": "0x8", "purge_seqno": "18446744073709551615"}\n',
        b'{"cts":{"free_memory":4096,"all_keys":true}}',
        b'{"sid":null,"uid":["8"]}',
    ],
)
def test_numbers_of_a_stream_request_stay(text: bytes) -> None:
    assert stream_options(text, b"", replaced) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b'{"scope":"alice"}', b'{"scope":"?"}'),
        (
            b'{"collections":["8", "alice", ["alice"], {"alice":1}]}',
            b'{"collections":["8","?","?","?"]}',
        ),
        (b'{"collections":{"alice":1}}', b'{"collections":"?"}'),
        (b'{"alice":{"alice":1},"sid":1}', b'{"?":"?","sid":1}'),
        (b'{"alice":7,"sid":1}', b'{"?":"?","sid":1}'),
        (
            b'{"cts":{"alice":1,"free_memory":"alice","all_keys":[1]}}',
            b'{"cts":{"?":"?","free_memory":"?","all_keys":[1]}}',
        ),
        (b'{"scope":"alice","scope":"8"}', b'{"scope":"8"}'),
        (b'{"scope":"\\u0038"}', b'{"scope":"8"}'),
        (b'{"sid":1.5}', b'{"sid":"?"}'),
        (b'{"scope":"' + b"1" * 21 + b'"}', b'{"scope":"?"}'),
        (b'{"scope":' + b"[" * 400 + b"]" * 400 + b"}", b'{"scope":["?"]}'),
        (b'["alice"]', b"?"),
        (b'"alice"', b"?"),
        (b"5", b"?"),
        (b'{"scope":"8"', b"?"),
        (b"\xff", b"?"),
    ],
    ids=lambda text: text[:24].decode(errors="replace"),
)
def test_everything_else_of_a_stream_request_is_replaced(text: bytes, shown: bytes) -> None:
    assert stream_options(text, b"", replaced) == shown


@pytest.mark.parametrize(
    "text",
    [
        b"7.6.2-3721-enterprise",
        b"8.0.0-3777",
        b"1.4.4_209_g7b9e75f",
        b"7.2",
        b"4.5.1-2844-community",
    ],
)
def test_the_version_of_a_server_is_shown(text: bytes) -> None:
    assert version_of_server(text, b"", replaced) == text


@pytest.mark.parametrize("text", [b"alice", b"7.6.2 alice", b"7.6.2-alice", b"", b"\xff\x00\x01"])
def test_what_is_no_version_is_replaced(text: bytes) -> None:
    assert version_of_server(text, b"", replaced) == b"?"


def test_an_error_map_is_a_json_object() -> None:
    assert error_map(b'{"version":2}', b"", replaced) == b'{"version":2}'
    assert {error_map(text, b"", replaced) for text in (b"alice", b'["alice"]', b"\xff")} == {b"?"}


def told(items: tuple[LayoutItem, ...]) -> list[Field]:
    return list(
        chain.from_iterable(
            [item] if isinstance(item, Field) else told(item.fields) for item in items
        )
    )


def test_few_commands_show_any_text() -> None:
    """Whoever adds a layout need not think of redaction: what is in this list was decided on."""
    texts = {
        (layout.opcode, field.name, field.shown is not None)
        for layout in LAYOUTS
        for field in told((*layout.extras, *((layout.key,) if layout.key else ()), *layout.value))
        if not field.kind.size and not (field.is_private and field.shown is None)
    }
    assert texts == {
        (0x0B, "value", True),
        (0x20, "value", True),
        (0x21, "key", True),
        (0x22, "key", True),
        (0x3F, "value", True),
        (0x53, "value", True),
        (0x5E, "key", True),
        (0x5E, "value", True),
        (0x86, "value", True),
        (0xAF, "key", True),
        (0xDA, "scan_id", False),
        (0xDB, "scan_id", False),
        (0xDC, "scan_id", False),
        (0xFE, "value", True),
    }
