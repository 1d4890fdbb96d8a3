from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpinspect.errors import OutputError, UsageError
from dcpinspect.output.export.atomic import BUFFER, AtomicFile


@pytest.fixture
def only_small_files() -> Iterator[None]:
    """A disk that takes no more than two buffers a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * BUFFER, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"before")
    file = AtomicFile(str(path))
    file.write(b"a" * BUFFER)
    file.write(memoryview(b"b"))
    assert path.read_bytes() == b"before"
    assert file.tell() == BUFFER + 1
    file.commit()
    assert path.read_bytes() == b"a" * BUFFER + b"b"
    assert os.listdir(tmp_path) == ["x"]


def test_what_is_discarded_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"before")
    file = AtomicFile(str(path))
    file.write(b"a" * (BUFFER + 1))
    file.discard()
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"before", ["x"])


@pytest.mark.usefixtures("only_small_files")
def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"before")
    file = AtomicFile(str(path))
    file.write(b"a" * 2 * BUFFER)
    with pytest.raises(OutputError, match=r"/x: File too large; the file was not kept$"):
        file.write(b"a" * BUFFER)
    file.discard()
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"before", ["x"])


@pytest.mark.usefixtures("only_small_files")
def test_a_disk_that_is_full_at_the_end_leaves_what_was_there(tmp_path: Path) -> None:
    file = AtomicFile(str(tmp_path / "x"))
    file.write(b"a" * (BUFFER - 1))
    file.write(b"b" * (BUFFER))
    file.write(b"c" * (BUFFER - 1))
    with pytest.raises(OutputError, match="not kept"):
        file.commit()
    assert os.listdir(tmp_path) == []


def test_a_new_file_is_as_open_as_the_user_wants_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        AtomicFile(str(tmp_path / "x")).commit()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_permissions_of_a_file_that_was_there_stay(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch(mode=0o600)
    AtomicFile(str(path)).commit()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to("folder/x")
    file = AtomicFile(str(link))
    file.write(b"new")
    file.commit()
    assert link.is_symlink()
    assert (tmp_path / "folder" / "x").read_bytes() == b"new"


def test_a_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    file = AtomicFile(str(path))
    file.write(b"through")
    file.commit()
    reader.join(120)
    assert found == [b"through"]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", ": is a directory; name a file in it"),
        ("new.csv/", "/new.csv/: is a directory; name a file in it"),
        (
            "missing/x",
            (
                "/missing/x: cannot be written (No such file or directory); name a file in a "
                "folder that can be"
            ),
        ),
        (
            "file/x",
            "/file/x: cannot be written (Not a directory); name a file in a folder that can be",
        ),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, name: str, says: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as caught:
        AtomicFile(f"{tmp_path}/{name}")
    assert str(caught.value).endswith(says)


def test_a_file_that_somebody_has_open_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as opened:
        before = os.fstat(opened.fileno()).st_ino
        file = AtomicFile(f"/dev/fd/{opened.fileno()}")
        file.write(b"new")
        file.commit()
    assert (path.read_bytes(), path.stat().st_ino, os.listdir(tmp_path)) == (b"new", before, ["x"])


@pytest.fixture
def nobody() -> Iterator[None]:
    """Root may write everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65_534)
    yield
    os.seteuid(user)


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder in which only its owner may write, where others may go, with a file in it that
    nobody may write.
    """
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    (folder / "x").write_bytes(b"before")
    (folder / "x").chmod(0o444)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.usefixtures("nobody")
def test_what_may_not_be_written_is_refused_and_stays(closed_folder: Path) -> None:
    for name, says in (
        ("x", "/x: is write-protected; name another file"),
        ("new", "/new: cannot be written (Permission denied); name a "),
    ):
        with pytest.raises(UsageError) as caught:
            AtomicFile(str(closed_folder / name))
        assert says in str(caught.value)
    assert (closed_folder / "x").read_bytes() == b"before"


def test_of_two_that_are_written_at_once_each_is_whole_and_the_last_one_stays(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x"
    first, second = AtomicFile(str(path)), AtomicFile(str(path))
    for file, letter in ((first, b"1"), (second, b"2"), (first, b"1"), (second, b"2")):
        file.write(letter * BUFFER)
    first.commit()
    assert path.read_bytes() == b"1" * 2 * BUFFER
    second.commit()
    assert path.read_bytes() == b"2" * 2 * BUFFER
    assert os.listdir(tmp_path) == ["x"]


def test_what_a_killed_process_left_is_removed_by_the_next_one_and_what_is_being_written_is_not(
    tmp_path: Path,
) -> None:
    program = (
        "import os; from dcpinspect.output.export.atomic import AtomicFile; "
        f"AtomicFile({str(tmp_path / 'x')!r}); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    assert len(os.listdir(tmp_path)) == 1
    (tmp_path / ".dcpinspect-mine.txt").touch()
    going = AtomicFile(str(tmp_path / "y"))
    assert sorted(os.listdir(tmp_path)) == sorted(
        [os.path.basename(str(going._temporary)), ".dcpinspect-mine.txt"]
    )
    AtomicFile(str(tmp_path / "z")).commit()
    going.commit()
    assert sorted(os.listdir(tmp_path)) == [".dcpinspect-mine.txt", "y", "z"]
