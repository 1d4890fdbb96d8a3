"""Captures and outputs in HDFS. Each command is a process of its own, since a process finds Java
and Hadoop once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import hdfs
from tests.spark.cuts import cut, packets_of
from tests.spark.test_pipeline import SAMPLES

pytestmark = [pytest.mark.deep, pytest.mark.requires("java", "gcc")]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hdfs.Hdfs]:
    with hdfs.serving(tmp_path_factory.mktemp("hdfs")) as found:
        yield found


def test_captures_and_outputs_in_hdfs_are_as_those_at_paths(
    servers: hdfs.Hdfs, tmp_path: Path
) -> None:
    files = cut(tmp_path / "ring", packets_of(SAMPLES / "tour.pcapng"), [150, 320])
    for path in files[:2]:
        put(servers, path, f"/ring/{path.name}")
    ring, out, local = f"{servers.root}/ring", f"{servers.root}/out", str(tmp_path / "out")
    assert summary(servers, ring, "-o", out)["captures"] == 2
    put(servers, files[2], f"/ring/{files[2].name}")
    added = summary(servers, ring, "-o", out)
    assert (added["captures"], added["known"], added["problems"]) == (1, 2, [])
    assert summary(servers, str(tmp_path / "ring"), "-o", local)["rows"] == added["rows"]
    query = "select name, count(*) from messages group by name order by name"
    assert said(servers, 0, "pipeline", "sql", out, query, "-f", "csv") == said(
        servers, 0, "pipeline", "sql", local, query, "-f", "csv"
    )
    assert "✖ bad-stream-range" in said(servers, 1, "pipeline", "check", out)
    assert said(servers, 0, "pipeline", "expire", out, "--older", "1d")
    assert (
        said(
            servers, 0, "pipeline", "sql", out, "select count(*) from messages", "-f", "csv"
        ).split()[1]
        == "0"
    )
    assert not list(tmp_path.glob("hdfs*"))


def test_a_name_that_is_not_in_hdfs_is_said_in_one_line(servers: hdfs.Hdfs, tmp_path: Path) -> None:
    done = command(servers, "pipeline", "run", f"{servers.root}/none", "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "none" in done.stderr
    assert not (tmp_path / "out").exists()


def put(servers: hdfs.Hdfs, path: Path, name: str) -> None:
    program = (
        "import sys; from pyarrow import fs; uri, path, name = sys.argv[1:]; store = "
        "fs.FileSystem.from_uri(uri)[0]; "
        "store.create_dir(name.rpartition('/')[0]); stream = store.open_output_stream(name, "
        "compression=None); "
        "stream.write(open(path, 'rb').read()); stream.close()"
    )
    command = [sys.executable, "-c", program, servers.root, str(path), name]
    subprocess.run(
        command, env={**os.environ, **servers.environment}, check=True, capture_output=True
    )


def command(servers: hdfs.Hdfs, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **servers.environment}
    return subprocess.run(
        [sys.executable, "-m", "dcpinspect", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def said(servers: hdfs.Hdfs, status: int, *arguments: str) -> str:
    done = command(servers, *arguments)
    assert done.returncode == status, done.stderr
    return done.stdout


def summary(servers: hdfs.Hdfs, *arguments: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(said(servers, 0, "pipeline", "run", *arguments, "--json"))
    return found
