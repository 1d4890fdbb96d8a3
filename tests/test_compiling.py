"""What is compiled does what the function does, says that it takes time, and is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dcpinspect import compiling
from dcpinspect.compiling import make
from tests.test_machine_code import NOTICE, cache, kept, run, same, source

__all__ = ["cache"]


def test_code_that_cannot_be_linked_runs_in_numba_and_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_object", lambda *_: b"no object file")
    assert same(make(source()))
    assert kept(cache) == []


def test_an_exception_in_compiled_code_is_an_error() -> None:
    def fail(value: int) -> int:
        if value > 3:
            raise ValueError
        return value

    code = make(source(fail, "int64(int64)"))
    assert code(3) == 3
    with pytest.raises(RuntimeError, match="a compiled kernel raised an exception"):
        code(4)


def test_first_compilation_says_so_and_the_second_process_loads_it_without_numba(cache: Path) -> None:
    assert run(XDG_CACHE_HOME=str(cache)) == ("42 True\n", NOTICE)
    assert run(XDG_CACHE_HOME=str(cache)) == ("42 False\n", "")


def test_numba_switched_off_is_as_good_as_none(cache: Path) -> None:
    assert run(XDG_CACHE_HOME=str(cache), NUMBA_DISABLE_JIT="1") == ("42 True\n", "")
    assert not os.path.exists(cache)
