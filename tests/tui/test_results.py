from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.output.finding_marks import rows_of
from dcpinspect.output.render.verdict import verdict
from dcpinspect.protocol.statuses import Status
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.results import Marked, Results, of_connection
from dcpinspect.tui.row_index import RowIndex
from tests.captures import field, real_server
from tests.encode import encode
from tests.findings.test_history_rules import recreated
from tests.peers.script import Stream
from tests.streams.told import Told, capture, opened
from tests.tui.screens import (
    NARROW,
    SAMPLES,
    Keys,
    lanes_of,
    play,
    press,
    read,
    screen,
    settled,
)

pytestmark = pytest.mark.slow


def all_rows(last: int) -> RowIndex:
    index = RowIndex()
    index.grow(1, last)
    return index


@pytest.fixture
def inspection() -> Iterator[Inspection]:
    with read("loop.pcap") as found:
        yield found


def test_bad_rows_are_walked_in_both_directions(inspection: Inspection) -> None:
    results, index = inspection.results, all_rows(inspection.results.rows)
    rows, row = [], 0
    while (found := results.marked.next_bad(row, index)) is not None:
        rows.append(row := found)
    assert rows == results.marked.bad.tolist() != []
    shown = [results.finding(row) for row in rows]
    assert all(one is not None and one.severity in ("error", "warning") for one in shown)
    assert results.marked.next_bad(rows[1], index, back=True) == rows[0]
    assert results.marked.next_bad(rows[0], index, back=True) is None


def test_only_rows_of_the_list_are_walked(inspection: Inspection) -> None:
    marked = inspection.results.marked
    index, bad = RowIndex(is_filtered=True), marked.bad
    index.append(np.array([*range(1, int(bad[2])), *bad[3:5]], np.uint32), 1000)
    assert marked.next_bad(int(bad[1]), index) == bad[3]
    assert marked.next_bad(int(bad[4]), index, back=True) == bad[3]
    assert marked.next_bad(int(bad[4]), index) is None
    assert marked.next_bad(0, RowIndex(is_filtered=True)) is None


def test_each_finding_of_a_row_is_told_the_worst_first(inspection: Inspection) -> None:
    findings = inspection.results.findings
    own_first = sorted(range(len(findings)), key=lambda n: (findings[n].effect_of is not None, n))
    told = {
        row: [number for number in own_first if row in rows_of(findings[number])]
        for row in range(1, inspection.results.rows + 1)
    }
    marked = Marked(findings, inspection.store)
    assert {row: marked.finding_numbers(row) for row in told} == told
    effects = [number for number, one in enumerate(findings) if one.effect_of is not None]
    behind = Marked([findings[number] for number in effects], inspection.store)
    assert len(behind.rows)
    assert not len(behind.bad), "what another finding explains is not counted"
    assert max(map(len, told.values())) > 1
    (loop,) = [one for one in findings if one.rule == "rollback-loop"]
    assert len(rows_of(loop)) == 2 * 2 * 4, "request and answer of four rounds of two vbuckets"


def test_a_note_is_the_sign_of_a_row_before_what_it_explains() -> None:
    with read("tour.pcapng") as tour:
        finding = tour.results.finding(221)
    assert finding is not None
    assert (finding.rule, finding.effect_of) == ("unknown-vbucket-uuid", None)


def test_a_connection_alone_has_what_explains_its_findings(inspection: Inspection) -> None:
    alone = of_connection(inspection.results, 3, inspection.store)
    assert [(one.rule, one.connections) for one in alone.findings if one.severity == "error"] == [
        ("rollback-loop", (2, 3, 4, 5))
    ]


@pytest.mark.parametrize(
    ("name", "rule", "unmarked"),
    [
        ("orphans.pcap", "orphaned-vbucket", [75]),
        (field("r05-nmvb-not-retried"), "orphaned-vbucket", [167]),
        (field("r06-now-missing-vbucket"), "start-not-listed", []),
    ],
    ids=str,
)
def test_evidence_on_vbuckets_that_a_finding_does_not_accuse_is_not_marked(
    name: str, rule: str, unmarked: list[int]
) -> None:
    with read(name) as inspection:
        results = inspection.results
        (number,) = (n for n, one in enumerate(results.findings) if one.rule == rule)
        rows = rows_of(results.findings[number]).tolist()
        assert unmarked == [
            row for row in rows if number not in results.marked.finding_numbers(row)
        ]
        assert not {*unmarked} & {*results.marked.bad.tolist()}


@pytest.mark.parametrize(
    "name",
    ["loop.pcap", "tour.pcapng", real_server("replication-60-66"), real_server("tls13")],
    ids=str,
)
def test_a_connection_alone_has_as_many_findings_as_the_list_counts(name: str) -> None:
    with read(name) as inspection:
        table = inspection.results.records["connections"]
        for number, listed in table.rows("connection", "findings"):
            inspection.choose(number)
            told = Counter(one.severity for one in inspection.results.findings if not one.effect_of)
            assert told == {severity: count for severity, count in listed.items() if count}


@pytest.mark.parametrize(("connection", "row"), [(6, 428), (8, 580)])
def test_what_another_connection_explains_stands_for_itself_on_one_alone(
    connection: int, row: int
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.choose(connection)
        await press(app, pilot, "0")
        assert "✖ 1 connection refused a message of its stream" in screen(app)
        assert "explained by delete-times-mismatch" in screen(app)
        await press(app, pilot, "enter", "enter")
        assert app.packets.list.row == row
        assert app.inspection.connection == connection, "nothing was hidden"
        await press(app, pilot, "1", "home", "n")
        assert app.packets.list.row in rows_of(app.inspection.results.findings[0])
        await press(app, pilot, "2")
        assert screen(app).count("✖ error") == 1
        await press(app, pilot, "3")
        assert screen(app).count("✖ consumer-refused") == 1

    play(real_server("replication-60-66"), scene)


def faulty(folder: Path) -> Path:
    """Eight faults of one kind on vbucket 7, each alike, and as many on vbucket 8."""
    talk = opened()
    for vbucket in (7, 8):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 30, "memory")
        for seqno in range(1, 9):
            stream.send(
                "dcp_mutation",
                cas=0,
                datatype=0,
                collection=0 if talk.collections else None,
                key="a",
                value=b"",
                by_seqno=seqno,
            )
    path = folder / "faulty.pcap"
    path.write_bytes(capture(talk))
    return path


def test_each_of_many_like_faults_is_marked(tmp_path: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        (one,) = [one for one in app.inspection.results.findings if one.rule == "cas-zero"]
        rows = sorted(rows_of(one).tolist())
        assert one.count == len(rows) == 16
        seen = list[int]()
        await press(app, pilot, "1")
        while not seen or app.packets.list.row != seen[-1]:
            seen.append(app.packets.list.row)
            await press(app, pilot, "n")
        assert seen[1:] == app.inspection.results.marked.bad.tolist()
        assert set(rows) <= set(seen)

    play(faulty(tmp_path), scene)


MUTATION = 24 + 31 + 4 + 300


def faulty_peers() -> list[Told]:
    """Nine or ten times each of what rules keep examples of only."""
    talks, streams = list[Told](), list[Stream]()
    for number in range(2):
        talks.append(opened(f"client-{number}:1", port=50_000 + number))
        streams.append(talks[-1].stream(7, log=((0xA1, 0),)))
        streams[-1].snapshot(0, 10, "memory", "checkpoint")
        for seqno in range(1, 11):
            streams[-1].mutation(seqno, f"k{seqno}{'other' * number}")
    for _ in range(10):
        talks[0].send("client", encode("dcp_buffer_acknowledgement", ack_bytes=10))
        streams[0].snapshot_received()
        talks[1].answer("dcp_mutation", streams[1].opaque, by="client", status=Status.EINVAL)
    nooped = opened(
        "nooped:1",
        port=50_002,
        connection_buffer_size="1000",
        enable_noop="true",
        set_noop_interval="20",
    )
    stream = nooped.stream(8)
    stream.snapshot(0, 1000, "memory")
    for number in range(10):
        nooped.send("server", encode("dcp_noop", opaque=100 + number))
        nooped.answer("dcp_noop", 1000, by="client")
    for number in range(10):
        nooped.send("server", encode("dcp_noop", opaque=200 + number))
        for seqno in range(5):
            stream.mutation(5 * number + seqno + 1, f"k{number}{seqno}", b"x" * 300)
        for size in (5 * MUTATION + (44 if not number else -1), 1):
            nooped.wait(3)
            nooped.send("client", encode("dcp_buffer_acknowledgement", ack_bytes=size))
    return [*talks, nooped]


def test_each_message_is_marked_that_shows_what_rules_keep_examples_of(tmp_path: Path) -> None:
    path = tmp_path / "peers.pcap"
    path.write_bytes(capture(*faulty_peers()))
    inspection = Inspection([str(path)])
    inspection.load()
    inspection.close()
    marked = {one.rule: (one.count, len(one.rows)) for one in inspection.results.findings}
    assert marked == {
        "ack-without-window": (10, 10),
        "consumer-refused": (10, 10),
        "diverging-history": (10, 20),
        "flow-control-overrun": (10, 10),
        "flow-control-stall": (10, 10),
        "noop-opaque": (10, 10),
        "noop-overlap": (9, 9),
        "noop-unanswered": (10, 10),
        "over-acknowledged": (9, 9),
        "unexpected-reply": (10, 10),
    }


def test_each_noop_behind_a_hole_is_marked(tmp_path: Path) -> None:
    talk = opened(enable_noop="true", set_noop_interval="20")
    for number in range(20):
        talk.send("server", encode("dcp_noop", opaque=100 + number))
        if number == 2:
            with talk.lost():
                talk.answer("dcp_noop", 100 + number, by="client")
        talk.wait(6)
        talk.failover_log(7, [(1, 0)])
    path = tmp_path / "holes.pcap"
    path.write_bytes(capture(talk))
    inspection = Inspection([str(path)])
    inspection.load()
    rows = [
        row
        for one in inspection.results.findings
        if one.rule == "noop-unanswered"
        for row in one.rows
    ]
    noops = inspection.store.messages(list(range(1, inspection.results.rows + 1)))
    asked = dict(enumerate(noops.decoded.opaque.tolist(), 1))
    inspection.close()
    assert {asked[row] - 100 for row in rows} == set(range(6, 20)), (
        "an answer to those before, or right after it, may be in the hole"
    )


def test_each_vbucket_of_a_finding_about_many_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "recreated.pcap"
    path.write_bytes(capture(recreated(20)))

    async def scene(app: InspectApp, pilot: Keys) -> None:
        numbers = [
            number
            for number, one in enumerate(app.inspection.results.findings)
            if one.rule == "no-common-history"
        ]
        (number,) = numbers
        app.navigation.to_vbucket(17)
        await settled(app, pilot)
        events = app.navigation.timeline.events.items
        found = {(told.row, told.track) for told in events if told.finding == number}
        assert found == {(39, 0)}
        assert "findings" in screen(app)
        await press(app, pilot, "n", "enter")
        assert app.inspection.store.messages([app.packets.list.row]).vbucket.value_at(0) == 17
        await press(app, pilot, "2")
        cells = app.navigation.vbuckets.map.cells
        assert (cells.mark(17, app.glyphs)[0], cells.words(17)) == ("!", "silent")
        app.navigation.vbuckets.move_to(17)
        await press(app, pilot, "e", "enter")
        assert app.packets.list.row == 39, (
            "the request of this vbucket, although the evidence begins with those of others"
        )
        await press(app, pilot, "backspace", "right_square_bracket", "right_square_bracket", "v")
        assert lanes_of(app).content.vbucket == 18

    play(path, scene)


def test_nothing_is_known_before_reading() -> None:
    assert Results().finding(1) is None
    assert Results().marked.finding_numbers(1) == []
    assert Results().vbuckets == []


def test_a_row_has_the_worst_that_it_shows() -> None:
    inspection = Inspection([str(SAMPLES / "orphans.pcap")])
    inspection.load()
    results = inspection.results
    (row,) = {
        place.row
        for one in results.findings
        if one.rule == "rollback-not-followed"
        for place in one.places[:1]
    }
    worst = results.finding(row)
    assert worst is not None
    assert worst.severity == "error"
    assert results.vbuckets == list(range(40, 49))
    inspection.close()


@pytest.fixture(scope="module")
def tour():  # type: ignore[no-untyped-def]
    one = Inspection([str(SAMPLES / "tour.pcapng")])
    one.load()
    yield one
    one.close()


def test_connections_add_up_to_everything(tour: Inspection) -> None:
    everything = tour.everything
    found = [
        of_connection(everything, number, tour.store)
        for number in everything.records["connections"].values("connection")
    ]
    for name in ("streams", "snapshots", "gaps", "rollbacks", "connections"):
        assert sum(len(one.records[name]) for one in found) == len(everything.records[name])
    assert sum(one.looked.messages for one in found if one.looked) == tour.store.rows
    assert {finding.id for one in found for finding in one.findings} == {
        finding.id for finding in everything.findings
    }
    assert all(
        number in one.connections for number, each in enumerate(found, 1) for one in each.findings
    )
    for one in found:
        assert all(one.marked.finding_numbers(row) for row in one.marked.rows.tolist())


@pytest.mark.parametrize("sample", ["rollback.pcap", "loop.pcap", "orphans.pcap", "tour.pcapng"])
def test_a_connection_alone_has_vbuckets_as_if_there_was_no_other(sample: str) -> None:
    with read(sample) as inspection:
        everything = inspection.everything
        for number in everything.records["connections"].values("connection"):
            alone = of_connection(everything, number, inspection.store)
            own_streams = alone.records["streams"].values("vbucket")
            table = alone.records["vbuckets"]
            assert sorted(table.values("vbucket")) == sorted({*own_streams})
            names = ("vbucket", "connections", "streams", "rollbacks")
            for vbucket, connections, streams, rollbacks in table.rows(*names):
                answers = [
                    answer
                    for own, answer in alone.records["streams"].rows("vbucket", "answer")
                    if own == vbucket
                ]
                assert connections == [number]
                assert streams <= len(answers)
                assert rollbacks == answers.count("rollback")


def test_the_map_and_the_card_of_a_connection_alone_tell_of_no_other() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.choose(1)
        await press(app, pilot, "0")
        assert re.search("E 7 +connection-closed", screen(app))
        await press(app, pilot, "2")
        assert "rollback" not in screen(app).splitlines()[13]
        assert re.search("streams 1 *$", screen(app), re.MULTILINE)

    play("rollback.pcap", scene, NARROW)


def test_the_verdict_on_a_connection_alone_counts_no_other(inspection: Inspection) -> None:
    said = verdict(of_connection(inspection.results, 1, inspection.store).findings)
    assert said.startswith("no errors or warnings: 1 connection was reset with streams open")


def test_what_explains_a_finding_of_a_vbucket_stands_above_it() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        assert re.search(r" · flow-control-stall, con 3:.*\n.*\n.*\n └ slow-stream", screen(app))
        await press(app, pilot, "e")
        assert app.view == "findings"

    play(real_server("v85-cursor-dropped"), scene, NARROW)
