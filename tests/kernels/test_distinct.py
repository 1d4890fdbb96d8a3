"""Values are told apart by the kernel as by sorting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.kernels.distinct import distinct, number_values


def check(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Each value equals the first of its number; returns how many differ."""
    first, inverse = distinct(values)
    assert (values[first][inverse] == values).all()
    assert len(np.unique(values[first])) == len(first) == len(np.unique(values))
    return len(first)


@pytest.fixture(params=["interpreted", "compiled"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", request.param == "interpreted")


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("differing", [0, 1, 2, 255, 256, 257, 3000])
def test_any_number_of_values_is_told_apart(differing: int) -> None:
    values = np.resize(np.arange(differing, dtype=np.int64) << 13, 2 * differing)
    assert check(values) == differing
    assert check(values - (1 << 62)) == differing


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
def test_both_forms_give_the_same_numbers(values: list[int]) -> None:
    forms = []
    for run in (number_values.interpreted, number_values.compiled):
        first, inverse = np.zeros(256, np.int64), np.zeros(len(values), np.int64)
        count = run(np.array(values, np.int64), np.full(1024, -1, np.int64), first, inverse)
        forms.append((count, first.tolist(), inverse.tolist()))
    assert forms[0] == forms[1]
    assert forms[0][0] == len(set(values))
