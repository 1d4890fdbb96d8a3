from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.beside import difference
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.results import Results
from tests.tui.screens import SAMPLES, Keys, play, press, screen

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("lossy.pcap", "4 vbuckets in both reached the same seqno"),
        ("capture-loss.pcap", "4 of 4 vbuckets in both reached another seqno"),
    ],
)
def test_the_overview_says_in_one_line_what_is_otherwise_in_the_capture_beside(
    other: str, said: str
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0")
        assert f"beside {other}: {said}" in screen(app)

    play("lossy.pcap", scene, beside=Inspection([str(SAMPLES / other)]))


def test_where_nothing_is_common_that_is_said() -> None:
    assert difference(Results(), Results(), "b.pcap") == "beside b.pcap: no stream to compare"
