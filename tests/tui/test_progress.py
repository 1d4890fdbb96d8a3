from __future__ import annotations

import re

import pytest

from dcpinspect.tui import progress as module
from dcpinspect.tui.progress import Progress


def test_how_much_is_done_and_how_it_is_stopped() -> None:
    assert Progress().words(0.4) == "40% · Esc stops"


def test_how_long_the_rest_takes_once_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SOON", 0)
    assert re.fullmatch(r"40% · [\d,]+ s left · Esc stops", Progress().words(0.4))
    assert Progress().words(0) == "0% · Esc stops"


def test_it_is_not_due_at_once() -> None:
    assert not Progress().is_due
