"""The field table repeats the documents' own, and shows everything else in their manner."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given

from dcpinspect.output.render.field_table import field_table, message_title, offsets_text
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.message import Context
from tests.catalogue import each
from tests.encode import encode
from tests.output.render.examples import PRINTED, SHOWN, Printed
from tests.protocol import strategies
from tests.protocol.vectors import BY_ID

SPELLED = {"by seqno": "by_seqno", "rev seqno": "rev_seqno"}
"""The first document's labels that later ones spell otherwise."""

_ROW = re.compile(r"(\s*)(.+?)\s*\(([\d,-]+)\)\s*:\s*(.*)")


def _cells(line: str) -> tuple[str, str, str]:
    found = _ROW.fullmatch(line)
    assert found is not None, line
    label, offsets, value = found[2], found[3], found[4]
    first, _, last = offsets.replace(",", "-").partition("-")
    return SPELLED.get(label, label), f"{first}-{last or first}", value


def _value(text: str) -> tuple[int | str, str]:
    """(number or text, meaning)."""
    shown, _, meaning = text.partition(" (")
    return int(shown, 16) if shown.startswith("0x") else text.removesuffix(
        " (text)"
    ), meaning.removesuffix(")").lower()


@each("printed", PRINTED)
def test_every_row_of_a_documents_field_table_is_in_ours(printed: Printed) -> None:
    ours = [
        (cells[0], cells[1], _value(cells[2]))
        for line in field_table(BY_ID[printed.id].annotate())[2:]
        if _ROW.fullmatch(line) and (cells := _cells(line))
    ]
    for row in printed.rows:
        label, offsets, text = _cells(row)
        value, meaning = _value(text)
        assert any(
            (label, offsets, value) == (our_label, our_offsets, our_value)
            and meaning in our_meaning
            for our_label, our_offsets, (our_value, our_meaning) in ours
        ), row


@each("printed", PRINTED)
def test_the_title_is_the_documents_with_its_later_prefix(printed: Printed) -> None:
    assert message_title(BY_ID[printed.id].annotate()).startswith(
        printed.title.replace("UPR_", "DCP_")
    )


def test_columns_are_as_wide_as_in_the_documents() -> None:
    printed = next(example for example in PRINTED if example.id == "seed000-01")
    labels = [line.partition(":")[0] for line in printed.rows]
    ours = [line.partition(":")[0] for line in field_table(BY_ID[printed.id].annotate())[2:]]
    assert [line.removeprefix("    ") for line in labels] == ours[: len(labels)]


@pytest.mark.parametrize("name", SHOWN)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"field_table/{name}.txt", "\n".join(field_table(SHOWN[name])) + "\n")


def test_offsets_are_written_as_in_the_specification() -> None:
    assert [offsets_text(24, size) for size in (0, 1, 2, 8)] == ["()", "(24)", "(24,25)", "(24-31)"]


def test_a_credential_never_appears() -> None:
    assert "secret" not in "\n".join(field_table(SHOWN["sasl"], limit=None))


def test_a_long_value_is_clipped_with_its_size_unless_all_is_asked_for() -> None:
    message = annotate(encode("dcp_mutation", key="k", value=b"v" * 1000), context=Context("off"))
    row = next(line for line in field_table(message, limit=10) if line.startswith("Value"))
    assert row.endswith(": vvvvvvvvvv… (1000 bytes) (text)")
    assert "v" * 1000 in "\n".join(field_table(message, limit=None))


def test_a_long_value_with_a_hole_is_clipped_too() -> None:
    message = annotate(
        encode("dcp_mutation", key="k", value=b"v" * 1000),
        context=Context("off"),
        missing=[(1000, 1001)],
    )
    row = next(line for line in field_table(message, limit=10) if line.startswith("Value"))
    assert row.partition(": ")[2] == (
        "0x76767676767676767676…································ (1000 bytes, not complete in "
        "the capture)"
    )


def test_every_problem_and_every_missing_range_has_a_line() -> None:
    message = annotate(
        encode("dcp_mutation", key="k", datatype=0x80),
        context=Context("off"),
        missing=[(30, 34), (50, 51)],
    )
    assert field_table(message)[-3:] == [
        "✖ datatype at byte 5: datatype 0x80 has undefined bits",
        "! bytes 30-33 are not in the capture",
        "! bytes 50-50 are not in the capture",
    ]


@given(strategies.messages, strategies.contexts, strategies.gaps)
def test_no_bytes_make_a_character_that_cannot_be_seen(
    data: bytes, context: Context, missing: list[tuple[int, int]]
) -> None:
    assert all(
        line.isprintable()
        for line in field_table(annotate(data, context=context, missing=missing), limit=None)
    )
