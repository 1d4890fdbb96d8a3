"""The notebooks of the documents are run from top to bottom, and print what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nbclient import NotebookClient
from nbformat import from_dict, read, write

DOCS = Path(__file__).parent.parent / "docs"
ON_SPARK = DOCS / "spark.ipynb"


@pytest.fixture
def jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of Jupyter's stays behind, and nothing of the user's is read."""
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


def outputs(notebook: Any) -> list[Any]:
    """What stands below each cell."""
    return [[dict(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def without_javas_words(notebook: Any) -> None:
    """Removes what Java says while it starts, which depends on the machine."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]


@pytest.mark.usefixtures("jupyter")
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.spark] * (path == ON_SPARK), id=path.name) for path in sorted(DOCS.glob("*.ipynb"))],
)
def test_a_notebook_runs_and_prints_what_it_shows(path: Path, request: pytest.FixtureRequest) -> None:
    notebook = read(path, as_version=4)
    shown, metadata = outputs(notebook), dict(notebook.metadata)
    folder = {"metadata": {"path": str(path.parent)}}
    # What is printed comes in as many pieces as the kernel likes.
    client = NotebookClient(notebook, timeout=300, record_timing=False, coalesce_streams=True, resources=folder)
    client.execute()
    if path == ON_SPARK:
        without_javas_words(notebook)
    notebook.metadata = from_dict(metadata)  # not the version of Python that ran it
    if request.config.getoption("--update-golden"):
        write(notebook, path)
    else:
        assert outputs(notebook) == shown


def test_there_are_notebooks() -> None:
    assert (DOCS / "python.ipynb").exists()
    assert ON_SPARK.exists()
