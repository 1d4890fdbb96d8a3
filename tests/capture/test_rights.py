from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpinspect.capture.rights import as_private_as, become
from dcpinspect.errors import UsageError
from tests.findings.logs.written import rollback
from tests.peers.network import NEEDS_ROOT

PROGRAM = """
import os, socket
from dcpinspect.capture import rights
{do}
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["CapEff"].strip(), os.getuid(), os.getgroups())
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    print("may capture")
except PermissionError:
    print("may not capture")
"""


def after(do: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(do=do)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@NEEDS_ROOT
def test_the_right_to_capture_is_given_up_and_files_stay_within_reach() -> None:
    assert after("")[1] == "may capture"
    rights, may = after("rights.stop_being_able_to_capture(); open('/etc/shadow').close()")
    assert may == "may not capture"
    assert int(rights.split()[0], 16) == 0xCF


@NEEDS_ROOT
def test_a_process_becomes_another_user_with_its_groups() -> None:
    rights, may = after("rights.become('nobody')")
    import pwd

    assert rights.split()[:2] == ["0" * 16, str(pwd.getpwnam("nobody").pw_uid)]
    assert may == "may not capture"


def test_a_user_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--user a\\x1b: there is no such user$"):
        become("a\x1b")


ROLLBACK = Path(__file__).parents[2] / "sample_captures" / "rollback.pcap"
WRITERS = (
    ("read", "IN", "-w", "out.pcapng"),
    ("read", "IN", "-f", "csv", "-o", "out.csv"),
    ("export", "IN", "-o", "out.parquet"),
    ("check", "IN", "-o", "out.json", "-w", "out.pcapng", "--fail-on", "never"),
    ("report", "IN", "-o", "out.html"),
    ("sql", "IN", "select * from messages", "-o", "out.arrow"),
    ("streams", "IN", "-o", "out.csv"),
    ("diff", "IN", "IN2", "-o", "out.json"),
    ("read", "-", "-w", "out.pcapng"),
)


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Path]:
    """A capture that only its owner may read, in a folder of its own, while new files are usually
    readable by all.
    """
    path = tmp_path / "captures" / "private.pcap"
    path.parent.mkdir()
    shutil.copyfile(ROLLBACK, path)
    path.chmod(0o600)
    before = os.umask(0o022)
    yield path
    os.umask(before)


def readable(folder: Path) -> list[str]:
    """The files below a folder that others may read, and reach."""
    closed = [
        path for path in folder.rglob("*") if path.is_dir() and not path.stat().st_mode & 0o005
    ]
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(path.is_relative_to(one) for one in closed)
    ]
    return sorted(path.name for path in files if path.stat().st_mode & 0o044)


def ran(folder: Path, capture: Path, *arguments: str) -> int:
    """Runs a command with a capture there; returns its exit status."""
    folder.mkdir(exist_ok=True)
    names = {"IN": str(capture), "IN2": str(ROLLBACK)}
    command = [sys.executable, "-m", "dcpinspect", *(names.get(u32, u32) for u32 in arguments)]
    with capture.open("rb") as stdin:
        return subprocess.run(
            command, cwd=folder, stdin=stdin, capture_output=True, check=False
        ).returncode


@pytest.mark.slow
@pytest.mark.parametrize("arguments", WRITERS, ids=" ".join)
def test_what_is_made_of_a_private_capture_is_private(
    arguments: tuple[str, ...], private: Path, tmp_path: Path
) -> None:
    assert ran(tmp_path / "out", private, *arguments) in (0, 1)
    written = list((tmp_path / "out").iterdir())
    assert written
    assert readable(tmp_path / "out") == []
    private.chmod(0o644)
    for path in written:
        path.unlink()
    assert ran(tmp_path / "out", private, *arguments) in (0, 1)
    assert readable(tmp_path / "out") == sorted(path.name for path in written)


@pytest.mark.slow
@pytest.mark.parametrize("source", [("-",), ("--follow", "IN")], ids=" ".join)
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_packets_that_watch_saves_are_private(
    source: tuple[str, ...], mode: int, private: Path, tmp_path: Path
) -> None:
    private.chmod(mode)
    arguments = ("watch", *source, "--save-around", "30s", "--stop-on", "rollback")
    assert ran(tmp_path / "out", private, *arguments) == 1
    assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".pcapng"]
    assert readable(tmp_path / "out") == []


@pytest.mark.parametrize(
    "command",
    [
        ("check", "IN", "--log", "LOG"),
        ("check", "IN", "--keylog", "LOG"),
        ("sql", "IN", "select * from log_events", "--log", "LOG"),
    ],
    ids=" ".join,
)
def test_what_is_made_with_a_private_log_is_private(
    command: tuple[str, ...], private: Path, tmp_path: Path
) -> None:
    private.chmod(0o644)
    log = tmp_path / "captures" / "secret.txt"
    log.write_text(
        rollback(0) if "--log" in command else f"CLIENT_RANDOM {'ab' * 32} {'cd' * 48}\n"
    )
    log.chmod(0o600)
    names = [str(log) if name == "LOG" else name for name in command]
    arguments = (*names, "-f", "json", "-o", "out.json")
    assert ran(tmp_path / "out", private, *arguments) in (0, 1)
    assert (tmp_path / "out" / "out.json").stat().st_mode & 0o777 == 0o600
    log.chmod(0o644)
    (tmp_path / "out" / "out.json").unlink()
    assert ran(tmp_path / "out", private, *arguments) in (0, 1)
    assert (tmp_path / "out" / "out.json").stat().st_mode & 0o777 == 0o644


GROUP = 54321
"""A group that is not this process's."""


@NEEDS_ROOT
@pytest.mark.parametrize("has_file", [False, True], ids=["new", "replaced"])
def test_what_a_group_may_read_is_given_to_no_other_group(
    has_file: bool, private: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    for group, expected in ((GROUP, 0o600), (os.getegid(), 0o640)):
        folder.mkdir()
        if has_file:
            (folder / "out.csv").touch()
            (folder / "out.csv").chmod(0o666)
        os.chown(private, -1, group)
        private.chmod(0o640)
        assert ran(folder, private, "read", "IN", "-f", "csv", "-o", "out.csv") == 0
        mode = (folder / "out.csv").stat().st_mode & 0o777
        assert mode == (expected | 0o020 if has_file and expected == 0o640 else expected), oct(mode)
        shutil.rmtree(folder)


@NEEDS_ROOT
def test_a_folder_that_hands_its_group_down_does_not_give_it_what_only_ours_may_read(
    private: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    os.chown(tmp_path / "out", -1, GROUP)
    (tmp_path / "out").chmod(0o2755)
    private.chmod(0o640)
    assert ran(tmp_path / "out", private, "read", "IN", "-f", "csv", "-o", "out.csv") == 0
    assert (tmp_path / "out" / "out.csv").stat().st_mode & 0o777 == 0o600
    private.chmod(0o644)
    assert ran(tmp_path / "out", private, "read", "IN", "-f", "csv", "-o", "new.csv") == 0
    assert (tmp_path / "out" / "new.csv").stat().st_mode & 0o777 == 0o644


@NEEDS_ROOT
def test_the_folder_of_a_pipeline_keeps_its_group_where_that_may_read_the_captures(
    private: Path, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    os.chown(tmp_path / "shared", -1, GROUP)
    (tmp_path / "shared").chmod(0o2770)
    private.chmod(0o640)
    masks = []
    for group in (os.getegid(), GROUP):
        os.chown(private, -1, group)
        with as_private_as([str(private)], into=str(tmp_path / "shared" / "not" / "yet")):
            masks.append(os.umask(0o077))
            os.umask(masks[-1])
    assert masks == [0o077, 0o027]


def test_a_file_that_all_could_read_is_private_once_it_has_what_is_private(
    private: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    for mode, expected in ((0o600, 0o600), (0o644, 0o666)):
        (tmp_path / "out" / "out.csv").touch()
        (tmp_path / "out" / "out.csv").chmod(0o666)
        private.chmod(mode)
        assert ran(tmp_path / "out", private, "read", "IN", "-f", "csv", "-o", "out.csv") == 0
        assert (tmp_path / "out" / "out.csv").stat().st_mode & 0o777 == expected


PIPELINE_WRITERS = (
    ("sql", "../out", "select * from messages", "-o", "sql.csv"),
    ("check", "../out", "-f", "json", "-o", "check.json"),
    ("report", "../out", "-o", "report.html"),
)


@pytest.mark.slow
@pytest.mark.spark
def test_what_is_made_of_the_output_of_a_pipeline_is_as_private(
    private: Path, tmp_path: Path
) -> None:
    private.chmod(0o644)
    assert ran(tmp_path / "out", private, "pipeline", "run", str(private), "-o", ".") == 0
    private.unlink()
    for has_private in (False, True):
        if has_private:  # a file that a later run wrote
            next((tmp_path / "out" / "messages").rglob("*.parquet")).chmod(0o600)
        for arguments in PIPELINE_WRITERS:
            assert ran(tmp_path / "made", ROLLBACK, "pipeline", *arguments) in (0, 1)
        names = sorted(path.name for path in (tmp_path / "made").iterdir())
        assert readable(tmp_path / "made") == ([] if has_private else names)
    onto = next((tmp_path / "out" / "messages").rglob("*.parquet"))
    before = onto.read_bytes()
    assert ran(tmp_path / "made", ROLLBACK, "pipeline", *PIPELINE_WRITERS[0][:-1], str(onto)) == 2
    assert onto.read_bytes() == before


@pytest.mark.slow
@pytest.mark.spark
def test_the_output_of_a_pipeline_with_a_private_capture_is_private(
    private: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()  # as a user makes it: others may look into it
    shutil.copyfile(ROLLBACK, private.parent / "public.pcap")
    assert ran(tmp_path / "out", private, "pipeline", "run", str(private.parent), "-o", ".") == 0
    assert len(list((tmp_path / "out").rglob("*.parquet"))) > 5
    assert readable(tmp_path / "out") == []
    for arguments in PIPELINE_WRITERS:
        assert ran(tmp_path / "made", private, "pipeline", *arguments) in (0, 1)
    assert len(list((tmp_path / "made").iterdir())) == len(PIPELINE_WRITERS)
    assert readable(tmp_path / "made") == []
    private.unlink()
    (private.parent / "public.pcap").rename(private)
    assert ran(tmp_path / "out", private, "pipeline", "run", str(private.parent), "-o", ".") == 0
    assert readable(tmp_path / "out") == []


@NEEDS_ROOT
def test_what_is_recorded_is_private(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "live.pcapng").touch()
    (tmp_path / "out" / "live.pcapng").chmod(0o666)  # as it was left by somebody
    before = os.umask(0o022)
    try:
        arguments = (
            "live",
            "-i",
            "lo",
            "--port",
            "1",
            "--duration",
            "0.1",
            "-w",
            "live.pcapng",
            "-f",
            "csv",
            "-o",
            "live.csv",
        )
        assert ran(tmp_path / "out", ROLLBACK, *arguments) == 0
    finally:
        os.umask(before)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["live.csv", "live.pcapng"]
    assert readable(tmp_path / "out") == []
