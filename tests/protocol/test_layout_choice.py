"""Which layout a message has, and what is said when none fits."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.header import decode_header
from dcpinspect.protocol.layout_choice import LayoutChoice, choose
from dcpinspect.protocol.opcodes import Opcode
from tests.catalogue import each
from tests.encode import encode_parts


def chosen(
    opcode: int,
    *,
    extras: bytes = b"",
    value: int = 0,
    magic: int = 0x80,
    status: int = 0,
    held: bool = True,
) -> LayoutChoice:
    data = encode_parts(magic, opcode, extras=extras, value=bytes(value), specific=status)
    return choose(decode_header(data), extras if held else None, value)


GENERATIONS = (
    (Opcode.DCP_SNAPSHOT_MARKER, b"", 0, "upr"),
    (Opcode.DCP_SNAPSHOT_MARKER, bytes(20), 0, "v1"),
    (Opcode.DCP_SNAPSHOT_MARKER, b"\0", 36, "v2.0"),
    (Opcode.DCP_SNAPSHOT_MARKER, b"\1", 36, "v2.0"),
    (Opcode.DCP_SNAPSHOT_MARKER, b"\1", 44, "v2.1"),
    (Opcode.DCP_SNAPSHOT_MARKER, b"\2", 52, "v2.2"),
    (Opcode.DCP_SNAPSHOT_MARKER, b"\2", 44, "v2.2-short"),
    (Opcode.DCP_STREAM_REQ, bytes(48), 0, "v1"),
    (Opcode.DCP_STREAM_REQ, bytes(40), 0, "upr"),
    (Opcode.DCP_MUTATION, bytes(31), 9, "v1"),
    (Opcode.DCP_MUTATION, bytes(30), 9, "upr"),
    (Opcode.DCP_MUTATION, bytes(32), 9, "5.0-collections"),
    (Opcode.DCP_DELETION, bytes(18), 0, "v1"),
    (Opcode.DCP_DELETION, bytes(21), 0, "v2"),
    (Opcode.DCP_DELETION, bytes(19), 0, "5.0-collections"),
    (Opcode.DCP_EXPIRATION, bytes(20), 0, "v2"),
    (Opcode.DCP_EXPIRATION, bytes(18), 0, "v1"),
    (Opcode.DCP_EXPIRATION, bytes(19), 0, "5.0-collections"),
    (Opcode.DCP_SYSTEM_EVENT, bytes(12), 5, "5.0-collections"),
    (Opcode.DCP_SYSTEM_EVENT, bytes(13), 16, "v0"),
    (Opcode.DCP_SYSTEM_EVENT, bytes(12) + b"\1", 20, "v1"),
    (Opcode.DCP_SYSTEM_EVENT, bytes(12) + b"\2", 99, "v2"),
    (Opcode.DCP_SYSTEM_EVENT, bytes(12) + b"\3", 99, "unknown"),
)


@each(("opcode", "extras", "value", "generation"), GENERATIONS)
def test_lengths_and_numbers_choose_the_generation(
    opcode: int, extras: bytes, value: int, generation: str
) -> None:
    choice = chosen(opcode, extras=extras, value=value)
    assert choice.layout is not None
    assert (choice.layout.generation, choice.rule) == (generation, "")


@pytest.mark.parametrize(
    ("opcode", "extras", "value", "reason"),
    [
        (
            Opcode.DCP_MUTATION,
            bytes(33),
            0,
            "dcp_mutation request with 33 bytes of extras; 30, 31, 32 are defined",
        ),
        (
            Opcode.DCP_SEQNO_ADVANCED,
            bytes(4),
            0,
            "dcp_seqno_advanced request with 4 bytes of extras; 8 is defined",
        ),
        (
            Opcode.DCP_SNAPSHOT_MARKER,
            b"\0",
            35,
            "dcp_snapshot_marker request with 35 bytes of value; 36, 52 are defined",
        ),
        (
            Opcode.DCP_SNAPSHOT_MARKER,
            b"\2",
            43,
            "dcp_snapshot_marker request with 43 bytes of value; 36, 44, 52 are defined",
        ),
        (
            Opcode.DCP_SYSTEM_EVENT,
            bytes(13),
            17,
            "dcp_system_event request with 17 bytes of value; 16 is defined",
        ),
    ],
)
def test_what_fits_nothing_is_told_what_is_defined(
    opcode: int, extras: bytes, value: int, reason: str
) -> None:
    assert chosen(opcode, extras=extras, value=value).reason == reason


def test_a_command_that_nobody_described_has_no_layout() -> None:
    assert chosen(0x7E) == LayoutChoice(None)


def test_extras_that_are_not_in_the_capture_are_chosen_by_length() -> None:
    choice = chosen(Opcode.DCP_MUTATION, extras=bytes(30), held=False)
    assert choice.layout is not None
    assert choice.layout.generation == "upr"


def test_an_event_whose_number_is_not_in_the_capture_is_not_guessed() -> None:
    choice = chosen(Opcode.DCP_SYSTEM_EVENT, extras=bytes(13), value=16, held=False)
    assert choice.layout is not None
    assert choice.layout.generation == "unknown"


@pytest.mark.parametrize(
    ("status", "extras", "value", "generation"),
    [
        (0x00, b"", 16, "v1"),
        (0x23, b"", 8, "v1"),
        (0x23, bytes(8), 0, "upr"),
        (0x07, b"", 20, "error"),
        (0x01, b"", 0, "error"),
    ],
)
def test_the_status_chooses_the_body_of_an_answer(
    status: int, extras: bytes, value: int, generation: str
) -> None:
    choice = chosen(Opcode.DCP_STREAM_REQ, magic=0x81, status=status, extras=extras, value=value)
    assert choice.layout is not None
    assert (choice.layout.generation, choice.rule) == (generation, "")


def test_the_extras_of_a_success_under_a_refusal_are_read_and_reported() -> None:
    choice = chosen(Opcode.RETURN_META, magic=0x81, status=3, extras=bytes(16))
    assert (
        choice.reason
        == "return_meta response with the extras of a success, yet its status is e2big"
    )


@pytest.mark.parametrize("magic", [0x80, 0x82])
def test_the_magic_chooses_the_opcode_table(magic: int) -> None:
    choice = chosen(1, magic=magic, extras=bytes(8 if magic == 0x80 else 16))
    assert choice.layout is not None
    assert choice.layout.server is (magic == 0x82)
