from __future__ import annotations

from dcpinspect.tui.progress_text import time_left


def test_how_long_the_rest_takes_once_that_is_known() -> None:
    assert time_left(0.4, 2) == "3 s left"
    assert time_left(0.02, 4) == "4 min left"
    assert time_left(0, 3) == time_left(0.001, 60) == time_left(0.5, 0.1) == "", (
        "what has just begun tells nothing"
    )
