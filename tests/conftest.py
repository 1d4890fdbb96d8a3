"""What every test shares: a frozen environment, golden files, and tools that may be missing."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

GOLDEN = Path(__file__).parent / "golden"

# Before anything reads them; programs that tests start inherit them.
os.environ.update(TZ="UTC", LC_ALL="C.UTF-8", COLUMNS="120", LINES="40", TERM="xterm-256color", DCPINSPECT_CONFIG=os.devnull)
for name in ("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "_DCPINSPECT_COMPLETE", "TYPER_USE_RICH"):
    os.environ.pop(name, None)
time.tzset()

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)  # deadline: a busy machine is no failure
hypothesis.settings.register_profile("deep", deadline=None, max_examples=10_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files of tests/golden from what the program prints now")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("requires"):
        (tool,) = marker.args
        if shutil.which(tool) is None:
            reason = f"needs {tool}, which is not installed"
            if os.environ.get("CI"):
                pytest.fail(reason + "; CI installs it", pytrace=False)
            pytest.skip(reason)


@pytest.fixture(autouse=True)
def _kernels_are_made_again() -> Iterator[None]:
    """A live capture makes no machine code from then on, which is for its process, not for the tests that come after."""
    yield
    if (kernel := sys.modules.get("dcpinspect.kernel")) is not None:
        kernel._state["numba"] = 1


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden("read.txt", text)`` compares text with tests/golden/read.txt."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert path.exists(), f"no golden file {name}: run pytest --update-golden, and read what it writes"
        assert text == path.read_text("utf-8")

    return compare
