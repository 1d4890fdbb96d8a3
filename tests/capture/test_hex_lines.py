from __future__ import annotations

from collections.abc import Iterator

import pytest

from dcpinspect.capture.hex_lines import (
    FORMS,
    Frame,
    HexPiece,
    LineProblem,
    TextForm,
    dump,
    form_of,
)

HELLO = bytes.fromhex("801f000300000000000000050000000100000000000000006162630006")
NAMES = sorted({form.name for form in FORMS})


def rows(
    data: bytes,
    at: int = 0,
    *,
    indent: str = "",
    digits: int = 8,
    width: int = 16,
    spaces: int = 2,
    halves: bool = True,
) -> str:
    out = []
    for start in range(0, len(data), width):
        row = data[start : start + width]
        parts = (
            [row[: width // 2].hex(" "), row[width // 2 :].hex(" ")] if halves else [row.hex(" ")]
        )
        text = ("  " if halves else " ").join(filter(None, parts))
        seen = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        out.append(f"{indent}{at + start:0{digits}x}  {text:<{width * 3 + 1}}{' ' * spaces}{seen}")
    return "\n".join(out)


def grouped(data: bytes, *, indent: str = "\t", beside: bool = True) -> str:
    """As tcpdump and xxd print bytes."""
    out = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        seen = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row) if beside else ""
        out.append(f"{indent}0x{start:04x}:  {row.hex(' ', -2):<39}  {seen}".rstrip())
    return "\n".join(out)


TEN_TO_ELEVEN = (10 * 3600 + 49 * 60 + 58) * 10**9 + 164_224_000


IP_PACKET = bytes.fromhex(
    "4500002c4c9140004006d9f30a1400090a140007a8ca2bca7548e3b0000000005002 01f65d6d0000 00010203"
)
IP_PACKET = IP_PACKET[:10] + b"\0\0" + IP_PACKET[12:]


def found(text: str) -> tuple[TextForm, list[HexPiece]]:
    form = form_of(text)
    assert form is not None
    return form, list(dump(iter(list(enumerate(text.split("\n"), 1)))))


CASES: list[tuple[str, str, list[HexPiece]]] = [
    (
        "text of tcpdump",
        f"10:49:58.164224 IP a > b: x\n{grouped(IP_PACKET)}",
        [Frame(IP_PACKET, 101, TEN_TO_ELEVEN)],
    ),
    ("hex dump", grouped(IP_PACKET, indent="").replace("0x", "0000"), [Frame(IP_PACKET, 101)]),
    (
        "hex dump",
        f"{rows(IP_PACKET, digits=4, halves=False)}\n\n{rows(IP_PACKET, digits=4)}\n",
        [Frame(IP_PACKET, 101)] * 2,
    ),
]


@pytest.mark.parametrize(("name", "text", "expected"), CASES)
def test_a_text_of_each_form_is_read(name: str, text: str, expected: list[HexPiece]) -> None:
    form, got = found(text)
    assert form.name == name
    assert got == expected


def test_every_form_has_a_case() -> None:
    assert sorted({name for name, _, _ in CASES}) == NAMES


def test_packets_of_a_dump_are_frames_and_what_was_put_together_of_them_is_left_out() -> None:
    frame = bytes(12) + b"\x08\x00\x45" + bytes(40)
    text = (
        f"Frame (55 bytes):\n{rows(frame, digits=4)}\nReassembled TCP (29 "
        f"bytes):\n{rows(HELLO, digits=4)}\n\n{rows(frame, digits=4)}\n"
    )
    assert found(text)[1] == [Frame(frame, 1), Frame(frame, 1)]


@pytest.mark.parametrize("link_header", [b"", bytes(12) + b"\x08\0"])
def test_a_text_that_ends_within_its_last_packet_is_cut_short(link_header: bytes) -> None:
    frame = link_header + IP_PACKET
    cut = frame[: len(link_header) + 24]

    def pieces(*packets: bytes) -> list[HexPiece]:
        return found("\n\n".join(grouped(packet, indent="") for packet in packets))[1]

    first, problem = pieces(frame, cut)
    assert isinstance(first, Frame)
    assert problem == LineProblem(
        len(grouped(frame).split("\n")) + 2,
        "cut short, the text ends within the packet that begins here",
    )
    # the snapshot length cut all, and a packet between was cut
    for packets in ((cut, cut), (frame, cut, frame)):
        assert [len(piece.data) for piece in pieces(*packets) if isinstance(piece, Frame)] == [
            len(packet) for packet in packets
        ]


def test_text_beside_the_bytes_is_not_read_as_bytes() -> None:
    data = IP_PACKET + b"\x80 aa bb cc dd ee ff 11"
    for halves in (True, False):
        assert found(rows(data, digits=4, halves=halves))[1] == [Frame(data, 101)]


def test_bytes_that_begin_as_no_packet_are_told() -> None:
    told = "no packet begins with these bytes; 'dcpinspect explain -' is for messages"
    assert found(f"\n{rows(HELLO, digits=4)}")[1] == [LineProblem(2, told)]


IPV6_PACKET = bytes.fromhex("6000000000140640") + bytes(32) + IP_PACKET[20:40]
ARP = bytes.fromhex("00010800060400010242 0a140007 0a140007 000000000000 0a140009")


@pytest.mark.parametrize(
    ("below", "packet", "link_type"),
    [
        (bytes(12) + b"\x08\x00", IP_PACKET, 1),
        (bytes(12) + b"\x86\xdd", IPV6_PACKET, 1),
        (bytes(12) + b"\x08\x06", ARP, 1),
        (b"", IP_PACKET, 101),
        (b"", IPV6_PACKET, 101),
        (bytes.fromhex("0000000100060242 0a1400090000 0800"), IP_PACKET, 113),
        (bytes.fromhex("0800000000000003 0001000602420a1400090000"), IP_PACKET, 276),
        (bytes.fromhex("02000000"), IP_PACKET, 0),
        (bytes.fromhex("0000001c"), IPV6_PACKET, 0),
    ],
)
def test_the_link_type_of_a_packet_follows_from_its_bytes(
    below: bytes, packet: bytes, link_type: int
) -> None:
    assert found(grouped(below + packet))[1] == [Frame(below + packet, link_type)]


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("indent", ["\t", " ", "", "        "])
def test_rows_of_tcpdump_are_read_at_any_place_of_the_line(indent: str, beside: bool) -> None:
    data = IP_PACKET + b"\x31 32 33 abcd 1234"
    assert found(grouped(data, indent=indent, beside=beside))[1] == [Frame(data, 101)]


def test_a_packet_of_another_protocol_among_packets_is_no_message() -> None:
    text = f"10:00:00.000001 IP a\n{grouped(IP_PACKET)}\n10:00:00.000002 ARP, x\n{grouped(ARP)}\n"
    assert [type(one) for one in found(text)[1]] == [Frame, Frame]


DAY = 86_400 * 10**9


@pytest.mark.parametrize(
    ("titles", "times", "says"),
    [
        (
            ["10:49:58.164224 IP a", "10:49:59.164224001 IP b"],
            [TEN_TO_ELEVEN, TEN_TO_ELEVEN + 10**9 + 1],
            "the day is 1970-01-01",
        ),
        (
            ["23:59:59.900000 IP a", "00:00:00.100000 IP b"],
            [DAY - 10**8, DAY + 10**8],
            "the day is 1970-01-01",
        ),
        (
            ["2024-11-11 10:49:58.164224 IP a", "2024-11-11 10:49:58.5 x"],
            [1_731_322_198_164_224_000] * 2,
            "no time zone",
        ),
        (
            ["1731322198.164224 IP a", "1731322198.164225 IP b"],
            [1_731_322_198_164_224_000, 1_731_322_198_164_225_000],
            "nothing is made up",
        ),
        (
            [" 00:00:00.500000 IP a", "-00:00:00.000100 IP b"],
            [None, None],
            "it has no times",
        ),
        (
            ["    1  10:49:58.164224 IP a", "    2  10:49:58.164224 IP b"],
            [TEN_TO_ELEVEN] * 2,
            "the day is 1970-01-01",
        ),
        (
            ["10:49:58.164224 IP (tos 0x0)\n    10.20.0.9.1 > 10.20.0.7.2: x"],
            [TEN_TO_ELEVEN],
            "the day is 1970-01-01",
        ),
        (["IP a", "IP b"], [None, None], "it has no times"),
    ],
)
def test_times_of_tcpdump_are_read_in_each_of_their_forms(
    titles: list[str], times: list[int | None], says: str
) -> None:
    form, got = found("\n".join(f"{title}\n{grouped(IP_PACKET)}" for title in titles))
    assert got == [Frame(IP_PACKET, 101, time) for time in times]
    assert says in form.lacks


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "{}",
        "80",
        "# a heading\n\ntext 0000 80 1f",
        "\x80\x1f\x00",
        HELLO.hex(),
        "Follow: tcp,raw\n80",
    ],
)
def test_other_texts_have_no_form(text: str) -> None:
    assert form_of(text) is None


def test_any_text_gives_pieces_or_problems() -> None:
    from random import Random

    random = Random(20)

    def damaged() -> Iterator[str]:
        for _, text, _ in CASES * 40:
            letters = list(text)
            for _ in range(random.randint(1, 20)):
                letters[random.randrange(len(letters))] = random.choice(
                    "0123456789abcdef \t\n:{}[]=,!|x\xff"
                )
            yield "".join(letters)

    for text in damaged():
        for one in dump(iter(list(enumerate(text.split("\n"), 1)))):
            assert isinstance(one, Frame | LineProblem)
