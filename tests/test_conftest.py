from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dcpinspect.transport.tls import keylog
from tests import conftest
from tests.catalogue import each

pytest_plugins = ["pytester"]


def test_the_environment_is_frozen() -> None:
    assert (time.tzname[0], os.environ["DCPINSPECT_CONFIG"]) == ("UTC", os.devnull)


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "outcome"), [("", {"skipped": 1}), ("true", {"errors": 1})])
def test_a_missing_tool_skips_except_in_ci(
    ci: str, outcome: dict[str, int], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))  # of tests.forked
    pytester.makeconftest(Path(conftest.__file__).read_text())
    pytester.makeini("[pytest]\nmarkers = requires(tool): x")
    pytester.makepyfile("import pytest\n@pytest.mark.requires('no-such-tool')\ndef test_it(): pass")
    pytester.runpytest_subprocess().assert_outcomes(**outcome)


def test_golden_files_are_compared(
    golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "seen.txt").write_text("a\n")
    monkeypatch.setattr(conftest, "GOLDEN", tmp_path)
    golden("seen.txt", "a\n")
    with pytest.raises(AssertionError, match="no golden file"):
        golden("unseen.txt", "a\n")


def test_what_a_command_decides_is_over_after_its_test(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"CLIENT_RANDOM {'ab' * 32} {'cd' * 48}\n")
    assert keylog.command_secrets.choose([str(tmp_path / "keys")])
    conftest.pytest_runtest_teardown()
    assert not keylog.command_secrets.open()


def test_an_entry_of_a_catalogue_that_fails_is_named() -> None:
    tried: list[int] = []

    @each("number", [1, 2, 3])
    def is_odd(number: int) -> None:
        tried.append(number)
        assert number % 2

    with pytest.raises(AssertionError) as caught:
        is_odd()
    assert (tried, caught.value.__notes__) == ([1, 2], ["is_odd: (2,)"])
