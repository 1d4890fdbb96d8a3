from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.spark.manifest import Kept, Manifest, Read
from dcpinspect.spark.scan import Report
from dcpinspect.spark.units import Unit


def state(out: Path) -> Manifest:
    (out / "_manifest").mkdir(parents=True, exist_ok=True)
    unit = Unit("weird\udcff\x1b name", "/x/weird\udcff\x1b name", "p", 5, "h", "t")
    report = Report(size=5, problems=[(3, "bad"), (None, "worse")], joins=[("00", "01")], left_out={"cut": 2})
    return Manifest(
        out,
        program="1",
        options={"find_ports": False},
        points={"/x": "p"},
        units=[Read(unit, report, 1, 0, "raw/batch=1/0.arrow")],
        parts=[Kept("p", "parts/batch=1/0.part", ("messages/batch=1/0-0.parquet",), 7)],
        tables={"gaps": ["gaps/batch=1/gaps.parquet"]},
    )


def test_what_was_committed_is_read_again(tmp_path: Path) -> None:
    done = state(tmp_path).commit()
    assert Manifest.newest(tmp_path) == done
    assert done.number == 1
    assert done.files("messages") == [str(tmp_path / "messages/batch=1/0-0.parquet")]
    assert done.files("gaps") == [str(tmp_path / "gaps/batch=1/gaps.parquet")]
    assert done.files("streams") == []


def test_the_second_of_two_that_commit_is_refused(tmp_path: Path) -> None:
    one = state(tmp_path)
    one.commit()
    with pytest.raises(UsageError, match="another run has written here since"):
        replace(one, program="2").commit()
    assert Manifest.newest(tmp_path).program == "1"
    assert [path.name for path in (tmp_path / "_manifest").iterdir()] == ["1.json"]


def test_storage_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    one = state(tmp_path)
    done = one.commit()
    assert Manifest.newest(tmp_path) == done
    with pytest.raises(UsageError, match="another run has written here since"):
        replace(one, program="2").commit()
    assert Manifest.newest(tmp_path) == done
    assert [path.name for path in (tmp_path / "_manifest").iterdir()] == ["1.json"]
    (tmp_path / "_manifest" / "2.claim").touch()  # as a run leaves it that is killed just then
    with pytest.raises(UsageError, match="another run has written here since"):
        done.commit()
    done.clean()
    assert done.commit().number == 2


def test_only_one_run_writes(tmp_path: Path) -> None:
    with state(tmp_path).locked(), pytest.raises(UsageError, match="another run is writing here"), state(tmp_path).locked():
        pass


def test_cleaning_leaves_what_is_named_and_what_is_not_ours(tmp_path: Path) -> None:
    done = state(tmp_path).commit()
    mine = [
        "raw/batch=1/0.arrow",
        "raw/batch=1/0.arrow.index",
        "parts/batch=1/0.part.keys",
        "messages/batch=1/0-0.parquet",
        "gaps/mine",
        "own",
    ]
    garbage = ["raw/batch=2/0.arrow", "messages/batch=1/0-1.parquet", "gaps/batch=0/gaps.parquet", "raw/batch=1/1.arrow.9.tmp"]
    for name in (*mine, *garbage):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    done.clean()
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()) == sorted(
        [*mine, "_manifest/1.json"]
    )


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    assert Manifest.at(tmp_path / "new").number == 0
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(UsageError, match="has files of something else in it"):
        Manifest.at(tmp_path)
    with pytest.raises(UsageError, match="is a file; name a directory"):
        Manifest.at(tmp_path / "thesis.txt")
    with pytest.raises(UsageError, match="no pipeline has written here"):
        Manifest.newest(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": "dcpinspect.pipeline/9"}', '{"format": "dcpinspect.pipeline/1", "units": 3}']
)
def test_a_manifest_that_is_none_is_one_line(content: str, tmp_path: Path) -> None:
    state(tmp_path).commit()
    (tmp_path / "_manifest" / "2.json").write_text(content)
    with pytest.raises(UsageError, match=r"2\.json: is (damaged|not of this version)") as raised:
        Manifest.newest(tmp_path)
    assert "\n" not in str(raised.value)


def test_paths_of_any_bytes_are_kept_as_text(tmp_path: Path) -> None:
    state(tmp_path).commit()
    text = (tmp_path / "_manifest" / "1.json").read_bytes()
    assert text.isascii()
    assert json.loads(text)["units"][0]["unit"]["name"] == "weird\udcff\x1b name"
