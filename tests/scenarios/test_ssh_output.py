"""What a program called ssh writes and leaves open, without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import builders
from tests.encode import encode

GONE = (
    "dcpinspect: eth0: the interface is gone ({}); start again when it is back, or wait for it with "
    "--wait; all that is readable was read"
)


def live(folder: Path, script: str) -> tuple[list[str], list[str]]:
    """What the command prints and says of what ``script`` sends in place of ssh, where ``$CAPTURE``
    is a file of tcpdump. Raises subprocess.TimeoutExpired if that takes a minute.
    """
    builders.capture(folder / "capture", client=encode("dcp_open", key=b"x\n" * 9))
    (folder / "ssh").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "ssh").chmod(0o755)
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "dcpinspect", "live", "--ssh", "host", "-i", "eth0"),
            *("-f", "csv", "--columns", "name"),
        ],
        env={
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "CAPTURE": str(folder / "capture"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.splitlines(), done.stderr.splitlines()


PRINTED = ['"name"', '"dcp_open"']


def test_a_long_line_of_ssh_holds_no_packet_up_and_its_end_is_told(tmp_path: Path) -> None:
    printed, said = live(
        tmp_path, "head -c 30000000 /dev/zero | tr '\\0' '\\033' >&2; echo end >&2; cat $CAPTURE"
    )
    assert printed == PRINTED
    (told,) = [line for line in said if "the interface is gone" in line]
    assert "\033" not in told
    assert "end);" in told
    assert len(told) < len(GONE) + 210


def test_a_flood_of_short_lines_ends_with_the_last_two(tmp_path: Path) -> None:
    _, said = live(tmp_path, "yes x | head -c 30000000 >&2; echo denied >&2; exit 255")
    assert said == [
        "dcpinspect: host: eth0: cannot be captured there (x denied); try the same ssh by hand"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("open_", ["", ">/dev/null", "2>/dev/null"])
def test_what_ssh_leaves_behind_is_not_waited_for(tmp_path: Path, open_: str) -> None:
    """As a master of ControlPersist, which keeps standard error open."""
    printed, said = live(tmp_path, f"sleep 300 {open_} & cat $CAPTURE")
    assert printed == PRINTED
    assert said[-1] == GONE.format("ssh has ended")


@pytest.mark.parametrize("then", ["", "sleep 300"])
def test_a_terminal_there_is_told_once_it_has_damaged_packets(tmp_path: Path, then: str) -> None:
    """``ssh -t`` makes CR LF of LF."""
    printed, said = live(tmp_path, f"sed 's/$/\\r/' $CAPTURE; {then}")
    assert printed == PRINTED[:1]
    assert said[-1] == (
        "dcpinspect: host: eth0: the packets are damaged, because a terminal there writes CR LF for "
        "each LF; call ssh without -t"
    )


def test_one_packet_is_one_packet(tmp_path: Path) -> None:
    segments = builders.conversation(encode("dcp_open", key=b"x"), b"")
    size = len(builders.pcap(builders.recorded(segments[:1])))
    _, said = live(tmp_path, f"head -c {size} $CAPTURE")
    assert any(": 1 packet captured, " in line for line in said)
