from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dcpinspect.spark.shipping import missing_module, write_zip

SAMPLES = Path(__file__).parents[2] / "sample_captures"


def test_the_zip_is_the_package(tmp_path: Path) -> None:
    """It reads a capture in a Python that has no other copy, as an executor does."""
    path = tmp_path / "dcpinspect.zip"
    write_zip(str(path))
    program = (
        "import sys; sys.meta_path = [one for one in sys.meta_path if 'editable' not in str(one)]; "
        f"sys.path.insert(0, {str(path)!r}); import dcpinspect; from "
        "dcpinspect.reading.reading import Reading\n"
        f"with Reading([{str(SAMPLES / 'rollback.pcap')!r}]) as reading:\n"
        "    reading.check(); print(sum(len(batch) for batch in reading), dcpinspect.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.split() == ["161", f"{path}/dcpinspect/__init__.py"], done.stderr


def test_what_a_task_could_not_import() -> None:
    assert (
        missing_module("a job of Spark failed: ModuleNotFoundError: No module named 'dcpinspect'")
        == "dcpinspect"
    )
    assert missing_module("ModuleNotFoundError: No module named 'numpy.linalg'") == "numpy"
    assert missing_module("ZeroDivisionError: division by zero") is None
