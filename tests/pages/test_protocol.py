"""docs/protocol.md is what the tables of the codec say today."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from dcpinspect.output.render.layout_table import field_rows, layout_title
from dcpinspect.protocol.control_keys import CONTROL_KEYS
from dcpinspect.protocol.features import FEATURES
from dcpinspect.protocol.flex import REQUEST_FRAMES, RESPONSE_FRAMES
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode
from dcpinspect.protocol.statuses import Status
from tests.pages.protocol import features_markdown, frames_markdown, layout_markdown, protocol_page

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


def test_the_page_in_docs_is_the_page() -> None:
    assert PAGE.read_text("utf-8") == protocol_page(), "run python -m tests.pages"


def test_every_command_status_and_control_key_has_a_row() -> None:
    rows = [line for line in protocol_page().splitlines() if line.startswith("| ")]
    for op in (*Opcode, *ServerOpcode):
        assert any(row.startswith(f"| 0x{int(op):02x} | {op.name.lower()} |") for row in rows)
    for status in Status:
        assert any(
            row.startswith(f"| 0x{int(status):04x} | {status.name.lower()} |") for row in rows
        )
    for control in CONTROL_KEYS:
        assert any(row.startswith(f"| {control.key} |") for row in rows)


def test_every_row_of_a_table_has_its_columns() -> None:
    lines = [line.replace(r"\|", "") for line in protocol_page().splitlines()]
    for before, line in pairwise(lines):
        if before.startswith("|") and line.startswith("|"):
            assert before.count("|") == line.count("|"), line


def test_every_paragraph_stands_apart() -> None:
    lines = protocol_page().splitlines()
    assert all(
        not line or not before or line[0] in "|-" or before[0] not in "#|"
        for before, line in pairwise(lines)
    )
    assert "\n\n\n" not in protocol_page()


def test_the_markdown_table_is_whole() -> None:
    for layout in LAYOUTS:
        rows = [line for line in layout_markdown(layout) if line.startswith("|")]
        assert {line.replace(r"\|", "").count("|") for line in rows} <= {5}, layout_title(layout)
        assert len(rows) == (len(list(field_rows(layout))) + 2 if rows else 0), layout_title(layout)


def test_every_framing_element_has_a_row() -> None:
    assert len(frames_markdown()) == 2 + len(REQUEST_FRAMES) + len(RESPONSE_FRAMES)


def test_every_feature_has_a_row() -> None:
    assert len(features_markdown()) == 2 + len(FEATURES)
