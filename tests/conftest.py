"""What every test shares: a frozen environment, golden files, and tools that may be missing."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.forked import Forked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parent / "golden"
os.umask(UMASK := os.umask(0o077))

# Before anything reads them; programs that tests start inherit them.
os.environ.update(
    TZ="UTC",
    LC_ALL="C.UTF-8",
    COLUMNS="120",
    LINES="40",
    TERM="xterm-256color",
    DCPINSPECT_CONFIG=os.devnull,
    XDG_STATE_HOME=os.devnull,
)
for name in (
    "NO_COLOR",
    "FORCE_COLOR",
    "PY_COLORS",
    "_DCPINSPECT_COMPLETE",
    "TYPER_USE_RICH",
    "PYTHONDONTWRITEBYTECODE",
):
    os.environ.pop(name, None)
# hundreds of programs that tests start would each compile the modules, which takes up to 0.3 s
sys.dont_write_bytecode = False
time.tzset()
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in the background of a script; programs that tests start inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=50
)  # deadline: a busy machine is no failure
hypothesis.settings.register_profile("deep", deadline=None, max_examples=10_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files of tests/golden from what the program prints now",
    )
    parser.addoption(
        "--processes",
        type=int,
        default=1,
        help="run the tests in so many processes, which are forked when all are collected",
    )
    parser.addoption(
        "--share",
        metavar="K/N",
        help="run only the test files of share K of N; every file is in one share",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.processes > 1:
        config.pluginmanager.register(Forked(config.option.processes))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves one share of the test files: CI has no time for all slow tests on each commit."""
    if config.option.share:
        share, shares = map(int, config.option.share.split("/"))
        left = [
            item
            for item in items
            if zlib.crc32(item.nodeid.partition("::")[0].encode()) % shares == share % shares
        ]
        rest = set(items) - set(left)
        config.hook.pytest_deselected(items=[item for item in items if item in rest])
        items[:] = left


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compiles the kernels that have changed: with the library of other sources, the tests would
    prove nothing of machine code.
    """
    if session.config.option.collectonly:
        return
    # in another process: what is loaded once stays, also if it is replaced
    looked = "from dcpinspect.kernels import library; library.found()"
    if subprocess.run([sys.executable, "-c", looked], capture_output=True, check=False).returncode:
        subprocess.run([sys.executable, "-m", "dcpinspect.kernels.build"], check=True)


gc.disable()  # until all is collected, which makes millions of objects and hardly any garbage


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run of tests with a mark needs no file without: collecting all takes it as long as a tenth
    of its tests.
    """
    mark = str(config.option.markexpr).partition(" ")[0]
    is_test = collection_path.name.startswith("test_") and mark in ("spark", "slow", "deep")
    return (
        True
        if is_test and f"pytest.mark.{mark}" not in collection_path.read_text("utf-8")
        else None
    )


def pytest_collection_finish() -> None:
    """Leaves what was collected, millions of objects, out of every garbage collection that comes;
    they are as rare as in the program.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_runtest_setup(item: pytest.Item) -> None:
    tools = [tool for marker in item.iter_markers("requires") for tool in marker.args]
    if item.get_closest_marker("spark") is not None:
        tools.append("java")
    for tool in tools:
        if shutil.which(tool) is None:
            reason = f"needs {tool}, which is not installed"
            if os.environ.get("CI"):
                pytest.fail(reason + "; CI installs it", pytrace=False)
            pytest.skip(reason)


def pytest_runtest_teardown() -> None:
    """Takes back what a command has decided for the rest of its process, which is not that of the
    tests that come after.
    """
    if (keylog := sys.modules.get("dcpinspect.transport.tls.keylog")) is not None:
        keylog.command_secrets.choose(
            []
        )  # with one, each connection of TLS is searched for with all its secrets, which takes seconds
    if (rights := sys.modules.get("dcpinspect.capture.rights")) is not None:
        vars(rights).update(_withheld=0)
    if (bounded := sys.modules.get("dcpinspect.output.export.bounded")) is not None:
        bounded.command_bound.set(None)
    os.umask(UMASK)  # what a command writes is as private as its captures


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark, with two processors, for the whole run; starting it takes seconds. Tests that use it
    are marked ``spark``.
    """
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession  # deferred: few tests need it

    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        # a run of a minute is not worth more
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(
            tmp_path_factory.mktemp("warehouse")
        ),  # else one is made where the tests run
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden("read.txt", text)`` compares text with tests/golden/read.txt."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert path.exists(), (
            f"no golden file {name}: run pytest --update-golden, and read what it writes"
        )
        assert text == path.read_text("utf-8")

    return compare
