"""The process that starts Spark's Python workers on this machine: Spark's own, but with PySpark
from where it is installed.

Spark lets workers import PySpark from a zip file in its home. Python keeps no compiled modules of a
zip file, so each session would compile PySpark anew. That takes 0.4 s.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import dcpinspect

MODULE = "dcpinspect.spark.daemon"
PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
"""Setting with the paths from which workers import."""


def settings(python_path: str) -> dict[str, str]:
    """Returns the settings of a session with this daemon. ``python_path``: begins PYTHONPATH."""
    # workers cannot find it if only a program's sys.path has it
    root = str(Path(dcpinspect.__file__).parents[1])
    return {
        "spark.python.daemon.module": MODULE,
        PYTHON_PATH: os.pathsep.join(filter(None, (python_path, root))),
    }


def without_archives(paths: Sequence[str]) -> list[str]:
    """Returns the paths of imports without the archives of the installed PySpark."""
    is_archive = {path: path.endswith((".zip", ".jar")) for path in paths}
    module_spec = PathFinder.find_spec("pyspark", [path for path in paths if not is_archive[path]])
    if module_spec is None or module_spec.origin is None:
        return list(paths)
    home = Path(module_spec.origin).resolve().parent  # Spark resolves symbolic links of its home
    return [
        path
        for path in paths
        if not (is_archive[path] and Path(path).resolve().is_relative_to(home))
    ]


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)

    from pyspark import daemon

    daemon.manager()
