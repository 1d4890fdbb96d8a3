from __future__ import annotations

import codecs
import gzip
from pathlib import Path

import pytest

from dcpinspect.errors import CaptureError
from dcpinspect.findings.logs.log_lines import MOST_LINE, TextFile


def lines(path: Path) -> list[tuple[int, bytes]]:
    with TextFile(str(path)) as file:
        return list(file)


def test_lines_are_numbered_whatever_ends_them(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\r\n\nthree")
    assert lines(path) == [(1, b"one"), (2, b""), (3, b"three")]


def test_a_compressed_file_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n" * 50_000))
    assert lines(path)[-1] == (100_000, b"two")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("size", [5, 1 << 16])
def test_utf_16_as_of_powershell_is_read(
    encoding: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpinspect.findings.logs.log_lines.READ", size)
    mark = b"" if encoding == "utf-16" else codecs.BOM_UTF16_BE
    (tmp_path / "x").write_bytes(mark + "one\r\ntwo \u00e9\U0001f600\r\n".encode(encoding))
    with TextFile(str(tmp_path / "x")) as file:
        assert list(file) == [(1, b"one"), (2, "two \u00e9\U0001f600".encode())]


def test_damage_ends_the_file_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % number for number in range(200_000)))[:-5000])
    with TextFile(str(path)) as file:
        assert list(file)
        assert file.problem is not None


@pytest.mark.parametrize("end", [b"", b"\nlast\n"])
def test_a_line_of_any_length_takes_no_memory(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(b"first\n")
        for _ in range(50):
            file.write(b"x" * (1 << 20))
        file.write(end)
    with TextFile(str(path)) as text:
        assert [line for _, line in text] == [b"first", *([b"last"] if end else [])]
        assert text.too_long == 1


def test_the_longest_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * MOST_LINE + b"\n" + b"y" * (MOST_LINE + 1))
    assert lines(path) == [(1, b"x" * MOST_LINE)]


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="there is no such file"):
        TextFile(str(tmp_path / "none"))
    with pytest.raises(CaptureError, match="Is a directory"):
        TextFile(str(tmp_path))


def test_a_document_has_a_greatest_size(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(b'  {"a": 1}')
    with TextFile(str(path)) as file:
        assert file.is_document
        assert file.whole(100) == b'  {"a": 1}'
    with TextFile(str(path)) as file, pytest.raises(CaptureError, match="more than"):
        file.whole(5)
