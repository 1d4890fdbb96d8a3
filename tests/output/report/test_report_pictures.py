"""The pictures of a report: what they show, counted in their elements."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
import pytest

from dcpinspect.output.render.palette import PAINTS
from dcpinspect.output.render.shape import Mark
from dcpinspect.output.render.verdict import Standing
from dcpinspect.output.report import report_pictures
from dcpinspect.output.report.page import page
from dcpinspect.output.statistics import Charts
from dcpinspect.streams.table_columns import VBUCKETS
from dcpinspect.tables.record_tables import Records
from tests.captures import field, real_server
from tests.output.report.gathered import gathered
from tests.peers.truth import SAMPLES


def test_the_map_has_a_cell_for_each_vbucket_and_an_error_wins_the_colour() -> None:
    contents = gathered(SAMPLES / "orphans.pcap")
    drawn = report_pictures.vbucket_map(
        contents.vbuckets,
        contents.vbuckets.values("client")[0],
        frozenset({42}),
        Standing(contents.source.by_name),
    )
    kinds = [one.get("class", "") for one in drawn.iter("rect")]
    assert (
        kinds.count("fill-severity-error")
        == sum(bool((found or {}).get("error")) for found in contents.vbuckets.values("findings"))
        == 3
    )
    assert len(kinds) == len(contents.vbuckets)
    assert [one.get("href") for one in drawn.iter("a")] == ["#vb-42"]


def test_a_map_of_many_vbuckets_has_their_numbers_beside_its_rows_and_above_its_columns() -> None:
    contents = gathered(SAMPLES / "large.pcapng.gz")
    client = contents.vbuckets.values("client")[0]

    def texts_of(vbuckets: Records) -> dict[str, list[str | None]]:
        drawn = report_pictures.vbucket_map(vbuckets, client, frozenset(), Standing({}))
        texts: dict[str, list[str | None]] = {}
        for one in drawn.iter("text"):
            texts.setdefault(one.get("class", ""), []).append(one.text)
        return texts

    texts = texts_of(contents.vbuckets)
    assert texts["tick end"] == [str(number) for number in range(0, 1024, 64)]
    assert texts["tick middle"] == [f"+{number}" for number in range(0, 64, 8)]
    some = texts_of(contents.vbuckets.take(np.arange(0, 1024, 2)))
    assert some["tick end"] == [str(number) for number in range(0, 1024, 128)]
    assert "tick middle" not in some, "they do not add up where numbers are missing"
    few = texts_of(contents.vbuckets.take(np.arange(40, 90)))
    assert few["small sign"] == [str(number) for number in range(40, 90)]


def test_the_streams_of_a_timeline_name_their_client() -> None:
    contents = gathered(SAMPLES / "orphans.pcap")
    text = report_pictures.xml(report_pictures.timeline(contents.timelines[0]))
    assert "#1 on connection 1, consumer:1: row " in text


def test_the_legend_of_the_map_says_what_its_signs_and_colours_are() -> None:
    contents = gathered(SAMPLES / "orphans.pcap")
    legend = report_pictures.map_legend(contents.vbuckets, Standing(contents.source.by_name))
    assert legend[0] == ("fill-severity-error", "✖", "3 with an error")
    drawn = report_pictures.vbucket_map(
        contents.vbuckets,
        contents.vbuckets.values("client")[0],
        frozenset(),
        Standing(contents.source.by_name),
    )
    assert {one.get("class", "") for one in drawn.iter("rect")} == {style for style, _, _ in legend}


def test_the_numbers_of_a_chart_stand_before_its_bars() -> None:
    contents = gathered(field("p06-zero-window"))
    drawn = report_pictures.over_time(
        contents.source.charts,
        of_bytes=True,
    )
    assert drawn is not None
    numbers = {
        one.text: float(one.get("x", ""))
        for one in drawn[0].iter("text")
        if one.get("class") == "level end"
    }
    assert list(numbers) == ["0", "20,000", "40,000", "56,732"]
    begins = [
        float(x)
        for path in drawn[0].iter("path")
        for x in re.findall(r"[ML] ([\d.]+) ", path.get("d", ""))
    ]
    assert max(numbers.values()) < min(begins)


def test_the_axis_of_a_chart_ends_where_the_capture_ends() -> None:
    contents = gathered(SAMPLES / "rollback.pcap")
    charts = contents.source.charts
    first_ns, last_ns = charts.ends
    drawn = report_pictures.over_time(charts, of_bytes=False)
    assert drawn is not None
    ticks = {
        kind: [one.text for one in drawn[0].iter("text") if one.get("class") == kind]
        for kind in ("tick", "tick end", "level end")
    }
    assert last_ns - first_ns < charts.used * charts.span_ns
    assert ticks["tick end"] == [f"{(last_ns - first_ns) / 1e9:.4f} s"]
    assert ticks["tick"] == [f"{at / 1000:.3f} s" for at in range(0, 14, 2)], "times are round"
    assert ticks["level end"] == ["0", "20", "38"], "and so are amounts, below the greatest"


def test_a_timeline_has_each_snapshot_gap_and_event() -> None:
    told = next(one for one in gathered(SAMPLES / "rollback.pcap").timelines if one.vbucket == 10)
    drawn = report_pictures.timeline(told)
    titles = [one.text or "" for one in drawn.iter("title")]
    assert "0–20 memory, came to 12" in titles
    assert "0–10 disk" in titles
    assert any(re.fullmatch(r"rollback: 12 seqnos", one) for one in titles)
    letters = [one.text for one in drawn.iter("text") if "mark" in one.get("class", "")]
    assert sorted(filter(None, letters)) == ["B", "C", "E", "Q", "Q", "Q", "R"]


def test_gaps_that_fall_on_one_place_are_drawn_once_with_all_their_seqnos() -> None:
    told = next(one for one in gathered(SAMPLES / "rollback.pcap").timelines if one.vbucket == 7)
    titles = [one.text or "" for one in report_pictures.timeline(told).iter("title")]
    deduplicated = sum(
        int(one.split()[1].replace(",", "")) for one in titles if one.startswith("deduplicated:")
    )
    of_streams = [story.gaps.values("width") for story in told.streams]
    causes = [story.gaps.values("cause") for story in told.streams]
    assert deduplicated == sum(
        width
        for widths, names in zip(of_streams, causes, strict=True)
        for width, cause in zip(widths, names, strict=True)
        if cause == "deduplicated"
    )


def test_charts_say_what_their_layers_are_and_none_is_drawn_of_nothing() -> None:
    contents = gathered(SAMPLES / "rollback.pcap")
    drawn = report_pictures.over_time(contents.source.charts, of_bytes=False)
    assert drawn is not None
    assert "dcp_mutation" in drawn[1]
    assert len(drawn[1]) == len(list(drawn[0].iter("path")))
    assert report_pictures.over_time(Charts(), of_bytes=True) is None
    assert report_pictures.round_trips(Charts()) is None
    assert [number for number, _ in report_pictures.windows(contents.source.charts)] == [
        one[0] for one in contents.source.charts.windows
    ]


def test_the_legend_has_what_is_drawn_and_no_more() -> None:
    told = next(one for one in gathered(SAMPLES / "rollback.pcap").timelines if one.vbucket == 10)
    drawn = [report_pictures.timeline(told)]
    assert {word for _, word in report_pictures.legend("snapshot", drawn)} == {"memory", "disk"}
    causes = {word for _, word in report_pictures.legend("cause", drawn)}
    assert "d deduplicated" in causes
    assert "L capture-loss" not in causes
    assert {letter for letter, _ in report_pictures.letters(drawn)} == {"B", "C", "E", "Q", "R"}
    assert report_pictures.legend("cause", []) == report_pictures.letters([]) == []


def _drawn_of(path: Path | str, vbucket: int) -> Element:
    [told] = [one for one in gathered(path).timelines if one.vbucket == vbucket]
    return report_pictures.timeline(told)


def test_no_line_about_a_finding_is_cut() -> None:
    for drawn, end in (
        (_drawn_of(real_server("resume"), 1), "and no server gave it this uuid"),
        (_drawn_of(real_server("v85-stuck-disconnect"), 0), "then the server reset the connection"),
    ):
        lines = [[one.text or "" for one in link.iter("text")] for link in drawn.iter("a")]
        text = " ".join(line for texts in lines for line in texts)
        assert end in text
        assert "…" not in text


@pytest.mark.parametrize(("vbucket", "letters"), [(1023, ["N"]), (423, ["Q", "E"])])
def test_a_stream_without_items_has_its_request_and_its_end(
    vbucket: int, letters: list[str]
) -> None:
    drawn = _drawn_of(SAMPLES / "tour.pcapng", vbucket)
    assert [letter for stream in _letters_of(drawn) for letter, _ in stream] == letters
    height = float(drawn.get("viewBox", "").split()[3])
    assert height - max(float(one.get("y", "")) for one in drawn.iter("text")) < 70, "no empty lane"


@pytest.mark.parametrize(("vbucket", "items"), [(0, 3), (2, 1)])
def test_what_a_consumer_refused_is_not_drawn_as_received(vbucket: int, items: int) -> None:
    drawn = _drawn_of(real_server("consumer-errors-66"), vbucket)
    [curve] = [one for one in drawn.iter("path") if one.get("class") == "items"]
    assert [title.text for title in curve] == [f"{items} item{'s' * (items > 1)}"]


@pytest.mark.parametrize(
    ("vbucket", "expected"),
    [
        (0, ["fill-snapshot-memory", "ground", "promised fill-snapshot-memory"]),
        (3, ["fill-snapshot-memory"]),
    ],
    ids=["cut", "refused"],
)
def test_a_snapshot_that_did_not_come_is_pale_unless_it_was_refused(
    vbucket: int, expected: list[str]
) -> None:
    drawn = _drawn_of(real_server("consumer-errors-66"), vbucket)
    assert [one.get("class", "") for one in drawn.iter("rect")] == expected


def test_of_snapshots_with_one_range_the_one_that_came_furthest_is_drawn() -> None:
    drawn = _drawn_of(SAMPLES / "snapshots.pcap", 14)
    boxes = [title.text for box in drawn.iter("rect") for title in box.iter("title")]
    assert [box for box in boxes if "filtered" not in (box or "")] == [
        "0–50 disk, history",
        "51–54 memory, history",
    ]
    assert not any("promised" in box.get("class", "") for box in drawn.iter("rect"))
    assert ("history", "dashed: a snapshot with history") in report_pictures.drawn_in([drawn])


def test_words_that_reach_into_a_pale_part_have_the_colour_for_that() -> None:
    texts = _drawn_of(SAMPLES / "snapshots.pcap", 15).iter("text")
    (text,) = [one for one in texts if one.text == "91–99 memory, came to 95"]
    assert text.get("class") == "on-pale"


def test_a_timeline_has_system_events() -> None:
    letters = [
        one.text
        for vbucket in gathered(SAMPLES / "tour.pcapng").timelines
        for one in report_pictures.timeline(vbucket).iter("text")
    ]
    assert "S" in letters


def test_answers_are_counted_beside_their_bars() -> None:
    charts = gathered(SAMPLES / "tour.pcapng").source.charts
    drawn = report_pictures.round_trips(charts)
    assert drawn is not None
    name, octaves = charts.answers[0]
    labels = [one.text or "" for one in drawn.iter("text") if one.get("class") == "label"]
    assert labels[0].startswith(f"{name}: {int(octaves.sum())} answer")
    numbers = [int(one.text or "") for one in drawn.iter("text") if one.get("class") == "small"]
    assert sum(numbers) == sum(int(values.sum()) for _, values in charts.answers[:12])
    assert labels[12:] == [
        f"and {len(charts.answers) - 12} more commands: 'dcpinspect stats' of the captures has them"
    ]


def test_a_stream_that_delivered_nothing_takes_less_room_and_no_mark_is_cut_off() -> None:
    told = next(one for one in gathered(SAMPLES / "loop.pcap").timelines if one.vbucket == 30)
    drawn = report_pictures.timeline(told)
    groups = drawn.findall("g")
    tops = [float(group.get("transform", "").split()[1].rstrip(")")) for group in groups]
    assert {below - top for top, below in pairwise(tops)} == {78, 42, 56}, "one has a finding"
    assert all(
        float(one.get("x", "")) >= 8 for one in drawn.iter("text") if "mark" in one.get("class", "")
    )


@pytest.mark.parametrize(
    "path", [SAMPLES / "tour.pcapng", real_server("6.0.5-dcp1"), SAMPLES / "large.pcapng.gz"]
)
def test_the_axis_of_answers_ends_with_a_number_and_no_text_is_cut(path: Path) -> None:
    drawn = report_pictures.round_trips(gathered(path).source.charts)
    assert drawn is not None
    ticks = {
        one.get("class"): float(one.get("x", ""))
        for one in drawn.iter("text")
        if (one.get("class") or "").startswith("tick")
    }
    ends = [float(one.get("x", "")) + float(one.get("width", "")) for one in drawn.iter("rect")]
    assert ticks["tick end"] == pytest.approx(max(ends) + 1)
    assert ticks["tick end"] - ticks["tick"] >= 99
    height = float(drawn.get("viewBox", "").split()[3])
    assert height - max(float(one.get("y", "")) for one in drawn.iter("text")) >= 5


def test_a_command_has_one_colour_in_both_charts() -> None:
    charts = gathered(SAMPLES / "tour.pcapng").source.charts
    drawn = [report_pictures.over_time(charts, of_bytes=of_bytes) for of_bytes in (False, True)]
    assert drawn[0] is not None
    assert drawn[1] is not None
    assert drawn[0][1] == drawn[1][1]


def test_charts_have_one_colour_and_no_mark_has_it() -> None:
    contents = gathered(SAMPLES / "tour.pcapng")
    charts = contents.source.charts
    answers = report_pictures.round_trips(charts)
    assert answers is not None
    windows = [picture for _, picture in report_pictures.windows(charts)]
    bars = {
        element.get("class")
        for picture in (answers, *windows)
        for element in picture.iter()
        if (element.get("class") or "").startswith("fill-")
    }
    assert bars == {"fill-chart-bar"}
    text = page(contents)
    layers = re.findall(r"\.fill-layer-\d\{fill:var\(--([a-z0-9-]+)\)", text)
    drawn = report_pictures.over_time(charts, of_bytes=False)
    assert drawn is not None
    assert len(drawn[1]) <= len(layers)
    assert {name.partition("-")[0] for name in layers} == {"scale"}


def _letters_of(timeline: Element) -> list[list[tuple[str, float]]]:
    """Letter and position of each event, stream by stream."""
    return [
        [
            (text.text or "", float(text.get("x", "")))
            for text in group.iter("text")
            if "mark" in (text.get("class") or "")
        ]
        for group in timeline.findall("g")
    ]


@pytest.mark.parametrize("vbucket", [9, 422])
def test_letters_of_one_seqno_stand_beside_each_other(vbucket: int) -> None:
    for stream in _letters_of(_drawn_of(SAMPLES / "tour.pcapng", vbucket)):
        positions = [x for _, x in stream]
        assert all(after - before >= 9 for before, after in pairwise(positions)), stream
        assert all(0 < x < report_pictures.WIDE for x in positions)


def test_events_of_one_kind_on_one_place_are_one_letter_with_all_their_texts() -> None:
    told = next(one for one in gathered(SAMPLES / "tour.pcapng").timelines if one.vbucket == 9)
    marks = [Mark(5, "S", row, f"event {row}") for row in range(1, 8)]
    crowded = replace(told, marks=[marks for _ in told.marks])
    stream, *_ = report_pictures.timeline(crowded).findall("g")
    (letter,) = (text for text in stream.iter("text") if text.get("class") == "mark mark-S")
    assert [title.text for title in letter.iter("title")] == [
        "event 1; event 2; event 3; event 4; event 5; 2 more"
    ]


def test_a_stream_ends_where_its_last_item_ends() -> None:
    drawn = _drawn_of(real_server("6.0.5-dcp2"), 10)
    (end,) = (x for stream in _letters_of(drawn) for letter, x in stream if letter == "E")
    came = max(
        float(box.get("x", "")) + float(box.get("width", ""))
        for box in drawn.iter("rect")
        if (box.get("class") or "").startswith("fill-snapshot-")
    )
    assert end == pytest.approx(came)


def test_causes_of_one_colour_have_one_swatch() -> None:
    drawn = [_drawn_of(SAMPLES / "tour.pcapng", 9), _drawn_of(SAMPLES / "tour.pcapng", 419)]
    swatches = report_pictures.legend("cause", drawn)
    assert "d deduplicated, f filtered, a seqno-advanced" in [word for _, word in swatches]
    assert len({PAINTS[name.removeprefix("fill-")].light for name, _ in swatches}) == len(swatches)


@pytest.mark.parametrize(
    ("path", "rule", "severity"),
    [
        (real_server("v85-stuck-disconnect"), "flow-control-stall", "error"),
        (field("p06-zero-window"), "tcp-window-zero", "error"),
        (real_server("6.0.5-dcp1"), "flow-control-stall", "note"),
    ],
)
def test_charts_of_flow_control_say_when_a_stall_was(path: Path, rule: str, severity: str) -> None:
    contents = gathered(path)
    chart = page(contents).partition("Flow control of connection ")[2].partition("</figure>")[0]
    [bar] = re.findall(rf'<rect ([^>]*) class="fill-severity-{severity}"', chart)
    at = {name: float(value) for name, value in re.findall(r'(\w+)="([\d.]+)"', bar)}
    [stall] = [one for one in contents.causes if one.rule == rule]
    begin_ns, end_ns = contents.source.charts.ends
    seconds = at["width"] / (946 - 84) * (end_ns - begin_ns) / 1e9
    until_ns = end_ns if stall.over == "open" else stall.last_time_ns
    assert seconds == pytest.approx((until_ns - stall.first_time_ns) / 1e9, abs=0.1)
    assert f"{rule}</text>" in chart
    assert f"#finding-{stall.id}" in chart


def test_a_curve_of_less_than_a_line_is_said_in_words() -> None:
    contents = gathered(real_server("v85-oso"))
    pictures = [picture for _, picture in report_pictures.windows(contents.source.charts)]
    texts = [text.text or "" for picture in pictures for text in picture.iter("text")]
    assert any(text.startswith("at most ") for text in texts)


def test_a_vbucket_that_its_client_did_not_ask_to_end_says_why_on_the_map() -> None:
    contents = gathered(SAMPLES / "any.pcap")
    standing = Standing(contents.source.by_name)
    legend = report_pictures.map_legend(contents.vbuckets, standing)
    assert legend == [("fill-kind-end", "E", "4 ended: state-changed")]
    client = contents.vbuckets.values("client")[0]
    drawn = report_pictures.vbucket_map(contents.vbuckets, client, frozenset(), standing)
    assert {box.get("class") for box in drawn.iter("rect")} == {"fill-kind-end"}


def test_a_sign_of_a_map_has_one_entry_with_its_reasons_and_cells_say_theirs() -> None:
    contents = gathered(real_server("6.0.5-dcp1"))
    standing = Standing(contents.source.by_name)
    legend = report_pictures.map_legend(contents.vbuckets, standing)
    assert [(sign, words) for _, sign, words in legend] == [
        ("!", "5 with a warning"),
        ("E", "5 ended: 2 connection-closed, 3 state-changed"),
    ]
    client = contents.vbuckets.values("client")[0]
    drawn = report_pictures.vbucket_map(contents.vbuckets, client, frozenset(), standing)
    ended = [box for box in drawn.iter("rect") if box.get("class") == "fill-kind-end"]
    titles = [box.findtext("title") or "" for box in ended]
    assert sum(": ended: connection-closed, " in title for title in titles) == 2
    assert sum(": ended: state-changed, " in title for title in titles) == 3


def test_verdicts_that_look_alike_on_the_map_have_one_entry() -> None:
    rows = [
        {"client": "a", "vbucket": number, "connections": [1], "verdict": verdict, "rollbacks": 0}
        for number, verdict in enumerate(["ended", "unknown-capture"])
    ]
    legend = report_pictures.map_legend(Records.of_rows(VBUCKETS, rows), Standing({}))
    assert legend == [("fill-verdict-ended", "", "1 ended, 1 unknown-capture")]


def test_a_small_map_says_what_its_legend_counts() -> None:
    contents = gathered(real_server("consumer-errors-66"))
    client = contents.vbuckets.values("client")[0]
    drawn = report_pictures.vbucket_map(
        contents.vbuckets, client, frozenset(), Standing(contents.source.by_name)
    )
    assert "5 ended silent" in [one.text for one in drawn.iter("text")]
    assert "1 ended silent" in [
        words
        for _, _, words in report_pictures.map_legend(
            contents.vbuckets, Standing(contents.source.by_name)
        )
    ]
