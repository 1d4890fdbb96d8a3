"""What is written is there whole or not at all, onto no input, and nothing temporary stays, however
the program ends.
"""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from tests.peers.network import NEEDS_ROOT
from tests.peers.truth import SAMPLES

ROLLBACK = SAMPLES / "rollback.pcap"
WRITING = {
    "read": ["read", "{}", "-o", "{}/x.ndjson"],
    "read -w": ["read", "{}", "-o", os.devnull, "-w", "{}/x.pcapng"],
    "export": ["export", "{}", "-o", "{}/x.parquet"],
    "check": ["check", "{}", "-o", "{}/x.json", "--fail-on", "never"],
    "check -w": ["check", "{}", "-o", os.devnull, "-w", "{}/x.pcapng"],
    "report": ["report", "{}", "-o", "{}/x.html"],
    "sql": ["sql", "{}", "from messages", "-o", "{}/x.json"],
    "messages": ["timeline", "{}", "--vbucket", "7", "--messages", "-o", "{}/x.txt"],
}


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system with room for one page."""
    folder = tmp_path_factory.mktemp("small")
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", folder], check=False, capture_output=True
    ).returncode:
        pytest.skip("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@NEEDS_ROOT
@pytest.mark.parametrize("command", WRITING.values(), ids=WRITING)
def test_a_full_disk_leaves_what_was_there(
    command: list[str], small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = next(part for part in command if part.startswith("{}/"))[3:]
    (small_disk / name).write_bytes(b"before")
    given = [part.replace("{}/", f"{small_disk}/").replace("{}", str(ROLLBACK)) for part in command]
    assert main(given) == 2
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == f"dcpinspect: {small_disk}/{name}: No space left on device; the file was not kept"
    )
    assert (small_disk / name).read_bytes() == b"before"
    assert os.listdir(small_disk) == [name]
    (small_disk / name).unlink()


@pytest.mark.slow
@NEEDS_ROOT
@pytest.mark.parametrize(
    "command", [["check", "-", "-w"], ["read", "-", "-w"], ["report", "-", "-o"]]
)
def test_a_full_disk_for_what_comes_through_a_pipe_leaves_what_was_there(
    command: list[str], small_disk: Path, tmp_path: Path
) -> None:
    target = tmp_path / "x.html"
    target.write_bytes(b"before")
    program = [sys.executable, "-m", "dcpinspect", *command, str(target)]
    capture = gzip.decompress((ROLLBACK.parent / "large.pcapng.gz").read_bytes())
    done = subprocess.run(
        program,
        input=capture,
        capture_output=True,
        env=os.environ | {"TMPDIR": str(small_disk)},
        check=False,
    )
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1), done.stderr
    assert b"No space left on device" in done.stderr
    assert b"nothing" not in done.stdout
    assert target.read_bytes() == b"before"
    assert os.listdir(small_disk) == []


LIVE = ["live", "-i", "lo", "--duration", "0.1"]
ONTO = {
    "read": ["read", "x.csv", "-o", "x.csv"],
    "read -w": ["read", "x.pcapng", "-w", "x.pcapng"],
    "check -w": ["check", "x.pcapng", "-w", "x.pcapng"],
    "report": ["report", "x.html", "-o", "x.html"],
    "screenshot": ["tui", "x.svg", "--screenshot", "packets", "-o", "x.svg"],
    "diff": ["diff", "x.pcapng", "x.csv", "-o", "x.csv"],
    "sql": ["sql", "x.csv", "from messages", "-o", "x.csv"],
    "log": ["log", "log.csv", "-o", "log.csv"],
    "check --log": ["check", "x.pcapng", "--log", "log.csv", "-o", "log.csv"],
    "check --log alone": ["check", "--log", "log.csv", "-o", "log.csv"],
    "check --log -w": ["check", "x.pcapng", "--log", "log.csv", "-w", "log.csv"],
    "check --checkpoint": ["check", "x.pcapng", "--checkpoint", "x.json", "-o", "x.json"],
    "check --baseline": ["check", "x.pcapng", "--baseline", "base.ndjson", "-o", "base.ndjson"],
    "config file": ["read", "x.pcapng", "-f", "text", "-o", "config.toml"],
    "read --keylog": ["read", "x.pcapng", "--keylog", "keys.txt", "-o", "keys.txt"],
    "live -w": [*LIVE, "--keylog", "keys.txt", "-w", "keys.txt"],
    "live -w of env": [*LIVE, "--keylog", "env", "-w", "keys.txt"],
    "watch -w": ["watch", *LIVE[1:], "--keylog", "folder", "-w", "keys.txt"],
    "live -w of the config file": [*LIVE, "-w", "config.toml"],
}


def contents() -> dict[Path, bytes]:
    """What the files of the working directory have in them."""
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize("through_link", [False, True], ids=["by name", "by link"])
@pytest.mark.parametrize("command", ONTO.values(), ids=ONTO)
def test_no_input_is_written_onto(
    command: list[str],
    through_link: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("x.csv", "x.pcapng", "x.html", "x.svg"):
        shutil.copy(ROLLBACK, name)
    Path("log.csv").write_text("2026-03-01T10:00:00.250000+01:00 INFO x\n")
    Path("x.json").write_text(
        '{"7":{"checkpoint":{"seqno":1,"vbuuid":1,"snapshot":{"startSeqno":1,"endSeqno":1}}}}'
    )
    Path("keys.txt").write_text(f"CLIENT_RANDOM {'0' * 64} {'0' * 96}\n")
    Path("folder").mkdir()
    os.link("keys.txt", "folder/keys.log")
    monkeypatch.setenv("SSLKEYLOGFILE", "keys.txt")
    Path("base.ndjson").write_text("")
    Path("config.toml").write_text("[read]\ntime = 'epoch'\n")
    monkeypatch.setenv("DCPINSPECT_CONFIG", "config.toml")
    target = command[-1]
    if through_link:
        os.symlink(target, f"link-{target}")
    before = contents()
    assert main([*command[:-1], f"link-{target}" if through_link else target]) == 2
    assert "that is read; name another file" in capsys.readouterr().err
    assert contents() == before


ENDED = (
    ["read", "-", "-o", "{}/out/x.ndjson", "-w", "{}/out/x.pcapng"],
    ["read", "-", "--sort", "key", "-o", "{}/out/x.ndjson"],
    ["sql", "-", "select key from messages order by value", "-o", "{}/out/x.csv"],
    ["diff", str(ROLLBACK), "-", "-o", "{}/out/x.csv"],
    ["report", "-", "-o", "{}/out/x.html"],
)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_temporary_stays_when_the_program_is_asked_to_end(
    number: int, tmp_path: Path
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("nohup")
    running = []
    for place, command in enumerate(ENDED):
        folder = tmp_path / str(place)
        for name in ("out", "tmp"):
            (folder / name).mkdir(parents=True)
        given = [part.replace("{}", str(folder)) for part in command]
        pipe = subprocess.PIPE
        program = [sys.executable, "-m", "dcpinspect", *given]
        process = subprocess.Popen(
            program, stdin=pipe, stderr=pipe, env=os.environ | {"TMPDIR": str(folder / "tmp")}
        )
        assert process.stdin is not None
        process.stdin.write(ROLLBACK.read_bytes())
        process.stdin.flush()
        running.append((folder, process))
    end = time.monotonic() + 60
    while time.monotonic() < end and not all(os.listdir(folder / "out") for folder, _ in running):
        time.sleep(0.05)
    assert any(os.listdir(folder / "tmp") for folder, _ in running), "there is something to remove"
    for _, process in running:  # the first one only ends a pipe
        process.send_signal(number)
    for _, process in running:
        process.send_signal(signal.SIGINT)
    said = [process.communicate()[1] for _, process in running]
    for (folder, process), errors in zip(running, said, strict=True):
        assert os.listdir(folder / "tmp") == []
        assert not any(name.endswith(".part") for name in os.listdir(folder / "out"))
        assert (
            process.returncode in (0, 1)
            if os.listdir(folder / "out")
            else process.returncode in (130, 128 + number)
        ), errors
