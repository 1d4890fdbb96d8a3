"""Layouts are explained from the table that decodes them: no field is left out, and offsets are
those of a message.
"""

from __future__ import annotations

import pytest

from dcpinspect.output.render.layout_table import field_rows, layout_lines, layout_title, shape_text
from dcpinspect.protocol.fields import Layout, RecordList
from dcpinspect.protocol.layouts import LAYOUTS, layouts_of
from dcpinspect.protocol.opcodes import Opcode, opcode_name


def _layout(opcode: Opcode, generation: str, side: str = "request") -> Layout:
    return next(
        layout
        for layout in LAYOUTS
        if (layout.opcode, layout.generation, layout.side) == (opcode, generation, side)
    )


def _name(layout: Layout) -> str:
    return f"{opcode_name(layout.opcode, server=layout.server)}-{layout.side}-{layout.generation}"


def test_every_field_of_a_layout_has_a_row() -> None:
    for layout in LAYOUTS:
        labels = [label for _, label, _, _, _ in field_rows(layout)]
        for item in (*layout.extras, *([layout.key] if layout.key else []), *layout.value):
            assert item.title in labels or f"{item.title}…" in labels, _name(layout)
            for inner in item.fields if isinstance(item, RecordList) else ():
                assert inner.title in labels, _name(layout)


def test_every_row_says_what_the_field_is() -> None:
    assert [
        _name(layout)
        for layout in LAYOUTS
        if not all(doc for _, _, _, _, doc in field_rows(layout))
    ] == []


def test_extras_begin_after_the_header() -> None:
    for layout in LAYOUTS:
        rows = [
            (label, where.strip("()").replace(",", "-").partition("-")[0])
            for _, label, where, _, _ in field_rows(layout)
        ]
        assert all((field.title, f"{24 + field.offset}") in rows for field in layout.extras), _name(
            layout
        )


def test_titles_name_side_generation_and_status() -> None:
    assert [layout_title(layout) for layout in layouts_of(Opcode.DCP_STREAM_REQ, "response")] == [
        "DCP_STREAM_REQ response (v1, status 0x00)",
        "DCP_STREAM_REQ response (v1, status 0x23)",
        "DCP_STREAM_REQ response (upr, status 0x23)",
    ]


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (_layout(Opcode.DCP_MUTATION, "v1"), "31 bytes of extras, a key, a value or none"),
        (
            _layout(Opcode.DCP_SNAPSHOT_MARKER, "v2.0"),
            "1 byte of extras, no key, 36 bytes of value",
        ),
        (_layout(Opcode.DCP_NOOP, "v1"), "no extras, no key, no value"),
    ],
)
def test_the_shape_is_told_in_one_line(layout: Layout, shape: str) -> None:
    assert shape_text(layout) == shape


def test_layout_lines_end_with_their_source() -> None:
    assert (
        layout_lines(_layout(Opcode.DCP_STREAM_END, "v1"))[-1]
        == "  source: dcp/documentation/commands/stream-end.md"
    )
