"""A reading opens captures, hands on their messages, and knows afterwards what it found."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Thread
from threading import enumerate as enumerate_threads
from typing import Any

import numpy as np
import pytest

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import CaptureFile, FileDamage, open_capture
from dcpinspect.errors import CaptureError
from dcpinspect.findings.checker import Checker
from dcpinspect.output.overview import overview
from dcpinspect.protocol.statuses import Status
from dcpinspect.reading import reading as reading_module
from dcpinspect.reading.reading import Reading, ahead
from tests import builders, damage
from tests.builders import Recorded
from tests.crowd import KINDS, crowd
from tests.encode import encode
from tests.peers.truth import SAMPLES
from tests.streams.told import Told, capture, opened, packets


def test_messages_are_counted_as_they_are_delivered(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "a.pcap", server=b"".join(builders.mutations(9)))
    with Reading([str(path)]) as reading:
        assert reading.messages == 0
        assert sum(len(batch) for batch in reading) == 9
        assert reading.messages == 9


def test_the_first_packets_time_is_known_once_it_was_read(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "a.pcap", server=builders.mutation())
    with Reading([str(path)]) as reading:
        assert reading.first_time_ns is None
        list(reading)
        assert reading.first_time_ns == builders.START_NS


def test_the_earliest_time_may_be_that_of_a_later_packet(tmp_path: Path) -> None:
    segments = builders.recorded(builders.conversation(server=builders.mutation()))
    back = [
        replace(one, time_ns=builders.START_NS - 10**6 * number)
        for number, one in enumerate(segments)
    ]
    path = tmp_path / "back.pcap"
    path.write_bytes(builders.pcap(back))
    with Reading([str(path)], track=True) as reading:
        list(reading)
        assert (reading.first_time_ns, reading.earliest_ns) == (builders.START_NS, back[-1].time_ns)
        found = overview(reading)
    assert found["last_time"] - found["first_time"] == 10**6 * (len(back) - 1)


def test_small_captures_are_decoded_together_and_say_what_they_say_alone(tmp_path: Path) -> None:
    paths = []
    for number in range(20):
        segments = builders.recorded(builders.conversation(server=builders.mutation()))
        later = [replace(one, time_ns=one.time_ns + 10**9 * number) for one in segments]
        (path := tmp_path / f"{number:02}.pcap").write_bytes(builders.pcap(later))
        paths.append(str(path))
    with Reading(paths) as reading:
        (together,) = list(reading)
    alone = []
    for name in paths:
        with Reading([name]) as reading:
            alone += [(batch.time_ns.tolist(), batch.frame.tolist()) for batch in reading]
    assert together.time_ns.tolist() == [time for times, _ in alone for time in times]
    assert together.frame.tolist() == [frame for _, frames in alone for frame in frames]
    assert together.file.tolist() == list(range(20))


def test_no_batch_is_empty(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "a.pcap")
    with Reading([str(path)]) as reading:
        assert list(reading) == []


def test_a_port_that_is_asked_for_is_read_besides_the_usual(tmp_path: Path) -> None:
    usual = builders.Conversation()
    other = builders.Conversation(server=("10.0.0.2", 12_000), client=("10.0.0.1", 50_001))
    for one in (usual, other):
        one.handshake()
        one.stream(False, builders.mutation())
    path = tmp_path / "ports.pcap"
    path.write_bytes(builders.pcap(builders.recorded([*usual.segments, *other.segments])))
    for ports, count in (((), 1), ((12_000,), 2)):
        with Reading([str(path)], extra_ports=ports) as reading:
            assert sum(len(batch) for batch in reading) == count


def test_a_file_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"missing\.pcap"):
        Reading([str(tmp_path / "missing.pcap")])


def test_damage_is_kept_beside_what_was_read(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "a.pcap", server=b"".join(builders.mutations(9)))
    path.write_bytes(path.read_bytes()[:-5])
    with Reading([str(path)]) as reading:
        assert sum(len(batch) for batch in reading) == 9
        (problem,) = reading.capture.problems
    assert problem.file == str(path)


def numbers(log: list[str]) -> Generator[int, None, None]:
    try:
        yield from (1, 2, 3)
    finally:
        log.append("closed")


def test_what_is_made_ahead_is_the_same_in_order() -> None:
    log: list[str] = []
    assert [*ahead(ahead(numbers(log)))] == [1, 2, 3]
    assert log == ["closed"]


def test_what_is_not_wanted_to_the_end_is_closed() -> None:
    log: list[str] = []
    with closing(ahead(ahead(numbers(log)))) as made:
        assert next(made) == 1
    assert log == ["closed"]


def test_an_error_while_reading_ahead_reaches_the_caller() -> None:
    def broken() -> Generator[int, None, None]:
        raise CaptureError("x.pcap", "is broken", offset=0)
        yield

    with pytest.raises(CaptureError, match="is broken"):
        list(ahead(ahead(broken())))


@pytest.mark.slow
@pytest.mark.parametrize("port", [11210, 9999])
def test_a_reading_ahead_gives_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    monkeypatch.setattr(reading_module, "BATCH_BYTES", 0)
    path = tmp_path / "crowd.pcap"
    with path.open("wb") as file:
        file.writelines(crowd(KINDS, 300, closed=True, port=port))
    found = []
    for is_ahead in (False, True):
        with Reading(open_capture([str(path)], batch_bytes=3000), find_ports=True) as reading:
            batches = list(reading.ahead() if is_ahead else reading)
            assert len(batches) > (20 if port == 11210 else 0)
            found.append(
                (
                    [row for batch in batches for row in damage.rows_in(batch)],
                    list(reading.coverage.directions),
                )
            )
            assert reading.messages == sum(len(batch) for batch in batches)
            assert reading.first_time_ns is not None
    assert found[0] == found[1]


def test_one_batch_is_read_without_threads(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "a.pcap", server=builders.mutation())
    before = set(enumerate_threads())
    with Reading([str(path)]) as reading, closing(reading.ahead()) as batches:
        assert len(next(batches)) == 1
        assert set(enumerate_threads()) == before


def lacking() -> list[Recorded]:
    """Two clients of one vbucket, of whom one never got a document that the other did."""
    talks = [opened(f"{name}:1", port=port) for name, port in (("has", 50_000), ("lacks", 50_001))]
    for talk in talks:
        stream = talk.stream(7)
        stream.snapshot(0, 4, "memory")
        for seqno in (1, 2, 4) if talk is talks[1] else (1, 2, 3, 4):
            stream.mutation(seqno, f"k{seqno}")
    return [Recorded(packet.data, packet.wire, packet.time_ns) for packet in packets(*talks)]


def test_streams_of_files_are_compared_by_reading_again(tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    path.write_bytes(builders.pcap(lacking()))
    with Reading([str(path)], track=True) as reading:
        list(reading)
        (gap,) = reading.tables.gaps.records()
    assert (gap["cause"], gap["evidence"].partition(",")[0]) == (
        "unexplained",
        "connection 1 was sent seqno 3 in row 10",
    )


def test_streams_of_pipes_are_compared_by_what_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = Thread(target=path.write_bytes, args=(builders.pcap(lacking()),))
    writer.start()
    with Reading([str(path)], track=True) as reading:
        list(reading)
        (gap,) = reading.tables.gaps.records()
    writer.join()
    assert gap["cause"] == "unexplained"


def test_a_reading_that_checks_has_findings_besides(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(lacking()))
    with Reading([str(path)], track=True) as reading:
        list(reading)
        assert "findings" not in reading.by_name()
        assert reading.by_name()["vbuckets"].values("findings") == [None, None]
        with pytest.raises(ValueError, match="does not check"):
            reading.findings()
    with Reading([str(path)]) as reading:
        reading.check(["mid-stream-start", "seqno-not-increasing"])
        list(reading)
        assert {one.rule for one in reading.findings()} <= {
            "mid-stream-start",
            "seqno-not-increasing",
        }
        assert len(reading.by_name()["findings"]) == len(reading.findings())


def everything(reading: Reading) -> dict[str, Any]:
    """The records of all tables, findings too, at the end of what is read."""
    with reading:
        reading.check()
        list(reading)
        return {name: table.records() for name, table in reading.by_name().items()}


def piped(path: Path, data: bytes) -> dict[str, Any]:
    os.mkfifo(path)
    writer = Thread(target=path.write_bytes, args=(data,))
    writer.start()
    found = everything(Reading([str(path)]))
    writer.join()
    return found


def followed(path: Path, data: bytes, pieces: int = 7) -> dict[str, Any]:
    """The next piece is written when the reader has nothing more to read."""
    size = -(-len(data) // pieces)
    path.write_bytes(data[:size])
    capture = open_capture(path, follow=True)
    reading = Reading(capture)

    def go_on() -> None:
        written = path.stat().st_size
        if written == len(data):
            capture.stop()
        with path.open("ab") as file:
            file.write(data[written : written + size])

    reading.on_pause = go_on
    return everything(reading)


@pytest.mark.parametrize("name", ["rollback.pcap", "snapshots.pcap", "tour.pcapng"])
def test_tables_are_the_same_of_a_file_a_pipe_and_a_file_that_grows(
    name: str, tmp_path: Path
) -> None:
    path, data = tmp_path / "capture", (SAMPLES / name).read_bytes()
    path.write_bytes(data)
    whole = everything(Reading([str(path)]))
    assert len(whole["streams"]) > 3
    for read_otherwise in (piped, followed):
        path.unlink()
        assert read_otherwise(path, data) == whole


def test_a_reading_of_what_is_live_lets_time_pass(tmp_path: Path) -> None:
    """A start in the middle of a stream is on trial, and no more packets come."""
    one = builders.Conversation()
    one.stream(False, builders.mutation(1) + builders.mutation(2))
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))
    capture = open_capture(path, follow=True)
    with Reading(capture) as reading:
        batch = next(iter(reading))
        assert (len(batch), batch.heuristic.tolist(), reading.messages) == (2, [True, True], 2)
        capture.stop()


def test_packets_are_seen_before_their_messages_are_and_after_those_of_others() -> None:
    seen: list[tuple[int, int]] = []
    with Reading(open_capture([str(SAMPLES / "rollback.pcap")], batch_bytes=2000)) as reading:
        reading.on_packets = lambda packets: seen.append(
            (packets.first_packet + len(packets), reading.messages)
        )
        delivered = [(len(seen), len(batch)) for batch in reading]
        assert len(seen) > 5
        assert seen[-1][0] == reading.capture.packets
    for count, (_, before) in enumerate(seen):
        assert before == sum(size for place, size in delivered if place <= count)


def asks_for_an_answer(talk: Told) -> None:
    talk.send("server", encode("dcp_noop", opaque=9))


def is_full(talk: Told) -> None:
    stream, seqno = talk.stream(3), 0
    stream.snapshot(0, 90, "memory")
    while talk.counted < 2000:
        seqno += 1
        stream.mutation(seqno, f"k{seqno}", b"x" * 100)


def is_rolled_back(talk: Told) -> None:
    talk.stream(2, start=100, uuid=0xA, snapshot=(90, 110), rollback=50)


def is_refused_for_now(talk: Told) -> None:
    talk.stream(2, status=Status.ETMPFAIL)


def says_nothing_more(talk: Told) -> None:
    talk.noop()


@pytest.mark.parametrize(
    ("last", "rule"),
    [
        (asks_for_an_answer, "noop-unanswered"),
        (is_full, "flow-control-stall"),
        (is_rolled_back, "rollback-not-followed"),
        (is_refused_for_now, "orphaned-vbucket"),
        (says_nothing_more, "silent-connection"),
    ],
)
def test_a_capture_that_goes_on_says_nothing_of_where_another_one_ended(
    last: Callable[[Told], None], rule: str, tmp_path: Path
) -> None:
    """As of two nodes, whose captures are stopped one after the other."""

    def talk(port: int) -> Told:
        controls = {"enable_noop": "true", "set_noop_interval": "20"}
        return opened(port=port, connection_buffer_size="2000", **controls)

    one, other = talk(50_000), talk(50_001)
    for each in (one, other):
        stream = each.stream(1)
        stream.snapshot(0, 1, "memory")
        stream.mutation(1, "a")
    for _ in range(5):
        one.noop()
        one.wait(15)
    last(one)
    for _ in range(20):
        other.noop()
        other.wait(15)
    (tmp_path / "one").write_bytes(capture(one))
    (tmp_path / "other").write_bytes(capture(other))
    together = [packet for talk in (one, other) for packet in packets(talk)]
    together.sort(key=lambda packet: packet.time_ns)
    recorded = [Recorded(packet.data, packet.wire, packet.time_ns) for packet in together]
    (tmp_path / "both").write_bytes(builders.pcap(recorded))
    third = len(recorded) // 3
    (tmp_path / "morning").write_bytes(builders.pcap(recorded[:third]))
    (tmp_path / "noon").write_bytes(builders.pcap(recorded[third - 3 :]))  # they overlap
    rules = dict[str, set[str]]()
    for names in (["both"], ["one", "other"], ["morning", "noon"]):
        with Reading([str(tmp_path / name) for name in names]) as reading:
            reading.check()
            list(reading)
            rules[names[0]] = {finding.rule for finding in reading.findings()}
    assert rules["both"] - rules["one"] >= {rule}
    assert rules["morning"] == rules["both"]
    assert rules["one"] <= {"rollback", "stream-refused"}


def test_a_connection_that_another_capture_has_for_longer_is_known_until_that_ends(
    tmp_path: Path,
) -> None:
    talk = opened()
    for vbucket in range(4):
        talk.stream(vbucket)
        talk.high_seqnos(dict.fromkeys(range(6), 5))
        talk.wait(5)
    talk.noop()
    recorded = [Recorded(packet.data, packet.wire, packet.time_ns) for packet in packets(talk)]
    half = len(recorded) // 2
    (tmp_path / "one").write_bytes(builders.pcap(recorded[:half]))
    (tmp_path / "other").write_bytes(builders.pcap(recorded[half - 4 :]))
    found = []
    for names in (["one", "other"], ["other", "one"]):
        with Reading([str(tmp_path / name) for name in names]) as reading:
            reading.check()
            list(reading)
            (link,) = reading.links
            assert link.last_ns == recorded[-1].time_ns
            assert (link.first_file, link.last_file) == (0, 1)
            found.append({finding.rule for finding in reading.findings()})
    assert found[0] == found[1]


def test_connections_are_made_once_when_all_was_read_and_anew_before() -> None:
    capture_file = open_capture([str(SAMPLES / "rollback.pcap")], batch_bytes=2000)
    with Reading(capture_file, track=True) as reading:
        last_times = [reading.links[0].last_ns for _ in reading]
        assert last_times == sorted(last_times)
        assert last_times[0] < last_times[-1]
        assert reading.links is reading.links
        assert reading.links == reading.engine.links


def test_nothing_leaves_the_tables_of_files() -> None:
    def told(*, forgets: bool) -> dict[str, Any]:
        with Reading([str(SAMPLES / "tour.pcapng")], track=True) as reading:
            if forgets:
                reading.forget_what_is_over()
            for _ in reading:
                pass
            return {name: table.records() for name, table in reading.tables.by_name.items()}

    assert told(forgets=True) == told(forgets=False)


def test_only_who_tracks_streams_can_forget_them() -> None:
    with (
        Reading([str(SAMPLES / "tour.pcapng")]) as reading,
        pytest.raises(ValueError, match="track"),
    ):
        reading.forget_what_is_over()


class Endless:
    """Packets of a capture that has no size, as those of an interface."""

    size = None
    position = packets = 0
    can_stop = False

    def __init__(self, captured: Sequence[damage.Packet]) -> None:
        self.files, self.problems = [CaptureFile("endless")], list[FileDamage]()
        self._batches = damage.batches(captured, [50] * (len(captured) // 50))

    def __iter__(self) -> Iterator[PacketBatch]:
        return iter(self._batches)

    def stop(self) -> None:
        """It ends by itself."""

    def close(self) -> None:
        """There is nothing to free."""


def comes_and_goes(count: int, *, abort: bool, apart_s: float = 60) -> list[damage.Packet]:
    """Connections one after the other; a third of them are closed with a stream open."""
    talks = []
    for number in range(count):
        talk = opened(port=20_000 + number)
        stream = talk.stream(7, start=3 * number)
        stream.snapshot(3 * number, 3 * number + 3, "memory", "checkpoint")
        stream.mutation(3 * number + 1, f"a {number}")
        stream.mutation(3 * number + 3, f"b {number}")
        if number % 3:
            stream.end()
        talk.close(abort=abort)
        talk.wait(apart_s)
        talks.append(talk)
    return packets(*talks)


def watched(
    captured: Sequence[damage.Packet], *, closed: int | None, streams: int = 10_000
) -> Reading:
    """A reading at its end; ``closed``: so many connections that were closed stay, and all
    without.
    """
    reading = Reading(Endless(captured), extra_ports=[damage.PORT])
    reading.check()
    if closed is not None:
        reading.forget_what_is_over()
        reading.most_closed, reading.tracker.most_streams = closed, streams
    for _ in reading:
        pass
    return reading


@pytest.mark.slow
@pytest.mark.parametrize("abort", [False, True])
def test_connections_that_were_closed_leave_and_what_was_found_on_them_stays(abort: bool) -> None:
    captured = comes_and_goes(60, abort=abort)
    whole, part = watched(captured, closed=None), watched(captured, closed=5)
    assert part.findings() == whole.findings()
    assert part.findings()
    assert len(whole.engine.links) == 60
    assert len(part.engine.links) <= 12
    assert part.engine.links[-1].number == 60
    assert part.tracker.left_counts["connections"] == 60 - len(part.engine.links)
    assert part.tracker.left_counts["streams"] + part.tracker.state.counts.streams == 60
    assert sum(one.decoded for one in part.coverage.everything) == sum(
        one.decoded for one in whole.coverage.directions
    )


@pytest.mark.parametrize(("count", "most"), [(45, 0), (400, 16)])
def test_what_stays_is_not_looked_at_again_for_each_few_connections(
    count: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, let_go = [], Checker.let_go

    def counted(checker: Checker, *others: Any) -> None:
        asked.append(len(others[-1]))
        let_go(checker, *others)

    monkeypatch.setattr(Checker, "let_go", counted)
    watched(comes_and_goes(count, abort=False, apart_s=0.01), closed=5)
    assert len(asked) <= most
    assert bool(asked) == bool(most)


@pytest.mark.slow
def test_ten_times_as_many_connections_leave_no_more_behind() -> None:
    def kept(count: int) -> list[int]:
        tracker = watched(comes_and_goes(count, abort=True), closed=5).tracker
        counts = tracker.state.counts
        return [
            counts.streams,
            counts.keys,
            counts.snapshots,
            counts.questions,
            len(tracker.conversation.sessions),
        ]

    few, many = kept(20), kept(200)
    assert all(more <= 2 * less for less, more in zip(few, many, strict=True)), (few, many)


def rows_in_use(reading: Reading) -> dict[str, int]:
    """Of the tables that have a row for each connection, how many rows are not zero; and the
    address pairs.
    """
    engine = reading.engine
    tables: dict[str, Any] = {
        "connections": engine.transport._tables.connections.array,
        "flows": engine.transport._tables.flows.array,
        "requests": engine._decoding._requests._tables.times,
    }
    numbers = {
        name: table.view(np.uint8).reshape(len(table), -1).any(axis=1).sum()
        for name, table in tables.items()
    }
    names = engine._clients.count
    return {
        **numbers,
        "pairs": engine.transport.pairs.count,
        "names": names,
        "accounts": len(engine._accounts._whole),
        "lost": len(engine._lost),
        "framers": len(engine._framers),
    }


@pytest.mark.slow
def test_ten_times_as_many_connections_take_no_more_rows_of_what_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.transport.reassembly.MOST_LAST", 4)
    few, many = (
        rows_in_use(watched(comes_and_goes(count, abort=False), closed=5)) for count in (20, 200)
    )
    assert all(more <= 2 * few[name] for name, more in many.items()), (few, many)


@pytest.mark.slow
def test_bytes_of_connections_that_left_are_counted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.transport.reassembly.MOST_LAST", 4)
    captured = comes_and_goes(60, abort=False)
    del captured[100::97]  # some packets were lost
    whole, part = (watched(captured, closed=closed).coverage for closed in (None, 5))
    assert len(whole.left) == 0
    assert [one.connection for one in part.left] == [0, 0]
    for name in (
        "packets",
        "captured",
        "unique",
        "duplicate",
        "late",
        "decoded",
        "unfinished",
        "missing",
        "holes",
        "tls",
    ):
        for way in (0, 1):
            sums = [
                sum(getattr(one, name) for one in of.everything if one.direction == way)
                for of in (whole, part)
            ]
            assert sums[0] == sums[1], (name, way)
    assert part.packets == whole.packets


@pytest.mark.slow
def test_connections_on_addresses_of_those_that_left_are_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.transport.reassembly.MOST_LAST", 0)
    talks = []
    for number in range(60):
        talk = opened(port=20_000 + number % 3)
        talk.stream(7).snapshot(0, 1, "memory", "checkpoint")
        talk.close()
        talk.wait(70)
        talks.append(talk)
    whole, part = (watched(packets(*talks), closed=closed) for closed in (None, 2))
    assert part.messages == whole.messages
    assert part.engine.transport.count == whole.engine.transport.count == 60
    assert part.engine.transport.pairs.count <= 3


def test_connections_stay_that_were_closed_a_moment_ago_or_cast_doubt_on_others() -> None:
    at_once = []
    for number in range(30):
        talk = opened(port=20_000 + number)
        talk.close()
        at_once.append(talk)
    assert len(watched(packets(*at_once), closed=5).engine.links) == 30
    lossy = []
    for number in range(30):
        talk = opened(port=20_000 + number)
        stream = talk.stream(7)
        with talk.lost():
            stream.snapshot(0, 1, "memory")
        stream.mutation(1, "a")
        talk.close()
        talk.wait(60)
        lossy.append(talk)
    assert len(watched(packets(*lossy), closed=5).engine.links) == 30


@pytest.mark.slow
def test_streams_that_ended_leave_a_connection_that_goes_on() -> None:
    talk = opened()
    for number in range(200):
        stream = talk.stream(7, start=number)
        stream.snapshot(number, number + 1, "memory", "checkpoint")
        stream.mutation(number + 1, f"key {number}")
        stream.end("closed" if number % 50 else "state-changed")
    captured = packets(talk)
    whole, part = watched(captured, closed=None), watched(captured, closed=5, streams=20)
    assert part.tracker.state.counts.streams <= 60
    assert part.tracker.left_counts["streams"] == 200 - part.tracker.state.counts.streams
    shown = [
        [(one.id, one.severity, one.message, one.count, one.over) for one in reading.findings()]
        for reading in (part, whole)
    ]
    assert shown[0] == shown[1]
    assert len(shown[0]) == 2


def test_what_comes_of_a_connection_that_has_left_is_not_looked_at() -> None:
    captured = comes_and_goes(40, abort=True)
    late = [packet for packet in captured if len(packet.data) > 200][:1]
    reading = watched([*captured, *late], closed=5)
    assert reading.messages == watched(captured, closed=5).messages
    assert len(reading.engine.links) <= 12


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_a_client_received_after_its_capture_had_ended_is_not_left_out(
    is_whole: bool, tmp_path: Path
) -> None:
    """Node 1's capture ends, and vb 7, which goes on there, perhaps, is resumed at node 2."""
    one, two = opened(port=50_001), opened(port=50_002)
    two.server = "node2"
    stream = one.stream(7)
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "k")
    stream.end("state-changed")
    two.stream(8)
    two.wait(5)
    two.stream(7, start=9)
    two.noop()
    (tmp_path / "one").write_bytes(capture(one))
    (tmp_path / "two").write_bytes(capture(two))
    together = sorted((*packets(one), *packets(two)), key=lambda packet: packet.time_ns)
    recorded = [Recorded(packet.data, packet.wire, packet.time_ns) for packet in together]
    (tmp_path / "whole").write_bytes(builders.pcap(recorded))
    with Reading(
        [str(tmp_path / name) for name in (["whole"] if is_whole else ["one", "two"])]
    ) as reading:
        reading.check()
        list(reading)
        rules = {finding.rule for finding in reading.findings()}
    assert ("resume-skipped" in rules) == is_whole
