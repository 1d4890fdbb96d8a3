"""Events of a vbucket in order, each with what shows it."""

from __future__ import annotations

from dcpinspect.output.render.event_lines import (
    EventLines,
    MessageEvent,
    VbucketEvent,
    events,
    folded,
    told_once,
)
from tests.encode import encode
from tests.streams.test_story import twice, with_links
from tests.streams.told import Told, opened

DISK = (
    "within the marker 0–9 in row 7, from disk, or purged by compaction or hidden from this client"
)


def texts(*talks: Told, fold: bool = False) -> list[str]:
    streams, links = with_links(*talks)
    found = events(streams, {}, links, {1: 99})
    return [
        f"{event.row} {event.kind}: {event.text}" for event in (folded(found) if fold else found)
    ]


def test_a_story_is_told_in_order_of_rows() -> None:
    first, _ = twice()
    assert texts(first) == [
        "5 request: request from 0: accepted; no end",
        "7 snapshot: disk snapshot 0–9, checkpoint: complete, 3 items, 2–9",
        f"8 gap: seqno 1 did not come, deduplicated: {DISK}",
        f"10 gap: seqnos 4–8 did not come, deduplicated: {DISK}",
        "11 snapshot: memory snapshot 10–20, checkpoint: cut, 1 item, 12",
        (
            "12 gap: seqnos 10–11 did not come, deduplicated: within the marker 10–20 in row "
            "11, or hidden from this client"
        ),
        "99 connection-closed: connection closed by the server, after seqno 12",
    ]


def test_runs_of_gaps_with_one_cause_are_one_line() -> None:
    first, _ = twice()
    shown = texts(first, fold=True)
    assert shown[2] == f"8 gap: 2 gaps, 6 of the seqnos 1–8, deduplicated: {DISK}"
    assert len(shown) == len(texts(first)) - 1
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k")
    stream.snapshot(20, 29, "memory")
    for seqno in (22, 24):  # the first gap begins before the marker, the second is within it
        stream.mutation(seqno, "k")
    told = next(text for text in texts(talk, fold=True) if " gaps, " in text)
    assert ", deduplicated; the first: between what came before and " in told


def test_why_seqnos_did_not_come_is_said_once_for_a_stream() -> None:
    first, _ = twice()
    streams, links = with_links(first)
    gaps = [event.text for event in told_once(events(streams, {}, links, {1: 99})) if event.gap]
    assert gaps[:2] == [
        f"seqno 1 did not come, deduplicated: {DISK}",
        "seqnos 4–8 did not come, deduplicated: as in row 8",
    ]
    assert gaps[2].endswith(": within the marker 10–20 in row 11, or hidden from this client")


def test_many_complete_snapshots_in_a_row_are_one_line() -> None:
    talk = opened()
    stream = talk.stream(7)
    for seqno in range(1, 7):
        stream.snapshot(seqno, seqno, "memory")
        stream.mutation(seqno, f"k{seqno}")
    stream.snapshot(7, 9, "memory")
    stream.mutation(7, "k")
    assert texts(talk, fold=True)[1:3] == [
        "7 snapshot: memory snapshots 1–6: 6 complete, 6 items, 1–6",
        "19 snapshot: memory snapshot 7–9: open, 1 item, 7",
    ]
    few = opened()
    stream = few.stream(7)
    for seqno in range(1, 4):
        stream.snapshot(seqno, seqno, "memory")
        stream.mutation(seqno, f"k{seqno}")
    assert texts(few, fold=True) == texts(few)


def snapshots(talk: Told) -> list[str]:
    return [text.split("snapshot: ")[1] for text in texts(talk) if " snapshot: " in text]


def test_items_outside_of_a_markers_range_are_not_of_its_snapshot() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory")
    for seqno in range(1, 10):
        stream.mutation(seqno, "a")
    assert snapshots(talk) == [
        (
            "memory snapshot 0–3: complete, 3 items, 1–3; then 6 items, 4–9, without a "
            "marker of their own"
        )
    ]


def test_a_complete_snapshot_with_a_hole_says_so_with_the_word_of_the_table() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "a")
    with talk.lost():
        for seqno in (2, 3):
            stream.mutation(seqno, "b")
    for seqno in range(4, 10):
        stream.mutation(seqno, "c")
    assert snapshots(talk) == [("memory snapshot 0–9: complete without seqnos 2–3, 7 items, 1–9")]


def test_what_was_asked_and_what_was_answered() -> None:
    talk = opened()
    talk.stream_answer(
        talk.stream_request(
            7, 30, start=30, uuid=5, snapshot=(20, 40), end=90, value={"uid": "\x1b[31m"}
        ),
        status=0x23,
        rollback=10,
    )
    talk.stream_answer(talk.stream_request(7, 31), status=0x22)
    talk.stream_request(7, 32)
    request, gap, refused, unanswered, never = texts(talk)
    assert request == (
        "5 request: request from 30: rollback to 10; up to 90, uuid 0x0000000000000005, snapshot "
        '20–40, {"uid":"\\\\u001b[31m"}'
    )
    assert gap.startswith(
        "6 gap: seqnos 11–30 must be discarded where the client has them, rollback: "
    )
    assert refused == "7 request: request from 0: refused: erange; no end"
    assert unanswered == "9 request: request from 0: unanswered; no end"
    assert never.endswith("before any seqno")


def test_a_stream_that_runs_says_how_it_is_at_the_end() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "disk")
    stream.mutation(2, "a")
    assert texts(talk)[-1] == "99 state: the capture ends: backfilling, after seqno 2"
    stream.end("too-slow")
    *_, end, nothing = texts(talk)
    assert end.endswith("stream-end: stream end: too-slow, after seqno 2")
    assert nothing.endswith(
        "the capture ends: no stream is open, and no later request was captured"
    )


def test_messages_that_are_events_have_their_place() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "disk")
    stream.mutation(2, "a")
    note = MessageEvent(8, 5_000_000_000, 1, -1, 2, "S", "system event: x")
    streams, links = with_links(talk)
    found = events(streams, {0: [note]}, links, {})
    event = next(event for event in found if event.kind == "system-event")
    assert (event.row, event.record()["text"]) == (8, "system event: x")
    assert EventLines([event], 4_000_000_000, None).heading == "Row     Time Con Stream Event"
    assert EventLines([event], 4_000_000_000, None).lines_of(event) == [
        "  8 1.000000   1 #1     system event: x"
    ]


def test_nothing_that_an_event_says_is_cut() -> None:
    event = VbucketEvent(
        8, 0, 1, 1, None, "gap", "seqnos 1–5 did not come, unexplained: " + "why " * 30
    )
    lines = EventLines([event], None, 60).lines_of(event)
    assert all(len(line) <= 60 for line in lines)
    assert {line[: len("Row Time Con Stream   ")] for line in lines[1:]} == {
        " " * len("Row Time Con Stream   ")
    }
    assert " ".join(lines).split()[3:] == event.text.split()


def test_a_stream_whose_place_another_one_took_after_a_loss_ended_for_no_known_reason() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(1, 5, "memory")
    stream.close()
    with talk.lost():
        talk.send("server", encode("noop"))
    talk.stream(7)
    assert "9 stream-end: stream end: unknown, before any seqno" in texts(talk)


def test_a_stream_of_a_closed_connection_does_not_go_on_to_the_end_of_the_capture() -> None:
    def ended(*, answers: bool) -> str:
        talk = opened()
        with talk.lost():
            talk.send("server", encode("noop"))
        if answers:
            talk.stream(7)
        else:
            talk.stream_request(7, 5)
        with talk.lost():
            talk.send("server", encode("noop"))
        talk.close("client")
        return texts(talk, opened(port=50_001))[-1].partition(": ")[2]

    assert ended(answers=True) == (
        "connection closed by the client, before any seqno; capture loss may hide an earlier end"
    )
    assert ended(answers=False) == (
        "connection closed by the client: unknown-capture, before any seqno"
    )
