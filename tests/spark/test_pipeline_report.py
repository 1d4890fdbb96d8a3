"""A report of a pipeline, beside that of one reading of its capture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from dcpinspect.findings.finding import captured
from dcpinspect.output.report.page import page
from dcpinspect.output.report.report_contents import contents
from dcpinspect.output.report.written import ReportFormat, written
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.output_reading import compared
from dcpinspect.spark.pipeline_report import LACKS, of_pipeline
from tests.captures import real_server
from tests.output.report.gathered import gathered
from tests.peers.truth import SAMPLES
from tests.spark.cuts import cut, packets_of
from tests.spark.outputs import ran

ROLLBACK = SAMPLES / "rollback.pcap"


def test_it_tells_what_a_reading_of_all_captures_tells(tmp_path: Path) -> None:
    ran(tmp_path / "out", *cut(tmp_path / "ring", packets_of(ROLLBACK), [40, 90]))
    report = contents(of_pipeline(compared(Manifest.newest(tmp_path / "out"))))
    whole = gathered(ROLLBACK)
    assert report.verdict == whole.verdict
    assert [one.rule for one in report.causes] == [one.rule for one in whole.causes]
    assert [one | {"file": None} for one in report.vbuckets.records()] == [
        one | {"file": None} for one in whole.vbuckets.records()
    ]
    for mine, theirs in zip(report.timelines, whole.timelines, strict=True):
        assert [story.item_count.sum() for story in mine.streams] == [
            story.item_count.sum() for story in theirs.streams
        ]
        assert [story.item_first.tolist() for story in mine.streams] == [
            story.item_first.tolist() for story in theirs.streams
        ]
    commands = [
        {(one.name, one.side): int(one.messages.sum()) for one in page.source.charts.commands}
        for page in (report, whole)
    ]
    assert commands[0] == commands[1]
    assert [(name, values.tolist()) for name, values in report.source.charts.answers] == [
        (name, values.tolist()) for name, values in whole.source.charts.answers
    ]
    assert len(report.shown) == len(whole.shown)
    for one, other in zip(report.shown.values(), whole.shown.values(), strict=True):
        bytes_hidden = re.sub(r"  \d+ bytes hidden", "", other.cells["Summary"])
        assert {**one.cells, "Row": other.cells["Row"]} == {**other.cells, "Summary": bytes_hidden}
    assert report.left_out == [LACKS]


def test_evidence_has_filters_and_settings_and_tables_name_a_file_once(tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLES / "tour.pcapng", SAMPLES / "loop.pcap")
    report = contents(of_pipeline(compared(Manifest.newest(tmp_path / "out"))))
    summaries = {
        f"{one.cells['Message']} {one.cells['Summary']}".strip() for one in report.shown.values()
    }
    assert any('from 0, no end, {"collections":["5555"]}' in summary for summary in summaries)
    assert any(summary.endswith("make_coffee  = black") for summary in summaries)
    assert any(summary.endswith("stream_buffer_size  = 4096") for summary in summaries)
    text = page(report)
    for title in ("vbuckets", "rollbacks"):
        table = text.partition(f'id="table-{title}"')[2].partition("</table>")[0]
        assert "sample_captures/tour.pcapng" not in table
    assert "loop.pcap" in text.partition('id="table-connections"')[2]


@pytest.mark.slow
def test_numbers_of_64_bits_are_shown_as_they_are(tmp_path: Path) -> None:
    ran(tmp_path / "out", ROLLBACK)
    report = contents(of_pipeline(compared(Manifest.newest(tmp_path / "out"))))
    fields = "\n".join(line for one in report.shown.values() for line in one.fields)
    assert "18446744073709551615" in fields or "no end" in fields
    assert "vbucket_uuid             0xa7a7000000000007" in fields


@pytest.mark.slow
def test_timelines_have_the_system_events_of_one_reading(tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLES / "tour.pcapng")
    marks = [
        [
            [(mark.at, mark.letter) for mark in own_marks]
            for timeline in page.timelines
            for own_marks in timeline.marks
        ]
        for page in (
            contents(of_pipeline(compared(Manifest.newest(tmp_path / "out")))),
            gathered(SAMPLES / "tour.pcapng"),
        )
    ]
    assert marks[0] == marks[1]
    assert (10, "S") in marks[0][0]


@pytest.mark.slow
def test_the_command_writes_a_page_or_markdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(tmp_path / "out", ROLLBACK)
    assert main(["pipeline", "report", str(tmp_path / "out"), "-o", str(tmp_path / "a.html")]) == 0
    assert "leading-consumer" in (tmp_path / "a.html").read_text()
    assert main(["pipeline", "report", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.startswith("# rollback.pcap\n")


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["html", "markdown"])
def test_findings_name_packets_because_rows_are_large_numbers(
    format_: ReportFormat, tmp_path: Path
) -> None:
    one, two = cut(tmp_path / "ring", packets_of(ROLLBACK), [90])
    ran(tmp_path / "out", one, two)
    source = of_pipeline(compared(Manifest.newest(tmp_path / "out")))
    text = written(format_, source)
    told = contents(source)
    findings = (
        text.partition('id="findings"')[2].partition("<section")[0]
        if format_ == "html"
        else text.partition("## Vbuckets")[0]
    )
    named = {
        (int(number), name)
        for number, name in re.findall(
            r"frames? (\d+)[\d, ]* of (\S+?\.pcap)",
            re.sub(r"\s+", " ", findings.replace("\\", "")),
        )
    }
    assert named
    assert named <= {
        (place.frame, Path(told.source.files[place.file]).name)
        for finding in source.findings
        for place in captured([*finding.places, finding.over_place])
    }
    assert not re.search(r"\brows? \d{8}", re.sub(r"<[^>]*>", "", findings))


@pytest.mark.slow
def test_messages_have_the_lines_of_one_reading_but_for_what_only_their_bytes_tell(
    tmp_path: Path,
) -> None:
    ran(tmp_path / "out", SAMPLES / "tour.pcapng")
    report = contents(of_pipeline(compared(Manifest.newest(tmp_path / "out"))))
    whole = gathered(SAMPLES / "tour.pcapng")
    assert len(report.shown) == len(whole.shown) > 20
    for one, other in zip(report.shown.values(), whole.shown.values(), strict=True):
        same = {"Row": other.cells["Row"], "Summary": other.cells["Summary"]}
        assert {**one.cells, **same} == other.cells
    summaries = {one.cells["Summary"] for one in report.shown.values()}
    assert summaries >= {
        "to 0  after 0.071 ms",
        "sid 2  lost-privileges",
        "from 500, no end, uuid 0x0000000000000bad, snapshot 500–500",
    }
    text = page(report)
    evidence = text[text.index("<dt>evidence</dt>") :].partition("</table>")[0]
    assert re.findall(r"<th [^>]*>(\w+)</th>", evidence)[0] == "frame"
    assert "packet" not in evidence
    seen = re.sub(r"<[^>]*>", " ", text[text.index('id="timelines"') :])
    assert "frame 325: from 0, accepted" in seen
    rows = {*re.findall(r"\b[1-9]\d{8,}\b", seen)} - {"18446744073709551615"}
    assert not {row for row in rows if row.endswith("00000")}, "no row that only sorts"


@pytest.mark.slow
def test_findings_in_timelines_name_packets(tmp_path: Path) -> None:
    ran(tmp_path / "out", real_server("6.0.5-dcp1"))
    report = contents(of_pipeline(compared(Manifest.newest(tmp_path / "out"))))
    texts = [
        event.text
        for timeline in report.timelines
        for events in timeline.findings
        for event in events
    ]
    assert any("requested again while open since frame 49" in text for text in texts)
