"""Sends the package to executors that lack it, and names modules that cannot be sent."""

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
    """Returns the module that a task could not import, if a failure of Spark says so."""
    failure = _MISSING.search(text)
    return None if failure is None else failure[1]


def ship(spark: SparkSession, folder: str) -> None:
    """Sends the package to all executors of a session, also to later ones. ``folder``: for the file
    that they fetch.
    """
    path = os.path.join(folder, f"{OURS}.zip")
    write_zip(path)
    if hasattr(spark, "_jsc"):
        spark.sparkContext.addPyFile(path)
    else:  # a session over Spark Connect
        spark.addArtifacts(path, pyfile=True)


def write_zip(path: str) -> None:
    """Writes the package as a zip file from which Python can import."""
    root = Path(dcpinspect.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for source_file in sorted(root.rglob("*")):
            if source_file.is_file() and "__pycache__" not in source_file.parts:
                file.write(source_file, f"{OURS}/{source_file.relative_to(root).as_posix()}")
