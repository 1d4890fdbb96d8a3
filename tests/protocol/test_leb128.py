"""Collection ids in both directions, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.leb128 import decode_leb128, read_collection_ids
from tests.encode import encode_leb128

CASES = (
    (0x00, "00"),
    (0x01, "01"),
    (0x7F, "7f"),
    (0x80, "8001"),
    (0x555, "d50a"),
    (0x5555, "d5aa01"),
    (0x7FFF, "ffff01"),
    (0x8000, "808002"),
    (0xBFFF, "ffff02"),
    (0xFFFF, "ffff03"),
    (0xCAFEF00, "80debf65"),
    (0xCAFEF00D, "8de0fbd70c"),
    (0xFFFFFFFF, "ffffffff0f"),
)


@pytest.mark.parametrize(("number", "text"), CASES)
def test_an_id_encodes_to_its_shortest_form(number: int, text: str) -> None:
    assert encode_leb128(number).hex() == text


@pytest.mark.parametrize(("number", "text"), CASES)
def test_an_id_decodes_and_leaves_the_key_behind_it(number: int, text: str) -> None:
    raw = bytes.fromhex(text)
    assert decode_leb128(raw + b"key") == (number, len(raw))


@pytest.mark.parametrize(("_number", "text"), CASES)
def test_an_id_cut_anywhere_is_none(_number: int, text: str) -> None:
    raw = bytes.fromhex(text)
    assert [decode_leb128(raw[:cut]) for cut in range(len(raw))] == [None] * len(raw)


@pytest.mark.parametrize(
    "text", ["8100", "8000", "ff8000", "ffffffff1f", "ffffffffff01", "808080808001", "ffffffff7f"]
)
def test_an_id_that_is_longer_than_needed_or_than_32_bits_is_refused(text: str) -> None:
    assert decode_leb128(bytes.fromhex(text)) is None


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_a_number_that_is_no_id_is_not_encoded(number: int) -> None:
    with pytest.raises(ValueError, match="is not a collection id: 0 to 4294967295 are"):
        encode_leb128(number)


@given(st.integers(0, 0xFFFF_FFFF))
def test_every_id_comes_back(number: int) -> None:
    raw = encode_leb128(number)
    assert decode_leb128(raw) == (number, len(raw))


@given(st.binary(max_size=8))
def test_whatever_decodes_is_the_shortest_form(data: bytes) -> None:
    decoded = decode_leb128(data)
    assert decoded is None or encode_leb128(decoded[0]) == data[: decoded[1]]


@given(
    st.lists(
        st.binary(min_size=0, max_size=7)
        | st.sampled_from([encode_leb128(n) + b"k" for n in (0, 1, 7, 8, 127, 128, 2**32 - 1)])
    )
)
def test_the_kernel_reads_ids_as_one_by_one(keys: list[bytes]) -> None:
    data = np.frombuffer(b"".join(keys) or b"\0", np.uint8)
    size = np.array([len(key) for key in keys], np.int64)
    start, keyed = np.cumsum(size) - size, (np.arange(len(keys)) % 5 > 0).view(np.uint8)
    expected = []
    for key, is_keyed in zip(keys, keyed.tolist(), strict=True):
        found = decode_leb128(key)
        is_refused = found is None or 1 <= found[0] <= 7 or found[1] == len(key)
        expected.append(
            (0, 0) if not (is_keyed and key) else (0, -1) if is_refused or found is None else found
        )
    for run in (read_collection_ids.interpreted, read_collection_ids.compiled):
        number, used = np.zeros((2, len(keys)), np.int64)
        run(data, keyed, start, size, number, used)
        assert (
            list(zip(np.where(used > 0, number, 0).tolist(), used.tolist(), strict=True))
            == expected
        )
