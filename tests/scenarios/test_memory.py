"""What a user reads where memory, or the machine code that needs it, is not to be had."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dcpinspect.errors import memory_ended

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[2] / "sample_captures"
LARGE = str(SAMPLES / "large.pcapng.gz")
COMMANDS = (
    ("check", LARGE),
    ("export", LARGE, "-o", "out.parquet"),
    ("sql", LARGE, "select name, count(*) from messages group by name"),
    ("report", LARGE, "-o", "out.html"),
    ("diff", LARGE, str(SAMPLES / "tour.pcapng"), "-o", "out.json"),
)


def ran(
    folder: Path,
    arguments: tuple[str, ...],
    *,
    most: int = resource.RLIM_INFINITY,
    **variables: str,
) -> tuple[int, str, str]:
    """Runs a command with so many bytes of address space; returns its status and what it
    printed.
    """
    environment: Mapping[str, str] = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-m", "dcpinspect", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: words[0])
def test_memory_that_ends_is_one_line_and_no_file(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    status, _, err = ran(tmp_path, arguments, most=210 << 20)
    assert (status, "Traceback" in err) == (2, False), err
    assert err.splitlines()[-1].startswith("dcpinspect: memory has ended")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "limits"),
    [
        (COMMANDS[0], range(100, 220, 4)),
        (COMMANDS[1], range(220, 400, 8)),
        (COMMANDS[2], range(436, 468, 4)),
        (("diff", str(SAMPLES / "lossy.pcap"), LARGE), range(440, 520, 8)),
    ],
    ids=["check", "export", "sql", "diff"],
)
def test_at_no_limit_a_library_ends_the_process_by_itself(
    arguments: tuple[str, ...], limits: range, tmp_path: Path
) -> None:
    """OpenBLAS would with status 1, which is that of findings, Arrow with 134 and a file that
    stays, and threads of DuckDB with 127 or a core.
    """
    said: set[str] = set()
    for most in limits:
        status, _, err = ran(tmp_path, arguments, most=most << 20)
        assert (status, err.count("memory has ended")) in ((0, 0), (2, 1)), (most, err)
        said.add(err.partition("memory has ended (")[2].partition(" more were")[0])
        assert {path.name for path in tmp_path.iterdir()} <= (
            {"out.parquet"} if status == 0 else set()
        )
    assert said & {"96 MiB", "240 MiB", "320 MiB"}


@pytest.mark.parametrize(
    ("allocate", "asked"),
    [
        (lambda: np.empty(1 << 50, np.uint8), "(1.00 PiB more were asked for)"),
        (lambda: np.empty(500 << 40, np.uint8), "(500 TiB more were asked for)"),
        (lambda: pa.allocate_buffer(1 << 50), str(1 << 50)),
    ],
)
def test_the_line_says_how_much_was_asked_for(allocate: Callable[[], object], asked: str) -> None:
    with pytest.raises(MemoryError) as raised:
        allocate()
    assert asked in (memory_ended(raised.value) or "")


def test_a_library_that_gets_no_thread_is_one_line() -> None:
    error = pa.lib.ArrowException("Unknown error: Failed to launch worker thread: Resource …")
    assert (memory_ended(error) or "").startswith("memory has ended")
