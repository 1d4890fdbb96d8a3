"""Java's classes are kept by the second session, and the third one starts with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dcpinspect.spark.classes import SharedClasses

pytestmark = pytest.mark.slow

JAVA = "OpenJDK 64-Bit Server VM (build 17.0.15+6, mixed mode, sharing)"
SESSION = """
import sys
from dcpinspect.spark.spark_session import session
with session(conf={"spark.driver.extraJavaOptions": sys.argv[1]}) as spark:
    assert spark.range(3).count() == 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dcpinspect" / "java-classes"


def asked() -> SharedClasses:
    found = SharedClasses(JAVA, "")
    found.release()
    return found


def kinds(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


@pytest.mark.spark
def test_the_second_session_keeps_them_and_the_third_has_them(folder: Path, tmp_path: Path) -> None:
    loaded = tmp_path / "loaded"

    def session(options: str = "-XX:TieredStopAtLevel=1") -> str:
        return subprocess.run(
            [sys.executable, "-c", SESSION, options],
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        ).stderr

    SharedClasses(whole_version(), "")  # as the first one leaves it
    assert kinds(folder) == [".used"]
    assert f"Java's classes are kept in {folder}" in session()
    assert kinds(folder) == [".jsa", ".used"]
    assert session(f"-Xlog:class+load:file={loaded}") == ""
    shared = [
        line
        for line in loaded.read_text().split("\n")
        if "org.apache.spark" in line and "shared objects file (top)" in line
    ]
    assert len(shared) > 1000


def whole_version() -> str:
    from dcpinspect.spark.spark_session import check_installed

    return check_installed()


def test_one_session_at_a_time_keeps_them(folder: Path) -> None:
    sessions = [SharedClasses(JAVA, "-Da=b") for _ in range(3)]
    assert (
        sessions[0].options == sessions[2].options == "-Da=b"
    )  # the first, and one beside the second
    assert sessions[1].options.startswith(f'-Da=b -XX:ArchiveClassesAtExit="{folder}/')
    assert kinds(folder) == [".used"]
    sessions[1].release()
    assert "ArchiveClassesAtExit" in asked().options


@pytest.mark.parametrize("fails", [False, True])
def test_without_a_session_that_ended_well_nothing_stays(
    folder: Path, capsys: pytest.CaptureFixture[str], *, fails: bool
) -> None:
    SharedClasses(JAVA, "")
    classes = SharedClasses(JAVA, "")
    with subprocess.Popen(["sleep", "300"] if fails else ["false"]) as java:
        try:
            with classes.session_context(lambda: java):
                assert not fails or 1 / 0
        except ZeroDivisionError:
            pass
        assert java.returncode != 0
    assert kinds(folder) == [".used"]
    assert "are kept" not in capsys.readouterr().err


def test_others_cannot_plant_them(folder: Path) -> None:
    SharedClasses(JAVA, "")
    planted = next(folder.glob("*.used")).with_suffix(".jsa")
    planted.touch(0o600)
    planted.with_suffix(".used").write_text("0")
    assert f'-XX:SharedArchiveFile="{planted}"' in SharedClasses(JAVA, "").options
    planted.chmod(0o666)
    assert SharedClasses(JAVA, "-Da=b").options == "-Da=b"
    planted.chmod(0o600)
    folder.chmod(0o777)
    assert SharedClasses(JAVA, "").options == ""


@pytest.mark.parametrize("says", [b"200", b"\x1b\xff"])
def test_what_is_cut_off_is_made_again(says: bytes, folder: Path) -> None:
    SharedClasses(JAVA, "")
    mark = next(folder.glob("*.used"))
    mark.with_suffix(".jsa").touch(0o600)
    mark.write_bytes(says)
    assert "ArchiveClassesAtExit" in asked().options


@pytest.mark.parametrize("suffix", [".jsa", ".used"])
def test_a_folder_in_their_place_does_no_harm(suffix: str, folder: Path) -> None:
    SharedClasses(JAVA, "")
    place = next(folder.glob("*.used")).with_suffix(suffix)
    place.unlink(missing_ok=True)
    place.mkdir(0o700)
    assert SharedClasses(JAVA, "-Da=b").options == "-Da=b"


@pytest.mark.parametrize(
    ("java", "options"),
    [("", ""), ("Eclipse OpenJ9 VM", ""), (JAVA, "-Xshare:off"), (JAVA, "-XX:SharedArchiveFile=x")],
)
def test_who_does_not_want_them_has_none(java: str, options: str, folder: Path) -> None:
    assert SharedClasses(java, options).options == options
    assert not folder.exists()
