from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dcpinspect import ownership


def test_a_user_takes_what_root_keeps_and_what_is_their_own_and_nothing_else() -> None:
    def of(owner: int, group: int, mode: int) -> os.stat_result:
        return os.stat_result((mode, 0, 0, 1, owner, group, 0, 0, 0, 0))

    def is_refused(check: Callable[[os.stat_result, Path], None], info: os.stat_result) -> bool:
        try:
            check(info, Path("place"))
        except OSError:
            return True
        return False

    me = os.geteuid()
    file, folder, sticky = stat.S_IFREG, stat.S_IFDIR, stat.S_ISVTX
    for owner, expected in ((me, False), (0, False), (me + 1, True)):
        assert is_refused(ownership.check_own, of(owner, 5, file | 0o600)) is expected
        assert is_refused(ownership.check_above, of(owner, 5, folder | 0o755)) is expected
    assert is_refused(ownership.check_own, of(me, me, folder | 0o770))
    assert is_refused(ownership.check_own, of(0, 0, folder | sticky | 0o777))
    assert not is_refused(ownership.check_above, of(0, 0, folder | sticky | 0o777))
    assert is_refused(ownership.check_above, of(me, me + 1, folder | 0o775))
    assert is_refused(ownership.check_above, of(0, 0, folder | 0o775))
    for kind in (stat.S_IFLNK, stat.S_IFIFO):
        assert is_refused(ownership.check_own, of(me, me, kind | 0o600))


def test_a_folder_counts_with_the_one_around_it(tmp_path: Path) -> None:
    folder = tmp_path / "around" / "folder"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    folder.parent.chmod(0o777)
    with pytest.raises(ownership.UnsafeError, match="other users can write it"):
        ownership.check_around(folder / "to be made")
    folder.parent.chmod(0o1777)
    ownership.check_around(folder)
