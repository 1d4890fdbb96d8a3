from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.walks import WALKS, Walk, lines
from tests.tui.screens import Keys, play, press, screen


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.capture)
def test_the_keys_show_what_the_page_says(walk: Walk) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        for step in walk.steps:
            await press(app, pilot, *step.keys)
            seen = " ".join(screen(app).split())
            assert [words for words in step.seen if words not in seen] == [], f"after {step.typed}"

    play(walk.capture, scene)


def test_the_page_names_every_key() -> None:
    text = "\n".join(lines())
    assert all(step.typed in text for walk in WALKS for step in walk.steps)
