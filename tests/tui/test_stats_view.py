from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.widgets import Static

from dcpinspect.output.render.sparkline import BLOCKS
from dcpinspect.output.statistics import Charts, Statistics
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.message_statistics import StatisticsRow
from dcpinspect.text import cells
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.stats_view import page
from tests.captures import field
from tests.tui.screens import SAMPLES, Keys, play, press, screen


def test_it_says_what_stats_says_and_scrolls() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "5")
        assert "messages in 1" in screen(app)
        before = app.navigation.stats.scroll_offset.y
        await press(app, pilot, "end")
        assert app.navigation.stats.scroll_offset.y > before
        assert "packets read" in screen(app) or "captured" in screen(app)

    play("rollback.pcap", scene)


def test_lines_of_a_narrow_screen_do_not_go_on_in_the_next_one() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "5")
        assert re.search(r"dcp_mutation request +8 ", screen(app))
        drawn = str(app.navigation.stats.query_one("#stats-text", Static).content)
        assert "connection 7  10.11.0.2:11210 >" in drawn, "a line for what is not 0"
        assert (
            max(map(cells, drawn.splitlines()))
            <= app.navigation.stats.scrollable_content_region.width
        )

    play("tour.pcapng", scene, (40, 40))


def of(sample: str | Path) -> tuple[Charts, list[StatisticsRow]]:
    statistics = Statistics()
    with Reading([str(SAMPLES / sample)], track=True) as reading:
        for batch in reading:
            statistics.feed(batch)
        return (
            statistics.charts(reading, reading.tables),
            statistics.rows(reading),
        )


@pytest.mark.parametrize("width", [20, 35, 40, 60, 80, 120, 297])
@pytest.mark.parametrize("sample", ["tour.pcapng", "rollback.pcap", "midstream.pcap"])
def test_lines_keep_to_their_width(sample: str, width: int) -> None:
    charts, rows = of(sample)
    for line, _ in page(charts, rows, width=width):
        assert cells(line) <= width
        assert line.isprintable()


def test_it_says_how_often_how_large_how_fast() -> None:
    lines = [line for line, _ in page(*of("rollback.pcap"), width=120)]
    words = [line.split() for line in lines]
    for begin in (
        "dcp_mutation request 34",
        "and 10 more",
        "connection 1, 8.6 % of 131,072 11,270",
        "connection 2 2.6 ms",
        "connection 1 0.306 ms",
        "captured bytes",
    ):
        assert any(line[: len(begin.split())] == begin.split() for line in words), begin


def test_windows_and_counts_are_whole_in_80_columns() -> None:
    lines = [line for line, _ in page(*of("large.pcapng.gz"), width=78)]
    assert any(re.search(r", 50.0 % of 2,097,152 +1,048,814 ", line) for line in lines)
    assert any(line.startswith("dcp_mutation request") and " 3,182 " in line for line in lines)


def test_of_nothing_there_is_nothing() -> None:
    assert list(page(Charts(), [], width=80)) == []


def test_blocks_stand_below_their_time_up_to_the_end_of_the_capture() -> None:
    lines = [line for line, _ in page(*of(field("p06-zero-window")), width=120)]
    heading = next(line for line in lines if line.startswith("slowest answer to a request"))
    begin = heading.index("0 s")
    assert heading.endswith("66.213 s")
    answers = lines[lines.index(heading) + 1]
    bars = {column - begin for column, glyph in enumerate(answers) if glyph in BLOCKS}
    assert bars <= {0, 1, 2}, "all came in 0.8 s of 66 s"
    assert bars
    heading = next(line for line in lines if line.startswith("bytes not acknowledged"))
    outstanding = lines[lines.index(heading) + 1]
    assert len(outstanding) >= len(heading), "outstanding bytes stay until the end"
