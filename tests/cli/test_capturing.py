from __future__ import annotations

import pytest

from dcpinspect.capture.recorded_files import Limits
from dcpinspect.cli.capturing import Capturing, _limits, _size
from dcpinspect.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("100MB", 100_000_000),
        ("1.5GiB", 3 << 29),
        ("64 KiB", 65_536),
        ("2g", 2_000_000_000),
        ("10", 10_000),
        ("1tib", 1 << 40),
    ],
)
def test_a_size_has_a_unit_or_is_of_kilobytes(text: str, size: int) -> None:
    assert _size("-b", text) == size


@pytest.mark.parametrize(
    "text", ["", "0", "x", "1 MB 2", "-1", "1e9", "\uff11", "9" * 40, "0.0001"]
)
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write a size such as 100MB, 2GiB, or a number of kB"):
        _size("-b", text)


def test_limits_add_up() -> None:
    known = ("filesize", "duration", "packets", "files")
    assert _limits("-b", ["duration:1.5", "packets:7", "filesize:1", "files:9"], known) == (
        Limits(1000, 1.5, 7, 9),
        None,
    )
    assert _limits("-a", ["messages:5"], ("messages",)) == (Limits(), 5)
    assert _limits("-b", None, known) == (Limits(), None)


def test_options_become_wishes() -> None:
    found = Capturing(
        interface=["eth0"], write="x.pcapng", duration=60.0, ring=["filesize:1MB", "files:3"], compress="zstd",
        autostop=["duration:30", "messages:5"], buffer=16, spool="1GiB", snaplen=96, promiscuous=False, full_disk="pause", wait=True,
    ).interfaces()  # fmt: skip
    wishes = found.order(None)
    assert (wishes.each, wishes.stop) == (Limits(size=1_000_000, files=3), Limits(seconds=30))
    assert (wishes.buffer_bytes, wishes.snaplen, wishes.is_promiscuous) == (16 << 20, 96, False)
    assert (wishes.pauses_when_full, wishes.waits, wishes.user) == (True, True, None)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"compress": "zstd"}, "--compress: is for the files of -b"),
        ({"tcpdump": "sudo tcpdump"}, "--tcpdump: is for --ssh; name a host"),
        ({"ssh": " "}, "--ssh: is empty; name a host"),
    ],
)
def test_options_that_need_another_are_refused_without_it(
    options: dict[str, str], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        Capturing(interface=["eth0"], **options).interfaces()  # type: ignore[arg-type] # as the command line gives them
