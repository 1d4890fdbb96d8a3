"""Bytes are found in whatever a person pastes, and what is no hex is said to be none, with its
place.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.hextext import MAX_REPEATED, HexError, parse_hex, tcp_payload
from tests import builders

DUMPS = Path(__file__).parent / "dumps"
"""What the tools print of ``MESSAGE``, whose key and value look like hex on purpose; as packets,
with an empty one behind it.
"""

MESSAGE = builders.mutation(5, key=b"deadbeef cafe", value=b'{"a":"beef 12 34|"}')

SMALL = bytes.fromhex("80560000140000000000")


def payloads(text: str) -> bytes:
    return b"".join(tcp_payload(packet) for packet in parse_hex(text))


@pytest.mark.parametrize("path", sorted(DUMPS.iterdir()), ids=lambda path: path.stem)
def test_the_message_is_found_in_the_dump_of(path: Path) -> None:
    assert payloads(path.read_text("utf-8")) == MESSAGE


@pytest.mark.parametrize("path", sorted(DUMPS.glob("t*")), ids=lambda path: path.stem)
def test_a_dump_of_two_packets_is_divided(path: Path) -> None:
    assert len(parse_hex(path.read_text("utf-8"))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "80560000140000000000",
        "80560000140000000000\n",
        "80 56 00 00 14 00 00 00 00 00",
        "8056 0000 1400 0000 0000",
        "80:56:00:00:14:00:00:00:00:00",
        "8056:0000:1400:0000:0000",
        "80-56-00-00-14-00-00-00-00-00",
        "0x80560000140000000000",
        "0x80 0x56 0x00 0x00 0x14 0x00 0x00 0x00 0x00 0x00",
        "0x80, 0x56, 0, 0, 0x14, 0, 0, 0, 0, 0",
        r"\x80\x56\x00\x00\x14\x00\x00\x00\x00\x00",
        "80 56 00 00 14\r\n00 00 00 00 00\r\n",
        "8056  0000 1400 0000 0000",
        "80560000\n14000000\n0000",
    ],
)
def test_digits_are_read_however_they_are_set_apart(text: str) -> None:
    assert parse_hex(text) == [SMALL]


def _letters(data: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


def _xxd(data: bytes, group: int, columns: int) -> str:
    """As xxd prints it."""
    width = 2 * columns + columns // group
    rows = ((at, data[at : at + columns]) for at in range(0, len(data), columns))
    return "".join(
        f"{at:08x}: {row.hex(' ', -group):<{width}} {_letters(row)}\n" for at, row in rows
    )


def _hexdump(data: bytes) -> str:
    """As hexdump -C prints it."""
    rows = ((at, data[at : at + 16]) for at in range(0, len(data), 16))
    lines = [
        f"{at:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  |{_letters(row)}|"
        for at, row in rows
    ]
    return "\n".join([*lines, f"{len(data):08x}", ""])


@pytest.mark.parametrize("size", [1, 7, 8, 9, 10, 15, 16, 17, 31, 40])
@pytest.mark.parametrize(
    "printed",
    [
        lambda data: _xxd(data, 2, 16),
        lambda data: _xxd(data, 1, 16),
        lambda data: _xxd(data, 4, 32),
        _hexdump,
    ],
)
def test_every_length_of_the_last_line_is_read(printed: Callable[[bytes], str], size: int) -> None:
    data = b"beef 12 00 ab cd |ef| 34 beef cafe feed!"[:size]
    assert parse_hex(printed(data)) == [data]


@pytest.mark.parametrize(
    "text",
    [
        "char peer0_0[] = { /* Packet 7 */\n0x80, 0x5c, 0x00, \n0x07, 0xba };\n",
        "char a[] = { /* 1 */\n0x80, 0x5c };\nchar b[] = { /* 2 */\n0x00, 0x07, 0xba };\n",
        '"\\x80\\x5c\\x00" \\\n"\\x07\\xba"\n',
    ],
)
def test_arrays_and_strings_of_c_are_read(text: str) -> None:
    assert parse_hex(text) == [bytes.fromhex("805c0007ba")]


@pytest.mark.parametrize("size", [1, 8, 15, 16, 17, 40])
def test_the_columns_of_powershell_7_are_read_below_their_label(size: int) -> None:
    data = bytes(range(0xF8, 0x100)) + b"ab 12 ABCDEF 00 11 22 33 44 5566"
    rows = [
        f"{at:016X} {data[:size][at : at + 16].hex(' ').upper():<48}"
        + "".join(chr(byte) if 32 <= byte < 127 else "�" for byte in data[:size][at : at + 16])
        for at in range(0, size, 16)
    ]
    head = [
        "   Label: /tmp/one.bin",
        "",
        " " * 10 + "Offset Bytes",
        " " * 17 + "00 01 02 03",
        "------",
    ]
    assert parse_hex("\n".join([*head, *rows])) == [data[:size]]


def test_a_star_of_hexdump_stands_for_equal_lines() -> None:
    text = "00000000  80 56 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |.V..............|\n"
    text += (
        "00000010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  "
        "|................|\n*\n00000050  07  |.|\n00000051\n"
    )
    assert parse_hex(text) == [b"\x80\x56" + bytes(78) + b"\x07"]


def test_a_star_cannot_ask_for_endless_memory() -> None:
    text = f"00000000  {'00 ' * 16}\n*\nffffffff  00\n"
    with pytest.raises(HexError):
        parse_hex(text)
    assert MAX_REPEATED < 1 << 24


def test_a_part_of_a_dump_is_read() -> None:
    text = (
        "\t0x0040:  8056 0000 1400 0000 0000 0000 0000 0000  .V..............\n\t0x0050:  0001  "
        "                                   ..\n"
    )
    assert parse_hex(text) == [bytes.fromhex("80560000140000000000000000000000" + "0001")]


def test_lines_that_do_not_follow_each_other_are_no_dump() -> None:
    assert parse_hex("0000  8056\n0055  1400\n") == [bytes.fromhex("0000805600551400")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("805600001", "an odd number of hex digits in line 1"),
        ("8056\n000", "an odd number of hex digits in line 2"),
        ("80 56 0g", "'g' in line 1, column 8 is no hex digit"),
        ("snapshot", "'s' in line 1, column 1 is no hex digit"),
        ("80\nfé", "'é' in line 2, column 2 is no hex digit"),
        ("80 xx", "'x' in line 1, column 4 is no hex digit"),
    ],
)
def test_what_is_no_hex_is_said_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(HexError) as error:
        parse_hex(text)
    assert str(error.value) == reason


@given(st.text() | st.text("0123456789abcdefx:|*. \n"))
def test_any_text_gives_bytes_or_the_one_error(text: str) -> None:
    with suppress(HexError):
        parse_hex(text)


@given(st.binary(min_size=1, max_size=100))
def test_hex_digits_are_the_bytes_they_stand_for(data: bytes) -> None:
    assert parse_hex(data.hex()) == [data]
    assert parse_hex(data.hex(" ")) == [data]


@given(st.binary(max_size=100))
def test_no_bytes_break_the_search_for_packet_headers(data: bytes) -> None:
    assert tcp_payload(data) in data


def test_a_message_is_not_taken_for_a_packet() -> None:
    assert tcp_payload(MESSAGE) == MESSAGE


@pytest.mark.parametrize(
    "link_type", [builders.ETHERNET, builders.COOKED, builders.COOKED_2, builders.IPV4]
)
def test_link_headers_are_skipped(link_type: int) -> None:
    (segment,) = builders.conversation(server=MESSAGE, handshake=False, close=False)[:1]
    assert tcp_payload(builders.frame(segment, link_type=link_type)) == MESSAGE


def test_a_vlan_is_skipped() -> None:
    (segment,) = builders.conversation(server=MESSAGE, handshake=False, close=False)[:1]
    assert tcp_payload(builders.frame(segment, vlans=[7])) == MESSAGE


def test_ethernet_padding_is_no_payload() -> None:
    empty = builders.Conversation().send(True)
    assert tcp_payload(builders.frame(empty, pad_to=60)) == b""


def test_a_packet_cut_by_the_snaplen_gives_what_is_there() -> None:
    (segment,) = builders.conversation(server=MESSAGE, handshake=False, close=False)[:1]
    assert tcp_payload(builders.frame(segment)[:90]) == MESSAGE[:36]
