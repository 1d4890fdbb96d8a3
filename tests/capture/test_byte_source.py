from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dcpinspect.capture.byte_source import ByteSource, Window


@pytest.fixture
def window_of(tmp_path: Path) -> Iterator[Callable[[bytes, int], Window]]:
    sources: list[ByteSource] = []

    def make(data: bytes, batch_bytes: int) -> Window:
        (tmp_path / "x").write_bytes(data)
        sources.append(ByteSource(str(tmp_path / "x")))
        return Window(sources[-1], batch_bytes)

    yield make
    for source in sources:
        source.close()


@pytest.mark.parametrize("batch_bytes", [4, 10, 1000])
def test_windows_follow_one_another_without_loss(
    window_of: Callable[[bytes, int], Window], batch_bytes: int
) -> None:
    data = bytes(range(256)) * 2
    window = window_of(data, batch_bytes)
    window.advance(0)
    seen = b""
    while not window.at_end or window.size:
        assert data[window.file_offset :].startswith(window.data[: window.size].tobytes())
        used = max(1, window.size - 3) if not window.at_end else window.size
        seen += window.data[:used].tobytes()
        window.advance(used)
    assert seen == data


def test_a_window_grows_until_what_is_needed_is_there(
    window_of: Callable[[bytes, int], Window],
) -> None:
    window = window_of(bytes(5000), 16)
    window.advance(0, 3000)
    assert window.size >= 3000


def test_a_need_that_lies_ends_with_the_file(window_of: Callable[[bytes, int], Window]) -> None:
    window = window_of(bytes(100), 16)
    window.advance(0, 1 << 30)
    assert (window.size, window.at_end) == (100, True)
    assert len(window.data) <= 256


def test_what_was_read_stays_when_the_window_moves(
    window_of: Callable[[bytes, int], Window],
) -> None:
    window = window_of(b"abcdefgh", 4)
    window.advance(0)
    first = window.data
    window.advance(window.size)
    assert first[:4].tobytes() == b"abcd"
