"""Layouts as texts."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.fields import Field, FieldKind, RecordList
from dcpinspect.protocol.layout_text import fields, layouts
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode
from dcpinspect.protocol.statuses import Status


def test_commands_of_one_heading_have_the_same_body_and_stay_together() -> None:
    made = layouts(
        """
        GET GETQ request
            key key: key of the document
        GET GETQ response miss legacy
            spec: other.md
            value? json: why
            status: KEY_ENOENT
            note: old
        """,
        "page.md",
        columns=False,
    )
    assert [(one.opcode, one.side) for one in made] == [
        (Opcode.GET, "request"),
        (Opcode.GET, "response"),
        (Opcode.GETQ, "request"),
        (Opcode.GETQ, "response"),
    ]
    request, answer = made[:2]
    assert (request.generation, request.spec, request.legacy) == ("v1", "page.md", False)
    assert request.key == Field("key", 0, FieldKind.KEY, "key of the document", "Key")
    assert (answer.generation, answer.spec, answer.legacy) == ("miss", "other.md", True)
    assert (answer.status, answer.note) == ((Status.KEY_ENOENT,), "old")
    assert (answer.value_required, answer.columns) == (False, False)


def test_a_field_stands_behind_the_one_before_it() -> None:
    number, token, text, rest = fields(
        """
        level u32 (how much) [0 none, 0x10 all] reserved alias=other: how much: all of it
        token bytes public size=16: a token that is
            told in two lines
        length text &shown: text
        seqno seqno: behind a field without a size
        """,
        {"shown": {"shown_members": ("a",)}},
    )
    assert (number.offset, token.offset, text.offset, rest.offset) == (0, 4, 20, 20)
    assert (number.title, number.values) == ("how much", {0: "none", 16: "all"})
    assert (number.reserved, number.alias, number.doc) == (True, "other", "how much: all of it")
    assert (token.size, token.private, token.doc) == (
        16,
        False,
        "a token that is told in two lines",
    )
    assert (text.shown_members, rest.kind, rest.title) == (("a",), FieldKind.SEQNO, "seqno")


def test_lines_are_shared_and_things_are_named() -> None:
    items = RecordList("items", fields("seqno seqno: its seqno"), "what there is")
    [one] = layouts(
        """
        head
            extras version u8: how it is encoded
        CLUSTERMAP_CHANGE_NOTIFICATION request
            use: head
            value: *items
            when: 0 1 2
            check: right
        """,
        "page.md",
        {"items": items, "right": len},
        server=True,
    )
    assert one.opcode is ServerOpcode.CLUSTERMAP_CHANGE_NOTIFICATION
    assert (one.extras_size, one.value, one.when) == (1, (items,), ((0, 1, 2),))
    assert one.check is len  # type: ignore[comparison-overlap]


@pytest.mark.parametrize(
    "line", ["extras flags u33: a kind", "extras flags u32 &bits: a name", "use: nothing"]
)
def test_what_nobody_knows_is_an_error(line: str) -> None:
    with pytest.raises(KeyError):
        layouts(f"GET request\n    {line}", "page.md")
