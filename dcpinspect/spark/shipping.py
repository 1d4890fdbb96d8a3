"""The package itself sent to executors whose Python lacks it; what cannot be sent, because it is compiled, is named."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import dcpinspect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MISSING = re.compile(r"No module named '(\w+)")
OURS = "dcpinspect"


def missing_module(text: str) -> str | None:
    """The module that a task could not import, if that is what a failure of Spark says."""
    found = _MISSING.search(text)
    return None if found is None else found[1]


def ship(spark: SparkSession, folder: str) -> None:
    """Sends the package to all executors of a session, those to come too. ``folder``: for the file, from which they fetch it."""
    path = os.path.join(folder, f"{OURS}.zip")
    write_zip(path)
    if hasattr(spark, "_jsc"):
        spark.sparkContext.addPyFile(path)
    else:  # over Spark Connect
        spark.addArtifacts(path, pyfile=True)


def write_zip(path: str) -> None:
    """The package as a zip that Python imports from."""
    root = Path(dcpinspect.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for one in sorted(root.rglob("*")):
            if one.is_file() and "__pycache__" not in one.parts:
                file.write(one, f"{OURS}/{one.relative_to(root).as_posix()}")
