from __future__ import annotations

import gzip
import stat
from pathlib import Path

import pytest

from dcpinspect.capture.packing import Packer, remove
from dcpinspect.capture.zstd import zstd


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_file_is_replaced_by_a_packed_one_that_has_its_bytes_and_its_rights(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"packets" * 100_000)
    path.chmod(0o640)
    packer = Packer(kind)
    packer.pack(str(path))
    packer.end()
    (packed,) = tmp_path.iterdir()
    assert packed.name == {"gzip": "x.pcapng.gz", "zstd": "x.pcapng.zst"}[kind]
    data = packed.read_bytes()
    unpacked = gzip.decompress(data) if kind == "gzip" else zstd.decompress(data)
    assert unpacked == b"packets" * 100_000
    assert stat.S_IMODE(packed.stat().st_mode) == 0o640


def test_a_file_that_is_gone_or_cannot_be_packed_harms_no_other(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.write_bytes(b"x")
    folder = tmp_path / "folder"
    folder.mkdir()
    packer = Packer("zstd")
    for path in (tmp_path / "gone", folder, good):
        packer.pack(str(path))
    packer.end()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder", "good.zst"]


def test_a_file_is_removed_packed_or_not(tmp_path: Path) -> None:
    for suffix in ("", ".gz", ".zst"):
        path = tmp_path / f"x{suffix}"
        path.write_bytes(b"x")
        remove(str(tmp_path / "x"))
        assert not path.exists()
    remove(str(tmp_path / "x"))
