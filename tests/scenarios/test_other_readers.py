"""Tables of a pipeline, read by something that shares no code with what wrote them: DuckDB's own
extension, of Delta's Rust kernel.

The extension comes from PyPI, for one version of DuckDB, so it has an environment of its own: 45 MB
to load, 150 MB on disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dcpinspect.spark import pipeline
from dcpinspect.spark.manifest import Manifest
from tests.peers.truth import SAMPLES
from tests.spark.cuts import cut, packets_of
from tests.spark.outputs import here, ran

pytestmark = [pytest.mark.deep]
TOOL = (
    Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    / "dcpinspect-tools"
    / "delta-scan"
)
VERSION = "1.5.5"
READ = """
import glob, json, sys
import duckdb, duckdb_extension_delta
database = duckdb.connect(config={"allow_unsigned_extensions": True})
[extension] = glob.glob(f"{duckdb_extension_delta.__path__[0]}/extensions/*/delta.duckdb_extension")
database.load_extension(extension)
for table, condition, path in json.loads(sys.argv[1]):
    database.execute(f"copy (select * from delta_scan('{table}') where {condition}) to '{path}' (format parquet)")
"""


@pytest.fixture(scope="module")
def python() -> Path:
    found = TOOL / "bin" / "python"
    if not found.exists():
        venv.create(TOOL, with_pip=True)
        wanted = [f"duckdb=={VERSION}", f"duckdb-extension-delta=={VERSION}"]
        subprocess.run([found, "-m", "pip", "install", "--quiet", *wanted], check=True)
    return found


def test_another_reader_of_delta_sees_the_same_rows(python: Path, tmp_path: Path) -> None:
    """After runs that add and replace files, and one that takes captures out."""
    files = cut(tmp_path / "ring", packets_of(SAMPLES / "tour.pcapng"), [150, 320])
    out = tmp_path / "out"
    for number in range(1, 4):
        ran(out, *files[:number])
    before = compared(python, out, tmp_path / "before")
    oldest = max(packet.time_ns for packet in packets_of(files[0]))
    pipeline.expire(pipeline.Options([], str(out)), oldest + 1, here)
    assert compared(python, out, tmp_path / "after") < before


def compared(python: Path, out: Path, folder: Path) -> int:
    """The number of messages, once all tables are the same for both readers."""
    folder.mkdir()
    manifest = Manifest.newest(out)
    asked = [(f"{out}/{name}", "true", f"{folder}/{name}") for name in (*manifest.tables, "runs")]
    asked.append((f"{out}/messages", "name = 'dcp_mutation' and by_seqno > 1", f"{folder}/some"))
    subprocess.run([python, "-c", READ, json.dumps(asked)], check=True)
    for name in manifest.tables:
        ours, theirs = manifest.dataset(name).to_table(), pq.read_table(f"{folder}/{name}")
        assert sorted(theirs.schema.names) == sorted(ours.schema.names)
        assert rows(theirs) == rows(ours.select(theirs.schema.names)), name
    assert pq.read_table(f"{folder}/runs").num_rows > 0
    wanted = manifest.dataset("messages").count_rows(
        filter=(ds.field("name") == "dcp_mutation") & (ds.field("by_seqno") > 1)
    )
    assert pq.read_table(f"{folder}/some").num_rows == wanted > 0
    return int(pq.read_table(f"{folder}/messages").num_rows)


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))
