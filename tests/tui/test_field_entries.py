from __future__ import annotations

import json

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.encode import encode, encode_document
from dcpinspect.tui.field_entries import Entries, Entry, wrapped


def entries(value: bytes, datatype: int, *, width: int = 80) -> dict[str, Entry]:
    """Every line of a mutation with this value, by its path."""
    message = annotate(
        encode(
            "dcp_mutation",
            key="key",
            by_seqno=1,
            rev_seqno=1,
            value=value,
            datatype=datatype,
            vbucket=1,
        )
    )
    waiting, found = Entries(message, width, 38).top(), {}
    while waiting:
        entry = waiting.pop()
        found[entry.path] = entry
        waiting += entry.inner(200) if entry.inner is not None else []
    return found


def test_json_is_taken_apart_with_its_bytes() -> None:
    text = b'{"city": "Rome", "at": [41.9, 12.5], "open": true}'
    found = entries(text, 1)
    assert (found["value/city"].text, found["value/city"].part) == ('"Rome"', "string")
    assert [found[f"value/at/{number}"].text for number in range(2)] == ["41.9", "12.5"]
    span = found["value/city"].span
    assert span is not None
    assert span[1] - span[0] == len('"Rome"')


def test_xattrs_stand_apart_and_what_was_packed_says_that_it_is_not() -> None:
    value, datatype = encode_document(
        b'{"n":7}', json=True, xattrs={"_sync": '{"rev":"1-af"}', "owner": '"clerk"'}, snappy=True
    )
    found = entries(value, datatype)
    assert found["value/xattrs/_sync/rev"].text == '"1-af"'
    assert found["value/xattrs/owner"].text == '"clerk"'
    assert found["value/body"].label == "body (unpacked)"
    assert found["value/body/n"].text == "7"
    assert found["value/body/n"].span is None
    assert "snappy" in found["value"].text


def test_a_value_of_bytes_is_unfolded_as_bytes() -> None:
    content = bytes(range(128, 168))
    value, datatype = encode_document(content, json=False, xattrs={"a": "1"}, snappy=True)
    for width in (60, 76, 80):
        found = entries(value, datatype, width=width)
        dumped = [entry for path, entry in found.items() if path.startswith("value/body/~")]
        assert found["value/body/~0"].text.split()[1:3] == ["80", "81"]
        assert max(2 * entry.depth + 3 + len(entry.text) for entry in dumped) <= width, (
            "no line of bytes is cut"
        )


def test_long_text_is_wrapped_and_nothing_is_lost() -> None:
    text = "ab\\cdé\x1b " * 40
    found = entries(json.dumps({"a": text}, ensure_ascii=False).encode(), 1, width=60)
    lines = [
        entry.text
        for path, entry in sorted(found.items(), key=lambda one: len(one[0]))
        if path.startswith("value/a/~")
    ]
    assert len(lines) > 5
    assert all(len(line) <= 60 for line in lines)
    assert wrapped("漢字ab\nc", 4) == ["漢字", "ab", "c"]


def test_a_value_as_long_as_may_be_is_shown_in_part() -> None:
    text = json.dumps([{"name": "x" * 50, "number": number} for number in range(60_000)]).encode()
    message = annotate(
        encode(
            "dcp_mutation", key="key", by_seqno=1, rev_seqno=1, value=text, datatype=1, vbucket=1
        )
    )
    (value,) = [entry for entry in Entries(message, 80, 38).top() if entry.path == "value"]
    assert value.inner is not None
    inside = value.inner(200)
    assert len(inside) == 201
    assert inside[-1].kind == "more"
