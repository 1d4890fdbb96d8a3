from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.charts import LABEL
from tests.captures import field, real_server
from tests.tui.screens import Keys, play

pytestmark = pytest.mark.slow


def test_a_peak_is_seen_at_any_width_and_what_was_found_stands_below() -> None:
    async def scene(app: InspectApp, _: Keys) -> None:
        rate = app.navigation.overview.rate
        columns = [rate.render_line(line).text for line in range(rate.size.height)]
        assert "█" in columns[0], "the greatest value fills a column"
        assert columns[-2].strip().startswith("✖"), "signs have a line of their own"
        assert columns[-1].rstrip().endswith("3.009 s"), "the axis ends where the capture ends"
        assert "✖" not in columns[-1]

    for width in (40, 80, 300):
        play("orphans.pcap", scene, (width, 50))


@pytest.mark.parametrize("width", [60, 120, 300])
@pytest.mark.parametrize(
    "capture", [field("p06-zero-window"), real_server("resume-lost")], ids=["stalled", "resumed"]
)
def test_bars_signs_and_labels_stand_at_their_time_up_to_the_last_packet(
    capture: Path, width: int
) -> None:
    async def scene(app: InspectApp, _: Keys) -> None:
        rate, inspection = app.navigation.overview.rate, app.inspection
        lines = [rate.render_line(line).text[LABEL:] for line in range(rate.size.height)]
        times = inspection.store.messages(np.arange(1, inspection.store.rows + 1)).time_ns
        begin_ns, end_ns = inspection.reading.ends
        length_s, columns = (end_ns - begin_ns) / 1e9, rate.size.width - LABEL - 1

        def column(seconds: float) -> float:
            """Column of a time since the capture began."""
            return columns * seconds / length_s

        bars = [at for at in range(columns) if any(line[at] not in " " for line in lines[:-2])]
        assert bars[0] == int(column((int(times.min()) - begin_ns) / 1e9))
        latest = column((int(times.max()) - begin_ns) / 1e9)
        assert abs(bars[-1] - latest) <= 1 + columns / 64, "a bar is as wide as its span of time"
        marks = [at for at, glyph in enumerate(lines[-2]) if glyph != " "]
        found = [
            column((case.places[0].time_ns - begin_ns) / 1e9)
            for finding in inspection.results.findings
            if finding.severity != "note"
            for case in finding.case_of_each
        ]
        assert {round(at) for at in marks} <= {
            int(at) + step for at in found for step in (-1, 0, 1)
        }
        for label in re.finditer(r"([\d.]+) s", lines[-1].rstrip()):
            seconds = float(label[1])
            at = label.end() if label.end() == columns else label.start()
            assert abs(at - column(seconds)) <= 1

    play(capture, scene, (width, 80))
