from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from dcpinspect import errors
from dcpinspect.errors import CaptureError, DamagedCapture, DcpInspectError, UsageError


def test_every_exception_has_the_one_root() -> None:
    classes = [item for _, item in inspect.getmembers(errors, inspect.isclass) if issubclass(item, Exception)]
    assert len(classes) > 1
    assert all(issubclass(item, DcpInspectError) for item in classes)


def test_docstring_is_the_default_text() -> None:
    assert str(UsageError()) == "The request does not make sense."
    assert str(UsageError("--vbucket 1-: no number after the dash")) == "--vbucket 1-: no number after the dash"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CaptureError("a.pcap", None, "no such file"), "a.pcap: no such file"),
        (
            CaptureError(Path("a.pcap"), 0, "not a capture", "give a pcap or pcapng file"),
            "a.pcap, offset 0: not a capture; give a pcap or pcapng file",
        ),
        (CaptureError("-", 24, "a record is cut"), "standard input, offset 24: a record is cut"),
        (DamagedCapture("\x1b]0;x\x07.pcap", 8, "cut"), r"\x1b]0;x\x07.pcap, offset 8: cut"),
    ],
)
def test_capture_errors_name_file_place_and_next_step(error: CaptureError, text: str) -> None:
    assert str(error) == text


def test_exit_statuses() -> None:
    assert (UsageError.exit_status, CaptureError.exit_status, DamagedCapture.exit_status) == (2, 2, 3)
