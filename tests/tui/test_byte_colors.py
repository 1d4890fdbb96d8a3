from __future__ import annotations

from dcpinspect.protocol.annotate import annotate
from dcpinspect.tui.byte_colors import Parts
from tests.encode import encode


def test_each_byte_has_the_part_that_it_is_in() -> None:
    message = annotate(
        encode("dcp_mutation", key="key", by_seqno=1, rev_seqno=1, value=b"{}", vbucket=1)
    )
    parts = Parts(message)
    own = {
        name: [
            at for at in range(message.size) if parts.at_offset(at).removesuffix("-next") == name
        ]
        for name in ("header", "extras", "key", "value")
    }
    assert own["header"] == [*range(24)]
    assert own["extras"] == [*range(24, 55)]
    assert own["key"] == [55, 56, 57]
    assert own["value"] == [58, 59]


def test_fields_behind_each_other_differ() -> None:
    parts = Parts(annotate(encode("dcp_noop", opaque=1)))
    assert parts.at_offset(0) != parts.at_offset(1)
    assert parts.at_offset(2) == parts.at_offset(3)


def test_names_of_fields_have_one_colour_for_each_part() -> None:
    message = annotate(encode("dcp_noop", opaque=1))
    parts = Parts(message)
    assert {parts.of_field(field) for field in message.fields} == {"header"}


def test_without_a_message_all_is_header() -> None:
    assert Parts(None).at_offset(7) == "header"
