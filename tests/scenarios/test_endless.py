"""Inputs that have no end, or nobody who writes them, are told in a line: with real processes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.truth import SAMPLES

TOUR = str(SAMPLES / "tour.pcapng")
LOG = SAMPLES.parent / "tests/captures/real-server/logs/6.6.5-memcached.log.000001.txt"
MOST = 3 << 30
"""Bytes of addresses that a process may have; more would be memory without an end."""


def run(*arguments: str, as_in: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command; ``as_in``: what a shell does with it, as ``"$@" < FILE``."""
    command = [sys.executable, "-m", "dcpinspect", *arguments]
    return subprocess.run(
        ["bash", "-c", as_in, "bash", *command] if as_in else command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST)),
    )


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["log", "{}"], "{}: is a device, which may never end; name a file"),
        (
            ["check", "--checkpoint", "{}", TOUR],
            "{}: is a device, which may never end; name a file",
        ),
        (["check", "--baseline", "{}", TOUR], "--baseline {}: it is no file"),
        (["check", "--keylog", "{}", TOUR], "{}: the key log cannot be read (it is no file)"),
    ],
    ids=["log", "checkpoint", "baseline", "keylog"],
)
def test_a_device_is_no_text(device: str, arguments: list[str], says: str) -> None:
    done = run(*(one.format(device) for one in arguments))
    assert done.returncode == 2
    assert done.stderr.startswith(f"dcpinspect: {says.format(device)}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
@pytest.mark.parametrize("command", ["log", "read", "check", "explain"])
def test_a_device_as_standard_input_is_no_text(command: str, device: str) -> None:
    done = run(command, "-", as_in=f'"$@" < {device}')
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")


def test_a_log_through_a_pipe_ends_at_a_line_without_end() -> None:
    done = run("log", "-", as_in='cat /dev/zero | "$@"')
    assert done.returncode == 2
    assert "line 1 has more than 256 MiB, so this is no text" in done.stderr


@pytest.mark.parametrize("name", ["config", "baseline"])
def test_a_named_pipe_that_nobody_writes_is_no_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    done = (
        run("info", TOUR, DCPINSPECT_CONFIG=str(path))
        if name == "config"
        else run("check", TOUR, "--baseline", str(path))
    )
    assert done.returncode == 2
    assert f"{path}: it is no file" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_output_of_a_command_is_read_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("CLIENT_RANDOM " + "11" * 32 + " " + "22" * 48 + "\n")
    checked = run("check", TOUR, "-f", "json", "--fail-on", "never")
    assert checked.returncode == 0
    (tmp_path / "base.json").write_text(checked.stdout)
    substituted = (
        f'"$@" --baseline <(cat {tmp_path}/base.json) --keylog <(cat {tmp_path}/keys) <(cat {TOUR})'
    )
    done = run("check", as_in=substituted, DCPINSPECT_CONFIG="/dev/null")
    assert done.returncode == 0, done.stderr
    assert "it is no file" not in done.stderr
    assert run("log", as_in=f'"$@" <(cat {LOG})').returncode == 0
