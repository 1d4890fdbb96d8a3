"""What the sample captures are recordings of: one story a file, made by a function of its name."""

from __future__ import annotations

from collections.abc import Callable

from tests.peers.script import Story
from tests.peers.stories.snapshots import snapshots
from tests.peers.stories.tour import tour

STORIES: dict[str, Callable[[], Story]] = {"tour": tour, "snapshots": snapshots}
"""By the name of the sample."""
