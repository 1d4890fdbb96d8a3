"""The byte grid is the documents' own, byte for byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from dcpinspect.output.render.byte_grid import byte_grid, hex_dump
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.message import Context
from tests.catalogue import each
from tests.encode import encode
from tests.output.render.examples import PRINTED, SHOWN, Printed, squeezed
from tests.protocol import strategies
from tests.protocol.vectors import BY_ID, Vector


def _corrected(grid: list[str], vector: Vector) -> list[str]:
    """A document's grid with the bytes that its own field table gives where the two contradict each
    other.
    """
    out = list(grid)
    for at, (printed, meant) in enumerate(zip(vector.literal, vector.data, strict=True)):
        if printed != meant:
            line = 4 + at // 4 * 2
            cells = out[line].split("|")
            cells[1 + at % 4] = cells[1 + at % 4].replace(f"0x{printed:02x}", f"0x{meant:02x}")
            out[line] = "|".join(cells)
    return out


@each("printed", PRINTED)
def test_the_grid_is_the_documents_byte_for_byte(printed: Printed) -> None:
    vector = BY_ID[printed.id]
    ours, theirs = byte_grid(vector.annotate()), _corrected(printed.grid, vector)
    if printed.id.startswith("seed002"):  # the one document that lost its blanks
        ours, theirs = list(map(squeezed, ours)), list(map(squeezed, theirs))
    assert ours == theirs


@pytest.mark.parametrize("name", SHOWN)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"byte_grid/{name}.txt", "\n".join(byte_grid(SHOWN[name])) + "\n")


def test_a_credential_never_appears() -> None:
    text = "\n".join(byte_grid(SHOWN["sasl"], limit=None))
    assert "0x73" not in text.partition("29|")[2]
    assert text.count("**") == len(b"\0user\0secret")


def test_bytes_that_the_capture_lacks_are_dots() -> None:
    grid = byte_grid(SHOWN["hole"])
    assert sum(line.count("··") for line in grid) == 4
    assert "| 0x6e ('n')    | ··            |" in "\n".join(grid)


def test_a_long_value_ends_the_grid_with_a_count_of_the_rest() -> None:
    message = annotate(encode("dcp_mutation", key="k", value=b"v" * 1000), context=Context("off"))
    grid = byte_grid(message, limit=8)
    assert grid[-1] == "        … 992 more bytes"
    assert "\n".join(grid).count("('v')") == 8
    assert "\n".join(byte_grid(message, limit=None)).count("('v')") == 1000


def test_a_body_that_cannot_be_divided_is_bounded_too() -> None:
    data = bytes.fromhex("8057ffff00000000" + "00000800") + bytes(12 + 0x800)
    assert byte_grid(annotate(data), limit=16)[-1] == "        … 2032 more bytes"


def test_a_message_cut_short_shows_a_bounded_number_of_missing_bytes() -> None:
    data = encode("dcp_mutation", key="k", value=b"v" * 1000)[:60]
    assert "\n".join(byte_grid(annotate(data), limit=None)).count("··") == 64


@given(strategies.messages, strategies.contexts, strategies.gaps)
def test_no_bytes_make_a_character_that_cannot_be_seen(
    data: bytes, context: Context, missing: list[tuple[int, int]]
) -> None:
    assert all(
        line.isprintable() for line in byte_grid(annotate(data, context=context, missing=missing))
    )


def test_the_dump_has_the_bytes_of_the_grid() -> None:
    message = annotate(encode("dcp_mutation", key="k" * 40, value=b"\x00~\x7f", by_seqno=1))
    dumped = "".join(line[10:58].replace(" ", "") for line in hex_dump(message, limit=None))
    assert bytes.fromhex(dumped) == message.data
    assert hex_dump(message, limit=None)[-1].rstrip().endswith("  ~.")
