from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from dcpinspect.capture.zstd import zstd
from dcpinspect.errors import UsageError
from dcpinspect.spark.attempts import WrittenFile
from dcpinspect.spark.manifest import Manifest, ManifestPart, ReadUnit
from dcpinspect.spark.record_files import WrittenAnew
from dcpinspect.spark.scan import ScanReport
from dcpinspect.spark.spark_schema import SCHEMAS
from dcpinspect.spark.units import Unit


def state(out: Path) -> Manifest:
    (out / "_manifest").mkdir(parents=True, exist_ok=True)
    unit = Unit("weird\udcff\x1b name", "/x/weird\udcff\x1b name", "p", 5, "h", "t")
    report = ScanReport(
        size=5, problems=[(3, "bad"), (None, "worse")], joins=[("00", "01")], left_out={"cut": 2}
    )
    return Manifest(
        str(out),
        program="1",
        options={"find_ports": False},
        points={"/x": "p"},
        units=[ReadUnit(unit, report, 1, 0, "raw/batch=1/0.arrow")],
        parts=[ManifestPart("p", "parts/batch=1/0.part", ("messages/batch=1/0-0.parquet",), 7)],
    )


def wrote(out: Path, name: str, rows: int) -> WrittenFile:
    """A file of the table bad."""
    path = out / "bad" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist(
            [{"what": f"{name} {row}"} for row in range(rows)], schema=SCHEMAS["bad"]
        ),
        path,
    )
    return WrittenFile.from_file(str(path))


def with_bad(one: Manifest, *names: str) -> Manifest:
    return one.with_tables(
        {"bad": WrittenAnew([wrote(Path(one.out), name, 2) for name in names], one.paths("bad"))},
        [],
        None,
    )


def what(one: Manifest) -> list[str]:
    return sorted(one.dataset("bad").to_table()["what"].to_pylist())


def test_what_was_committed_is_read_again(tmp_path: Path) -> None:
    done = with_bad(state(tmp_path), "batch=1/a.parquet", "batch=1/b.parquet").commit()
    assert Manifest.newest(tmp_path) == done
    assert (done.number, done.tables) == (1, {"bad": 0, "messages": 0})
    assert sorted(done.files("bad")) == [
        str(tmp_path / "bad/batch=1" / name) for name in ("a.parquet", "b.parquet")
    ]
    assert what(done) == [
        "batch=1/a.parquet 0",
        "batch=1/a.parquet 1",
        "batch=1/b.parquet 0",
        "batch=1/b.parquet 1",
    ]


def test_the_second_of_two_that_commit_is_refused(tmp_path: Path) -> None:
    one = with_bad(state(tmp_path), "batch=1/a.parquet")
    one.commit()
    with pytest.raises(UsageError, match="another run has written here since"):
        replace(one, program="2").commit()
    two = Manifest.newest(tmp_path)
    assert two.program == "1"
    with_bad(two, "batch=2/a.parquet")
    with pytest.raises(UsageError, match=r"bad: another run has written here since; run it again"):
        with_bad(two, "batch=2/b.parquet")


def test_tables_of_a_run_that_did_not_end_are_not_seen_and_taken_back(tmp_path: Path) -> None:
    with_bad(state(tmp_path), "batch=1/gone.parquet")
    done = with_bad(state(tmp_path).settled(), "batch=1/a.parquet").commit()
    rows = what(done)
    with_bad(done, "batch=2/b.parquet")  # it gets no further
    assert what(Manifest.newest(tmp_path)) == rows
    again = Manifest.newest(tmp_path).settled()
    assert again.tables == {"bad": 2, "messages": 2}
    again.clean()
    assert what(with_bad(again, "batch=2/c.parquet").commit()) == [
        "batch=2/c.parquet 0",
        "batch=2/c.parquet 1",
    ]
    assert not (tmp_path / "bad/batch=2/b.parquet").exists()
    assert what(done) == rows, "who reads the run before can go on"


def test_what_others_make_of_a_table_counts(tmp_path: Path) -> None:
    done = with_bad(state(tmp_path), "batch=1/a.parquet", "batch=1/b.parquet").commit()
    rows = what(done)
    DeltaTable(tmp_path / "bad").optimize.compact()
    assert len(Manifest.newest(tmp_path).files("bad")) == 1
    assert what(Manifest.newest(tmp_path)) == what(done) == rows
    with_bad(Manifest.newest(tmp_path).settled(), "batch=2/c.parquet")
    assert what(done) == rows


def test_a_run_removes_old_files_and_commits(tmp_path: Path) -> None:
    with_bad(with_bad(state(tmp_path), "batch=1/a.parquet").commit(), "batch=2/b.parquet").commit()
    assert (tmp_path / "bad/batch=1/a.parquet").exists()
    DeltaTable(tmp_path / "bad").alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 0 days"}
    )
    again = Manifest.newest(tmp_path).settled()
    assert not (tmp_path / "bad/batch=1/a.parquet").exists()
    done = with_bad(again, "batch=3/c.parquet").commit()
    assert (
        what(Manifest.newest(tmp_path))
        == what(done)
        == ["batch=3/c.parquet 0", "batch=3/c.parquet 1"]
    )


def test_only_one_run_writes(tmp_path: Path) -> None:
    with (
        state(tmp_path).locked(),
        pytest.raises(UsageError, match="another run is writing here"),
        state(tmp_path).locked(),
    ):
        pass


def test_cleaning_leaves_what_is_named_and_what_is_not_ours(tmp_path: Path) -> None:
    done = with_bad(
        with_bad(state(tmp_path), "batch=1/a.parquet").commit(), "batch=2/b.parquet"
    ).commit()
    mine = [
        "raw/batch=1/0.arrow",
        "raw/batch=1/0.arrow.index",
        "parts/batch=1/0.part.keys",
        "gaps/mine",
        "own",
    ]
    garbage = [
        "raw/batch=2/0.arrow",
        "bad/batch=2/other.parquet",
        "bad/batch=3/new.parquet",
        "raw/batch=1/1.arrow.9.tmp",
    ]
    for name in (*mine, *garbage):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    done.clean()
    found = {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    }
    found = {
        name
        for name in found
        if not name.startswith(("runs/", "bad/_delta_log/", "messages/_delta_log/"))
    }
    states = {done.state, *(one.state for one in (*done.pieces, *done.part_pieces))}
    assert found == {
        *mine,
        "bad/batch=1/a.parquet",
        "bad/batch=2/b.parquet",
        *(f"_manifest/{name}" for name in states),
    }


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    assert Manifest.read_newest(tmp_path / "new").number == 0
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(UsageError, match="has files of something else in it"):
        Manifest.read_newest(tmp_path)
    with pytest.raises(UsageError, match="is a file; name a directory"):
        Manifest.read_newest(tmp_path / "thesis.txt")
    with pytest.raises(UsageError, match="no pipeline has written here"):
        Manifest.newest(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format": "dcpinspect.pipeline/9"}',
        '{"format": "dcpinspect.pipeline/2", "units": 3}',
    ],
)
def test_a_manifest_that_is_none_is_one_line(content: str, tmp_path: Path) -> None:
    done = state(tmp_path).commit()
    (tmp_path / "_manifest" / done.state).write_text(content)
    with pytest.raises(UsageError, match=r"json: is (damaged|not of this version)") as raised:
        Manifest.newest(tmp_path)
    assert "\n" not in str(raised.value)


def test_an_output_of_the_version_before_is_refused_and_left(tmp_path: Path) -> None:
    state(tmp_path).commit()
    (tmp_path / "_manifest" / "7.json").touch()
    shutil.rmtree(tmp_path / "runs")
    for read in (Manifest.read_newest, Manifest.newest):
        with pytest.raises(UsageError, match=r"by dcpinspect 0\.2\.0; run the pipeline into a new"):
            read(tmp_path)


def test_paths_of_any_bytes_are_kept_as_text(tmp_path: Path) -> None:
    (piece,) = state(tmp_path).commit().pieces
    text = zstd.decompress((tmp_path / "_manifest" / piece.state).read_bytes())
    assert text.isascii()
    assert json.loads(text)[0][1]["unit"]["name"] == "weird\udcff\x1b name"
