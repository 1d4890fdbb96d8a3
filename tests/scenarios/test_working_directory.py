"""No process that a command starts imports modules from the directory in which the user stands: a
capture may lie beside any file.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("dcpinspect")
ROLLBACK = Path(__file__).parents[2] / "sample_captures" / "rollback.pcap"
LIVE = ("-i", "lo", "--port", "1", "--duration", "0.2")
COMMANDS = {
    "read": ("read", str(ROLLBACK)),
    "sql": ("sql", str(ROLLBACK), "select count(*) from messages"),
    "report": ("report", str(ROLLBACK), "-o", "report.html"),
    "live": ("live", *LIVE, "-w", "live.pcapng"),
    "live --check": ("live", *LIVE, "--check"),
    "watch": ("watch", *LIVE),
}
SPARK = {
    "pipeline run": ("pipeline", "run", str(ROLLBACK), "-o", "tables"),
    "pipeline sql": (
        "pipeline",
        "sql",
        "tables",
        "select count(*) from messages",
    ),
}


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A directory with a module of every name that Python has or that is installed; each leaves a
    file when it is imported.
    """
    for name in sorted({*sys.stdlib_module_names, *packages_distributions()}):
        if name.isidentifier():
            (tmp_path / f"{name}.py").write_text(
                f"open({str(tmp_path)!r} + '/{name}.imported', 'w').close()\nraise SystemExit(99)\n"
            )
    return tmp_path


def ran(folder: Path, arguments: tuple[str, ...]) -> str:
    """Runs a command there; returns what it printed."""
    done = subprocess.run(
        [PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert [path.name for path in folder.glob("*.imported")] == []
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_no_module_beside_a_capture_is_imported(command: str, planted: Path) -> None:
    ran(planted, COMMANDS[command])


@pytest.mark.spark
def test_no_worker_of_spark_imports_a_module_beside_a_capture(planted: Path) -> None:
    assert "161 messages" in ran(planted, SPARK["pipeline run"])
    assert "161" in ran(planted, SPARK["pipeline sql"])
