from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol import header_columns
from dcpinspect.protocol.header import HEADER_SIZE, MAX_BODY, Magic, decode_header
from dcpinspect.protocol.header_columns import UNDECLARED_STREAM_ID, HeaderColumns, faults_of
from tests.builders import message, mutation

HEADERS = st.builds(
    lambda first, lengths, rest: bytes(first) + bytes(lengths) + rest,
    st.tuples(st.sampled_from([*Magic, 0, 255]), st.sampled_from([0x57, 0x58, 0x59, 0x1F])),
    st.tuples(
        st.integers(0, 3), st.integers(0, 40), st.sampled_from([0, 20, 21, 31]), st.integers(0, 9)
    ),
    st.binary(min_size=18, max_size=18),
)
BODIES = st.one_of(
    st.integers(0, 90), st.integers(MAX_BODY - 1, MAX_BODY + 1), st.integers(0, 2**32 - 1)
)


@given(st.lists(st.tuples(HEADERS, BODIES, st.sampled_from([0x22, 0]), st.booleans()), max_size=8))
def test_columns_say_what_each_header_says(parts: list[tuple[bytes, int, int, bool]]) -> None:
    heads = [
        head[:8] + body.to_bytes(4, "big") + head[12:] + bytes([first, 0, 7])
        for head, body, first, _ in parts
    ]
    gaps = [b"??" if has_gap else b"" for *_, has_gap in parts]
    data = np.frombuffer(
        b"".join(gap + head for gap, head in zip(gaps, heads, strict=True)) + bytes(100), np.uint8
    )
    sizes = np.cumsum([0, *(len(gap) + len(head) for gap, head in zip(gaps, heads, strict=True))])[
        :-1
    ]
    start = np.array(
        [at + len(gap) for at, gap in zip(sizes.tolist(), gaps, strict=True)], np.int64
    )
    found = HeaderColumns(data, start)
    is_sound = True
    for row, head in enumerate(heads):
        header = decode_header(head)
        undeclared = faults_of(header, head[HEADER_SIZE:]) & UNDECLARED_STREAM_ID > 0
        framing = 3 if undeclared else header.framing_size
        value_size = header.body_size - framing - header.extras_size - header.key_size
        has_magic = header.magic in list(Magic)
        is_divided = has_magic and value_size >= 0
        is_sound &= (
            is_divided and not undeclared and header.datatype <= 7 and header.body_size <= MAX_BODY
        )
        assert (found.magic[row], found.opcode[row], found.datatype[row]) == (
            header.magic,
            header.opcode,
            header.datatype,
        )
        assert (found.specific[row], found.body_size[row], found.opaque[row]) == (
            header.specific,
            header.body_size,
            header.opaque,
        )
        assert (found.framing_size[row], found.extras_size[row]) == (framing, header.extras_size)
        assert (
            found.has_magic[row],
            found.is_divided[row],
            found.header_faults[row] & UNDECLARED_STREAM_ID > 0,
        ) == (
            has_magic,
            is_divided,
            undeclared,
        )
        assert (found.is_response[row], found.is_server[row]) == (
            header.side == "response",
            header.is_server,
        )
        key_at = int(start[row]) + HEADER_SIZE + framing + header.extras_size
        assert found.extras_at[row] == key_at - header.extras_size
        key_size = header.key_size if is_divided and header.key_size else -1
        assert (found.prefixed_key.start[row], found.prefixed_key.size[row]) == (key_at, key_size)
        assert (found.value.start[row], found.value.size[row]) == (
            key_at + header.key_size,
            value_size if is_divided else 0,
        )
    assert found.is_sound == is_sound


@pytest.mark.parametrize(
    ("opcode", "extras_size", "body", "framing_size"),
    [(0x58, 21, 27, 3), (0x59, 20, 26, 3), (0x58, 21, 26, 0), (0x58, 20, 27, 0), (0x57, 21, 27, 0)],
)
def test_a_stream_id_that_the_header_does_not_count(
    opcode: int, extras_size: int, body: int, framing_size: int
) -> None:
    head = bytes((0x08, opcode, 0, 3, extras_size, 0, 0, 7)) + body.to_bytes(4, "big") + bytes(12)
    found = HeaderColumns(
        np.frombuffer(head + b"\x22\0\7" + bytes(40), np.uint8), np.zeros(1, np.int64)
    )
    assert (
        found.framing_size[0],
        found.header_faults[0] == UNDECLARED_STREAM_ID,
        found.is_sound,
    ) == (
        framing_size,
        framing_size > 0,
        framing_size == 0,
    )


def test_messages_of_a_kind_have_the_same_number() -> None:
    messages = [
        mutation(1),
        mutation(2, key=b"other", value=b""),
        message(magic=0x81, opcode=0x53, value=bytes(16)),
        message(magic=0x81, opcode=0x53, specific=0x23, value=bytes(8)),
        message(magic=0x83, opcode=0x57),
        message(opcode=0x57, extras=bytes(32)),
    ]
    data = np.frombuffer(b"".join(messages), np.uint8)
    kinds = HeaderColumns(data, np.cumsum([0, *map(len, messages[:-1])])).kind.tolist()
    assert kinds[0] == kinds[1]
    assert len(set(kinds)) == 5


@pytest.mark.parametrize("count", [0, 1, 50])
@given(st.data())
def test_interpreted_and_compiled_agree(count: int, data: st.DataObject) -> None:
    octets = np.frombuffer(data.draw(st.binary(min_size=60 + count, max_size=60 + count)), np.uint8)
    start = np.arange(count, dtype=np.int64)
    results = []
    for form in ("interpreted", "compiled"):
        wide, narrow = (
            np.zeros((header_columns._WIDE, count), np.int64),
            np.zeros((header_columns._NARROW, count), np.uint8),
        )
        faults = getattr(header_columns.read_headers, form)(octets, start, wide, narrow)
        results.append((faults, wide.tolist(), narrow.tolist()))
    assert results[0] == results[1]
