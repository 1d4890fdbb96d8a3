"""The table of the specification names every document, example and test; and what no other test has
of its statements.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from dcpinspect.output.render.explanation import explain
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.message import Context, Message
from tests.catalogue import each
from tests.encode import encode, encode_parts
from tests.findings.checked import told
from tests.pages.specification import DOCUMENTS, ROWS, Row, shown_by, specification_markdown
from tests.protocol.vectors import BY_ID
from tests.streams.told import opened

ROOT = Path(__file__).parents[2]


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@each("row", ROWS)
def test_every_row_names_documents_and_tests_that_exist(row: Row) -> None:
    assert row.documents
    assert set(row.documents) <= DOCUMENTS.keys()
    assert row.does
    assert shown_by(row)
    for test in shown_by(row):
        file, _, name = test.partition("::")
        assert name in functions(file), test


def test_every_example_of_the_documents_has_a_row() -> None:
    named = {name for row in ROWS for name in row.examples.split()}
    assert named == {name for name in BY_ID if name.startswith("seed")}


@pytest.mark.parametrize("letter", DOCUMENTS)
def test_every_document_has_rows_of_its_examples(letter: str) -> None:
    number = list(DOCUMENTS).index(letter)
    examples = {name for row in ROWS if letter in row.documents for name in row.examples.split()}
    assert {name for name in BY_ID if name.startswith(f"seed00{number}")} <= examples


@pytest.mark.parametrize(
    "command",
    [
        *(
            "Open",
            "Add Stream",
            "Close Stream",
            "Failover Log",
            "Stream Request",
            "Stream End",
            "Mutation",
            "Deletion",
            "Expiration",
        ),
        *("Flush", "Set VBucket State"),
    ],
)
def test_every_command_of_the_first_specification_has_rows(command: str) -> None:
    said = [row.says for row in ROWS if row.documents == "E" and row.says.startswith(command)]
    assert any("xample" in text or "answer" in text for text in said)
    assert len(said) > 1


def test_the_page_prints_every_row() -> None:
    lines = specification_markdown()
    starts = {f"| {', '.join(row.documents)} | {row.says} |" for row in ROWS}
    assert len(starts) == len(ROWS)
    assert all(sum(line.startswith(start) for line in lines) == 1 for start in starts)


# -- statements that no other test has
# --------------------------------------------------------------------

SHAPES: dict[str, tuple[int, int, bool, bool]] = {
    "open": (0x50, 8, True, True),
    "add stream": (0x51, 4, False, False),
    "close stream": (0x52, 0, False, False),
    "stream request": (0x53, 40, False, False),
    "failover log": (0x54, 0, False, False),
    "stream end": (0x55, 4, False, False),
    "marker of the first pages": (0x56, 20, False, False),
    "marker of the first specification": (0x56, 0, False, False),
    "mutation": (0x57, 30, True, True),
    "deletion": (0x58, 18, True, True),
    "expiration": (0x59, 18, True, True),
    "flush": (0x5A, 0, False, False),
    "set vbucket state": (0x5B, 1, False, False),
}
"""Opcode, bytes of extras, whether there is a key, whether a value is let pass (later pages have
one for some that had none).
"""
EXTRAS = {0x5B: b"\1"}
KEYED = [name for name, shape in SHAPES.items() if shape[2]]
BARE = [name for name, shape in SHAPES.items() if not shape[2]]
VALUELESS = [name for name, shape in SHAPES.items() if not shape[3]]
WITH_EXTRAS = [name for name, shape in SHAPES.items() if shape[1] and shape[0] != 0x56]


def built(
    name: str, *, extras: bool = True, key: bool | None = None, value: bytes = b""
) -> Message:
    opcode, size, has_key, _ = SHAPES[name]
    wanted = has_key if key is None else key
    body = EXTRAS.get(opcode, bytes(size)) if extras else b""
    return annotate(
        encode_parts(0x80, opcode, extras=body, key=b"key" if wanted else b"", value=value),
        context=Context("off"),
    )


def faults(message: Message) -> list[str]:
    return [problem.rule for problem in message.problems if problem.severity != "note"]


@pytest.mark.parametrize("name", SHAPES)
def test_sections_as_the_page_has_them_fit(name: str) -> None:
    assert faults(built(name)) == []


@pytest.mark.parametrize(
    ("name", "section"), [(name, "key") for name in BARE] + [(name, "value") for name in VALUELESS]
)
def test_a_section_that_must_not_be_there_is_reported(name: str, section: str) -> None:
    assert faults(built(name, key=True) if section == "key" else built(name, value=b"value")) != []


@pytest.mark.parametrize(
    ("name", "section"),
    [(name, "key") for name in KEYED] + [(name, "extras") for name in WITH_EXTRAS],
)
def test_a_section_that_must_be_there_is_missed(name: str, section: str) -> None:
    assert faults(built(name, key=False) if section == "key" else built(name, extras=False)) != []


@pytest.mark.parametrize("command", ["mutation", "deletion", "expiration"])
def test_a_success_where_the_page_has_no_reply_is_reported(command: str) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory")
    getattr(stream, command)(3, "k", **({"body": {}} if command == "mutation" else {}))
    talk.answer(f"dcp_{command}", stream.opaque, by="client")
    assert "unexpected-reply" in [rule for _, rule, _ in told(talk)]


def test_the_high_completed_seqno_says_that_it_is_valid_with_the_disk_flag_only() -> None:
    field = annotate(encode("dcp_snapshot_marker", generation="v2.0", snapshot_type=1)).field(
        "high_completed_seqno"
    )
    assert field is not None
    assert field.spec is not None
    assert "valid with the disk flag only" in field.spec.doc


def test_a_flush_is_named_with_what_it_does() -> None:
    assert any("vbucket" in line for line in (explain("dcp_flush") or [])[1:2])
    assert annotate(BY_ID["seed004-17"].data).name == "dcp_flush"
