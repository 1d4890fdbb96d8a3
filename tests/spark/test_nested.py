"""A task that uses tasks: what these are given and find goes through files, and the driver only
gets their places.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpinspect.errors import OutputError, UsageError
from dcpinspect.spark.nested import nested
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.task_runner import LEAST_BYTES, SparkRunner, TaskRunner
from tests.spark.outputs import Here, Item, Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = [LEAST_BYTES] * 3


class Seeing(Here):
    """Keeps what comes to the driver, and may change files between two steps."""

    def __init__(self, then: Callable[[int], None] = lambda _: None) -> None:
        self.steps: list[tuple[str, list[Any]]] = []
        self._then = then

    def map(
        self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]
    ) -> list[Result]:
        found = super().map(what, work, items, sizes)
        self.steps.append((what, list(found)))
        self._then(len(self.steps))
        return found


def times(number: int, by: int) -> str:
    return f"marker {number * by}"


def twice(first: int, tasks: TaskRunner, *, sizes: Sequence[int]) -> list[str]:
    """Asks tasks two times, the second time for what depends on the first."""
    once = tasks.map("the first time", partial(times, by=10), [first, first + 1, first + 2], sizes)
    return tasks.map(
        "the second time", partial(times, by=2), [int(one.split()[1]) for one in once], sizes
    )


def first_little(first: int, tasks: TaskRunner, *, given: str) -> list[int]:
    """Asks tasks for a little, and then for more."""
    little = tasks.map("a little", partial(noted, given=given), [first, first + 1], [1, 1])
    return tasks.map("then", partial(int.__mul__, 2), little, LARGE[:2])


def noted(number: int, *, given: str) -> int:
    with Path(given).open("a") as file:
        file.write(str(number))
    return number


def refuses(item: UsageError | OutputError, _: TaskRunner) -> None:
    raise item


def test_what_inner_tasks_find_comes_back_to_the_work(tmp_path: Path) -> None:
    tasks = Seeing()
    assert nested(tasks, "all", partial(twice, sizes=LARGE), 4, stem=f"{tmp_path}/x/y") == [
        "marker 80",
        "marker 100",
        "marker 120",
    ]
    assert [what for what, _ in tasks.steps] == [
        "all",
        "the first time",
        "all",
        "the second time",
        "all",
    ]
    assert b"marker" not in pickle.dumps(tasks.steps[:-1])
    assert any(b"marker 100" in path.read_bytes() for path in (tmp_path / "x").iterdir())


def test_a_little_work_is_done_at_once(tmp_path: Path) -> None:
    tasks = Seeing()
    assert nested(tasks, "all", partial(twice, sizes=[1, 1, 1]), 4, stem=f"{tmp_path}/x/y") == [
        "marker 80",
        "marker 100",
        "marker 120",
    ]
    assert [what for what, _ in tasks.steps] == ["all"]
    assert len(list((tmp_path / "x").iterdir())) == 1, "what it is given"


def test_a_little_work_is_done_once(tmp_path: Path) -> None:
    tasks, given = Seeing(), tmp_path / "given"
    assert nested(
        tasks, "all", partial(first_little, given=str(given)), 4, stem=f"{tmp_path}/x/y"
    ) == [8, 10]
    assert [what for what, _ in tasks.steps] == ["all", "then", "all"]
    assert given.read_text() == "45"


def test_files_are_encrypted_where_the_output_is(tmp_path: Path) -> None:
    salt = Salt.read_or_make(str(tmp_path / "out"), None, makes=True)
    found = nested(
        Seeing(), "all", partial(twice, sizes=LARGE), 4, stem=f"{tmp_path}/out/y", salt=salt
    )
    assert found == ["marker 80", "marker 100", "marker 120"]
    written = list((tmp_path / "out").iterdir())
    assert len(written) == 1 + 2 * (1 + 3)
    assert not any(b"marker" in path.read_bytes() for path in written)


@pytest.mark.parametrize("step", [1, 2])
def test_a_file_that_somebody_changed_is_not_unpickled(step: int, tmp_path: Path) -> None:
    def change(steps: int) -> None:
        if steps == step:
            for path in tmp_path.iterdir():
                path.write_bytes(path.read_bytes()[:-1] + b"!")

    with pytest.raises(
        UsageError, match="was changed by something else while this ran; run it again"
    ):
        nested(Seeing(change), "all", partial(twice, sizes=LARGE), 4, stem=f"{tmp_path}/y")


def test_a_file_that_is_gone_is_one_line(tmp_path: Path) -> None:
    def remove(_: int) -> None:
        for path in tmp_path.iterdir():
            path.unlink()

    with pytest.raises(UsageError, match=r"cannot be read .*; run it again"):
        nested(Seeing(remove), "all", partial(twice, sizes=LARGE), 4, stem=f"{tmp_path}/y")


@pytest.mark.parametrize("error", [UsageError("what is wrong"), OutputError("the disk is full")])
def test_errors_for_the_user_come_back_as_they_are(
    error: UsageError | OutputError, tmp_path: Path
) -> None:
    with pytest.raises(type(error), match=str(error)):
        nested(Here(), "all", refuses, error, stem=f"{tmp_path}/y")


@pytest.mark.slow
@pytest.mark.spark
def test_tasks_of_spark_use_tasks_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    found = nested(SparkRunner(spark), "all", partial(twice, sizes=LARGE), 4, stem=f"{tmp_path}/y")
    assert found == ["marker 80", "marker 100", "marker 120"]
