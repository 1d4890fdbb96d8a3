"""Credentials are in no output, whatever its format: every command of both tables, each with
secrets in every section.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from dcpinspect.output.render.byte_grid import byte_grid, hex_dump
from dcpinspect.output.render.explanation import explain_packets
from dcpinspect.output.render.field_table import field_table
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.fields import MessageSide
from dcpinspect.protocol.layouts import layouts_of
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode
from dcpinspect.protocol.secrecy import Secrecy, secrecy
from dcpinspect.scapy_layer import DCP
from dcpinspect.tui.app import InspectApp
from tests import builders
from tests.encode import encode, encode_parts, encode_snappy
from tests.scenarios.test_redaction import OUTPUTS, output
from tests.tui.screens import Keys, play, press, screen, settled

pytestmark = pytest.mark.slow

MARK = b"\x5a\x51" * 6
"""Letters that no other text has, the same at every place of a row of the byte grid."""
FORMS = (MARK, MARK.hex().encode(), b"('Q')", b"('Z')", b"51 5a 51")
TOKEN = b'{"a":1,"metadatastore_auth_token":"' + MARK + b'"'
NAMING = {
    "json": (TOKEN + b"}", 1),
    "broken json": (TOKEN + b",", 1),
    "snappy": (encode_snappy(TOKEN + b"}"), 3),
    "raw": (TOKEN + b"}", 0),
}
"""Values that name a credential, and their datatypes."""
PLAIN = {
    "text": (MARK, 0),
    "json": (b'["' + MARK + b'"]', 1),
    "snappy": (encode_snappy(MARK), 2),
    "broken snappy": (b"\xff" + MARK, 3),
}
STATUSES = (0x00, 0x04)


def commands() -> Iterator[tuple[int, MessageSide, bool]]:
    """Every command of both tables and both sides of which not everything is shown, and a number of
    neither.
    """
    for is_server, table in ((False, Opcode), (True, ServerOpcode)):
        for opcode in (*table, 0x7E):
            for side in ("request", "response"):
                if secrecy(opcode, side, server=is_server) is not Secrecy.OPEN:
                    yield opcode, side, is_server


def built(
    opcode: int,
    side: MessageSide,
    is_server: bool,
    *,
    value: tuple[bytes, int],
    key: bytes,
    extras: bytes,
) -> list[bytes]:
    magic = (0x82 if is_server else 0x80) + (side == "response")
    text, datatype = value
    return [
        encode_parts(
            magic,
            opcode,
            extras=extras,
            key=key,
            value=text,
            datatype=datatype,
            specific=specific,
            opaque=opcode,
        )
        for specific in (STATUSES if side == "response" else (0,))
    ]


def secrets() -> list[bytes]:
    """Messages of which nothing that is marked may be shown."""
    out = []
    for opcode, side, is_server in commands():
        layouts, decided = (
            layouts_of(opcode, side, server=is_server),
            secrecy(opcode, side, server=is_server),
        )
        sizes = {0, *(layout.extras_size for layout in layouts)}
        odd = (2 * MARK)[: next(size for size in range(12, 24) if size not in sizes)]
        keyed = next((layout for layout in layouts if layout.key is not None), None)
        fitting = bytes(layouts[0].extras_size) if layouts else b""
        for value in NAMING.values():
            out += built(
                opcode, side, is_server, value=value, key=b"name" if keyed else b"", extras=fitting
            )
        if decided is Secrecy.UNKNOWN:
            continue
        key = b"" if keyed else MARK
        out += built(opcode, side, is_server, value=NAMING["json"], key=key, extras=odd)
        if decided is Secrecy.MEASURED or not any(layout.value for layout in layouts):
            is_error_described = side == "response" and decided is Secrecy.DESCRIBED
            for value in PLAIN.values():
                made = built(opcode, side, is_server, value=value, key=key, extras=odd)
                out += made[:1] if is_error_described else made
    return out


def is_sent_by_server(data: bytes) -> bool:
    return data[0] in (0x81, 0x82)


def talked(path: Path, messages: list[bytes], **options: int) -> Path:
    """A capture of these messages, each in a packet of its own."""
    sides = [
        [data for data in messages if is_sent_by_server(data) is server] for server in (False, True)
    ]
    made = builders.Conversation()
    made.handshake()
    for to_server, of_side in zip((True, False), sides, strict=True):
        made.stream(to_server, b"".join(of_side), [len(data) for data in of_side])
    path.write_bytes(builders.pcap(builders.recorded(made.segments, **options)))
    return path


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return talked(tmp_path_factory.mktemp("secrets") / "secrets.pcap", secrets())


def shown(text: bytes) -> list[bytes]:
    return [form for form in FORMS if form in text]


@pytest.mark.parametrize("arguments", OUTPUTS.values(), ids=OUTPUTS)
def test_no_credential_is_in_the_output(
    arguments: tuple[str, ...], capture: Path, tmp_path: Path
) -> None:
    assert shown(output(capture, tmp_path, *arguments)) == []
    document = builders.mutation(key=b"\0" + MARK, value=b'"' + MARK + b'"')
    assert shown(output(talked(tmp_path / "document.pcap", [document]), tmp_path, *arguments)), (
        "the search finds what is there"
    )


@pytest.mark.parametrize("arguments", [OUTPUTS["json"], OUTPUTS["tables"]], ids=["json", "tables"])
def test_what_the_capture_cut_shows_none_either(arguments: tuple[str, ...], tmp_path: Path) -> None:
    cut = talked(tmp_path / "cut.pcap", secrets()[::5], snaplen=54 + 24 + 44)
    assert shown(output(cut, tmp_path, *arguments)) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "-f", "ndjson"],
        ["sql", "from messages", "-f", "json"],
        ["sql", "from findings", "-f", "json"],
        ["connections"],
    ],
    ids=" ".join,
)
def test_findings_and_queries_tell_none(
    arguments: list[str], capture: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    command, *rest = arguments
    assert main([command, str(capture), *rest]) in (0, 1)
    printed = capsysbinary.readouterr().out
    assert printed
    assert shown(printed) == []


def test_no_message_tells_one_on_its_own_however_it_is_cut() -> None:
    for data in secrets():
        for end in (len(data), len(data) - 2, len(data) - 14, 30):
            message = annotate(data[:end])
            text = "\n".join(
                [
                    *field_table(message, limit=None),
                    *byte_grid(message, limit=None),
                    *hex_dump(message, limit=None),
                ]
            )
            assert shown(text.encode()) == [], (data, end)
        assert shown("\n".join(explain_packets([data])).encode()) == [], data


def test_no_packet_of_scapy_shows_one() -> None:
    for data in secrets():
        packet = DCP(data)
        assert bytes(packet) == data
        assert shown(f"{packet.show(dump=True)}{packet!r}{packet.summary()}".encode()) == [], data


def test_the_terminal_ui_shows_none(tmp_path: Path) -> None:
    requests = [
        *built(
            Opcode.DOWNLOAD_SNAPSHOT, "request", False, value=NAMING["json"], key=b"", extras=b""
        ),
        *built(Opcode.IFCONFIG, "request", False, value=NAMING["snappy"], key=b"tls", extras=b""),
        *built(
            Opcode.CONFIG_VALIDATE, "request", False, value=PLAIN["text"], key=MARK, extras=MARK
        ),
        *built(
            Opcode.SET_VBUCKET,
            "request",
            False,
            value=NAMING["broken json"],
            key=MARK,
            extras=b"\1",
        ),
    ]

    async def scene(app: InspectApp, pilot: Keys) -> None:
        for row in range(1, len(requests) + 1):
            app.navigation.to_row(row)
            await settled(app, pilot)
            for _ in range(2):
                seen = screen(app)
                assert "hidden" in seen
                assert shown(seen.encode()) == []
                assert MARK.decode() not in seen
                await press(app, pilot, "d")

    play(talked(tmp_path / "tui.pcap", requests), scene, (200, 80))


def test_what_holds_no_credential_is_still_shown(tmp_path: Path) -> None:
    capture = talked(
        tmp_path / "shown.pcap",
        [
            encode("set_param", category=1, key=b"max_size", value=b"1234567"),
            encode("delete_bucket", key=b"travel"),
            encode("prepare_snapshot", side="response", value=b'{"uuid":"f797"}'),
            encode_parts(
                0x81,
                Opcode.SET_VBUCKET,
                specific=0x04,
                value=b'{"error":{"context":"no such state"}}',
                datatype=1,
            ),
            encode_parts(0x80, 0x7E, key=b"newkey", value=b'"newvalue"', datatype=1),
        ],
    )
    text = output(capture, tmp_path, "x.txt", "-V")
    assert [
        word
        for word in (
            b"max_size",
            b"1234567",
            b"travel",
            b"f797",
            b"no such state",
            b"newkey",
            b"newvalue",
        )
        if word not in text
    ] == []
