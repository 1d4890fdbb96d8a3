"""Which files of a directory are captures."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from pathlib import Path

import pytest

from dcpinspect.capture.folders import captures_in, with_folders
from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from dcpinspect.errors import CaptureError
from tests import builders
from tests.capture.test_pcap import PACKETS

FIELD = Path(__file__).parents[1] / "captures" / "field"


def test_captures_are_known_by_their_names_or_by_how_they_begin(tmp_path: Path) -> None:
    for name in (
        "a.pcap",
        "b.pcapng.xz",
        "c.pcap12",
        "d.PCAP.bz2",
        "e.pcap.gz",
        "notes.txt",
        "f.sent.ndjson.gz",
        ".hidden.pcap",
    ):
        (tmp_path / name).write_text("")
    (tmp_path / "g").write_bytes(builders.pcap(PACKETS))
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "h.pcap").write_text("")
    assert [Path(one).name for one in captures_in(str(tmp_path))] == [
        "a.pcap",
        "b.pcapng.xz",
        "c.pcap12",
        "d.PCAP.bz2",
        "e.pcap.gz",
        "g",
    ]


def test_files_stay_and_directories_become_their_captures(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_text("")
    assert with_folders(["-", "x", str(tmp_path)]) == ["-", "x", str(tmp_path / "a.pcap")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(CaptureError, match="is a directory without captures"):
        with_folders([str(tmp_path / "empty")])


@pytest.mark.parametrize("with_capture", [True, False])
def test_a_pipe_or_socket_in_a_directory_is_named_and_left_out(
    with_capture: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "b.pcap")
    os.symlink("b.pcap", tmp_path / "d.pcap")  # the same pipe again
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "c.pcap"))
        if with_capture:
            (tmp_path / "a.pcap").write_bytes((FIELD / "t00-base.pcap").read_bytes())
        signal.alarm(60)  # it waited for ever
        try:
            assert main(["read", str(tmp_path), "-n", "1"]) == (3 if with_capture else 2)
        finally:
            signal.alarm(0)
    err = capsys.readouterr().err
    assert "is a pipe, socket or device, and of directories only files are read" in err
    assert ("b.pcap: left out" in err and "c.pcap: left out" in err) == with_capture


def test_a_pipe_alone_in_a_directory_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "b.pcap")
    with pytest.raises(CaptureError, match="is a pipe, socket or device"):
        open_capture(tmp_path)


def test_a_directory_that_may_not_be_read_is_not_called_empty() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o111)
        before = os.geteuid()
        if before == 0:
            os.seteuid(65_534)  # root may read all
        try:
            with pytest.raises(CaptureError, match=r"cannot be opened \(Permission denied\)"):
                with_folders([folder])
        finally:
            os.seteuid(before)
            Path(folder).chmod(0o700)


def test_the_output_of_a_pipeline_is_told_with_the_commands_for_it(tmp_path: Path) -> None:
    for name in ("_manifest", "messages"):
        (tmp_path / name).mkdir()
    for folder in (tmp_path, tmp_path / "messages"):
        with pytest.raises(
            CaptureError,
            match=(
                "belongs to the output of a pipeline; ask it with 'dcpinspect pipeline check', "
                "'info' or 'sql'"
            ),
        ):
            with_folders([str(folder)])
