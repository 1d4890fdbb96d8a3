"""Findings in the form of their contract."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

import dcpinspect
from dcpinspect.errors import PlacedError
from dcpinspect.findings.finding_records import (
    CONTRACTS,
    FINDINGS,
    finding_records,
    needs_rules,
    with_counts,
)
from dcpinspect.output.export.table_schema import table_schema
from dcpinspect.output.render.finding_text import report_lines
from dcpinspect.protocol.statuses import Status
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.table_columns import BY_TABLE, VBUCKETS
from dcpinspect.tables.record_rows import parse_record_filter
from dcpinspect.tables.record_tables import Records
from tests.findings.checked import findings
from tests.peers.truth import SAMPLES
from tests.schemas import validate
from tests.streams.told import opened, tables


@pytest.mark.parametrize("files", [["a.pcap"], ["a.pcap", "b\x1b.pcap"]])
def test_records_are_the_contract(files: list[str]) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k")
    stream.mutation(2**40, "l")
    records = finding_records(findings(talk, rules=["seqno-outside-snapshot"]), files)
    (found,) = json.loads(json.dumps(records.records()))
    validate(found, table_schema(FINDINGS))
    keys = ["schema", *(column.name for column in FINDINGS.columns)]
    assert [key for key in found if key != "files"] == keys
    assert ("files" in found) == (len(files) > 1)
    assert records.arrow().num_rows == 1
    assert found["evidence"][0]["stream_offset"] > 0


def test_a_record_has_the_messages_of_all_cases_and_counts_those_that_are_not_kept() -> None:
    talk = opened()
    for vbucket in range(30):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        for seqno in range(100, 106 if vbucket == 3 else 101):
            stream.mutation(seqno, "k")
    (one,) = findings(talk, rules=["seqno-outside-snapshot"])
    assert len(one.places) < len(one.in_full.places)
    (found,) = finding_records([one], ["a.pcap"]).records()
    rows = {row for case in found["cases"] for row in case["rows"]}
    assert {*found["rows"]} == rows
    assert found["rows"][0] == one.places[0].row, "the faulty one first"
    assert len(found["evidence"]) == len(found["rows"])
    assert found["left_out"] == one.cases[3].left_out == 2
    text = "\n".join(report_lines([one], ["a.pcap"], lambda text, _: text, everything=True))
    assert " and 2 more; Wireshark, without the other 2: " in text


def test_vbuckets_streams_and_connections_count_what_speaks_of_them() -> None:
    talk = opened()
    for vbucket in range(3):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        for seqno in (9, 9, 2)[: vbucket + 1]:
            stream.mutation(seqno, f"k{seqno}")
        stream.end("closed")
        talk.stream(vbucket, start=9)
    columns: dict[str, list[Any]] = {column.name: [None] * 4 for column in VBUCKETS.columns}
    columns |= {"client": ["a", "a", "a", "b"], "vbucket": [0, 1, 2, 2], "verdict": ["ended"] * 4}
    columns |= {"streams": [1] * 4, "bytes": [0] * 4}
    vbuckets = Records(VBUCKETS, columns, 4)
    told = tables(talk).tables.by_name
    told_findings = findings(talk, rules=["seqno-not-increasing", "mid-stream-start"])
    counted = with_counts({**told, "vbuckets": vbuckets}, told_findings, {1: "a"})
    assert errors(counted["vbuckets"]) == [0, 1, 1, 0]
    assert counted["vbuckets"].values("vbucket") == [0, 1, 2, 2]
    assert counted["streams"].values("vbucket") == [0, 0, 1, 1, 2, 2]
    assert errors(counted["streams"]) == [0, 0, 1, 0, 1, 0], "those that began before, not after"
    assert errors(counted["connections"]) == [1], "one finding on two vbuckets"
    assert {*told["streams"].values("findings")} == {None}, "unknown without a check"


def errors(records: Records) -> list[int]:
    return [counts["error"] for counts in records.values("findings")]


def test_a_finding_counts_once_where_it_is_and_where_what_it_explains_is() -> None:
    with Reading([str(SAMPLES / "loop.pcap")]) as reading:
        reading.check()
        for _ in reading:
            pass
        counted = reading.by_name()
    for name in ("vbuckets", "streams", "connections"):
        severities = Counter[str]()
        for counts in counted[name].values("findings"):
            severities.update(counts)
        # two vbuckets were rolled back once on each of four connections
        assert severities["error"] == {"vbuckets": 2, "streams": 8, "connections": 4}[name]
        assert not severities["warning"], "all are effects of the loop"


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"behind": 3}, "behind"),
        ({"behind": 0}, "caught-up"),
        ({"high_seqno": 5}, None),
        ({"gaps": {"unexplained": 1}}, "lost-something"),
        ({"gaps": {"resumed": 1}}, "lost-something"),
        ({"gaps": {"capture-loss": 1}, "behind": 0}, "caught-up"),
        ({"last_seqno": None}, "silent"),
        ({"last_seqno": None, "bytes": 2 * 31}, "silent"),
        ({"last_seqno": None, "bytes": 500}, None),
        ({"gaps": {"rollback": 1}}, None),
        ({"gaps": {"rollback": 1}, "high_seqno": 9, "behind": 0}, "caught-up"),
        ({"gaps": {"rollback": 1}, "high_seqno": 5}, None),
        ({"requested_end": 9}, None),
        ({"verdict": "orphaned", "behind": 3}, None),
    ],
)
def test_a_vbucket_that_ended_says_how_it_stood_before(
    change: dict[str, Any], state: str | None
) -> None:
    row = {"client": "a", "vbucket": 7, "verdict": "ended", "last_seqno": 9, "requested_end": None}
    row |= {"high_seqno": None, "behind": None, "gaps": {}, "streams": 2, "bytes": 0, **change}
    vbuckets = Records(VBUCKETS, {name: [value] for name, value in row.items()}, 1)
    others = {
        name: Records(BY_TABLE[name], {column.name: [] for column in BY_TABLE[name].columns}, 0)
        for name in ("streams", "connections")
    }
    told = with_counts({"vbuckets": vbuckets, **others}, [], {})["vbuckets"]
    assert told.values("before_end") == [state]


@pytest.mark.parametrize(("start", "state"), [(100, None), (150, "rolled-back")])
def test_a_vbucket_stood_rolled_back_if_its_client_did_not_follow(
    start: int, state: str | None
) -> None:
    talk = opened()
    talk.stream(7, start=150, snapshot=(150, 150), uuid=1, rollback=100)
    stream = talk.stream(7, start=start, snapshot=(start, start), uuid=1)
    stream.snapshot(start, 160, "memory")
    stream.mutation(160, "k")
    stream.end("closed")
    found = findings(talk, rules=["rollback", "rollback-not-honoured"])
    told = with_counts(tables(talk).tables.by_name, found, {1: "10.0.0.1 test"})["vbuckets"]
    assert [*told.rows("verdict", "before_end", "rollbacks")] == [("ended", state, 1)]


def test_a_stream_and_its_vbucket_are_stalled_if_a_finding_says_so() -> None:
    talk = opened()
    talk.stream(6).end("state-changed")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(5, "k")
    talk.wait(40)
    talk.noop()
    told_findings = findings(talk, rules=["snapshot-stalled", "orphaned-vbucket"])
    told = with_counts(tables(talk).tables.by_name, told_findings, {1: "10.0.0.1 test"})
    assert told["streams"].values("verdict") == ["ended", "stalled"]
    assert told["vbuckets"].values("verdict") == ["ended", "stalled"]


def test_each_request_that_a_finding_names_has_it() -> None:
    talk = opened()
    for opaque in (91, 92, 93):
        talk.stream_request(7, opaque)
        talk.answer("dcp_stream_req", opaque, status=Status.EINVAL)
        talk.wait(1)
    talk.stream(7)
    found = findings(talk, rules=["stream-refused"])
    assert [finding.count for finding in found] == [3]
    told = with_counts(tables(talk).tables.by_name, found, {1: "10.0.0.1 test"})["streams"]
    assert [sum(dict(counts).values()) for counts in told.values("findings")] == [1, 1, 1, 0]


def test_of_a_vbucket_without_items_a_finding_says_why_it_ended() -> None:
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        reading.check()
        for _ in reading:
            pass
        rows = reading.by_name()["vbuckets"].rows("vbucket", "verdict", "before_end", "last_seqno")
    assert (423, "ended", None, None) in [*rows], "its backfill failed"


def test_only_who_wants_counts_of_findings_waits_for_rules() -> None:
    assert [name for name in CONTRACTS if needs_rules(name)] == [
        *("connections", "streams", "vbuckets", "findings"),
    ]
    assert needs_rules("streams", ["vbucket", "findings.error"])
    assert not needs_rules("streams", ["vbucket"])
    assert needs_rules("streams", ["verdict"])
    assert not needs_rules("connections", ["verdict"])
    assert needs_rules("vbuckets", ["vbucket"])


def test_a_side_that_findings_call_otherwise_is_suggested() -> None:
    for side, word in (("consumer", "client"), ("producer", "server")):
        with pytest.raises(PlacedError, match=f"did you mean {word}"):
            parse_record_filter(f"whose = '{side}'", FINDINGS)


@pytest.mark.parametrize("name", ["orphans.pcap", "rollback.pcap", "loop.pcap", "upr.pcap"])
def test_a_row_and_the_frame_at_its_index_are_of_one_message(name: str) -> None:
    recording = dcpinspect.open(str(SAMPLES / name))
    table = recording.messages(columns=["row", "last_frame"]).read_all()
    frame_of = dict(zip(table["row"].to_pylist(), table["last_frame"].to_pylist(), strict=True))
    found = [finding.to_dict() for finding in recording.findings()]
    assert any(finding["rule"] == "connection-closed" for finding in found) or name != "loop.pcap"
    for finding in found:
        frames = finding["frames"][: len(finding["rows"])]
        assert frames == [frame_of[row] for row in finding["rows"]]
        assert len(finding["evidence"]) == len(finding["frames"])
