"""A cluster of two executors of their own, whose Python has the libraries but not this package: it
is shipped to them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import dcpinspect

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, os, sys
from pyspark.sql import SparkSession

package, captures = sys.argv[1:]
settings = {
    "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "1g", "spark.ui.enabled": "false",
    "spark.executor.memory": "512m", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.sql.shuffle.partitions": "1",
}
spark = SparkSession.builder.master("local-cluster[2,1,512]").config(map=settings).getOrCreate()
spark.sparkContext.addPyFile(package)
from dcpinspect.spark import register

register(spark)
frame = spark.read.format("dcp").option("columns", "name,vbucket").option("capture_point", "stem").load(captures)
counts = {row["name"]: row["count"] for row in frame.groupBy("name").count().collect()}

def where(batches):
    import dcpinspect, pyarrow
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"place": [dcpinspect.__file__], "task": [os.getpid()]})

places = [tuple(row) for row in spark.range(0, 2, 1, 2).mapInArrow(where, "place STRING, task BIGINT").collect()]
print(json.dumps({"counts": counts, "places": places}))
spark.stop()
"""


@pytest.mark.spark
def test_executors_read_captures_with_the_package_that_they_were_sent(tmp_path: Path) -> None:
    package = tmp_path / "dcpinspect.zip"
    with zipfile.ZipFile(package, "w") as file:
        for path in sorted((ROOT / "dcpinspect").rglob("*")):
            if path.suffix in (".py", ".json"):
                file.write(path, path.relative_to(ROOT))
    python = tmp_path / "python"  # without site, so without what is installed here for development
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    captures = tmp_path / "captures"
    captures.mkdir()
    for name in ("rollback.pcap", "snapshots.pcap"):
        (captures / name).write_bytes((ROOT / "sample_captures" / name).read_bytes())
    home = tmp_path / "spark"  # where executors put their files
    home.mkdir()
    for entry in (Path(sysconfig.get_path("purelib")) / "pyspark").iterdir():
        (home / entry.name).symlink_to(entry)
    environment = {
        **os.environ,
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PYSPARK_PYTHON": str(python),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path),
    }
    command = [str(python), "-c", PROGRAM, str(package), str(captures)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    with dcpinspect.open(
        [captures / name for name in ("rollback.pcap", "snapshots.pcap")]
    ) as recording:
        names = recording.messages(["name"]).read_all()["name"].to_pylist()
    assert found["counts"] == {name: names.count(name) for name in set(names)}
    assert {place.lstrip("./") for place, _ in found["places"]} == {
        "dcpinspect.zip/dcpinspect/__init__.py"
    }  # where each runs
    assert len({task for _, task in found["places"]}) == 2
