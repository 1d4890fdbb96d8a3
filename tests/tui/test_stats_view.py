from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Static

from dcpinspect.output.statistics import Charts, Statistics
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.message_statistics import StatisticsRow
from dcpinspect.text import cells
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.charts import BLOCKS, LABEL, Happened
from dcpinspect.tui.stats_view import HEIGHT, page
from tests.captures import field
from tests.tui.screens import SAMPLES, Keys, play, press, screen


def test_it_says_what_stats_says_and_scrolls() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "5")
        assert "messages by command" in screen(app)
        before = app.navigation.stats.scroll_offset.y
        await press(app, pilot, "end")
        assert app.navigation.stats.scroll_offset.y > before
        assert "packets read" in screen(app) or "captured" in screen(app)

    play("rollback.pcap", scene)


def test_lines_of_a_narrow_screen_do_not_go_on_in_the_next_one() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "5")
        assert "49  10.9 %" in screen(app)
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
    text = "\n".join(line for line, _ in page(*of("rollback.pcap"), width=120))
    for part in (
        "dcp_mutation request                     84  52.2 %",
        "and 10 more, see below",
        "connection 1: bytes not acknowledged, at most 11,270, 8.6 % of its window of 131,072",
        "captured bytes",
    ):
        assert part in text


def test_headings_keep_the_window_and_counts_are_whole_in_80_columns() -> None:
    lines = [line.rstrip() for line, _ in page(*of("large.pcapng.gz"), width=78)]
    window = "con 1: bytes not acknowledged, at most 1,048,814, 50.0 % of window 2,097,152"
    assert window in lines
    assert any(line.startswith("dcp_stream_req request") and " 1,024 " in line for line in lines)


def test_times_of_answers_have_the_unit_of_their_heading_on_the_axis_too() -> None:
    lines = [line for line, _ in page(*of("rollback.pcap"), width=120)]
    title = "connection 2: slowest answer to a request, at most 2.6 ms"
    assert lines[lines.index(title) + 1].startswith("  2.6 ms ")
    title = "connection 1: slowest answer to a request, at most 0.306 ms"
    assert lines[lines.index(title) + 1].startswith("0.306 ms ")


def test_of_nothing_there_is_nothing() -> None:
    assert list(page(Charts(), [], width=80)) == []


def test_charts_of_a_connection_mark_when_something_was_found() -> None:
    charts, rows = of("rollback.pcap")
    connection, span_ns, values = charts.round_trips[0]
    at = charts.ends[0] + int(values.nonzero()[0][0]) * span_ns + span_ns // 2
    found = [
        Happened(connection, at, "!", "warning"),
        Happened(99, at, "✖", "error"),
    ]
    lines = [line for line, _ in page(charts, rows, width=100, events=found)]
    title = next(
        place
        for place, line in enumerate(lines)
        if line.startswith(f"connection {connection}: slowest answer to a request")
    )
    marks = next(line for line in lines[title:] if "!" in line)
    assert marks.strip() == "!"
    assert not any("✖" in line for line in lines), "of another connection"
    for number, line in enumerate(lines[1:]):
        assert not line.startswith("con") or not lines[number], "a blank line before each heading"
    assert values.any()


def test_charts_end_with_the_last_packet_and_outstanding_bytes_stay_until_then() -> None:
    lines = [line for line, _ in page(*of(field("p06-zero-window")), width=90)]
    for title in ("connection 1: slowest answer",):
        first = next(number for number, line in enumerate(lines) if line.startswith(title))
        bars = {
            column
            for line in lines[first + 1 : first + 1 + HEIGHT]
            for column, glyph in enumerate(line[LABEL:])
            if glyph in BLOCKS
        }
        assert bars <= {0, 1, 2}, "all came in 0.8 s of 66 s"
        assert bars
        assert lines[first + 1 + HEIGHT].endswith("66.213 s")
    outstanding = next(
        number for number, line in enumerate(lines) if "bytes not acknowledged" in line
    )
    assert lines[outstanding + HEIGHT] == f"{0:>{LABEL - 1}} {BLOCKS[0] * (90 - LABEL)}"
