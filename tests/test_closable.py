"""Tests of dcpinspect.closable."""

from __future__ import annotations

import pytest

from dcpinspect.closable import Closable


class _Opened(Closable):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_it_is_closed_where_the_with_ends_also_by_an_error() -> None:
    opened = _Opened()
    with opened as entered:
        assert (entered, opened.closed) == (opened, 0)
    assert opened.closed == 1
    with pytest.raises(ZeroDivisionError), opened:
        _ = 1 / 0
    assert opened.closed == 2
