from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dcpinspect
from dcpinspect.spark.program import build, program
from dcpinspect.spark.task_runner import write_zip

BOTH = "from dcpinspect.spark.program import build, program; print(program(), build(), sep='\\n')"


def test_a_package_in_an_archive_is_the_same_build(tmp_path: Path) -> None:
    write_zip(str(tmp_path / "package.zip"))
    assert said(tmp_path / "package.zip", tmp_path) == [program(), build()]


def test_parts_depend_on_some_packages_and_tasks_on_all(tmp_path: Path) -> None:
    root = Path(dcpinspect.__file__).parent
    for one in root.rglob("*"):
        if one.is_file() and "__pycache__" not in one.parts:
            (place := tmp_path / "other" / "dcpinspect" / one.relative_to(root)).parent.mkdir(
                parents=True, exist_ok=True
            )
            place.write_bytes(one.read_bytes())
    with (tmp_path / "other" / "dcpinspect" / "spark" / "task_runner.py").open("a") as file:
        file.write("# changed\n")
    of_parts, of_all = said(tmp_path / "other", tmp_path)
    assert of_parts == program()
    assert of_all != build()


def said(package: Path, where: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", BOTH],
        env={"PYTHONPATH": str(package)},
        cwd=where,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()
