"""``read -w``: a capture that Wireshark opens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcapng import comments_of
from dcpinspect.capture.pcapng_writer import PcapNgWriter
from dcpinspect.cli.main import main
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.capture.test_pcapng_writer import packets_in, tshark
from tests.cli.test_output import wait_until_it_waits
from tests.peers.truth import SAMPLES

TOUR = SAMPLES / "tour.pcapng"
COUCHBASE = (
    "couchbase.magic",
    "couchbase.opcode",
    "couchbase.opaque",
    "couchbase.vbucket",
    "couchbase.total_bodylength",
)


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line of the complaint."""

    def run(*arguments: str) -> str:
        assert main(["read", str(TOUR), *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run


def test_the_rows_are_shown_as_without_it(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["read", str(TOUR), "--vbucket", "417"]) == 0
    lines = capsysbinary.readouterr().out
    assert main(["read", str(TOUR), "--vbucket", "417", "-w", str(tmp_path / "x.pcapng")]) == 0
    assert capsysbinary.readouterr() == (lines, b"")
    assert os.listdir(tmp_path) == ["x.pcapng"]


@pytest.mark.slow
@pytest.mark.requires("tshark")
@pytest.mark.parametrize(
    "condition",
    [["--opcode", "dcp_snapshot_marker"], ["--connection", "2"], ["--vbucket", "417", "-n", "20"]],
)
def test_wireshark_decodes_the_same_messages(condition: list[str], tmp_path: Path) -> None:
    """Where a packet begins with a message; what precedes it in the stream may not be in the
    subset.
    """
    subset, rows = tmp_path / "x.pcapng", tmp_path / "x.parquet"
    assert (
        main(
            ["read", str(TOUR), *condition, "-w", str(subset), "--with-handshakes", "-o", str(rows)]
        )
        == 0
    )
    fields = ("frame.time_epoch", "tcp.srcport", "tcp.seq_raw", *COUCHBASE)
    whole = {tuple(row[:3]): row[3:] for row in tshark(TOUR, *fields)}
    part = {tuple(row[:3]): row[3:] for row in tshark(subset, *fields)}
    assert part.keys() <= whole.keys()
    table = pyarrow.parquet.read_table(rows)
    first, last = (set(table.column(name).to_pylist()) for name in ("frame", "last_frame"))
    frames = {number: tuple(row) for number, row in enumerate(tshark(TOUR, *fields[:3]), 1)}
    assert {frames[number] for number in first | last} <= part.keys()
    alone = [frames[number] for number in first & last]
    same = [part[key] == whole[key] for key in alone if whole[key][0]]
    assert len(same) >= 5
    assert all(same)


@pytest.mark.requires("capinfos")
def test_it_is_an_ordinary_capture(tmp_path: Path) -> None:
    assert main(["read", str(TOUR), "-n", "10", "-w", str(tmp_path / "x.pcapng")]) == 0
    done = subprocess.run(
        ["capinfos", "-t", "-c", "-S", tmp_path / "x.pcapng"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Wireshark/... - pcapng" in done.stdout
    assert packets_in(tmp_path / "x.pcapng")


def test_a_subset_with_handshakes_reads_as_what_it_was_taken_from(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "x.pcap", server=b"".join(builders.mutations(50)))
    subset = tmp_path / "y.pcapng"
    columns = ["--columns", "name,vbucket,opaque,by_seqno,key,time_ns"]
    assert (
        main(
            [
                "read",
                str(path),
                "-n",
                "20",
                "-w",
                str(subset),
                "--with-handshakes",
                "-o",
                str(tmp_path / "a.csv"),
                *columns,
            ]
        )
        == 0
    )
    assert main(["read", str(subset), "-n", "20", "-o", str(tmp_path / "b.csv"), *columns]) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_conditions_that_nothing_meets_leave_a_capture_without_packets(tmp_path: Path) -> None:
    assert main(["read", str(TOUR), "--vbucket", "1", "-w", str(tmp_path / "x.pcapng")]) == 0
    assert packets_in(tmp_path / "x.pcapng") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--with-handshakes"], "--with-handshakes: is for the packets of -w FILE"),
        (["--with-secrets"], "--with-secrets: is for the packets of -w FILE"),
        (
            ["-w", "x.pcapng", "--with-secrets", "--redact"],
            "--with-secrets: the secrets open all that --redact replaces; leave out one of the two",
        ),
        (
            ["-w", "x.pcap", "--with-secrets"],
            (
                "--with-secrets: x.pcap has the name of a classic pcap file, which holds no "
                "secrets; name it .pcapng"
            ),
        ),
        (
            ["-w", "x.pcapng", "--redact"],
            (
                "--write: packets have what --redact replaces; with --decrypted packets are made "
                "that do not have it"
            ),
        ),
        (["--decrypted"], "--decrypted: is for the packets of -w FILE"),
        (
            ["-w", "x.pcapng", "--with-secrets", "--decrypted"],
            "--with-secrets: what --decrypted writes needs none; leave out one of the two",
        ),
        (
            ["-w", "-"],
            "--write -: name a file; a program takes the packets as in -w >(wireshark -k -i -)",
        ),
        (["-w", "x.json", "-o", "x.json"], "--write and --output name the same file"),
        (["-w", str(TOUR)], f"{TOUR}: is the capture that is read; name another file"),
        (
            ["-w", "/missing/x"],
            (
                "/missing/x: cannot be written (No such file or directory); name a file in a "
                "folder that can be"
            ),
        ),
    ],
)
def test_what_cannot_be_is_one_line(
    arguments: list[str], says: str, fails: Callable[..., str]
) -> None:
    assert fails(*arguments) == f"dcpinspect: {says}"
    assert not Path("x.pcapng").exists()


@pytest.mark.parametrize("command", ["live", "watch"])
def test_a_recorder_has_no_secrets(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "-i", "lo", "-w", "x.pcapng", "--with-secrets"]) == 2
    says = (
        "--with-secrets: packets are recorded as they come; afterwards use 'dcpinspect read "
        "FILE -w OUT --with-secrets'"
    )
    assert capsys.readouterr().err == f"dcpinspect: {says}\n"
    assert not Path("x.pcapng").exists()


def test_a_pipe_is_written_as_a_file_is_and_the_format_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcapng"
    with (
        TOUR.open("rb") as capture,
        subprocess.Popen(["cat"], stdin=capture, stdout=subprocess.PIPE) as pipe,
    ):
        command = [
            sys.executable,
            "-m",
            "dcpinspect",
            "read",
            "-",
            "--vbucket",
            "417",
            "-w",
            str(path),
        ]
        subprocess.run(command, stdin=pipe.stdout, capture_output=True, check=True)
    other = tmp_path / "y.pcap"
    assert main(["read", str(TOUR), "--vbucket", "417", "-w", str(other)]) == 0
    assert f"{other}: is written as pcapng, whatever its name" in capsys.readouterr().err
    assert packets_in(path) == packets_in(other)


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="watches the program through /proc"
)
def test_ctrl_c_ends_a_pipe_and_the_packets_of_what_came_are_written(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    command = [sys.executable, "-m", "dcpinspect", "read", "-", "-w", str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(TOUR.read_bytes()[:60_000])
        process.stdin.flush()
        wait_until_it_waits(process, process.stdin.fileno())
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()
    assert process.returncode == 0
    assert said == (
        "dcpinspect: interrupted: what was read until now makes the result; Ctrl-C again ends "
        "at once\n"
    )
    assert 50 < len(packets_in(path)) < len(packets_in(TOUR))


def test_a_closed_pipe_leaves_the_packets_of_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "read",
        str(SAMPLES / "large.pcapng.gz"),
        "-w",
        str(path),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == 141
    assert said == (
        f"dcpinspect: the output was closed; {path} has the packets of what was read until then\n"
    )
    with Reading([str(path)]) as part:
        messages = sum(map(len, part))
    assert 500 < messages < 20_000


@pytest.mark.parametrize("command", ["read", "check"])
def test_redacted_packets_have_no_comment_of_the_capture(command: str, tmp_path: Path) -> None:
    """Not those on its packets, such as a SYN that is copied, and not those on the whole."""
    given, path = tmp_path / "given.pcapng", tmp_path / "x.pcapng"
    with open_capture(SAMPLES / "rollback.pcap") as capture, given.open("wb") as file:
        writer = PcapNgWriter(file, [b"taken for alice"])
        for batch in capture:
            writer.write(batch, comments=dict.fromkeys(range(len(batch)), "alice saw this"))
    for more, is_there in ((["--decrypted"], True), (["--decrypted", "--redact"], False)):
        assert main([command, str(given), "-w", str(path), *more]) in (0, 1)
        with open_capture(path) as capture:
            comments = [
                text
                for batch in capture
                for index in range(len(batch))
                for text in comments_of(batch, index)
            ]
            comments += capture.files[0].notes
        assert any(b"alice" in text for text in comments) == is_there
        assert any(b"redacted messages" in text for text in comments) != is_there


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    assert main(["read", str(tmp_path / "missing"), "-w", str(tmp_path / "x.pcapng")]) == 2
    assert os.listdir(tmp_path) == []


@pytest.mark.requires("tshark")
@pytest.mark.requires("capinfos")
@pytest.mark.parametrize("command", ["read", "check", "pipe"])
def test_comments_on_packets_and_on_the_capture_are_carried(command: str, tmp_path: Path) -> None:
    """Those that a check adds stand behind them."""
    given, path = tmp_path / "given.pcapng", tmp_path / "x.pcapng"
    with open_capture(SAMPLES / "rollback.pcap") as capture, given.open("wb") as file:
        writer = PcapNgWriter(file, [b"taken at node 1", b"by hand"])
        for batch in capture:
            writer.write(batch, comments=dict.fromkeys(range(len(batch)), "seen before"))
    if command == "pipe":
        with given.open("rb") as file:
            subprocess.run(
                [sys.executable, "-m", "dcpinspect", "read", "-", "-w", str(path)],
                stdin=file,
                capture_output=True,
                check=True,
            )
    else:
        main([command, str(given), "-w", str(path)])
    shown = subprocess.run(
        ["tshark", "-r", path, "-T", "fields", "-e", "frame.comment"],
        capture_output=True,
        text=True,
        check=True,
    )
    comments = shown.stdout.splitlines()
    assert {comment[:11] for comment in comments} == {"seen before"}
    assert any(len(comment) > 11 for comment in comments) == (command == "check")
    told = subprocess.run(
        ["capinfos", "-k", path], capture_output=True, text=True, check=True
    ).stdout
    assert [
        line.partition(": ")[2].strip()
        for line in told.splitlines()
        if line.startswith("Capture comment")
    ] == [
        "taken at node 1",
        "by hand",
    ]


@pytest.mark.parametrize("name", ["orphans.pcap", "rollback.pcap", "tour.pcapng"])
def test_a_redacted_file_shows_no_fault_that_the_capture_has_not(name: str, tmp_path: Path) -> None:
    target = tmp_path / "redacted.pcapng"
    options = ["--fail-on", "never", "-w", str(target), "--decrypted", "--redact"]
    assert main(["check", str(SAMPLES / name), *options]) == 0

    def faults(path: Path) -> set[str]:
        with Reading([str(path)]) as reading:
            reading.check()
            for _ in reading:
                pass
            return {one.rule for one in reading.findings() if one.severity != "note"}

    assert faults(target) <= faults(SAMPLES / name)
