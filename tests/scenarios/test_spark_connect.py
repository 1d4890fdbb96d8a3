"""A server of Spark Connect on this machine: the pipeline, queries and the data source work through
it, with the package as it is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import dcpinspect
from tests.spark.cluster import free_port, is_open, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "sample_captures/rollback.pcap"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
QUERY = (
    "select name, count(*) as count, max(by_seqno) as seqno from messages group by name order "
    "by name"
)
READ = """
import json, sys
from pyspark.sql import SparkSession
from dcpinspect.spark import register

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
register(spark)
rows = spark.read.format("dcp").load(sys.argv[2]).groupBy("name").count().collect()
print(json.dumps({row["name"]: row["count"] for row in rows}))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    home = Path(pyspark.__file__).parent
    options = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    command = [
        str(home / "bin" / "spark-submit"),
        "--class",
        SERVER,
        "--master",
        "local[1]",
        *options,
    ]
    command += ["--conf", f"spark.connect.grpc.binding.port={port}", "spark-internal"]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=tmp_path)
        try:
            until("a server", lambda: is_open(port) or process.poll() is not None)
            assert process.poll() is None, (tmp_path / "server.log").read_text()[-3000:]
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def said(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.spark
def test_a_server_of_spark_connect_runs_the_pipeline_queries_and_the_data_source(
    server: str, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    summary = json.loads(
        said(
            "-m",
            "dcpinspect",
            "pipeline",
            "run",
            str(CAPTURE),
            "-o",
            out,
            "--master",
            server,
            "--json",
        )
    )
    with dcpinspect.open(CAPTURE) as recording:
        messages = recording.messages(["name", "by_seqno"]).read_all()
    assert summary["rows"]["messages"] == len(messages)
    query = ("-m", "dcpinspect", "pipeline", "sql", out, QUERY, "--format", "json")
    rows = json.loads(said(*query))
    names = messages["name"].to_pylist()
    counts = {name: names.count(name) for name in set(names)}
    assert {row["name"]: row["count"] for row in rows} == counts
    assert json.loads(said("-c", READ, server, str(CAPTURE)).splitlines()[-1]) == counts
