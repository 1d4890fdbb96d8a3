"""Which captures may be asked about, and how often they are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from dcpinspect.agents.library import MOST_KEPT, Library, Question
from dcpinspect.api import Recording
from dcpinspect.errors import UsageError
from tests.peers.truth import SAMPLES


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A directory with a capture, beside one that may not be read."""
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.pcap").write_bytes((SAMPLES / "upr.pcap").read_bytes())
    os.mkfifo(tmp_path / "inside" / "pipe.pcap")
    (tmp_path / "inside" / "link.pcap").symlink_to(tmp_path / "outside" / "a.pcap")
    (tmp_path / "inside" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "inside" / "device.pcap").symlink_to("/dev/zero")
    (tmp_path / "inside" / "same.pcap").symlink_to("a.pcap")
    return tmp_path / "inside"


_OUTSIDE = (
    *("../outside/a.pcap", "/etc/passwd", "link.pcap", "folder/a.pcap", "..", "device.pcap"),
    *("folder", "../inside2"),
)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *((name, "is not below the directories") for name in _OUTSIDE),
        ("-", "there is no such capture"),
        ("pipe.pcap", "is no file; pipes and devices are not read here"),
        ("b.pcap", "there is no such capture"),
        ("a.pcap\0", "is no name of a file"),
    ],
)
def test_nothing_outside_of_the_directories_is_opened(inside: Path, name: str, why: str) -> None:
    library = Library([str(inside)], Recording)
    with pytest.raises(UsageError, match=why), library.reading([name], Question()):
        pass


def test_captures_are_listed_by_the_name_that_a_question_uses(inside: Path) -> None:
    library = Library([str(inside)], Recording)
    assert sorted(library.captures()) == [("a.pcap", 2903), ("same.pcap", 2903)]
    for names in (["a.pcap"], ["same.pcap"], [str(inside / "a.pcap")], ["."]):
        with library.reading(names, Question()) as recording:
            assert {Path(path).name for path in recording.paths} <= {"a.pcap", "same.pcap"}
    library.close()


def test_a_capture_is_read_once_unless_it_has_changed_and_the_oldest_readings_leave(
    inside: Path,
) -> None:
    opened: list[Recording] = []

    def open_(paths: Sequence[str]) -> Recording:
        opened.append(Recording(paths))
        return opened[-1]

    library = Library([str(inside)], open_)
    for _ in range(3):
        with library.reading(["a.pcap"], Question()) as recording:
            assert len(recording) == 18
    assert len(opened) == 1
    (inside / "a.pcap").write_bytes((SAMPLES / "rollback.pcap").read_bytes())
    with library.reading(["a.pcap"], Question()) as recording:
        assert len(recording) == 161
    assert len(opened) == 2
    for number in range(MOST_KEPT):
        (inside / f"{number}.pcap").write_bytes((SAMPLES / "upr.pcap").read_bytes())
        with library.reading([f"{number}.pcap"], Question()):
            pass
    for recording in opened[:2]:
        with pytest.raises(ValueError, match="closed"):
            recording.findings()
    assert [len(recording) for recording in opened[2:]] == [18] * MOST_KEPT
    library.close()


def test_a_question_that_was_cancelled_ends_the_reading_and_the_next_one_reads_anew(
    inside: Path,
) -> None:
    library = Library([str(inside)], Recording)
    cancelled = Question()
    cancelled.cancel()
    with pytest.raises(InterruptedError), library.reading(["a.pcap"], cancelled):
        pass
    with library.reading(["a.pcap"], Question()) as recording:
        assert len(recording) == 18
    library.close()
