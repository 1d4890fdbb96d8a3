from __future__ import annotations

import errno
import inspect
import pickle
import resource
from pathlib import Path

import pytest

from dcpinspect import errors
from dcpinspect.errors import (
    CaptureError,
    ClosedError,
    DamagedCapture,
    DcpInspectError,
    PlacedError,
    SpoolError,
    UsageError,
    memory_ended,
)
from dcpinspect.text import cells


def test_every_exception_has_the_one_root() -> None:
    classes = [
        item
        for _, item in inspect.getmembers(errors, inspect.isclass)
        if issubclass(item, Exception)
    ]
    assert len(classes) > 1
    assert all(issubclass(item, DcpInspectError) for item in classes)


def test_docstring_is_the_default_text() -> None:
    assert str(UsageError()) == "The request does not make sense."
    assert (
        str(UsageError("--vbucket 1-: no number after the dash"))
        == "--vbucket 1-: no number after the dash"
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CaptureError("a.pcap", "no such file"), "a.pcap: no such file"),
        (
            CaptureError(Path("a.pcap"), "not a capture", "give a pcap or pcapng file", offset=0),
            "a.pcap, offset 0: not a capture; give a pcap or pcapng file",
        ),
        (
            CaptureError("-", "a record is cut", offset=24),
            "standard input, offset 24: a record is cut",
        ),
        (DamagedCapture("\x1b]0;x\x07.pcap", "cut", offset=8), r"\x1b]0;x\x07.pcap, offset 8: cut"),
    ],
)
def test_capture_errors_name_file_place_and_next_step(error: CaptureError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize(
    ("text", "at", "lines"),
    [
        ("vbucket = x", 10, ("vbucket = x", "          ^")),
        ("", 0, ("", "^")),
        ("row = 1", 7, ("row = 1", "       ^")),
        ("a\nb = 'é'", 4, ("a\\x0ab = 'é'", "       ^")),
        ("日本 = x", 5, ("日本 = x", "       ^")),
        ("\x1b[2J", 0, ("\\x1b[2J", "^")),
    ],
)
def test_a_place_is_shown_below_the_text(text: str, at: int, lines: tuple[str, str]) -> None:
    assert PlacedError("--filter", "what", text, at).details == lines


@pytest.mark.parametrize("character", ["x", "\0", "日"])
@pytest.mark.parametrize("at", [0, 35, 36, 37, 500, 4_999, 5_000])
def test_of_a_long_text_the_part_around_the_place_is_shown(at: int, character: str) -> None:
    text = character * at + "!" + character * (5_000 - at)
    shown, caret = PlacedError("--filter", "what", text, at).details
    assert cells(shown) <= 73
    place = next(n for n in range(len(shown)) if cells(shown[:n]) == len(caret) - 1)
    assert shown[place] == "!"


def test_a_placed_error_is_one_line_beside_its_picture() -> None:
    error = PlacedError("[filters] slow", "no such column", "row\n= 1", 0)
    assert (str(error), error.what, error.text, error.at) == (
        "[filters] slow: no such column",
        "no such column",
        "row\n= 1",
        0,
    )


def test_exit_statuses() -> None:
    assert (UsageError.exit_status, CaptureError.exit_status, DamagedCapture.exit_status) == (
        2,
        2,
        3,
    )


def test_what_fails_without_an_exception_has_no_memory_where_that_is_limited() -> None:
    error = SystemError("error return without exception set")
    assert memory_ended(error) is None
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 46, before[1]))
    try:
        told = memory_ended(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert told is not None
    assert told.startswith("memory has ended; raise the limit")


def test_few_open_files_are_told_as_such(tmp_path: Path) -> None:
    error = SpoolError(tmp_path, OSError(errno.EMFILE, ""))
    assert str(error) == (
        f"{tmp_path}: Too many open files; allow this process more open files (ulimit -n)"
    )


@pytest.mark.parametrize(
    "error",
    [
        CaptureError("a.pcap", "is empty", "record again", offset=3),
        PlacedError("--filter", "nothing is called x", "x = 1", 0),
        ClosedError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_worker_reaches_who_waits_for_it(error: DcpInspectError) -> None:
    received = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (type(received), str(received), vars(received)) == (
        type(error),
        str(error),
        vars(error),
    )
