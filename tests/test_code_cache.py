from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dcpinspect import code_cache
from dcpinspect.ownership import UnsafeError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dcpinspect"


def test_a_folder_is_made_for_its_owner_alone(cache: Path) -> None:
    with pytest.raises(FileNotFoundError):
        code_cache.folder("a", "b", is_made=False)
    assert code_cache.folder("a", "b", is_made=True) == code_cache.folder("a", "b", is_made=False) == cache / "a" / "b"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (cache, cache / "a", cache / "a" / "b")] == [0o700] * 3


@pytest.mark.parametrize("place", ["", "a", "a/b"])
def test_where_others_can_write_nothing_is_used(place: str, cache: Path) -> None:
    code_cache.folder("a", "b", is_made=True)
    (cache / place).chmod(0o777)
    for is_made in (False, True):
        with pytest.raises(UnsafeError, match="other users can write it"):
            code_cache.folder("a", "b", is_made=is_made)


def test_numba_names_the_folder_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert code_cache.base() == tmp_path / "numba" / "dcpinspect"
