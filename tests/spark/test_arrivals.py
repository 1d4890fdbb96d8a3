from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.spark.arrivals import Arrivals

MAGIC = bytes.fromhex("d4c3b2a1")


def arrivals(
    folder: Path, *names: Path | str, tell: Callable[[str], None] = lambda _: None
) -> Arrivals:
    return Arrivals(
        [str(one) for one in names or (folder,)],
        without=str(folder / "out"),
        settle_s=5,
        growing_s=60,
        tell=tell,
    )


def grow(path: Path, text: bytes = MAGIC) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_a_file_is_ready_once_nobody_writes_to_it_any_more(tmp_path: Path) -> None:
    looking, path = arrivals(tmp_path), tmp_path / "one.pcap"
    assert looking.ready(0) == []
    grow(path)
    assert looking.ready(1) == []
    grow(path)
    assert looking.ready(5) == []
    assert looking.ready(9.9) == []
    assert looking.ready(10) == [str(path)]
    looking.note([str(path)], 11)
    assert looking.ready(1000) == []


def test_a_file_that_never_rests_is_read_now_and_then(tmp_path: Path) -> None:
    looking, path, read = arrivals(tmp_path), tmp_path / "one.pcap", []
    for now in range(0, 200, 4):
        grow(path)
        if looking.ready(now):
            looking.note([str(path)], now)
            read.append(now)
    assert read == [60, 120, 180]


def test_a_ring_that_uses_a_name_again_brings_a_new_capture(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    grow(path)
    os.utime(path, (1, 1))
    looking = arrivals(tmp_path)
    assert looking.ready(0) == [str(path)]  # it has rested for long
    looking.note([str(path)], 0)
    path.write_bytes(MAGIC)
    assert looking.ready(10) == []
    assert looking.ready(15) == [str(path)]


def test_only_captures_count_and_each_once_and_no_output(tmp_path: Path) -> None:
    for name in ("b.pcap", "a.pcapng", "notes.txt", "out/c.pcap", ".hidden.pcap"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        grow(tmp_path / name, b"x")
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "link.pcap").symlink_to(tmp_path / "b.pcap")
    os.mkfifo(tmp_path / "pipe.pcap")
    found = arrivals(tmp_path, tmp_path, tmp_path / "*.pcap", tmp_path / "b.pcap").ready(
        time.monotonic()
    )
    assert sorted(found) == [str(tmp_path / "a.pcapng"), str(tmp_path / "b.pcap")]


def test_what_is_no_file_is_named_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.pcap")
    (tmp_path / "b.pcap").symlink_to("/dev/zero")
    (tmp_path / "c.pcap").symlink_to(tmp_path / "nowhere")
    told: list[str] = []
    looking = arrivals(tmp_path, tell=told.append)
    assert [looking.ready(now) for now in (0, 100)] == [[], []]
    assert told == [
        f"{tmp_path}/a.pcap: left out, for it is a pipe, socket or device",
        f"{tmp_path}/b.pcap: left out, for it is a pipe, socket or device",
        f"{tmp_path}/c.pcap: left out, for it is a link to a file that is not there",
    ]
    grow(tmp_path / "nowhere")
    assert looking.ready(200) == []
    assert looking.ready(300) == [str(tmp_path / "nowhere")], "it came later"


def test_a_name_that_is_not_there_is_refused_and_a_pattern_is_not(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere: is missing; name directories"):
        arrivals(tmp_path, tmp_path / "nowhere")
    looking = arrivals(tmp_path, f"{tmp_path}/*.pcap")
    assert looking.ready(0) == []
    grow(tmp_path / "one.pcap")
    looking.ready(1)
    assert looking.ready(6) == [str(tmp_path / "one.pcap")]
