from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dcpinspect.tui.history import LONGEST, MOST, History, Memory


def test_what_one_run_adds_the_next_has_newest_last(tmp_path: Path) -> None:
    path = tmp_path / "state" / "filters"
    one, other = History(path), History(path)
    for text in ("vbucket = 1", "key = 'ключ'", "vbucket = 1"):
        one.add(text)
    other.add("vbucket = 2")
    assert History(path).texts == ["key = 'ключ'", "vbucket = 1", "vbucket = 2"]


def test_it_is_the_user_s_alone_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "state" / "filters"
    History(path).add("key = 'secret'")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert list(path.parent.iterdir()) == [path]


def test_it_is_bounded(tmp_path: Path) -> None:
    history = History(tmp_path / "filters")
    history.texts = [str(number) for number in range(3 * MOST)]
    history.add("newest")
    assert len(history.texts) == MOST
    history.add("x" * (LONGEST + 1))
    assert history.texts[-1] == "newest"


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b'"\\u001b]0;title\\u0007"\n',
        b"[1, 2]\n{}\n3\n",
        b"[" * 100_000,
        b'"' + b"x" * 5000 + b'"',
    ],
    ids=["bytes", "escapes", "others", "deep", "long"],
)
def test_what_is_no_filter_is_left_out(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "filters"
    path.write_bytes(content + b'\n"vbucket = 1"\n')
    assert History(path).texts == ["vbucket = 1"]


def test_a_place_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    history = History(tmp_path / "file" / "filters")
    history.add("vbucket = 1")
    history.add("vbucket = 2")
    assert history.texts == ["vbucket = 1", "vbucket = 2"]


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "filters")
    assert History(tmp_path / "filters").texts == []


def test_what_is_remembered_is_where_the_system_keeps_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for theme in ("nord", "dracula"):
        Memory.of_user().themes.add(theme)
    assert Memory.of_user().themes.texts == ["dracula"], "the last one only"
    assert [path.name for path in (tmp_path / "dcpinspect").iterdir()] == ["theme"]
