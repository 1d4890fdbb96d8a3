"""What a start loads. The import contracts see the static graph only, not what functions import
while they run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "dcpinspect"

HEAVY = {"duckdb", "numba", "numpy", "pyarrow", "pydantic", "pyspark", "rich", "scapy", "textual"}
FOR_PEOPLE = {"pyspark", "rich", "scapy", "textual", "typer"}


def modules_after(code: str) -> set[str]:
    """What a fresh interpreter has loaded after running the code."""
    report = (
        f"import sys, json\n{code}\nsys.__stdout__.write('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def loaded_by(code: str) -> set[str]:
    """The top-level modules of it."""
    return {name.partition(".")[0] for name in modules_after(code)}


def modules_below_cli() -> list[str]:
    """All but the terminal UI, and what is imported by whoever wants Scapy or has Spark: their own
    classes have to be there.
    """
    paths = (path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py"))
    names = sorted(".".join(path.parts) for path in paths if path.name != "__main__")
    above = (
        "dcpinspect.cli.",
        "dcpinspect.scapy_layer.",
        "dcpinspect.spark.data_source.",
        "dcpinspect.spark.source_stream.",
        "dcpinspect.tui.",
    )
    return [name.removesuffix(".__init__") for name in names if not f"{name}.".startswith(above)]


def test_the_package_itself_loads_nothing() -> None:
    assert loaded_by("import dcpinspect") & (HEAVY | {"typer"}) == set()


def test_nothing_below_cli_loads_what_is_for_people() -> None:
    names = modules_below_cli()
    assert "dcpinspect.reading.engine" in names
    assert (
        loaded_by(f"from importlib import import_module\nfor name in {names}: import_module(name)")
        & FOR_PEOPLE
        == set()
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    assert (
        loaded_by(f"from dcpinspect.cli.main import main\nassert main({arguments}) == 0") & HEAVY
        == set()
    )


@pytest.mark.parametrize("command", sorted(path.stem for path in (PACKAGE / "cli").glob("*.py")))
def test_importing_a_command_loads_nothing_heavy(command: str) -> None:
    """So that completing its options is as quick as --help."""
    assert loaded_by(f"import dcpinspect.cli.{command}") & HEAVY == set()


def test_read_starts_without_what_small_captures_never_need() -> None:
    sample = PACKAGE.parent / "sample_captures" / "tour.pcapng"
    loaded = loaded_by(
        f"from dcpinspect.cli.main import main\nassert main(['read', {str(sample)!r}]) == 0"
    )
    unneeded = {
        "duckdb",
        "http",
        "llvmlite",
        "logging",
        "numba",
        "platformdirs",
        "pyarrow",
        "pyspark",
        "rich",
        "scapy",
        "secrets",
        "ssl",
        "textual",
    }
    assert loaded & unneeded == set()


@pytest.mark.parametrize(("arguments", "most"), [("--help", 11), ("read", 172), ("check", 288)])
def test_a_start_loads_few_of_our_modules(arguments: str, most: int) -> None:
    """Each takes a millisecond or more, and adds up: a module that a command does not always need
    is imported where it is needed.
    """
    sample = (
        [] if arguments == "--help" else [str(PACKAGE.parent / "sample_captures" / "rollback.pcap")]
    )
    code = f"from dcpinspect.cli.main import main\nassert main({[arguments, *sample]}) == 0"
    loaded = modules_after(code)
    assert len([name for name in loaded if name.startswith("dcpinspect")]) <= most
    assert "numpy.ma" not in loaded  # np.unique, and np.isin of a list without numbers, import it


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_the_program_starts_no_thread_but_that_which_watches_for_signals() -> None:
    code = (
        "import atexit, os, sys; from dcpinspect.__main__ import run\n"
        "atexit.register(lambda: sys.stderr.write(f\"{len(os.listdir('/proc/self/task'))} "
        "{'numpy' in sys.modules}\"))\n"
        "sys.argv = ['dcpinspect', 'read', "
        f"{str(PACKAGE.parent / 'sample_captures' / 'tour.pcapng')!r}]; run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "2 True"
    assert done.stdout.splitlines()[-1]


def test_a_filter_loads_duckdb_and_nothing_for_people() -> None:
    sample = PACKAGE.parent / "sample_captures" / "tour.pcapng"
    code = (
        "import atexit, sys; from dcpinspect.__main__ import run\n"
        "atexit.register(lambda: sys.stderr.write(' '.join(sys.modules)))\n"
        f"sys.argv = ['dcpinspect', 'read', {str(sample)!r}, '--filter', 'row = 1']; run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    # Arrow itself would load pandas where there is one, to ask whether what it is handed comes from
    # there.
    assert loaded & {"duckdb", "numba", "pandas", "pyspark", "rich", "scapy", "textual"} == {
        "duckdb"
    }


def test_the_terminal_ui_starts_without_what_it_may_never_need() -> None:
    """And without what only shows messages need: these are read once the first picture is on the
    screen.
    """
    loaded = modules_after(
        "import dcpinspect.cli.tui, dcpinspect.capture.open, dcpinspect.tui.app, "
        "dcpinspect.tui.inspection, dcpinspect.tui.opening"
    )
    unneeded = (
        "capture.live",
        "capture.recorder",
        "capture.text_packets",
        "export.line_rows",
        "logs.evidence",
        "logs.forms",
        "tables.values",
    )
    assert (
        loaded
        & {
            "duckdb",
            "numba",
            "pandas",
            "pyarrow.compute",
            "scapy",
            *(f"dcpinspect.{name}" for name in unneeded),
        }
        == set()
    )


def test_a_recording_loads_what_it_is_asked_for() -> None:
    sample = PACKAGE.parent / "sample_captures" / "tour.pcapng"
    code = (
        f"import dcpinspect\nrecording = dcpinspect.open({str(sample)!r})\nassert "
        "str(recording.annotate(1))\nrecording.close()"
    )
    loaded = loaded_by(code)
    assert "pyarrow" in loaded
    assert loaded & {"duckdb", "numba", "pyspark", "rich", "scapy", "textual", "typer"} == set()


def test_the_program_starts_without_docstrings_that_numpy_writes() -> None:
    sample = PACKAGE.parent / "sample_captures" / "rollback.pcap"
    code = (
        "import atexit, sys; from dcpinspect.__main__ import run\n"
        "atexit.register(lambda: sys.stderr.write(str(sys.modules['numpy'].array.__doc__)))\n"
        f"sys.argv = ['dcpinspect', 'check', {str(sample)!r}]; run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("None", 0)
