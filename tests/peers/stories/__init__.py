"""What the sample captures are recordings of: one story a file, made by a function of its name."""

from __future__ import annotations

from collections.abc import Callable

from tests.peers.script import Story
from tests.peers.stories.busy import busy, midstream
from tests.peers.stories.large import large
from tests.peers.stories.rollback import rollback
from tests.peers.stories.snapshots import snapshots
from tests.peers.stories.tour import tour
from tests.peers.stories.trouble import loop, orphans
from tests.peers.stories.upr import upr

STORIES: dict[str, Callable[[], Story]] = {
    "tour": tour,
    "rollback": rollback,
    "snapshots": snapshots,
    "busy": busy,
    "midstream": midstream,
    "large": large,
    "upr": upr,
    "loop": loop,
    "orphans": orphans,
}
"""By name."""
