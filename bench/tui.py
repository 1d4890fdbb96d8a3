"""The terminal UI in a terminal: the whole program behind a pseudo-terminal, keys typed, what it
draws timed.

    python -m bench.tui [--messages 1000000,10000000] [--repeat 200] [--folder DIR]

A time ends when the last byte arrives that shows what was asked for: of a move the line of the row
that it leads to, of a filter the number of rows that it let through, of a view a text that only it
has. It has the program's own wait for the next frame in it, a sixtieth of a second at most. What it
drew before is read first, then a key is sent, one at a time. Memory is what the kernel calls
anonymous, so mapped pages do not count. Processor time is that of all threads; while reading, of
the one that draws.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pexpect

from bench.captures import VBUCKETS, make
from bench.read import BYTECODE, row

SIZE = (36, 120)
PATIENCE_S = 120
DOWN, RIGHT, PAGE_DOWN, HOME, END, ENTER, ESCAPE, FIND = (
    "\x1b[B",
    "\x1b[C",
    "\x1b[6~",
    "\x1b[H",
    "\x1b[F",
    "\r",
    "\x1b",
    "\x06",
)
LOADING = (
    "import sys; from pathlib import Path\n"
    "from dcpinspect.tui.inspection import Inspection\n"
    "inspection = Inspection([sys.argv[1]])\n"
    "inspection.load()\n"
    "from dcpinspect.arrays import give_back; give_back()\n"
    "print([line for line in Path('/proc/self/status').read_text().splitlines() if "
    "line.startswith('RssAnon')][0].split()[1])\n"
    "inspection.close()\n"
)
LIVE_RATE, LIVE_S = 20_000, 10


class Spent(NamedTuple):
    """Milliseconds by the clock, and of processor time, which other work on the machine changes
    least.
    """

    wall: float
    cpu: float


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.begin = time.perf_counter()
        environment = {**os.environ, **BYTECODE, "TERM": "xterm-256color"}
        command = [sys.executable, "-m", "dcpinspect", *arguments]
        self.child = pexpect.spawn(
            command[0],
            command[1:],
            dimensions=SIZE,
            env=environment,
            timeout=PATIENCE_S,
            maxread=1 << 16,
        )
        self.child.delaybeforesend = None

    def rest(self, seconds: float = 0.15) -> None:
        """Reads what was drawn until nothing came for so long."""
        with suppress(pexpect.TIMEOUT, pexpect.EOF):
            while True:
                self.child.read_nonblocking(1 << 16, timeout=seconds)

    def drawn_until(self, is_done: threading.Event) -> bytes:
        """Everything that is drawn until somebody says so."""
        seen = bytearray()
        while not is_done.is_set():
            with suppress(pexpect.TIMEOUT):
                seen += self.child.read_nonblocking(1 << 16, timeout=0.1)
        return bytes(seen)

    def type(self, keys: str) -> None:
        """Keys of which nothing is measured, with the time that somebody at a keyboard takes."""
        self.child.send(keys)
        self.rest(0.4)

    def wait(self, *patterns: str) -> float:
        """When the last of the patterns was drawn, each after the one before or in any order."""
        left = [re.compile(pattern.encode()) for pattern in patterns]
        seen = b""
        while True:
            left = [pattern for pattern in left if not pattern.search(seen)]
            if not left:
                return time.perf_counter()
            seen += self.child.read_nonblocking(1 << 16, timeout=PATIENCE_S)

    def timed(self, keys: str, *patterns: str) -> Spent:
        """From keys to what they have drawn."""
        begin, used = time.perf_counter(), self.cpu_ns()
        self.child.send(keys)
        return Spent(1000 * (self.wait(*patterns) - begin), (self.cpu_ns() - used) / 1e6)

    def status(self, name: str) -> int:
        """A number of what the kernel tells of the process, in KiB."""
        text = Path(f"/proc/{self.child.pid}/status").read_text()
        return int(re.findall(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[0])

    def cpu_ns(self, threads: str = "*") -> int:
        """Nanoseconds of processor time so far: of all threads, or of those with this number."""
        own = Path(f"/proc/{self.child.pid}/task").glob(f"{threads}/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in own)

    def cpu_s(self) -> float:
        """Seconds of processor time so far, also of threads that have ended."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def leave(self) -> None:
        """Ends the program."""
        self.child.send("q")
        self.child.expect(pexpect.EOF)
        self.child.close()


def at(number: int) -> str:
    """What shows that a row has been drawn: its number, then a blank."""
    return rf"(?<!\d){number} "


def told(job: str, times: Iterable[Spent], budget: str) -> None:
    """A row of the report."""
    times = list(times)
    wall, cpu = (sorted(getattr(one, name) for one in times) for name in ("wall", "cpu"))
    half, most = len(times) // 2, min(len(times) - 1, len(times) * 95 // 100)
    row(
        job,
        len(times),
        f"{wall[half]:,.0f} ms",
        f"{wall[most]:,.0f} ms",
        f"{cpu[half]:,.0f} ms",
        budget,
    )


def moves(terminal: Terminal, total: int, repeat: int) -> None:
    """Keys of the list of messages."""

    def each(
        job: str,
        keys: Callable[[int], str],
        places: Iterable[int],
        before: Callable[[int], Sequence[str]] | None = None,
    ) -> None:
        times = []
        for place in places:
            for typed in before(place) if before is not None else ():
                terminal.type(typed)
            terminal.rest()
            times.append(terminal.timed(keys(place), at(place)))
        told(job, times, "50 ms" if job != "a line down" else "30 ms")

    chosen = random.Random(1)  # noqa: S311 - not a secret
    terminal.child.send(HOME)
    each("a line down", lambda _: DOWN, range(2, repeat + 2))
    rows = [chosen.randrange(1000, total - 1000) for _ in range(repeat // 4)]
    each("jump to any row", lambda _: ENTER, rows, lambda place: (":", str(place)))
    each("to the end", lambda _: END, [total] * (repeat // 10), lambda _: (HOME,))
    terminal.child.send(HOME)
    terminal.rest()
    times = []
    for _ in range(repeat // 4):
        times.append(terminal.timed(PAGE_DOWN, rf"[\d,]+ of {total:,}"))
        terminal.rest()
    told("a page down", times, "50 ms")


def filters(terminal: Terminal, total: int) -> None:
    """Filters of all messages."""
    budget = "300 ms" if total > 5_000_000 else "50 ms"
    for text in (
        "vbucket = 417",
        "vbucket = 417 and name <> 'dcp_noop'",
        "key like '%999'",
        "name = 'dcp_deletion'",
    ):
        times = []
        for _ in range(5):
            for typed in ("/", text):
                terminal.type(typed)
            times.append(terminal.timed(ENTER, r"✔ [\d,]+ rows", r"[\d,]+ of [\d,]+ \("))
            terminal.child.send(ESCAPE)
            terminal.rest()
            terminal.child.send(ESCAPE)
            terminal.rest()
        told(f"`{text}`", times, budget)


def finds(terminal: Terminal, total: int) -> None:
    """What only one of the last messages has: its key, its number in bytes."""
    terminal.type(ESCAPE)
    last = f"order::{(total - 2 * (VBUCKETS + 2)) - 1:08}"
    for job, text in (
        ("a key", last),
        ("a pattern", f"/order.*{last[7:]}/"),
        ("bytes", f"x:{last.encode().hex()}"),
    ):
        terminal.child.send(HOME)
        for typed in (FIND, text):
            terminal.type(typed)
        told(
            f"find {job} of the last message",
            [terminal.timed(ENTER, f"is in row {total}")],
            "seconds" if total > 5_000_000 else "",
        )


def views(terminal: Terminal) -> None:
    """Each view, drawn anew; timelines of one vbucket after the other."""
    for job, before, keys, pattern in (
        ("all vbuckets", ("1",), "2", r"\d ended"),
        ("the timeline of the next one", ("2", RIGHT), ENTER, r"vb \d+ · \d+ stream"),
        ("its axis of time", ("a",), "d", "d: (time|seqnos)"),
        ("all vbuckets over time", ("2",), "|", "over time · "),
        ("findings", ("1",), "4", r"con \d"),
        ("statistics", ("1",), "5", r"messages in \d"),
    ):
        times = []
        for _ in range(5):
            for key in before:
                terminal.type(key)
            terminal.rest()
            times.append(terminal.timed(keys, pattern))
            if keys == "|":
                terminal.type("|")  # back to the map
        told(job, times, "")
    terminal.type("1")


def loading_memory(path: Path) -> int:
    """KiB that a process has that only keeps the messages and works things out."""
    environment = {**os.environ, **BYTECODE}
    output = pexpect.run(
        f"{sys.executable} -c {shlex.quote(LOADING)} {path}",
        env=environment,
        timeout=5 * PATIENCE_S,
    )
    return int(output.split()[-1])


def one_capture(path: Path, total: int, repeat: int) -> None:
    """Everything of one capture."""
    firsts, rows = [], []
    for _ in range(3):
        terminal = Terminal(["tui", str(path)])
        firsts.append(
            Spent(1000 * (terminal.wait("1 Packets") - terminal.begin), terminal.cpu_ns() / 1e6)
        )
        terminal.child.send("1")
        rows.append(
            Spent(
                1000 * (terminal.wait(r"hello|dcp_open") - terminal.begin) - firsts[-1].wall,
                terminal.cpu_ns() / 1e6 - firsts[-1].cpu,
            )
        )
        terminal.child.send("q")
        with suppress(pexpect.EOF, OSError):
            while True:
                terminal.child.read_nonblocking(1 << 16, timeout=PATIENCE_S)
        terminal.child.close()
    told("first paint", firsts, "800 ms")
    told("first rows after it", rows, "500 ms")

    terminal = Terminal(["tui", str(path)])
    terminal.wait("1 Packets")
    terminal.child.send("1")
    terminal.wait("hello|dcp_open")
    times, is_read = [], False
    done = rf"{total:,} messages  (\x1b\[[\d;]*m)*✖"
    for number in range(2, repeat):
        begin, used = time.perf_counter(), terminal.cpu_ns(str(terminal.child.pid))
        terminal.child.send(DOWN)
        seen = b""
        while not re.search(
            rb"\b%d of " % number if number < 1000 else rb"%d,\d+ of " % (number // 1000), seen
        ):
            seen += terminal.child.read_nonblocking(1 << 16, timeout=PATIENCE_S)
        is_read = is_read or re.search(done.encode(), seen) is not None
        if is_read:
            break
        times.append(
            Spent(
                1000 * (time.perf_counter() - begin),
                (terminal.cpu_ns(str(terminal.child.pid)) - used) / 1e6,
            )
        )
        time.sleep(0.03)
    told("a line down, while reading", times, "60 ms")
    if not is_read:
        terminal.wait(done)
    row(
        "everything read and worked out",
        1,
        f"{time.perf_counter() - terminal.begin:.1f} s",
        "",
        f"{terminal.cpu_s():.1f} s",
        "",
    )
    terminal.rest(0.5)
    memory = terminal.status("RssAnon")
    moves(terminal, total, repeat)
    filters(terminal, total)
    finds(terminal, total)
    views(terminal)
    row("memory, once read", 1, f"{memory / 1024:.0f} MiB", "", "", "600 MiB")
    row("memory, in the end", 1, f"{terminal.status('RssAnon') / 1024:.0f} MiB", "", "", "600 MiB")
    terminal.leave()
    row(
        "of it over the store",
        1,
        f"{(memory - loading_memory(path)) / 1024:.0f} MiB",
        "",
        "",
        "30 MiB",
    )


def live(path: Path, total: int, folder: Path) -> None:
    """A capture that grows while it is followed."""
    growing = folder / "growing.pcap"
    speed = path.stat().st_size * LIVE_RATE // total
    with path.open("rb") as whole:
        data = whole.read((1 << 20) + 2 * LIVE_S * speed)
    with growing.open("wb", buffering=0) as file:
        file.write(data[: 1 << 20])
        terminal = Terminal(["tui", "--follow", str(growing)])
        terminal.wait("hello|dcp_open")
        terminal.child.send(END)
        seen = [b""]
        is_done = threading.Event()
        reader = threading.Thread(target=lambda: seen.append(terminal.drawn_until(is_done)))
        drawing = str(terminal.child.pid)  # the first thread
        begin, used, all_used, place = (
            time.perf_counter(),
            terminal.cpu_ns(drawing),
            terminal.cpu_ns(),
            1 << 20,
        )
        reader.start()
        while (passed := time.perf_counter() - begin) < LIVE_S:
            until = min(len(data), (1 << 20) + int(passed * speed))
            file.write(data[place:until])
            place = until
            time.sleep(0.02)
        share = (terminal.cpu_ns(drawing) - used) / passed / 1e9
        all_share = (terminal.cpu_ns() - all_used) / passed / 1e9
    row(
        f"live, {LIVE_RATE:,} messages a second: drawing",
        1,
        "",
        "",
        f"{share:.0%} of a core",
        "25 %",
    )
    row("the same: everything", 1, "", "", f"{all_share:.0%} of a core", "")
    is_done.set()
    reader.join()
    rows = [
        int(number.replace(b",", b"")) for number in re.findall(rb"([\d,]+) of [\d,]+", seen[-1])
    ]
    row(
        "the same: rows that the cursor came to",
        len(set(rows)),
        f"{rows[0]:,} to {rows[-1]:,}",
        "",
        "",
        "",
    )
    terminal.child.kill(signal.SIGTERM)
    terminal.child.close(force=True)
    growing.unlink()


def main() -> None:
    """Make the captures, run the program on them, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", default="1000000,10000000")
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "dcpinspect-bench"
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for number, size in enumerate(int(text) for text in arguments.messages.split(",")):
        path = arguments.folder / f"{size}.pcap"
        total = make(path, size)
        sys.stdout.write(f"\n{total:,} messages\n\n")
        row("what", "times", "median", "95 %", "processor", "budget")
        row(*["---"] * 6)
        one_capture(path, total, arguments.repeat)
        if not number:
            live(path, total, arguments.folder)


if __name__ == "__main__":
    main()
