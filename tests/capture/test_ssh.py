"""Interfaces of another machine through a real sshd, which is in a namespace of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from dcpinspect.capture.live import LiveCapture
from dcpinspect.capture.open import open_capture
from dcpinspect.errors import CaptureError, UsageError
from tests import builders
from tests.builders import Segment
from tests.capture.test_live import opened, packets
from tests.encode import encode
from tests.peers.network import NEEDS_ROOT, tapped

pytestmark = [
    NEEDS_ROOT,
    pytest.mark.slow,
    pytest.mark.requires("tcpdump"),
    pytest.mark.requires("ssh"),
    pytest.mark.requires("sshd"),
]

SERVER = """
Port 2222
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
"""
CLIENT = """
Host there
  HostName 127.0.0.1
  Port 2222
  User root
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking accept-new
  LogLevel ERROR
"""


def segment(number: int, *, port: int = 11_210) -> bytes:
    return builders.frame(Segment(True, number, 2, payload=b"payload", server=("10.0.0.2", port)))


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int, str]]:
    """A namespace with a tap and an sshd: its name, the tap, what ``--ssh`` takes."""
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
        )
    (folder / "sshd_config").write_text(SERVER.format(folder=folder))
    (folder / "config").write_text(CLIENT.format(folder=folder))
    os.makedirs("/run/sshd", exist_ok=True)
    with tapped("ssh") as (namespace, fd):
        command = [
            "ip",
            "netns",
            "exec",
            namespace,
            "/usr/sbin/sshd",
            "-D",
            "-e",
            "-f",
            str(folder / "sshd_config"),
        ]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            assert "listening" in server.stderr.readline()
            try:
                yield namespace, fd, f"-F {folder / 'config'} there"
            finally:
                server.kill()


def listening(
    there: tuple[str, int, str], *names: str, path: Path | None = None, ssh: str = "", **wishes: Any
) -> LiveCapture:
    namespace, _, login = there
    return opened(namespace, *names, path=path, ssh=ssh or login, **wishes)


def test_packets_come_from_there_and_the_numbers_add_up(
    there: tuple[str, int, str], tmp_path: Path
) -> None:
    path = tmp_path / "x.pcapng"
    sent = [segment(number, port=80 if number % 3 else 11_210) for number in range(300)]
    with listening(there, path=path) as capture:
        for frame in sent:
            os.write(there[1], frame)
        while capture.unread < 100:
            time.sleep(0.01)
        capture.stop()
        found = [packet for batch in capture for packet in packets(batch)]
        assert found == sent[::3]
        assert (capture.numbers.counts, capture.problems) == ([[100, 0]], [])
    with open_capture(path) as file:
        assert [packet for batch in file for packet in packets(batch)] == found
        assert [(one.name, one.received, one.dropped) for one in file.files[0].counts] == [
            ("eth0", 100, 0)
        ]


def dumping(namespace: str) -> list[int]:
    """Processes of tcpdump there; elsewhere others may be at work."""
    found = subprocess.run(
        ["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True
    ).stdout
    dumping = []
    for number in map(int, found.split()):
        with contextlib.suppress(OSError):  # it has just ended
            if Path(f"/proc/{number}/comm").read_text().strip() == "tcpdump":
                dumping.append(number)
    return dumping


def test_tcpdump_does_not_stay_there(there: tuple[str, int, str]) -> None:
    with listening(there, ports=None) as capture:
        capture.stop()
        assert not any(map(len, capture))
    end = time.monotonic() + 120
    while dumping(there[0]):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_ssh_says_is_told_where_it_fails(there: tuple[str, int, str]) -> None:
    with pytest.raises(
        CaptureError,
        match=r"there: eth9: cannot be captured there \(.*eth9.*\); try the same ssh by hand",
    ):
        listening(there, "eth9")
    with pytest.raises(
        CaptureError,
        match=r"nowhere\.invalid: eth0: cannot be captured there \(.*nowhere\.invalid.*\)",
    ):
        listening(there, ssh="root@nowhere.invalid")
    with pytest.raises(CaptureError, match=r"cannot be captured there .*nosuchdump"):
        listening(there, tcpdump="nosuchdump")
    with pytest.raises(UsageError, match="--ssh 'a: No closing quotation"):
        listening(there, ssh="'a")
    with pytest.raises(
        CaptureError, match=r"tcpdump sent something else .*; see that nothing is printed at login"
    ):
        listening(there, tcpdump="env printf %s Welcome-to-this-machine-dear-user")


def test_a_connection_that_breaks_is_told(there: tuple[str, int, str]) -> None:
    with listening(there) as capture:
        os.write(there[1], segment(1))
        while capture.unread < 1:
            time.sleep(0.01)
        for number in dumping(there[0]):
            os.kill(number, signal.SIGTERM)
        assert sum(map(len, capture)) == 1
        assert [problem.file for problem in capture.problems] == ["eth0"]
        assert "packets dropped by kernel" in capture.problems[0].what


def test_ctrl_c_while_ssh_asks_for_a_password_ends_ssh_and_leaves_the_terminal_as_it_was(
    there: tuple[str, int, str],
) -> None:
    ssh = f"-o PubkeyAuthentication=no {there[2]}"
    command = ["netns", "exec", there[0], sys.executable, "-m", "dcpinspect", "live", "--ssh", ssh]
    child = pexpect.spawn("ip", [*command, "-i", "eth0"], encoding="utf-8", timeout=60)
    try:
        child.expect("password:")
        assert child.waitnoecho()
        asking = pids_of("PubkeyAuthentication=no")
        assert len(asking) >= 3  # the program, its recorder, and ssh
        child.sendintr()
        child.expect(pexpect.EOF)
        assert "interrupted" in child.before
        assert child.getecho()
        assert not asking & pids_of("PubkeyAuthentication=no")
    finally:
        child.close(force=True)


def pids_of(argument: str) -> set[int]:
    """Processes with an argument in their command lines."""
    numbers = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if argument.encode() in (folder / "cmdline").read_bytes():
                numbers.add(int(folder.name))
    return numbers


def test_the_command_prints_what_comes_there(there: tuple[str, int, str]) -> None:
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "live",
        "--ssh",
        there[2],
        "-i",
        "eth0",
        "-n",
        "1",
        "-f",
        "csv",
        "--columns",
        "name",
    ]
    talk = builders.Conversation()
    talk.stream(True, encode("dcp_open", key=b"x"))
    with subprocess.Popen(
        ["ip", "netns", "exec", there[0], *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert (
            process.stderr.readline()
            == "dcpinspect: eth0: capturing ports 11207, 11210; Ctrl-C stops it\n"
        )
        for one in talk.segments:
            os.write(there[1], builders.frame(one))
        assert process.stdout is not None
        assert process.stdout.read() == '"name"\n"dcp_open"\n'
        assert process.wait() == 0
