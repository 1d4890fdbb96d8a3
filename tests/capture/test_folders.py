"""Which files of a directory are captures."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from dcpinspect.capture.folders import captures_in, with_folders
from dcpinspect.errors import CaptureError
from tests import builders
from tests.capture.test_pcap import PACKETS


def test_captures_are_known_by_their_names_or_by_how_they_begin(tmp_path: Path) -> None:
    for name in ("a.pcap", "b.pcapng.xz", "c.pcap12", "d.PCAP.bz2", "e.pcap.gz", "notes.txt", "f.sent.ndjson.gz", ".hidden.pcap"):
        (tmp_path / name).write_text("")
    (tmp_path / "g").write_bytes(builders.pcap(PACKETS))
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "h.pcap").write_text("")
    assert [Path(one).name for one in captures_in(str(tmp_path))] == ["a.pcap", "b.pcapng.xz", "c.pcap12", "d.PCAP.bz2", "e.pcap.gz", "g"]


def test_files_stay_and_directories_become_their_captures(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_text("")
    assert with_folders(["-", "x", str(tmp_path)]) == ["-", "x", str(tmp_path / "a.pcap")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(CaptureError, match="is a directory without captures"):
        with_folders([str(tmp_path / "empty")])


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
            CaptureError, match="belongs to the output of a pipeline; ask it with 'dcpinspect pipeline check', 'info' or 'sql'"
        ):
            with_folders([str(folder)])
