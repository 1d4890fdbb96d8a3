"""Pipes with pauses and files that grow: what has been written is printed before more is."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from dcpinspect.cli.main import main
from tests import builders
from tests.builders import Conversation
from tests.peers.network import NEEDS_ROOT, inside, namespaces
from tests.peers.play import play
from tests.peers.script import Conversation as Talk

pytestmark = pytest.mark.slow

READ = [sys.executable, "-m", "dcpinspect", "read", "-f", "ndjson", "--no-fields"]


def talk(count: int = 12) -> list[builders.Recorded]:
    """A handshake, then a mutation a packet."""
    one = Conversation()
    one.handshake()
    for seqno in range(1, count + 1):
        one.stream(False, builders.mutation(seqno), ack_every=0)
    return builders.recorded(one.segments)


def ends(data: bytes) -> list[int]:
    """Where the records of a capture, or the blocks that are no packets, end."""
    is_pcap = data[:4] == b"\xd4\xc3\xb2\xa1"
    found = [24 if is_pcap else 0]
    while found[-1] < len(data):
        at = found[-1]
        found.append(
            at
            + (
                16 + struct.unpack_from("<I", data, at + 8)[0]
                if is_pcap
                else struct.unpack_from("<I", data, at + 4)[0]
            )
        )
    return found[-len(talk()) :]


@contextmanager
def reader(*arguments: str, stdin: IO[Any] | None = None) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*READ, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def seqnos(process: subprocess.Popen[str], count: int) -> list[int]:
    """Of the next lines."""
    assert process.stdout is not None
    return [json.loads(process.stdout.readline())["by_seqno"] for _ in range(count)]


def rest(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    """What is still printed, what is said, and the exit status."""
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.read(), process.stderr.read(), process.wait()


def write_with_pauses(
    data: bytes, take: Callable[[bytes], object], process: subprocess.Popen[str]
) -> None:
    """Writes a capture a packet and a half at a time; the lines of what is whole must come before
    more is written.
    """
    written = 0
    for number, end in enumerate(ends(data)):
        until = min(len(data), end + 11)
        take(data[written:until])
        written = until
        if number >= 3:
            assert seqnos(process, 1) == [number - 2]


@pytest.mark.parametrize("form", [builders.pcap, builders.pcapng])
@pytest.mark.parametrize("arguments", [[], ["--follow"]])
def test_lines_of_a_pipe_appear_while_its_writer_pauses(
    arguments: list[str], form: builders.Form
) -> None:
    data = form(talk())
    out, into = os.pipe()
    with os.fdopen(out, "rb") as end, reader("-", *arguments, stdin=end) as process:
        write_with_pauses(data, lambda piece: os.write(into, piece), process)
        os.close(into)
        assert rest(process) == ("", "", 0)


@pytest.mark.parametrize("form", [builders.pcap, builders.pcapng])
def test_lines_of_a_file_that_grows_appear_as_it_does(form: builders.Form, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    with path.open("ab", buffering=0) as file, reader(str(path), "--follow") as process:
        write_with_pauses(form(talk()), file.write, process)
        process.send_signal(signal.SIGINT)
        assert rest(process) == ("", "", 0)


@pytest.mark.parametrize("arguments", [[], ["--follow"]])
def test_only_what_is_followed_lets_time_pass(arguments: list[str]) -> None:
    """A start in the middle of a stream: two messages prove nothing, and no third one comes."""
    one = Conversation()
    one.stream(False, builders.mutation(1) + builders.mutation(2))
    out, into = os.pipe()
    with os.fdopen(out, "rb") as end, reader("-", *arguments, stdin=end) as process:
        os.write(into, builders.pcap(builders.recorded(one.segments)))
        if arguments:
            assert seqnos(process, 2) == [1, 2]
        os.close(into)
        assert len(rest(process)[0].splitlines()) == (0 if arguments else 2)


def test_a_file_that_is_cut_or_replaced_while_it_is_followed_ends_it_with_a_line(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x"
    for harm, says in (
        (lambda: os.truncate(path, 100), "the file became shorter while it was followed"),
        (
            lambda: path.rename(tmp_path / "y"),
            (
                "the file was moved or deleted, or another file has its name now; start to follow "
                "again"
            ),
        ),
    ):
        path.write_bytes(builders.pcap(talk()))
        with reader(str(path), "--follow") as process:
            assert seqnos(process, 12) == list(range(1, 13))
            harm()
            out, said, status = rest(process)
        assert (out, status) == ("", 3)
        assert re.fullmatch(
            rf"dcpinspect: {path}, offset \d+: {re.escape(says)}; all that is readable was read\n",
            said,
        )


def test_what_was_lost_and_all_counts_are_told_when_following_ends(tmp_path: Path) -> None:
    path = tmp_path / "x"
    packets = talk()
    path.write_bytes(builders.pcap([*packets[:8], *packets[9:]]))
    with reader(str(path), "--follow", "--stats") as process:
        assert seqnos(process, 5) == [1, 2, 3, 4, 5]
        process.send_signal(signal.SIGTERM)
        out, said, status = rest(process)
    assert status == 0
    assert len(out.splitlines()) == 6
    assert "65 bytes are not in the capture (1 hole" in said
    assert "          14 packets read\n" in said


def test_one_capture_is_followed_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", "--follow", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    said = capsys.readouterr().err
    assert said == (
        "dcpinspect: --follow: one capture at a time; leave out all but the one that is being "
        "written\n"
    )


@NEEDS_ROOT
@pytest.mark.requires("tcpdump")
def test_what_tcpdump_records_elsewhere_is_read_from_its_pipe() -> None:
    """As in ``ssh HOST tcpdump -i any -U -w - port 11210 | dcpinspect read -``."""
    conversation = Talk("reader")
    conversation.hello("reader", "Collections")
    conversation.open("reader", "producer")
    stream = conversation.stream(1)
    stream.snapshot(0, 3, "memory")
    for seqno in range(1, 4):
        stream.mutation(seqno, f"key::{seqno}", b"x" * 100)
        conversation.mark(f"mutation {seqno}")
    stream.end()
    with namespaces("pipe") as (name,):
        # A packet takes 256 KiB of tcpdump's buffer: with the usual 2 MiB a busy machine loses
        # some, and nobody would wait for them.
        record = [
            "ip",
            "netns",
            "exec",
            name,
            "tcpdump",
            "-i",
            "any",
            "-U",
            "--immediate-mode",
            "-B",
            "65536",
        ]
        record += ["-w", "-", "-Z", "root", "port", "11210"]
        with (
            subprocess.Popen(
                record, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as tcpdump,
            reader("-", stdin=tcpdump.stdout) as process,
        ):
            assert tcpdump.stderr is not None
            while "listening on" not in tcpdump.stderr.readline():
                pass
            rows: list[dict[str, Any]] = []

            def wait_for(seqno: int) -> None:
                """The connection goes on only when the line is there."""
                assert process.stdout is not None
                while not rows or rows[-1].get("by_seqno") != seqno:
                    rows.append(json.loads(process.stdout.readline()))

            hooks = {
                f"mutation {seqno}": lambda seqno=seqno: wait_for(seqno) for seqno in range(1, 4)
            }
            (said,) = play(
                [conversation],
                port=11_210,
                hooks=hooks,
                at_server=lambda: inside(name),
                at_client=lambda: inside(name),
            )
            assert process.stdout is not None
            while (
                rows[-1]["name"] != "dcp_stream_end"
            ):  # tcpdump leaves what it has not read when it is told to end
                rows.append(json.loads(process.stdout.readline()))
            tcpdump.send_signal(signal.SIGINT)
            out, _, status = rest(process)
    rows += [json.loads(line) for line in out.splitlines()]
    assert status == 0
    for way, sent in (("c2s", said.c2s), ("s2c", said.s2c)):
        assert [row["length"] for row in rows if row["direction"] == way] == list(map(len, sent))
