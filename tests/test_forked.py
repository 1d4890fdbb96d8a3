from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.forked import Forked

def pytest_configure(config):
    config.pluginmanager.register(Forked(3))
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeconftest(CONFTEST)
    return pytester


@pytest.mark.slow
def test_every_test_is_run_once_and_told_with_its_own_output_and_folder(
    run: pytest.Pytester,
) -> None:
    run.makepyfile("""
        import os, pytest
        @pytest.mark.parametrize("number", range(60))
        def test_it(number, tmp_path):
            print(f"number {number} in process {os.getpid()}")
            (tmp_path / "x").touch(exist_ok=False)
            assert number % 20
        @pytest.mark.skip
        def test_skipped(): pass
        @pytest.fixture
        def broken(): 1 / 0
        def test_error(broken): pass
    """)
    told = run.runpytest_subprocess("-rA")
    told.assert_outcomes(passed=57, failed=3, skipped=1, errors=1)
    numbers = [line for line in told.outlines if " in process " in line and "print" not in line]
    assert sorted(int(line.split()[1]) for line in numbers) == list(range(60))
    assert len({line.split()[-1] for line in numbers}) > 1


def test_a_process_that_ends_fails_the_test_that_ran(run: pytest.Pytester) -> None:
    run.makepyfile("""
        import os
        def test_fine(): pass
        def test_exits(): os._exit(0)
    """)
    told = run.runpytest_subprocess()
    told.assert_outcomes(passed=1, failed=1)
    told.stdout.fnmatch_lines(["FAILED *::test_exits - the process ended during this test*"])
    assert told.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.slow
def test_what_breaks_after_the_last_test_is_an_error(run: pytest.Pytester) -> None:
    run.makepyfile("""
        import pytest
        @pytest.fixture(scope="session")
        def shared():
            yield
            raise ValueError("in the end")
        def test_fine(shared): pass
    """)
    told = run.runpytest_subprocess()
    told.assert_outcomes(passed=1, errors=1)


@pytest.mark.slow
def test_the_first_failure_ends_all_of_them_if_asked(run: pytest.Pytester) -> None:
    run.makepyfile("""
        import pytest, time
        @pytest.mark.parametrize("number", range(100))
        def test_it(number):
            if number < 16:  # those that two of the processes take first
                time.sleep(60)
            assert number < 20
    """)
    told = run.runpytest_subprocess("-x", timeout=50)
    assert told.parseoutcomes()["failed"] == 1
    assert told.ret != 0
