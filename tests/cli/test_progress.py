"""The bar on a real terminal."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pexpect
import pytest

from dcpinspect.cli.progress import PATIENCE
from tests.peers.truth import SAMPLES

TOUR = SAMPLES / "tour.pcapng"
DCPINSPECT = f"{sys.executable} -m dcpinspect"
BAR = re.compile(rb"reading .*?[\d.]+/\S+ [kM]?B")


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Path]:
    """A capture that takes a second and a half longer than patience to read."""
    path = tmp_path / "slow.pcapng"
    os.mkfifo(path)

    def feed() -> None:
        data = TOUR.read_bytes()
        with suppress(BrokenPipeError), path.open("wb", buffering=0) as pipe:  # who is interrupted reads no more
            pipe.write(data[:50_000])
            time.sleep(PATIENCE + 1.5)
            pipe.write(data[50_000:])

    feeder = threading.Thread(target=feed)
    feeder.start()
    yield path
    feeder.join(20)


def shown(command: str) -> bytes:
    """What a terminal is sent while a command runs in a shell; it must succeed."""
    child = pexpect.spawn("bash", ["-c", f"set -o pipefail; {command}"], dimensions=(24, 100), timeout=60)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    printed: bytes = child.before
    return printed


@pytest.mark.parametrize("how", ["-o {out}.csv", "> {out}.txt"])
def test_what_takes_long_has_a_bar_that_leaves_nothing(how: str, slow: Path, tmp_path: Path) -> None:
    printed = shown(f"{DCPINSPECT} read {slow} {how.format(out=tmp_path / 'out')}")
    assert BAR.search(printed)
    assert printed.endswith(b"\x1b[2K")  # the line is empty again
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
    assert not BAR.search(shown(f"{DCPINSPECT} read {slow} {how.format(out=tmp_path / 'out')}"))


def test_a_terminal_that_can_do_nothing_has_none(slow: Path, tmp_path: Path) -> None:
    assert shown(f"TERM=dumb {DCPINSPECT} read {slow} -o {tmp_path / 'out.csv'}") == b""


def test_what_is_quick_has_none(tmp_path: Path) -> None:
    """Quick is what ends before patience does, which here no machine is too slow for."""
    program = "import sys; from dcpinspect.cli import main, progress; progress.PATIENCE = 60; sys.exit(main.main(sys.argv[1:]))"
    assert shown(f'{sys.executable} -c "{program}" read {TOUR} -n 1 -o {tmp_path / "out.csv"}') == b""


def test_it_tells_how_much_of_a_file_how_fast_and_how_much_longer() -> None:
    program = (
        "import time; from dcpinspect.cli import progress as p; p.PATIENCE = 0; steps = iter(range(0, 100_000_001, 1_000_000))\n"
        "with p.progress('reading', lambda: next(steps), 100_000_000, wanted=True): time.sleep(3)"
    )
    printed = shown(f'{sys.executable} -c "{program}"')
    assert re.search(rb"reading .*\d\.\d/100\.0 MB\S* \S*1?\d\.\d MB/s\S* \S*0:00:\d\d", printed)


def test_ctrl_c_takes_the_bar_away(slow: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    child = pexpect.spawn(sys.executable, ["-m", "dcpinspect", "read", str(slow), "-o", str(path)], dimensions=(24, 200), timeout=60)
    child.expect(rb"reading ")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert child.before.endswith(f"\x1b[2Kdcpinspect: interrupted; {path} has what was read until then\r\n".encode())


def test_steps_that_somebody_else_counts_are_shown_by_what_they_are() -> None:
    program = "from dcpinspect.cli.progress import Steps\nwith Steps() as steps: steps.show('reading', 1, 4); steps.show('following', 2, 3)"
    printed = shown(f'{sys.executable} -c "{program}"')
    assert re.search(rb"following .*2/3", printed)
    assert shown(f'TERM=dumb {sys.executable} -c "{program}"') == b""
