"""The notebooks of the documents are run from top to bottom, and print what they show."""

from __future__ import annotations

import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from nbclient import NotebookClient
from nbformat import from_dict, read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parent.parent / "docs"
ON_SPARK, ON_CLUSTER = DOCS / "spark.ipynb", DOCS / "cluster.ipynb"


@pytest.fixture
def jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of Jupyter's stays behind, and nothing of the user's is read."""
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


def outputs(notebook: Any) -> list[Any]:
    """What stands below each cell."""
    return [
        [dict(output) for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def without_javas_words(notebook: Any) -> None:
    """Removes what Java says while it starts, which depends on the machine."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]


@pytest.mark.slow
@pytest.mark.usefixtures("jupyter")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(DOCS / "python.ipynb", id="python"),
        pytest.param(ON_SPARK, marks=pytest.mark.spark, id="spark"),
    ],
)
def test_a_notebook_runs_and_prints_what_it_shows(
    path: Path, request: pytest.FixtureRequest
) -> None:
    notebook = read(path, as_version=4)
    shown, metadata = outputs(notebook), dict(notebook.metadata)
    folder = {"metadata": {"path": str(path.parent)}}
    # What is printed comes in as many pieces as the kernel likes.
    client = NotebookClient(
        notebook, timeout=300, record_timing=False, coalesce_streams=True, resources=folder
    )
    client.execute()
    if path == ON_SPARK:
        without_javas_words(notebook)
    notebook.metadata = from_dict(metadata)  # not the version of Python that ran it
    if request.config.getoption("--update-golden"):
        write(notebook, path)
    else:
        assert outputs(notebook) == shown


@pytest.mark.slow
@pytest.mark.spark
def test_that_of_a_cluster_runs_in_a_session_that_there_is(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """As on a platform, and without the start of another Spark."""
    assert spark.version
    monkeypatch.chdir(DOCS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("CAPTURES", "OUT"):
        monkeypatch.delenv(name, raising=False)
    notebook, names = read(ON_CLUSTER, as_version=4), dict[str, Any]()
    shown = outputs(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            with redirect_stdout(StringIO()) as printed:
                exec(cell.source, names)  # noqa: S102 - our own cells
            text = printed.getvalue()
            cell.outputs = (
                [from_dict({"name": "stdout", "output_type": "stream", "text": text})]
                if text
                else []
            )
    if request.config.getoption("--update-golden"):
        write(notebook, ON_CLUSTER)
    else:
        assert outputs(notebook) == shown


def test_every_notebook_is_run() -> None:
    assert set(DOCS.glob("*.ipynb")) == {DOCS / "python.ipynb", ON_SPARK, ON_CLUSTER}
