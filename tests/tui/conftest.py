"""What several tests of the terminal UI look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.store import Store
from tests.tui.screens import SAMPLES


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """All messages of rollback.pcap."""
    with Store() as kept:
        with Reading([str(SAMPLES / "rollback.pcap")], keeper=kept) as reading:
            for _ in kept.fill(reading):
                pass
        yield kept
