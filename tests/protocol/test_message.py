"""The values that an annotated message is made of."""

from __future__ import annotations

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.message import Context, FieldValue, Message
from tests.encode import encode


def test_walking_a_field_gives_it_and_all_inside_it() -> None:
    inner = FieldValue("b", "b", 0, 1, b"x", fields=(FieldValue("c", "c", 0, 1, b"x"),))
    assert [field.name for field in FieldValue("a", "a", 0, 1, b"x", fields=(inner,)).walk()] == [
        "a",
        "b",
        "c",
    ]


def test_a_message_is_as_long_as_its_header_says() -> None:
    assert annotate(encode("dcp_mutation", key="k")[:30]).size == 24 + 31 + 1


def test_a_message_without_a_header_is_as_long_as_its_bytes() -> None:
    assert Message(b"abc", None, "incomplete").size == 3


def test_a_field_is_found_by_name_among_the_outermost() -> None:
    message = annotate(encode("dcp_seqno_advanced", by_seqno=7))
    field = message.field("by_seqno")
    assert field is not None
    assert field.value == 7


def test_a_field_that_is_not_there_is_none() -> None:
    assert annotate(encode("dcp_noop")).field("by_seqno") is None


def test_collections_are_unknown_until_somebody_says() -> None:
    assert Context() == Context("unknown", underlying_datatype=False)
