"""Events looked at a second time: only those that are wanted, from batches read again or from the
latest ones remembered.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.reading.engine import Engine
from dcpinspect.streams import events
from dcpinspect.streams.events import (
    EventQuery,
    FoundEvents,
    RecentEvents,
    copy_keys,
    events_of,
    hash_keys,
)
from dcpinspect.streams.records import GREATEST, LEAST, Streams
from dcpinspect.streams.state import unbiased
from dcpinspect.tables.messages import MessageBatch
from tests.damage import PORT, batches
from tests.streams.told import Told, opened, packets


def read(talk: Told, *sizes: int) -> list[MessageBatch]:
    engine = Engine(["told.pcap"], ports=(PORT,))
    found = [*(engine.feed(part) for part in batches(packets(talk), sizes)), engine.finish()]
    return [batch for batch in found if batch is not None]


def streams(*rows: tuple[int, int, int, int, int]) -> Streams:
    """(connection, vbucket, sid, first row, last row) as the tracker's table of streams."""
    table = Streams.zeros(len(rows))
    for place, (connection, vbucket, sid, first, last) in enumerate(rows):
        stream = table[place]
        stream.connection, stream.vbucket, stream.sid = connection, vbucket, sid
        stream.opened.row, stream.latest.row = first, last
    return table


def seqno(number: int) -> int:
    return number + LEAST


def some() -> Told:
    talk = opened(enable_stream_id="true")
    stream = talk.stream(7, value={"sid": 3})
    stream.snapshot(0, 6, "disk", "checkpoint")
    stream.mutation(1, "a")
    stream.deletion(2, "a", collection=9)
    stream.system_event(3, "end-collection", manifest_uid=2, scope_id=0, collection_id=9)
    stream.send("dcp_commit", framed=False, collection=0, key="a", prepared_seqno=1, commit_seqno=4)
    stream.seqno_advanced(6)
    return talk


def test_an_event_has_its_seqno_collection_and_key() -> None:
    (batch,) = read(some())
    events = events_of(batch)
    assert (events.connection.tolist(), events.vbucket.tolist()) == ([1] * 4, [7] * 4)
    assert events.sid.tolist() == [3, 3, 3, -1]
    assert [number - LEAST for number in events.seqno.tolist()] == [1, 2, 3, 4]
    assert events.opcode.tolist() == [0x57, 0x58, 0x5F, 0x62]
    assert events.collection.tolist() == [0, 9, 9, 0]
    assert events.ended.tolist() == [-1, -1, 9, -1]
    keys = events.key.tolist()
    assert keys[0] == keys[1] == keys[3] != keys[2]
    assert events.place.row.tolist() == sorted(events.place.row.tolist())


def test_a_key_that_is_not_there_as_a_whole_is_no_key() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 1, "memory")
    stream.mutation(1, "a", {"long": "x" * 200})
    cut = [packet.cut(150) for packet in packets(talk)]
    engine = Engine(["told.pcap"], ports=(PORT,))
    (batch,) = [
        found for found in (engine.feed(next(batches(cut))), engine.finish()) if found is not None
    ]
    assert events_of(batch).key.tolist() == [-1]


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_both_forms_hash_alike_and_different_keys_differently(keys: list[bytes]) -> None:
    size = np.array([len(key) for key in keys], np.int64)
    start = np.cumsum(size) - size
    data = np.frombuffer(b"".join(keys) + b"\0", np.uint8)
    out = [np.zeros(len(keys), np.int64) for _ in range(2)]
    hash_keys.interpreted(data, start, size, 12_345_678, 87_654_321, out[0])
    hash_keys.compiled(data, start, size, 12_345_678, 87_654_321, out[1])
    assert out[0].tolist() == out[1].tolist()
    assert len(set(out[0].tolist())) == len(set(keys))
    assert (out[0] >= 0).all()


@pytest.mark.parametrize("sizes", [(), (3,) * 20])
def test_only_wanted_seqnos_of_wanted_streams_are_taken(sizes: tuple[int, ...]) -> None:
    found = read(some(), *sizes)
    rows = [int(row) for batch in found for row in events_of(batch).place.row]
    table = streams(
        (1, 7, 3, rows[0], rows[-1]),
        (1, 8, 3, 1, 99),
        (1, 7, 3, rows[-1] + 1, 99),
        (2, 7, 3, 1, 99),
    )
    wanted = EventQuery(
        table,
        {
            number: [(seqno(2), seqno(2)), (seqno(2), seqno(3)), (seqno(50), seqno(60))]
            for number in range(4)
        },
    )
    shown = FoundEvents(wanted)
    for batch in found:
        shown.feed(batch)
    assert [(shown.stream_events(number).seqno - LEAST).tolist() for number in range(4)] == [
        [2, 3],
        [],
        [],
        [],
    ]
    assert (wanted.first_row, wanted.last_row) == (1, 99)


def test_what_came_before_the_answer_is_of_the_stream_before() -> None:
    """Behind a hole, a request may be read before what the server had said earlier."""
    (batch,) = read(some())
    rows = events_of(batch).place.row.tolist()
    table = streams((1, 7, 3, rows[0] - 1, rows[-1]))
    for answered, expected in ((0, [1, 2, 3]), (rows[1], [2, 3])):
        table.answered.row[:] = answered
        shown = FoundEvents(EventQuery(table, {0: [(LEAST, GREATEST)]}))
        shown.feed(batch)
        assert (shown.stream_events(0).seqno - LEAST).tolist() == expected


def test_seqnos_at_both_ends_of_64_bits_are_found() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, (1 << 64) - 1, "memory")
    for number in (1, 1 << 63, (1 << 64) - 1):
        stream.send("dcp_mutation", collection=0, key="k", by_seqno=number, rev_seqno=1)
    (batch,) = read(talk)
    shown = FoundEvents(
        EventQuery(streams((1, 7, -1, 1, 99)), {0: [(LEAST, seqno(1)), (seqno(1 << 63), GREATEST)]})
    )
    shown.feed(batch)
    assert unbiased(shown.stream_events(0).seqno).tolist() == [1, 1 << 63, (1 << 64) - 1]


def test_of_more_events_than_anyone_looks_at_there_are_those_of_the_first_vbuckets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "MOST", 2)
    talk = opened()
    for vbucket in (9, 7, 8):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 1, "memory")
        stream.mutation(1, "k")
    table = streams(*((1, vbucket, -1, 1, 99) for vbucket in (7, 8, 9)))
    for sizes in ((), (1,) * 60):
        shown = FoundEvents(EventQuery(table, {number: [(LEAST, GREATEST)] for number in range(3)}))
        for batch in read(talk, *sizes):
            shown.feed(batch)
        assert (shown.vbuckets, [len(shown.stream_events(number)) for number in range(3)]) == (
            9,
            [1, 1, 0],
        )
        assert [shown.has_from(number, LEAST) for number in range(3)] == [True, True, False]


def test_several_that_look_at_different_connections_find_together_what_one_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "MOST", 5)
    talk = opened()
    for vbucket in (7, 8, 9):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 2, "memory")
        stream.mutation(1, "k")
        stream.mutation(2, "l")
    (batch,) = read(talk)
    # the same conversation as that of connections 1, 2 and 3, whose parts call it 1
    table = streams(
        *(
            (connection, vbucket, -1, 1, 99)
            for connection, vbucket in ((1, 7), (2, 8), (3, 9), (3, 7))
        )
    )
    wanted = EventQuery(table, {number: [(LEAST, GREATEST)] for number in range(4)})
    parts = []
    for connection in (3, 1, 2):
        parts.append(FoundEvents(wanted))
        parts[-1].feed(batch, np.array([0, connection]))
    together = FoundEvents.joined(wanted, parts)
    assert together.vbuckets == 8
    assert [
        [(event.connection, event.vbucket) for event in together.stream_events(number)]
        for number in range(4)
    ] == [
        [(1, 7)] * 2,
        [],
        [],
        [(3, 7)] * 2,
    ]
    assert wanted.connections.tolist() == [1, 2, 3]
    one = FoundEvents(EventQuery(table[:1], {0: [(LEAST, GREATEST)]}))
    one.feed(batch)
    assert (
        one.stream_events(0).as_integers().tolist()
        == together.stream_events(0).as_integers().tolist()
    )


def test_keys_are_hashed_as_who_wants_them_hashes_all_keys() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 1, "memory")
    stream.mutation(1, "k")
    (batch,) = read(talk)
    hashes = []
    for secrets in ((5, 7), (5, 7), (11, 13)):
        wanted = EventQuery(streams((1, 7, -1, 1, 99)), {0: [(LEAST, GREATEST)]})
        wanted.secrets = secrets
        shown = FoundEvents(pickle.loads(pickle.dumps(wanted)))  # noqa: S301 - our own
        shown.feed(batch)
        hashes.append(int(shown.stream_events(0).key[0]))
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_latest_events_are_remembered_and_what_was_forgotten_is_known() -> None:
    talk = opened()
    stream = talk.stream(7)
    other = talk.stream(8)
    stream.snapshot(0, 40, "memory")
    for number in range(1, 41):
        stream.mutation(number, "k")
    other.snapshot(0, 1, "memory")
    other.mutation(1, "k")
    table = streams((1, 7, -1, 1, 99), (1, 7, -1, 40, 99), (1, 8, -1, 1, 99))
    wanted = EventQuery(table, {number: [(LEAST, GREATEST)] for number in range(3)})
    everything, recent = RecentEvents(), RecentEvents(limit=20)
    for batch in read(talk, *(2,) * 60):
        everything.feed(batch)
        recent.feed(batch)
        if recent.is_full:
            recent.forget()
    assert len(everything.remembered_events(wanted).stream_events(0)) == 40
    assert everything.remembered_events(wanted).has_from(0, LEAST)
    shown = recent.remembered_events(wanted)
    assert (shown.stream_events(0).seqno - LEAST).tolist() == list(
        range(23, 41)
    )  # twice it was 21, and then 10
    assert recent.first_row == shown.stream_events(0).place.row[0]
    assert [shown.has_from(0, seqno(number)) for number in (21, 22, 23)] == [False, True, True]
    assert shown.has_from(1, LEAST) is True
    assert shown.has_from(2, LEAST)


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_both_forms_copy_alike(keys: list[bytes]) -> None:
    size = np.array([len(key) for key in keys], np.int64)
    start = np.cumsum(size) - size
    data = np.frombuffer(b"".join(keys) + b"\0", np.uint8)
    out = [np.zeros((len(keys), 32), np.uint8) for _ in range(2)]
    copy_keys.interpreted(data, start, size, out[0])
    copy_keys.compiled(data, start, size, out[1])
    assert (
        out[0].tobytes() == out[1].tobytes() == b"".join(key[:32].ljust(32, b"\0") for key in keys)
    )
