"""The bar on a real terminal."""

from __future__ import annotations

import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pexpect
import pytest

from tests.peers.truth import SAMPLES

pytestmark = pytest.mark.slow

TOUR = SAMPLES / "tour.pcapng"
BAR = re.compile(rb"reading .*?[\d.]+/\S+ [kM]?B")


def program(patience: float) -> str:
    """The program for a shell, with less patience before it shows a bar, or more."""
    code = (
        "import sys; from dcpinspect.cli import main, progress; progress.PATIENCE = "
        f"{patience}; sys.exit(main.main(sys.argv[1:]))"
    )
    return shlex.join([sys.executable, "-c", code])


@contextmanager
def fed(path: Path, wait: Callable[[], object]) -> Iterator[Path]:
    """A capture whose second half comes after a while."""
    os.mkfifo(path)

    def feed() -> None:
        data = TOUR.read_bytes()
        with (
            suppress(BrokenPipeError),
            path.open("wb", buffering=0) as pipe,
        ):  # who is interrupted reads no more
            pipe.write(data[:50_000])
            wait()
            pipe.write(data[50_000:])

    feeder = threading.Thread(target=feed)
    feeder.start()
    yield path
    feeder.join(20)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Path]:
    """A capture that takes a second to read."""
    with fed(tmp_path / "slow.pcapng", lambda: time.sleep(1)) as path:
        yield path


def shown(command: str) -> bytes:
    """What a terminal is sent while a command runs in a shell; it must succeed."""
    child = pexpect.spawn(
        "bash", ["-c", f"set -o pipefail; {command}"], dimensions=(24, 100), timeout=60
    )
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    printed: bytes = child.before
    return printed


@pytest.mark.parametrize("how", ["-o {out}.csv", "> {out}.txt"])
def test_what_takes_long_has_a_bar_that_leaves_nothing(how: str, tmp_path: Path) -> None:
    more = threading.Event()
    with fed(tmp_path / "slow.pcapng", lambda: more.wait(60)) as slow:
        child = pexpect.spawn(
            "bash",
            ["-c", f"{program(0.1)} read {slow} {how.format(out=tmp_path / 'out')}"],
            timeout=60,
        )
        child.expect(BAR)
        more.set()
        child.expect(pexpect.EOF)
        child.close()
    assert child.exitstatus == 0
    assert child.before.endswith(b"\x1b[2K")  # the line is empty again
    (result,) = tmp_path.glob("out.*")
    assert b"\x1b" not in result.read_bytes()


@pytest.mark.parametrize(
    "how",
    [
        "",  # lines on this very terminal
        "-f csv --columns row | cat",  # may be a pager
        "-o {out}.csv 2> {out}.err",
        "-o {out}.csv 2> >(cat)",
    ],
)
def test_where_it_would_disturb_there_is_none(how: str, slow: Path, tmp_path: Path) -> None:
    assert not BAR.search(shown(f"{program(0.1)} read {slow} {how.format(out=tmp_path / 'out')}"))


def test_a_terminal_that_can_do_nothing_has_none(slow: Path, tmp_path: Path) -> None:
    assert shown(f"TERM=dumb {program(0.1)} read {slow} -o {tmp_path / 'out.csv'}") == b""


def test_what_is_quick_has_none(tmp_path: Path) -> None:
    """Quick is what ends before patience does, which here no machine is too slow for."""
    assert shown(f"{program(60)} read {TOUR} -n 1 -o {tmp_path / 'out.csv'}") == b""


def test_it_tells_how_much_of_a_file_how_fast_and_how_much_longer() -> None:
    code = (
        "import time; from dcpinspect.cli import progress as p; p.PATIENCE = 0; steps = "
        "iter(range(0, 100_000_001, 1_000_000))\n"
        "with p.progress('reading', lambda: next(steps), 100_000_000, wanted=True): time.sleep(3)"
    )
    printed = shown(f'{sys.executable} -c "{code}"')
    assert re.search(rb"reading .*\d\.\d/100\.0 MB\S* \S*1?\d\.\d MB/s\S* \S*0:00:\d\d", printed)


def test_ctrl_c_takes_the_bar_away(tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    more = threading.Event()
    with fed(tmp_path / "slow.pcapng", lambda: more.wait(60)) as slow:
        arguments = ["-m", "dcpinspect", "read", str(slow), "-o", str(path)]
        child = pexpect.spawn(
            sys.executable,
            arguments,
            dimensions=(24, 400),
            timeout=60,
            env={**os.environ, "COLUMNS": "400"},
        )
        child.expect(rb"reading ")
        child.sendintr()
        child.expect(pexpect.EOF)
        child.close()
        more.set()
    assert child.exitstatus == 0
    assert child.before.endswith(b"\x1b[2K")


def test_steps_that_somebody_else_counts_are_shown_by_what_they_are() -> None:
    code = (
        "from dcpinspect.cli.progress import StepProgress\nwith StepProgress() as steps: "
        "steps.show('reading', 1, 4); steps.show('following', 2, 3)"
    )
    printed = shown(f'{sys.executable} -c "{code}"')
    assert re.search(rb"following .*2/3", printed)
    assert shown(f'TERM=dumb {sys.executable} -c "{code}"') == b""
