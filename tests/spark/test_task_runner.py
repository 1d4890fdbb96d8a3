from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.spark import program
from dcpinspect.spark.task_runner import LEAST_BYTES, SparkRunner, missing_module, packed, write_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_items_share_tasks_of_about_equal_size() -> None:
    assert packed([], 4) == []
    assert sorted(number for task in packed([LEAST_BYTES] * 10, 4) for number in task) == list(
        range(10)
    )
    assert len(packed([LEAST_BYTES] * 10, 4)) == 4
    assert len(packed([1 << 30] * 3, 2)) == 3


def test_little_work_is_one_task() -> None:
    assert packed([5] * 10, 4) == [list(range(10))]
    assert len(packed([5] * 16, 4)) == 4  # small items take requests, too


@pytest.mark.spark
def test_every_item_is_worked_on_in_another_process_and_results_are_in_order(
    spark: SparkSession,
) -> None:
    seen: list[tuple[str, int, int]] = []
    tasks = SparkRunner(spark, lambda *step: seen.append(step))

    def work(item: int) -> tuple[int, int]:
        return item * item, os.getpid()

    found = tasks.map("squaring", work, list(range(50)), [1] * 50)
    assert [square for square, _ in found] == [number * number for number in range(50)]
    assert os.getpid() not in {process for _, process in found}
    assert tasks.map("nothing", work, [], []) == []
    assert {what for what, *_ in seen} <= {"squaring"}


@pytest.mark.spark
def test_executors_of_another_build_are_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "build", lambda: "0.0 other")  # executors do not see it
    with pytest.raises(
        UsageError,
        match=(
            r"have another build of dcpinspect \(.*; this is 0.0 other\); install the same one "
            r"on all"
        ),
    ):
        SparkRunner(spark).map("squaring", abs, [1], [1])


SAMPLES = Path(__file__).parents[2] / "sample_captures"


@pytest.mark.slow
def test_the_zip_is_the_package(tmp_path: Path) -> None:
    """It reads a capture in a Python that has no other copy, as an executor does."""
    path = tmp_path / "dcpinspect.zip"
    write_zip(str(path))
    program = (
        "import sys; sys.meta_path = [one for one in sys.meta_path if 'editable' not in str(one)]; "
        f"sys.path.insert(0, {str(path)!r}); import dcpinspect; from "
        "dcpinspect.reading.reading import Reading\n"
        f"with Reading([{str(SAMPLES / 'rollback.pcap')!r}]) as reading:\n"
        "    reading.check(); print(sum(len(batch) for batch in reading), dcpinspect.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.split() == ["161", f"{path}/dcpinspect/__init__.py"], done.stderr


def test_what_a_task_could_not_import() -> None:
    assert (
        missing_module("a job of Spark failed: ModuleNotFoundError: No module named 'dcpinspect'")
        == "dcpinspect"
    )
    assert missing_module("ModuleNotFoundError: No module named 'numpy.linalg'") == "numpy"
    assert missing_module("ZeroDivisionError: division by zero") is None
