"""A disk without room, a closed standard output, files that vanish: one line says what could not be
written or read.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from dcpinspect.errors import CaptureError
from dcpinspect.reading.reading import Reading
from tests.peers.truth import SAMPLES

pytestmark = pytest.mark.slow

TOUR, LOSS, ROLLBACK = (
    str(SAMPLES / name) for name in ("tour.pcapng", "capture-loss.pcap", "rollback.pcap")
)
PROGRAM = f"{shlex.quote(sys.executable)} -m dcpinspect"


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 64 KiB, all of which are used."""
    folder = tmp_path / "full"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
    try:
        with (folder / "fill").open("wb", buffering=0) as file:
            while True:
                try:
                    file.write(bytes(4096))
                except OSError:
                    break
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def ran(command: str, **environment: str) -> tuple[int, str]:
    """Status and standard error of a command of the shell."""
    done = subprocess.run(
        ["sh", "-c", command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "command",
    [
        *(f"read {TOUR} -o {{}}/x.{form}" for form in ("json", "csv", "parquet", "arrow", "txt")),
        f"read {TOUR} -w {{}}/x.pcapng",
        f"check {TOUR} -o {{}}/x.json",
        f"check {TOUR} -w {{}}/x.pcapng",
        f"export {TOUR} -o {{}}/x.parquet",
        f"report {TOUR} -o {{}}/x.html",
        f"sql {TOUR} 'from messages' -o {{}}/x.csv",
        f"streams {TOUR} -o {{}}/x.parquet",
        f"diff {TOUR} {ROLLBACK} -o {{}}/x.json",
    ],
)
def test_a_file_without_room_is_named(
    command: str, full: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = shlex.split(command.format(full))
    assert main(arguments) == 2
    name = next(one for one in arguments if one.startswith(str(full)))
    assert (
        capfd.readouterr().err
        == f"dcpinspect: {name}: No space left on device; the file was not kept\n"
    )
    assert os.listdir(full) == ["fill"]


def test_a_comparison_names_the_folder_for_temporary_files_and_says_what_to_do(full: Path) -> None:
    status, said = ran(f"{PROGRAM} diff {TOUR} {ROLLBACK}", TMPDIR=str(full))
    assert status == 2
    assert said.startswith(f"dcpinspect: {full}/dcpinspect-spool-")
    assert said.endswith(": No space left on device; set TMPDIR to a folder with room\n")
    assert os.listdir(full) == ["fill"]


def test_packets_of_a_pipe_name_the_folder_in_which_they_are_kept(
    full: Path, tmp_path: Path
) -> None:
    status, said = ran(f"{PROGRAM} read - -w {tmp_path}/x.pcapng < {TOUR}", TMPDIR=str(full))
    assert status == 2
    assert said.startswith(
        f"dcpinspect: {full}: No space left on device; what comes through a pipe is kept there"
    )
    assert not (tmp_path / "x.pcapng").exists()


def test_a_live_capture_names_the_folder_for_temporary_files(full: Path) -> None:
    status, said = ran(f"{PROGRAM} live -i lo -a duration:1", TMPDIR=str(full))
    assert (status, said) == (
        2,
        f"dcpinspect: {full}, the folder for temporary files (TMPDIR): No space left on device\n",
    )
    assert os.listdir(full) == ["fill"]


PRINTING = (
    "--version",
    "--help",
    f"read {TOUR}",
    f"read {TOUR} -f json",
    f"check {TOUR}",
    f"streams {TOUR}",
    f"info {TOUR}",
)


@pytest.mark.parametrize("command", PRINTING)
def test_a_closed_standard_output_is_an_error(command: str) -> None:
    status, said = ran(f"{PROGRAM} {command} >&-")
    assert status == 2
    (line,) = said.splitlines()
    assert line.startswith("dcpinspect: standard output: is closed")


@pytest.mark.parametrize("command", PRINTING)
def test_a_standard_output_without_room_is_named(command: str) -> None:
    status, said = ran(f"{PROGRAM} {command} > /dev/full")
    assert status == 2
    (line,) = said.splitlines()
    assert line.startswith("dcpinspect: standard output: No space left on device")


def test_who_prints_nothing_needs_no_standard_output(tmp_path: Path) -> None:
    assert ran(f"{PROGRAM} read {TOUR} -o {tmp_path}/x.json >&- <&-") == (0, "")
    assert (tmp_path / "x.json").stat().st_size > 1000


def test_a_file_with_the_name_of_an_option_is_named_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("-dash.pcap", "--dash.pcap", "-fjson.pcap"):
        Path(name).write_bytes(Path(ROLLBACK).read_bytes())
        assert main(["check", name]) == 2
        assert (
            capsys.readouterr().err == f"dcpinspect: {name}: is taken for options; write ./{name}\n"
        )
        assert main(["check", f"./{name}"]) == 0
        capsys.readouterr()
        os.unlink(name)
    assert main(["check", "--dash"]) == 2
    assert "there is no option --dash" in capsys.readouterr().err


def test_a_capture_that_is_removed_while_it_is_read_is_not_called_misspelled(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / name for name in ("a.pcap", "ab.pcap")]
    for path, name in zip(paths, (ROLLBACK, LOSS), strict=True):
        path.write_bytes(Path(name).read_bytes())
    for names in ([str(path) for path in paths], [str(tmp_path)]):
        with open_capture(names) as capture:
            paths[1].rename(tmp_path / "moved")
            with pytest.raises(
                CaptureError,
                match=(
                    r"ab\.pcap: was removed while it was read; keep captures until the command "
                    r"has ended$"
                ),
            ):
                list(capture)
        (tmp_path / "moved").rename(paths[1])
    with pytest.raises(CaptureError, match="there is no such file; did you mean"):
        open_capture(str(tmp_path / "abc.pcap"))


def test_a_link_in_a_directory_that_leads_nowhere_is_called_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.pcap").write_bytes(Path(ROLLBACK).read_bytes())
    (tmp_path / "b.pcap").symlink_to("nowhere")
    assert main(["info", str(tmp_path)]) == 3
    assert (
        "b.pcap: left out, for it is a link to a file that is not there" in capsys.readouterr().err
    )


def test_frames_of_gaps_are_named_with_their_files_if_there_are_several() -> None:
    for names, of in (([LOSS], ""), ([ROLLBACK, LOSS], f" of {LOSS}")):
        with Reading(names) as reading:
            reading.track()
            for _ in reading:
                pass
            evidence = [
                one for one in reading.tables.gaps.values("evidence") if "could not be read" in one
            ]
        assert evidence
        assert all(
            one.endswith(f"between frames 79 and 81{of}") or not one.startswith("bytes 18608-")
            for one in evidence
        )
        assert any(one.endswith(f"between frames 79 and 81{of}") for one in evidence)
