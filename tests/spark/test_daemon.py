from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import dcpinspect
from dcpinspect.spark.daemon import without_archives

pytestmark = pytest.mark.slow

HOME = Path(pyspark.__file__).parent
ZIPS = sorted(map(str, (HOME / "python" / "lib").glob("*.zip")))
JARS = sorted(map(str, (HOME / "jars").glob("spark-core*.jar")))


def test_archives_of_the_installed_pyspark_are_left_out() -> None:
    assert ZIPS
    assert JARS
    assert without_archives(["", *ZIPS, *JARS, "/else/python/lib/pyspark.zip", *sys.path]) == [
        "",
        "/else/python/lib/pyspark.zip",
        *sys.path,
    ]


def test_archives_stay_where_no_pyspark_is_installed(tmp_path: Path) -> None:
    assert without_archives([*ZIPS, str(tmp_path)]) == [*ZIPS, str(tmp_path)]


def test_archives_are_left_out_where_pyspark_is_found_by_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(HOME.resolve().parent)
    assert without_archives(
        [*(str(Path(path).resolve()) for path in ZIPS), str(tmp_path / "link")]
    ) == [str(tmp_path / "link")]


def ran(folder: Path, program: str) -> list[str]:
    """What a program of a user prints, line by line."""
    file = folder / "program.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file)], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.spark
def test_workers_import_the_installed_pyspark_in_one_session_after_the_other(
    tmp_path: Path,
) -> None:
    found = ran(
        tmp_path,
        "from dcpinspect.spark.task_runner import spark_tasks\n"
        "def where(_):\n"
        "    import pyspark, sys\n"
        "    return pyspark.__file__, [path for path in sys.path if "
        "path.endswith(('pyspark.zip', '.jar'))]\n"
        "for _ in range(2):\n"
        "    with spark_tasks('local[1]', {}) as tasks:\n"
        "        print(tasks.map('', where, [1], [1])[0])\n",
    )
    assert found == [repr((pyspark.__file__, []))] * 2


@pytest.mark.spark
def test_workers_find_the_package_beside_paths_that_the_user_names(tmp_path: Path) -> None:
    found = ran(
        tmp_path,
        "import sys\n"
        "from dcpinspect.spark.task_runner import spark_tasks\n"
        "def paths(_):\n"
        "    return sys.path\n"
        "with spark_tasks('local[1]', {'spark.executorEnv.PYTHONPATH': '/mine'}) as tasks:\n"
        "    print(*tasks.map('', paths, [1], [1])[0], sep='\\n')\n",
    )
    assert found.index("/mine") < found.index(str(Path(dcpinspect.__file__).parents[1]))
