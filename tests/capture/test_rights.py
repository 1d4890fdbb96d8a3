from __future__ import annotations

import subprocess
import sys

import pytest

from dcpinspect.capture.rights import become
from dcpinspect.errors import UsageError
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
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(do=do)], capture_output=True, text=True, check=True)
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
