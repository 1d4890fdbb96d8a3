"""A build compiles what has changed, links by what is there, and writes down what the library was
made of.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.kernels import build
from dcpinspect.kernels.compiling import object_of
from dcpinspect.kernels.kernel import HELPERS, Kernel, octet
from dcpinspect.kernels.library import NAME, Library
from dcpinspect.transport import packet_owners
from tests.kernels import test_library as library_test
from tests.kernels.test_library import WEIGH, of_module, weigh

pytestmark = pytest.mark.slow


def of(function: Callable[..., Any] = weigh, signature: str = WEIGH) -> str:
    return build.fingerprint(Kernel(function, signature), "1")


def test_the_fingerprint_is_the_same_in_every_process_and_tells_whatever_matters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def other(value: int) -> int:
        return value + 1

    def helped(data: Any) -> int:
        return int(octet(data, 0))

    before = of()
    script = "from tests.kernels.test_build import of; print(of())"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == before
    assert of(weigh, WEIGH.replace("int64[::1]", "uint64[::1]")) != before
    with monkeypatch.context() as patch:
        patch.setattr(library_test, "FACTOR", 4)
        assert of() != before
    with monkeypatch.context() as patch:
        patch.setattr(library_test, "TABLE", library_test.TABLE[::-1].copy())
        assert of() != before
    with monkeypatch.context() as patch:
        patch.setattr(library_test, "be32", other)
        assert of() != before
    assert of() == before
    with_module = of(of_module, "int64()")
    with monkeypatch.context() as patch:
        patch.setattr(packet_owners, "WINDOW", 7)
        assert of(of_module, "int64()") != with_module
    with_helper = of(helped, "int64(octets)")
    monkeypatch.setitem(HELPERS, octet, other)
    assert of(helped, "int64(octets)") != with_helper


def test_every_kernel_of_the_package_is_in_the_library() -> None:
    library = Library(str(build.PACKAGE / NAME))
    assert len(build.kernels()) > 30
    assert [
        kernel.__name__
        for kernel in build.kernels()
        if library.code(kernel.function, kernel.signature) is None
    ] == []


def test_the_library_is_made_of_all_files_that_decide_what_kernels_do() -> None:
    """Functions, constants that come from another module, records, and how a call is made; but not
    what only stands beside them.
    """
    files = build.sources(build.kernels())
    wanted = [
        "streams/follow.py",
        "streams/records.py",
        "protocol/header.py",
        "transport/packet_owners.py",
        "kernels/structs.py",
        "streams/late_requests.py",
    ]
    assert {*wanted} <= {*files}
    assert {"engine.py", "findings/gap_rules.py", "reading.py"}.isdisjoint(files)


def test_a_source_tree_keeps_what_has_not_changed() -> None:
    objects = build.PACKAGE.parent / "build" / "kernels"
    before = {path.name: path.stat().st_mtime_ns for path in objects.glob("*.o")}
    assert len(before) == len(build.kernels())
    assert build.main() == 0
    assert {path.name: path.stat().st_mtime_ns for path in objects.glob("*.o")} == before


@pytest.mark.parametrize(
    "linkers",
    [
        build.LINKERS,
        [["no-such-program"], *build.LINKERS],
        [["false"], *build.LINKERS],
        [["true"], *build.LINKERS],
    ],
    ids=["the first", "is not there", "fails", "makes nothing"],
)
def test_the_first_linker_that_can_is_taken(
    linkers: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "LINKERS", linkers)
    (tmp_path / "weigh.o").write_bytes(object_of(weigh, WEIGH))
    build.link(tmp_path, [tmp_path / "weigh.o"], "", tmp_path / "made")
    assert Library(str(tmp_path / "made")).code(weigh, WEIGH) is not None


def test_without_a_linker_the_reason_is_said(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "LINKERS", [["no-such-program"]])
        with pytest.raises(OSError, match="no-such-program"):
            build.link(tmp_path, [], "", tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_without_numba_the_command_says_so_and_the_library_stays() -> None:
    before = (build.PACKAGE / NAME).stat().st_mtime_ns
    script = (
        "import sys; sys.modules['numba'] = None; from dcpinspect.kernels.build import main; "
        "sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "dcpinspect: there is no new library of machine code: import of numba halted"
    )
    assert (build.PACKAGE / NAME).stat().st_mtime_ns == before
