"""How the fuzzer searches: what it reads, how it changes an input, what bounds an execution, how a
find is made smaller and kept.
"""

from __future__ import annotations

import hashlib
import random
import resource
import signal
import time
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import captures, conversations, framer, keys, outputs, texts, tls

CORPUS = Path(__file__).parent / "corpus"
"""A folder for each target, a file for each find."""
SECONDS = 5
"""Of processor time, for what takes a hundredth of one."""
MEMORY = 1 << 30
"""Bytes that an execution may take beside what there is."""
LONGEST = 1024
SHRINKING_S = 30
"""By the clock, to make a find smaller."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads bytes."""

    check: Callable[[bytes], set[Hashable]]
    """Raises if it is not read as it should be; else returns what there was to see, so that new
    things are noticed.
    """
    make: Callable[[random.Random], bytes]
    """An input to begin with."""
    check_all: Callable[[Sequence[bytes]], list[set[Hashable]]] | None = None
    """``check`` for many at once, where they share what takes most of the time."""
    joined: Callable[[Sequence[bytes]], bytes] = b"".join
    """One input for these."""
    at_once: int = 1
    """So many."""
    seconds: float = SECONDS
    """Of processor time, for these."""


TARGETS = {
    "framing": Target(framer.check, framer.program),
    "packets": Target(
        captures.check_packets, captures.small, captures.check_together, captures.joined, 96
    ),
    "files": Target(
        captures.check_file, captures.file, captures.check_files, captures.joined_files, 24
    ),
    "messages": Target(
        conversations.check,
        conversations.program,
        conversations.check_all,
        conversations.joined,
        192,
    ),
    "tls": Target(tls.check, tls.program),
    "filters": Target(texts.check_filter, texts.sentence),
    "logs": Target(texts.check_log, texts.program),
    "reports": Target(
        outputs.check_report, conversations.program, outputs.check_reports, conversations.joined, 48
    ),
    "exports": Target(
        outputs.check_file, conversations.program, outputs.check_files, conversations.joined, 64
    ),
    "keys": Target(keys.check, keys.program, keys.check_all, keys.joined, 24, 60),
}


class Overrun(BaseException):
    """It took too long; no code under test may catch it."""


def _overrun(*_: object) -> None:
    raise Overrun


@contextmanager
def bounded(seconds: float = SECONDS) -> Iterator[None]:
    """Time and memory are limited meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    handler = signal.signal(signal.SIGVTALRM, _overrun)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


class Search:
    """The state of one: inputs of which something new came, and what was seen."""

    def __init__(self, target: Target, rng: random.Random) -> None:
        self.seen: set[Hashable] = set()
        self.count = 0
        self._target = target
        self._rng = rng
        self._pool: list[bytes] = []

    def step(self) -> bytes | None:
        """One execution, or some at once; the input, if it is a find."""
        target = self._target
        inputs = [self._next() for _ in range(target.at_once)]
        self.count += len(inputs)
        try:
            with bounded(target.seconds):
                seen = (
                    [target.check(inputs[0])]
                    if target.check_all is None
                    else target.check_all(inputs)
                )
        except (Exception, Overrun):
            return next(
                (data for data in inputs if failure(target, data) is not None),
                target.joined(inputs),
            )
        for data, things in zip(inputs, seen, strict=True):
            if not things <= self.seen:
                self.seen |= things
                self._pool.append(data)
        return None

    def _next(self) -> bytes:
        """An input that was not tried yet."""
        rng = self._rng
        is_new = not self._pool or rng.random() < 0.2
        data = self._target.make(rng) if is_new else rng.choice(self._pool)
        if not is_new or rng.random() < 0.5:
            data = changed(data, rng, self._pool)
        return data


_VALUES = (
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\1\0\0\0",
    b"\0\0\0\1",
)


def changed(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """With a few bytes written over, put in, taken away, doubled, or brought from another input."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(made) + 1)
        end = at + rng.choice((1, 1, 2, 4, 8, 16, 64))
        match rng.randrange(6):
            case 0:
                made[at : at + 1] = rng.randbytes(1)
            case 1:
                value = rng.choice(_VALUES)
                made[at : at + len(value)] = value
            case 2:
                del made[at:end]
            case 3:
                made[at:at] = made[at:end]
            case 4:
                made[at:at] = rng.randbytes(rng.randrange(1, 5))
            case _ if others:
                other = rng.choice(others)
                begin = rng.randrange(len(other) + 1)
                made[at:end] = other[begin : begin + end - at]
    return bytes(made[:LONGEST])


def failure(target: Target, data: bytes) -> BaseException | None:
    """What it raises."""
    try:
        with bounded(target.seconds):
            target.check(data)
    except (Exception, Overrun) as error:
        return error
    return None


def shrunk(target: Target, data: bytes, place: str) -> bytes:
    """As little of it as still fails there."""
    size, end = len(data) // 2, time.monotonic() + SHRINKING_S
    while size:
        at = 0
        while at < len(data) and time.monotonic() < end:
            less = data[:at] + data[at + size :]
            error = failure(target, less)
            if (
                error is not None
                and "".join(traceback.format_tb(error.__traceback__)[-1:]) == place
            ):
                data = less
            else:
                at += size
        size = size // 2 if time.monotonic() < end else 0
    return data


def keep(name: str, data: bytes) -> Path:
    """Writes it where the test of finds looks."""
    path = CORPUS / name / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
