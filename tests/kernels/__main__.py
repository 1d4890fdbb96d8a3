"""Makes what is made once on a machine, on all processors: machine code of all kernels, Java's
classes for Spark, bytecode of the tests.

Otherwise each worker of the tests makes the bytecode that it needs: all of them the same, at the
same time. And one test would have the line that tells of the classes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from dcpinspect.kernels.build import main
from dcpinspect.spark.classes import SharedClasses
from dcpinspect.spark.spark_session import check_installed

_SESSION = (
    "from dcpinspect.spark.task_runner import spark_tasks\nwith spark_tasks(None, {}) as tasks: "
    "tasks.map('', abs, [1], [1])"
)


def keep_classes() -> None:
    """As the second session does."""
    for _ in range(2):
        classes = SharedClasses(check_installed(), "")  # the first one leaves its mark
        classes.release()
    if "ArchiveClassesAtExit" in classes.options:
        subprocess.run([sys.executable, "-c", _SESSION], check=True)


def keep_bytecode() -> None:
    """As whoever collects all tests does first; what is wrong with one of them, the tests tell."""
    if not any(Path(__file__).parents[1].rglob("*-pytest-*.pyc")):
        subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-m", ""],
            stdout=subprocess.DEVNULL,
            check=False,
        )


if __name__ == "__main__":
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        others = [
            pool.submit(keep_bytecode),
            *([pool.submit(keep_classes)] if shutil.which("java") else []),
        ]  # first, for they take longest
        is_failed = main()
        for one in others:
            one.result()
    sys.exit(is_failed)
