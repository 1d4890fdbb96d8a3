from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.small_map import _shape
from dcpinspect.tui.vbucket_cells import Cells
from tests.tui.screens import Keys, play, press, screen

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_all_vbuckets_of_a_bucket_fit(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cells, "has_few", property(lambda _: False))
    monkeypatch.setattr("dcpinspect.tui.vbucket_cells.FEW", 0)

    async def scene(app: InspectApp, pilot: Keys) -> None:
        small = app.overview.map
        assert small._across * small._each * small.size.height >= 1024
        assert small._across * small._wide <= small.size.width
        await press(app, pilot, "tab", "n")
        assert small.vbucket == 42
        assert "vb 42 orphaned" in screen(app)
        await press(app, pilot, "end")
        assert small.vbucket >= 1024 - small._each

    play("orphans.pcap", scene, size)


def test_few_have_their_numbers() -> None:
    async def scene(app: InspectApp, _: Keys) -> None:
        assert "OO 42" in screen(app)
        assert "2 orphaned: vb 42, 45" in screen(app)

    play("orphans.pcap", scene)


@pytest.mark.parametrize(
    ("width", "height", "expected"), [(115, 16, (1, 64)), (75, 4, (4, 64)), (54, 30, (1, 48)), (94, 44, (1, 24)), (9, 2, (128, 16))]
)
def test_a_map_has_as_few_vbuckets_a_cell_as_fit_and_as_large_cells(width: int, height: int, expected: tuple[int, int]) -> None:
    assert _shape(1024, width, height) == expected
