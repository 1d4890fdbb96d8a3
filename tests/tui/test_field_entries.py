from __future__ import annotations

import json

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.tui.field_entries import Entries, Entry, json_lines, wrapped
from tests.encode import encode, encode_document


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


def of(found: dict[str, Entry], path: str) -> list[str]:
    """The lines below a line, in order."""
    numbered = {name: entry.text for name, entry in found.items() if name.startswith(f"{path}/~")}
    return [numbered[name] for name in sorted(numbered, key=lambda one: int(one.split("~")[-1]))]


def test_json_has_a_line_for_each_value() -> None:
    found = entries(b'{"city": "Rome", "at": [41.90, 1e400],  "none": {}, "open":true}', 1)
    assert of(found, "value") == [
        "{",
        '  "city": "Rome",',
        '  "at": [',
        "    41.90,",
        "    1e400",
        "  ],",
        '  "none": {},',
        '  "open": true',
        "}",
    ]


@pytest.mark.parametrize(
    "text", ['{"a": [1, {"b": ', '[" {[,', "[" * 100_000, '{]}} ,, : \\ "', '{"a":1,"a":2}']
)
def test_what_is_no_json_is_shown_as_it_is(text: str) -> None:
    lines = list(json_lines(text))
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_xattrs_stand_apart_and_what_was_packed_says_that_it_is_not() -> None:
    value, datatype = encode_document(
        b'{"n":7}', json=True, xattrs={"_sync": '{"rev":"1-af"}', "owner": '"clerk"'}, snappy=True
    )
    found = entries(value, datatype)
    assert of(found, "value/xattrs/_sync") == ["{", '  "rev": "1-af"', "}"]
    assert found["value/xattrs/owner"].text == '"clerk"'
    assert found["value/body"].label == "body (unpacked)"
    assert of(found, "value/body") == ["{", '  "n": 7', "}"]
    assert "snappy" in found["value"].text


def test_a_value_of_bytes_is_unfolded_as_bytes() -> None:
    content = bytes(range(128, 168))
    value, datatype = encode_document(content, json=False, xattrs={"a": "1"}, snappy=True)
    for width in (60, 76, 80):
        found = entries(value, datatype, width=width)
        dumped = [entry for path, entry in found.items() if path.startswith("value/body/~")]
        assert found["value/body/~0"].text.split()[:2] == ["80", "81"]
        assert max(2 * entry.depth + 3 + len(entry.text) for entry in dumped) <= width, (
            "no line of bytes is cut"
        )


def test_long_text_is_wrapped_and_nothing_is_lost() -> None:
    text = "ab\\cdé\x1b " * 40
    found = entries(json.dumps({"a": text}, ensure_ascii=False).encode(), 1, width=60)
    lines = of(found, "value")
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
