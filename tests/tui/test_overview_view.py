from __future__ import annotations

import asyncio
import re
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.tui import theme
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.charts import LABEL
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.overview_view import CHART
from tests.captures import field, real_server
from tests.tui.screens import NARROW, SAMPLES, WIDE, Keys, play, press, screen, settled, show

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("capture", ["orphans.pcap", "rollback.pcap"])
def test_a_capture_begins_with_the_overview(capture: str) -> None:
    async def scene() -> None:
        app = InspectApp(Inspection([str(SAMPLES / capture)]))
        async with app.run_test() as pilot:
            await settled(app, pilot)
            assert app.view == "overview"
            await press(app, pilot, "1", "backspace")
            assert app.view == "overview"
        app.close()

    asyncio.run(scene())


def test_who_asks_for_messages_begins_with_them() -> None:
    async def scene(app: InspectApp, _: Keys) -> None:
        assert app.view == "packets"

    play("orphans.pcap", scene, filter_text="vbucket = 42")


@pytest.mark.parametrize("size", [NARROW, WIDE, (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_all_parts_are_on_one_screen(size: tuple[int, int]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        text = screen(app)
        await press(app, pilot, "4", "0")
        assert screen(app) == text, "it is the same when the user comes back"
        for words in (
            "✖ 3 vbuckets receive nothing since 12:01:00 UTC · 4 notes",
            "107 messages, 15 streams, 100 % of bytes decoded",
            "6 findings, the worst first",
            "rollback-not-followed",
            "9 vbuckets",
            "✖ 48   rolled-back",
        ):
            assert words in text
        # what findings say is more important than a chart
        assert ("messages over time, at most 86 in 10 ms" in text) == (size[0] > 80)
        assert "never reopened (6 other vbuckets were, within" in " ".join(text.split())
        assert "10.11.0.1:50000 → 10.11.0.2:11210" in text
        assert ("travel" in text) == (size[0] > 80)

    play("orphans.pcap", scene, size)


def test_a_low_screen_has_findings_all_the_same() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        for size in ((60, 15), (100, 15), (60, 24)):
            await pilot.resize_terminal(*size)
            await settled(app, pilot)
            assert app.navigation.overview.findings.scrollable_content_region.height >= 3
            assert "1 client loops since 12:01:00 UTC · 2 notes" in screen(app)
            assert "rollback-loop" in screen(app)

    play("loop.pcap", scene, NARROW)


@pytest.mark.parametrize("size", [NARROW, (100, 22)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_worst_finding_has_room_for_all_of_its_advice(size: tuple[int, int]) -> None:
    async def scene(app: InspectApp, _: Keys) -> None:
        text = screen(app)
        assert "dcp_disconnect_when_stuck_name_regex matches its name" in text
        assert "1 vbucket" in text
        assert "messages" in text

    play(SAMPLES / "real-server" / "stuck.pcap.gz", scene, size)


@pytest.mark.parametrize("size", [NARROW, (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_lines_of_errors_and_warnings_come_before_the_chart_and_before_notes(
    size: tuple[int, int],
) -> None:
    captures = [str(SAMPLES / name) for name in ("tour.pcapng", "orphans.pcap", "loop.pcap")]

    async def scene(app: InspectApp, _: Keys) -> None:
        text, findings = screen(app), app.inspection.results.findings
        for finding in findings:
            if finding.severity == "error" and finding.effect_of is None:
                assert f"{app.glyphs.error} {finding.rule}" in text
        assert ("messages over time" in text) == (size[0] > 80)
        assert ("client → server" in text) == (size[0] > 80)
        if size[0] > 80:
            bad = app.navigation.overview.findings
            assert all(bad.is_bad(place) for place in range(bad.count - bad.below))
        assert "✖ 48   rolled-back" in text, "the map begins with the worst"

    show(Inspection(captures), scene, size)


@pytest.mark.parametrize(
    ("capture", "sentences"),
    [
        (SAMPLES / "rollback.pcap", ["no history in common, uuid 0xa7a7000000000009 is not in"]),
        (SAMPLES / "loop.pcap", ["in clear (SASL PLAIN)", "server with 2 streams open"]),
        (field("z-dnat-p05-one-rollback-reopens-all"), ["after address translation"]),
    ],
    ids=lambda value: value.parent.name if isinstance(value, Path) else "",
)
def test_a_line_that_is_free_has_the_rest_of_a_sentence(
    capture: Path, sentences: list[str]
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0")
        text, findings = screen(app), app.navigation.overview.findings
        assert all(sentence in " ".join(text.split()) for sentence in sentences)
        assert "client → server" in text
        for _ in range(findings.count):
            assert findings.lines >= findings.size.height or "…" not in screen(app)
            await press(app, pilot, "down")

    play(capture, scene, NARROW)


def test_one_connection_is_no_them() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        del pilot
        assert "1 connection; C shows it" in screen(app)

    play("upr.pcap", scene, NARROW)


@pytest.mark.parametrize("capture", [SAMPLES / "tour.pcapng", real_server("6.0.5-dcp2")])
def test_where_there_is_no_room_for_connections_their_number_and_key_are_shown(
    capture: Path,
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        assert "7 connections; C shows them" in screen(app)
        await press(app, pilot, "tab", "tab")
        assert app.navigation.overview.findings.has_focus, "nothing is seen there"
        await pilot.resize_terminal(*WIDE)
        await settled(app, pilot)
        assert "7 connections · 4 more below" in screen(app)

    play(capture, scene, NARROW)


def test_a_chart_comes_before_the_whole_texts_of_findings() -> None:
    async def scene(app: InspectApp, _: Keys) -> None:
        text, overview = screen(app), app.navigation.overview
        assert "messages over time, at most 35 in 1 ms" in text
        assert overview.rate.outer_size.height == CHART
        bad = [finding for finding in app.inspection.results.findings if finding.severity != "note"]
        assert all(f"{app.glyphs.of_finding(finding)} {finding.rule}" in text for finding in bad)
        assert "1023 refused" in text
        assert "client → server" in text

    play("tour.pcapng", scene, WIDE)


def test_the_keyboard_walks_from_part_to_part_and_goes_in() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        view = app.navigation.overview
        assert view.findings.has_focus
        await press(app, pilot, "end", "down")
        assert view.map.has_focus
        await press(app, pilot, "n", "enter")
        assert (app.view, app.navigation.vbuckets.map.vbucket) == ("vbuckets", 42)
        await press(app, pilot, "backspace", "tab")
        assert view.connections.has_focus
        await press(app, pilot, *["up"] * 8)
        assert view.findings.has_focus

    play("orphans.pcap", scene)


def test_nothing_to_see_is_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(
        (Path(__file__).parents[2] / "sample_captures" / "rollback.pcap").read_bytes()[:24]
    )

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0", "enter", "tab", "enter", "tab", "enter", "tab", "enter", "n")
        for words in (
            "no findings",
            "no packets",
            "no vbucket was requested",
            "no connections",
        ):
            assert words in screen(app)

    play(path, scene)


@pytest.mark.parametrize("capture", [field("q04-istio-mtls-on-11210"), real_server("tls13")])
def test_what_is_encrypted_is_not_said_to_be_nothing(capture: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        for key in "023":
            await press(app, pilot, key)
            assert "vbuckets are not known: TLS, not decrypted" in screen(app)
            assert "no vbucket" not in screen(app)
        await press(app, pilot, "2", "n")
        assert screen(app).count("vbuckets are not known") == 2
        await press(app, pilot, "0")
        assert "0 vbuckets" not in screen(app)
        heading = next(line for line in screen(app).splitlines() if "client → server" in line)
        assert heading.split()[4:] == ["TLS", "found"], "no count of what nobody can see"

    play(capture, scene, NARROW)


def test_each_finding_stands_below_the_bar_of_its_time() -> None:
    for size in (NARROW, WIDE, (200, 50)):

        async def scene(app: InspectApp, _: Keys) -> None:
            rate = app.navigation.overview.rate
            *bars, signs, _axis = [
                rate.render_line(line).text for line in range(1, rate.size.height)
            ]
            assert signs.count("✖") == 8
            assert all(bars[-1][one.start()] == "█" for one in re.finditer("✖", signs))

        play(field("p01-bucket-missing-loop"), scene, size)


def test_the_colour_of_the_worst_is_that_of_its_sign_alone() -> None:
    async def scene(app: InspectApp, _: Keys) -> None:
        first = app.screen._compositor.render_strips()[1]
        red = theme.style_of(app, "severity-error").color
        assert red is not None
        painted = "".join(text for text, style, _ in first if style and style.color == red)
        assert painted.strip() == "✖", "what follows tells of warnings and notes, too"

    play("tour.pcapng", scene, WIDE)


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


def test_e_goes_to_the_worst_finding_about_a_connection() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "tab", "tab", "down")
        overview = app.navigation.overview
        number = overview.connections.connection
        (talk,) = (talk for talk in overview.connections.talks if talk.number == number)
        await press(app, pilot, "e")
        finding = app.navigation.findings.list.shown_finding
        assert finding is not None
        assert number in finding.connections
        assert finding.severity == next(
            s for s in ("error", "warning", "note") if talk.severities[s]
        )

    play("tour.pcapng", scene)
