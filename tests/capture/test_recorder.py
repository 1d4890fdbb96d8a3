"""The parts of the recorder that need no interface; tests/capture/test_live.py has the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from dcpinspect.capture.recorded_files import Limits
from dcpinspect.capture.recorder import RecordingOrder, _ReportPipe


def test_wishes_come_to_the_process_as_they_were() -> None:
    wishes = RecordingOrder(
        ("eth0", "a\x1b"),
        (11_210,),
        "/x y",
        each=Limits(1, 2.5, 3, 4),
        stop=Limits(seconds=1),
        is_spool=True,
        user="me",
    )
    assert RecordingOrder.from_json(wishes.to_json()) == wishes
    assert RecordingOrder.from_json(RecordingOrder(("any",), None, "p").to_json()).ports is None


def lines(descriptor: int) -> list[bytes]:
    os.set_blocking(descriptor, False)
    found = b""
    while True:
        try:
            got = os.read(descriptor, 1 << 20)
        except BlockingIOError:
            break
        if not got:
            break
        found += got
    return found.splitlines()


def test_a_reader_that_takes_nothing_stops_nobody_and_loses_no_line() -> None:
    reader, writer = os.pipe()
    told = _ReportPipe(writer)
    for number in range(100_000):
        told.wake()
        if number % 1000 == 0:
            told.send(number=number)
            told.state(packets=number)
    numbers = []
    for _ in range(100):
        numbers += [json.loads(line) for line in lines(reader) if line]
        told.flush()
    assert [one["number"] for one in numbers if "number" in one] == list(range(0, 100_000, 1000))
    os.close(reader)
    told.send(nobody=True)  # the reader is gone
    os.close(writer)


def test_what_cannot_be_captured_is_said_in_a_line_of_json() -> None:
    wishes = RecordingOrder(("nope",), None, "/tmp/never")  # noqa: S108 - it is not made
    command = [sys.executable, "-m", "dcpinspect.capture.recorder", wishes.to_json()]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    said, end = map(json.loads, done.stdout.splitlines())
    assert end == {"end": True}
    assert said["error"] == "UsageError"
    assert said["arguments"][0].startswith("-i nope: there is no such interface; ")
    assert done.stderr == ""
