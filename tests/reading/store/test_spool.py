"""A spool is its owner's alone, and goes with the session, whatever ends that."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from dcpinspect.errors import SpoolError
from dcpinspect.reading.store.spool import Spool
from dcpinspect.temporary import PREFIX, new_folder, remove, remove_abandoned
from tests.peers.network import NEEDS_ROOT

BATCH = pa.RecordBatch.from_arrays([pa.array([1, 2, 3])], names=["n"])
MADE = """
import os, sys
from dcpinspect.reading.store.spool import Spool
spool = Spool(sys.argv[1])
spool.path("x").write_bytes(b"x")
print(spool.folder, flush=True)
"""


@contextmanager
def made(folder: Path, then: str) -> Iterator[subprocess.Popen[str]]:
    """Another process with a spool in a folder, once it has one."""
    command = [sys.executable, "-c", MADE + then, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(str(folder))
            yield process
        finally:
            process.kill()


def spools(folder: Path) -> list[Path]:
    return list(folder.glob(f"{PREFIX}*"))


def test_nobody_else_may_look_into_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    assert stat.S_IMODE(spool.folder.stat().st_mode) == 0o700
    spool.close()


def test_what_is_put_is_mapped_and_readable_after_it_is_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    mapped = spool.write("a", BATCH)
    assert str(spool.path("a")) in Path("/proc/self/maps").read_text("utf-8")
    spool.remove("a")
    assert not spool.path("a").exists()
    assert mapped.equals(BATCH)
    spool.close()


def test_closing_removes_all(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write("a", BATCH)
    spool.close()
    spool.close()
    assert spools(tmp_path) == []


def test_it_goes_with_who_forgot_to_close_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    del spool
    gc.collect()
    assert spools(tmp_path) == []


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "os.kill(os.getpid(), 15)"])
def test_it_goes_with_the_process_or_with_the_next(end: str, tmp_path: Path) -> None:
    with made(tmp_path, end) as process:
        process.wait()
    if "kill" in end:
        Spool(tmp_path).close()
    assert spools(tmp_path) == []


def test_a_child_that_was_forked_leaves_it_to_its_parent(tmp_path: Path) -> None:
    end = "if os.fork() == 0: sys.exit()\nos.wait()\nprint(spool.path('x').exists(), flush=True)"
    with made(tmp_path, end) as process:
        assert process.communicate()[0] == "True\n"
    assert spools(tmp_path) == []


def test_what_a_killed_process_left_goes_with_the_next_start_and_nothing_else(
    tmp_path: Path,
) -> None:
    with made(tmp_path, "sys.stdin.read()") as alive:
        with made(tmp_path, "sys.stdin.read()") as killed:
            killed.send_signal(signal.SIGKILL)
            killed.wait()
        assert len(spools(tmp_path)) == 2
        spool = Spool(tmp_path)
        assert len(spools(tmp_path)) == 2  # that of the living one, and the new one
        spool.close()
        assert (len(spools(tmp_path)), alive.poll()) == (1, None)


@NEEDS_ROOT
def test_the_folder_of_a_killed_live_capture_goes_with_the_next_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dcpinspect", "live", "-i", "lo"]
    with subprocess.Popen(
        command, env=os.environ | {"TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "capturing" in process.stderr.readline()
        (left,) = spools(tmp_path)
        process.kill()
    while is_locked(left):  # by the recorder, which ends with the process
        time.sleep(0.05)
    remove(new_folder(tmp_path))
    assert spools(tmp_path) == []


def is_locked(folder: Path) -> bool:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def test_nothing_but_abandoned_folders_is_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / f"{PREFIX}old").mkdir()
    assert remove_abandoned(tmp_path) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{PREFIX}file",
        f"{PREFIX}link",
        "elsewhere",
        "other",
    ]
    assert (elsewhere / "precious").exists()


def test_a_locked_folder_belongs_to_somebody(tmp_path: Path) -> None:
    folder = tmp_path / f"{PREFIX}a"
    folder.mkdir()
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert remove_abandoned(tmp_path) == 0
    os.close(lock)
    assert remove_abandoned(tmp_path) == 1


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(
        SpoolError, match=r"missing: No such file or directory; set TMPDIR to a folder with room"
    ):
        Spool(tmp_path / "missing")


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: writing fails in the same place, in
    the middle of a file.
    """
    limited = """
import resource, signal
import pyarrow as pa
from dcpinspect.errors import SpoolError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    spool.write("big", pa.RecordBatch.from_arrays([pa.array(range(100_000))], names=["n"]))
except SpoolError as error:
    print(error, sorted(path.name for path in spool.folder.iterdir()))
"""
    with made(tmp_path, limited) as process:
        line, _ = process.communicate()
    assert "File too large; set TMPDIR to a folder with room ['x']" in line


def test_a_folder_that_another_process_removes_at_once_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = os.mkdir, []

    def and_lose_the_first(path: Path, mode: int) -> None:
        make(path, mode)
        made.append(str(path))
        if len(made) == 1:
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", and_lose_the_first)
    with closing(Spool(tmp_path)) as spool:
        assert [str(spool.folder)] == made[1:]
