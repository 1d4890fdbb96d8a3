"""What a report has: the findings of ``check`` with their messages, and no more of anything than
its limits allow.
"""

from __future__ import annotations

from dataclasses import replace

from dcpinspect.output.render.verdict import Standing
from dcpinspect.output.report.report_contents import Limits, places_of, title_of
from dcpinspect.output.report.report_pictures import vbucket_map
from tests.captures import field, real_server
from tests.output.report.gathered import gathered
from tests.peers.truth import SAMPLES


def test_every_finding_has_messages_that_show_it_and_these_name_it() -> None:
    told = gathered(SAMPLES / "orphans.pcap")
    assert [one.rule for one in told.causes][:2] == ["rollback-not-followed", "orphaned-vbucket"]
    for one in told.causes:
        for place in places_of(one, told.limits):
            assert one.id in told.shown[place.row].findings


def test_messages_of_the_connection_that_a_finding_names_are_shown_first() -> None:
    contents = gathered(SAMPLES / "loop.pcap")
    loop = contents.causes[0]
    assert loop.connections == (2, 3, 4, 5)
    loop = replace(loop, cases=tuple(replace(case, connections=(5,)) for case in loop.cases))
    connections = [place.connection for place in places_of(loop, Limits())]
    assert connections == [2, 2, 5, 5, 5, 5]


def test_requests_of_evidence_have_their_answers_beside_them() -> None:
    contents = gathered(SAMPLES / "loop.pcap")
    [loop, rollback, *_] = [contents.causes[0], *contents.effects[contents.causes[0].id]]
    assert [place.row for place in places_of(loop, Limits())] == [75, 76, 279, 280, 283, 284]
    assert [place.row for place in places_of(rollback, Limits())] == [75, 76, 78, 79, 80, 82]


def test_a_message_has_its_line_its_fields_and_its_bytes() -> None:
    told = gathered(SAMPLES / "orphans.pcap")
    one = told.shown[31]
    assert one.cells["Message"].startswith("stream_req")
    assert (one.cells["vb"], one.cells["Bytes"]) == ("48", "72")
    assert one.fields[0].startswith("DCP_STREAM_REQ command")
    assert one.bytes[0].split()[:3] == ["0", "80", "53"]
    assert len(one.bytes) == -(-72 // 16)


def test_timelines_are_of_vbuckets_with_errors_warnings_and_rollbacks_or_the_first_ones() -> None:
    assert [one.vbucket for one in gathered(SAMPLES / "orphans.pcap").timelines] == [48, 42, 45]
    assert [one.vbucket for one in gathered(SAMPLES / "tour.pcapng").timelines][:1] != []


def test_timelines_begin_with_the_worst_vbuckets_whose_rollbacks_are_kept() -> None:
    contents = gathered(SAMPLES / "orphans.pcap", limits=Limits(timelines=2))
    assert [one.vbucket for one in contents.timelines] == [48, 42], "two errors before one"
    contents = gathered(SAMPLES / "loop.pcap")
    assert [one.vbucket for one in contents.timelines] == [31, 30], "31 has one more warning"
    every_one = contents.source.by_name["rollbacks"]
    assert contents.rollbacks.values("request_row") == every_one.values("request_row"), (
        "as the command prints them"
    )
    few = gathered(SAMPLES / "loop.pcap", limits=Limits(rows=5)).rollbacks
    assert sorted(few.values("vbucket")) == [30] + [31] * 4, "those of the worst stay"
    rows = few.values("request_row")
    assert rows == [row for row in every_one.values("request_row") if row in rows]


def test_the_tables_and_the_map_are_in_the_order_of_vbucket_numbers() -> None:
    told = gathered(field("p06-zero-window"))
    assert told.vbuckets.values("vbucket") == [6, 677, 723, 900, 952]
    drawn = vbucket_map(
        told.vbuckets,
        told.vbuckets.values("client")[0],
        frozenset(),
        Standing(told.source.by_name),
    )
    cells = [one.text for one in drawn.iter("text")]
    assert cells == [
        "✖ 6 stalled",
        "✖ 677 stalled",
        "✖ 723 stalled",
        "✖ 900 stalled",
        "✖ 952 stalled",
    ]


def test_what_is_beyond_the_limits_is_said() -> None:
    told = gathered(
        SAMPLES / "orphans.pcap", limits=Limits(findings=1, evidence=2, timelines=1, rows=2)
    )
    assert len(told.causes) == 1
    assert len(told.shown) == 2
    assert len(told.timelines) == 1
    text = " ".join(told.left_out)
    assert "findings" in text
    assert "timelines of 2 more vbuckets" in text
    assert "rows of the table of vbuckets" in text


def test_a_report_is_named_after_its_captures() -> None:
    assert title_of(["a/b/c.pcap", "d.pcap"]) == "c.pcap and 1 more"
    assert title_of([]) == "no capture"


def test_a_timeline_has_the_findings_that_the_map_counts_for_its_vbucket() -> None:
    told = gathered(real_server("v85-marker22"))
    assert "noop-unanswered" in {one.rule for one in told.causes if one.severity == "warning"}
    assert told.timelines
    assert not any(
        event.severity for line in told.timelines for row in line.findings for event in row
    )


def test_charts_count_a_conversation_once_that_was_captured_twice() -> None:
    charts = gathered(field("z-dnat-p05-one-rollback-reopens-all")).source.charts
    answers = {name: int(octaves.sum()) for name, octaves in charts.answers}
    assert (answers["dcp_stream_req"], answers["dcp_control"], answers["hello"]) == (128, 10, 2)
    mutations = [rate for rate in charts.commands if rate.name == "dcp_mutation"]
    assert [int(rate.messages.sum()) for rate in mutations] == [254]
    assert [number for number, *_ in charts.windows] == [1, 3]
