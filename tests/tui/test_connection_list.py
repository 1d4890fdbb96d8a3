from __future__ import annotations

from itertools import pairwise

import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.connection_list import COLUMNS, talks
from tests.captures import field
from tests.tui.screens import NARROW, WIDE, Keys, play, press, read, screen


def test_the_sick_come_first_and_all_is_counted() -> None:
    with read("loop.pcap") as inspection:
        told = talks(inspection.results)
        assert [one.number for one in told] == [5, 4, 3, 2, 1]
        assert sum(one.messages for one in told) == inspection.store.rows
    worst = told[0]
    assert dict(zip(COLUMNS, worst.texts, strict=True)) == {
        "con": "5",
        "client → server": "10.11.0.1:50004 → 10.11.0.2:11210",
        "messages": f"{worst.messages:,}",
        "name": "connector:1",
        "bucket": "travel",
        "bytes": "12.1k",
        "streams": "4",
        "agent": "connector/4.2",
        "TLS": "plain",
    }
    assert worst.severities == {"error": 1, "note": 2}
    # three others were rolled back in the loop, too, which the error of this one explains
    assert [one.severities["error"] for one in told] == [1, 1, 1, 1, 0]


def test_a_narrow_list_leaves_out_whole_columns() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0", "tab", "tab")
        assert app.navigation.overview.connections.has_focus
        heading = next(line for line in screen(app).splitlines() if "client → server" in line)
        assert heading.split()[-3:] == ["name", "messages", "found"]

    play("loop.pcap", scene, (80, 24))


@pytest.mark.parametrize("sample", ["loop.pcap", "rollback.pcap"])
def test_a_wider_terminal_has_no_fewer_columns(sample: str) -> None:
    headings = []

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0")
        headings.append(app.navigation.overview.connections.head.replace("→ ", "").split())
        overview = app.navigation.overview.map
        assert overview.virtual_size.height <= overview.size.height

    for size in (NARROW, WIDE, (200, 50)):
        play(sample, scene, size)
    for narrow, wide in pairwise(headings):
        assert {*narrow} <= {*wide}


def test_the_last_heading_is_whole_beside_a_scroll_bar() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0")
        heading = next(line for line in screen(app).splitlines() if "client → server" in line)
        assert heading.split()[-1] == "found"

    play(field("p01-bucket-missing-loop"), scene, (80, 24))


def test_names_by_which_one_chooses_come_before_numbers() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "C")
        lines = screen(app).splitlines()
        heading = next(line for line in lines if "client → server" in line)
        assert heading.split()[-3:-1] == ["name", "found"]
        assert any("secidx:orders-1   ✖ 1  ! 4" in line for line in lines)
        assert any(" replication:nod…  " in line for line in lines), "a long one is cut"

    play("tour.pcapng", scene, NARROW)
