"""Results go where they are asked to, whole or not at all."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyarrow as pa
import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from dcpinspect.cli.output import choose_format, open_output
from dcpinspect.errors import UsageError
from dcpinspect.output.export.formats import FORMATS
from tests import builders
from tests.peers.truth import SAMPLES

ROLLBACK = SAMPLES / "rollback.pcap"
TOUR = SAMPLES / "tour.pcapng"
MESSAGES = 450
READERS: dict[str, Callable[[Path], int]] = {
    "x.txt": lambda path: len(path.read_text("utf-8").splitlines()) - 1,
    "x.json": lambda path: len(json.loads(path.read_bytes())),
    "x.ndjson": lambda path: len([json.loads(line) for line in path.read_bytes().splitlines()]),
    "x.csv": lambda path: len(
        list(csv.DictReader(io.StringIO(path.read_text("utf-8"), newline="")))
    ),
    "x.parquet": lambda path: int(pyarrow.parquet.read_table(path).num_rows),
    "x.arrow": lambda path: int(pa.ipc.open_file(path).read_all().num_rows),
    "x.arrows": lambda path: int(pa.ipc.open_stream(path).read_all().num_rows),
}
"""A name for each format, and what counts the messages in such a file; it fails for a file that is
not complete.
"""


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [(None, None, "text"), (None, "-", "text"), (None, "a.csv", "csv"), ("json", "a.csv", "json")],
)
def test_the_format_asked_for_wins_over_the_name(
    name: str | None, path: str | None, expected: str
) -> None:
    assert choose_format(name, path) is FORMATS[expected]


@pytest.mark.parametrize("name", READERS)
def test_every_format_is_written_to_a_file_of_its_name(
    name: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["read", str(TOUR), "-o", str(tmp_path / name)]) == 0
    assert capsysbinary.readouterr() == (b"", b"")
    assert READERS[name](tmp_path / name) == MESSAGES
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["x.txt", "x.json", "x.csv"])
def test_a_file_holds_what_standard_output_would(
    name: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["read", str(TOUR), "-o", str(tmp_path / name)]) == 0
    capsysbinary.readouterr()
    assert main(["read", str(TOUR), "--format", choose_format(None, name).name]) == 0
    assert capsysbinary.readouterr().out == (tmp_path / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_full_disk_is_one_line_and_leaves_what_was_there(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"before")
    done = subprocess.run(
        [sys.executable, "-m", "dcpinspect", "read", str(TOUR), "-o", path],
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)),
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"dcpinspect: {path}: File too large; the file was not kept\n"
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"before", [name])


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_a_standard_output_that_is_full_is_one_line(format_: str) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "dcpinspect", "read", str(TOUR), "--format", format_]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        b"dcpinspect: standard output: No space left on device; what was written so far is not "
        b"complete\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_a_reader_that_has_enough_is_no_error(format_: str) -> None:
    command = [sys.executable, "-m", "dcpinspect", "read", str(TOUR), "--format", format_]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(4)
        process.stdout.close()
        assert process.stderr.read() == b""


def wait_until_it_waits(process: subprocess.Popen[bytes], pipe: int) -> None:
    """Until all that was sent through the pipe was read, and the program sleeps."""
    asleep = 0
    while asleep < 5:
        assert process.poll() is None
        (unread,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        asleep = asleep + 1 if not unread and state == "S" else 0
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="watches the program through /proc"
)
@pytest.mark.parametrize("name", READERS)
def test_ctrl_c_ends_a_pipe_and_the_file_has_what_came_until_then(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    command = [sys.executable, "-m", "dcpinspect", "read", "-", "-o", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(TOUR.read_bytes()[:60_000])
        process.stdin.flush()
        wait_until_it_waits(process, process.stdin.fileno())
        assert not path.exists()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()
    assert process.returncode == 0
    assert said == (
        "dcpinspect: interrupted: what was read until now makes the result; Ctrl-C again ends "
        "at once\n"
    )
    assert 100 < READERS[name](path) < MESSAGES
    assert os.listdir(tmp_path) == [name]


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_ctrl_c_while_nobody_reads_loses_no_part_of_a_line(unbuffered: str, tmp_path: Path) -> None:
    messages = [builders.mutation(seqno, value=b"v" * 300_000) for seqno in range(1, 6)]
    path = builders.capture(tmp_path / "x.pcap", server=b"".join(messages))
    patient = (
        "from dcpinspect.cli import interrupts\ninterrupts.STUCK_S = 60\nfrom dcpinspect "
        "import __main__\n__main__.run()"
    )
    command = [
        sys.executable,
        "-c",
        patient,
        "read",
        str(path),
        "-f",
        "ndjson",
    ]  # this test may be slower than a reader that is alive
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": unbuffered}
    ) as process:
        assert process.stdout is not None
        unread = 0
        while unread < 60_000:  # until the pipe is full, in the middle of a line
            time.sleep(0.02)
            (unread,) = struct.unpack(
                "i", fcntl.ioctl(process.stdout.fileno(), termios.FIONREAD, bytes(4))
            )
        process.send_signal(signal.SIGINT)
        lines = process.stdout.read().splitlines()
    assert process.returncode == 130
    assert [json.loads(line)["row"] for line in lines] == list(range(1, len(lines) + 1))
    assert 1 <= len(lines) < 5


@pytest.mark.parametrize(
    "arguments", [["-f", "parquet"], ["-f", "arrow"], ["-f", "parquet", "-o", "-"]]
)
def test_a_terminal_is_not_sent_what_it_cannot_show(arguments: list[str]) -> None:
    child = pexpect.spawn(
        sys.executable, ["-m", "dcpinspect", "read", str(TOUR), *arguments], timeout=120
    )
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2
    expected = (
        f"dcpinspect: --format {arguments[1]} is not for a terminal; add -o FILE, or "
        "redirect the output\r\n"
    )
    assert child.before.decode() == expected


def test_a_file_has_no_colours_and_whole_lines_whatever_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    child = pexpect.spawn(
        sys.executable,
        ["-m", "dcpinspect", "read", str(TOUR), "-o", str(path)],
        dimensions=(24, 40),
        timeout=120,
    )
    child.expect(pexpect.EOF)
    child.close()
    text = path.read_text("utf-8")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) > 110


def test_the_device_of_standard_output_is_standard_output(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "read",
        str(TOUR),
        "-n",
        "1",
        "-f",
        "csv",
        "--columns",
        "row",
        "-o",
        "/dev/stdout",
    ]
    with (tmp_path / "x").open("ab") as file:
        file.write(b"before\n")
        file.flush()
        subprocess.run(command, stdout=file, check=True)
    assert (tmp_path / "x").read_bytes() == b'before\n"row"\n1\n'


def test_a_file_without_a_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", str(TOUR), "-o", ""]) == 2
    assert (
        capsys.readouterr().err
        == "dcpinspect: --output: is empty; name a file, or - for standard output\n"
    )


def test_a_capture_is_not_overwritten(tmp_path: Path) -> None:
    capture = tmp_path / "x.pcapng"
    capture.write_bytes(b"x")
    (tmp_path / "same.csv").symlink_to(capture)
    with pytest.raises(
        UsageError, match=r"/same.csv: is the capture that is read; name another file$"
    ):
        open_output(str(tmp_path / "same.csv"), FORMATS["csv"], ["-", str(capture)]).__enter__()
    assert capture.read_bytes() == b"x"


def test_nothing_appears_when_no_capture_could_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", str(tmp_path / "missing"), "-o", str(tmp_path / "x.csv")]) == 2
    assert os.listdir(tmp_path) == []
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_that_was_damaged_in_part_gives_what_it_holds(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(TOUR.read_bytes()[:-7])
    assert main(["read", str(cut), "-o", str(tmp_path / "x.parquet")]) == 3
    assert READERS["x.parquet"](tmp_path / "x.parquet") > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["read", "-", "-w"], ["read", "-", "-f", "json", "-o"], ["export", "-", "-f", "json", "-o"]],
)
@pytest.mark.parametrize("link", ["in.pcap", "other.pcap"])
def test_the_file_that_is_standard_input_is_not_written(
    command: list[str], link: str, tmp_path: Path
) -> None:
    capture, target = tmp_path / "in.pcap", tmp_path / link
    capture.write_bytes(ROLLBACK.read_bytes())
    if target != capture:
        target.hardlink_to(capture)
    with capture.open("rb") as given:
        told = subprocess.run(
            [sys.executable, "-m", "dcpinspect", *command, str(target)],
            stdin=given,
            capture_output=True,
            check=False,
        )
    assert (told.returncode, told.stderr.decode()) == (
        2,
        f"dcpinspect: {target}: is the capture that is read; name another file\n",
    )
    assert capture.read_bytes() == ROLLBACK.read_bytes()


def test_a_file_may_be_written_while_standard_input_is_a_pipe(tmp_path: Path) -> None:
    target = tmp_path / "out.pcap"
    target.write_bytes(b"before")
    command = [sys.executable, "-m", "dcpinspect", "read", "-", "-w", str(target)]
    subprocess.run(command, input=ROLLBACK.read_bytes(), capture_output=True, check=True)
    assert target.stat().st_size > 100


@pytest.mark.parametrize("reads_stdin", [True, False])
def test_what_a_shell_appends_to_the_capture_that_is_read_is_refused(
    reads_stdin: bool, tmp_path: Path
) -> None:
    capture = tmp_path / "a.pcapng"
    capture.write_bytes(TOUR.read_bytes())
    with capture.open("rb") as given, capture.open("ab") as taken:
        command = [sys.executable, "-m", "dcpinspect", "read", "-" if reads_stdin else str(capture)]
        done = subprocess.run(
            command, stdin=given, stdout=taken, stderr=subprocess.PIPE, check=False
        )
    refused = b"dcpinspect: standard output: is the capture that is read; name another file\n"
    assert (done.returncode, done.stderr) == (2, refused)
    assert capture.read_bytes() == TOUR.read_bytes()
