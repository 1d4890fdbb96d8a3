"""One consumer's story of a vbucket, over its streams and connections."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.statuses import Status
from tests.streams.told import Record, Told, opened, tables


def test_the_newest_stream_decides_and_sums_are_over_all() -> None:
    one, other = opened("kafka:1"), opened("kafka:2", port=50_001)
    stream = one.stream(7)
    stream.snapshot(0, 5, "memory")
    for seqno in (1, 2, 5):
        stream.mutation(seqno, "k")
    one.close()
    other.stream(7, start=5, uuid=9, rollback=2)
    stream = other.stream(7, start=2, end=99)
    stream.snapshot(2, 4, "memory")
    stream.mutation(4, "k")
    other.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 40}]})
    (found,) = tables(one, other).vbuckets
    expected = {
        "client": "10.0.0.1 kafka",
        "vbucket": 7,
        "verdict": "caught-up",
        "connections": [1, 2],
        "streams": 3,
        "requested_end": 99,
        "first_seqno": 1,
        "last_seqno": 4,
        "high_seqno": 40,
        "behind": 36,
        "items": 4,
        "gaps": {"rollback": 1, "deduplicated": 2},
        "snapshots": 2,
        "rollbacks": 1,
        "findings": None,
    }
    assert {key: found[key] for key in expected} == expected
    assert found["bytes"] == 2 * 44 + 4 * (24 + 31 + 2)


@pytest.mark.parametrize("is_over", [False, True])
def test_a_request_that_is_refused_beside_an_open_stream_does_not_decide(is_over: bool) -> None:
    talk = opened("kafka:1")
    stream = talk.stream(7)
    stream.snapshot(0, 1, "memory")
    stream.mutation(1, "k")
    if is_over:
        stream.end("ok")
    talk.stream(7, status=Status.UNKNOWN_COLLECTION)
    (found,) = tables(talk).vbuckets
    assert (found["verdict"], found["streams"]) == ("refused" if is_over else "caught-up", 2)


def test_clients_are_told_apart_by_name_and_by_agent_when_they_have_none() -> None:
    talks = [opened("kafka:1"), opened("spark:1", port=50_001)]
    for talk in talks:
        talk.stream(7)
    assert [found["client"] for found in tables(*talks).vbuckets] == [
        "10.0.0.1 kafka",
        "10.0.0.1 spark",
    ]


def of_bucket(bucket: str | None, port: int) -> Told:
    talk = Told("kafka", port=port)
    talk.hello("test/1.0", "JSON", "Collections")
    if bucket is not None:
        talk.select_bucket(bucket)
    talk.open("kafka:1", "producer")
    return talk


def test_a_client_of_two_buckets_is_a_client_of_each() -> None:
    talks = [
        of_bucket(bucket, 50_000 + number)
        for number, bucket in enumerate(("travel", "beer", "travel", None))
    ]
    for start, talk in zip((0, 5, 0, 9), talks, strict=True):
        stream = talk.stream(7, start=start, uuid=9)
        stream.snapshot(start, start + 2, "memory")
        stream.mutation(start + 2, "k")
    found = tables(*talks)
    assert {(one["client"], *one["connections"]) for one in found.vbuckets} == {
        ("10.0.0.1 kafka@travel", 1, 3),
        ("10.0.0.1 kafka@beer", 2),
        ("10.0.0.1 kafka", 4),
    }
    assert "resumed" not in {gap["cause"] for gap in found.gaps}
    assert [one["client"] for one in tables(*talks[:1], talks[2]).vbuckets] == ["10.0.0.1 kafka"]


def test_high_seqnos_of_one_collection_are_not_the_vbuckets() -> None:
    talk = opened()
    talk.stream(7)
    talk.ask(
        "get_all_vb_seqnos",
        {"seqnos": [{"vbucket": 7, "seqno": 40}]},
        state="active",
        collection_id=8,
    )
    assert tables(talk).vbuckets[0]["high_seqno"] is None


def test_observe_seqno_tells_the_high_seqno_too() -> None:
    talk = opened()
    talk.stream(7)
    talk.ask(
        "observe_seqno",
        {
            "format": 0,
            "observed_vbucket": 7,
            "vbucket_uuid": 1,
            "last_persisted_seqno": 3,
            "current_seqno": 8,
        },
        vbucket=7,
        vbucket_uuid=1,
    )
    assert tables(talk).vbuckets[0]["high_seqno"] == 8


def test_high_seqnos_of_replicas_are_not_the_vbuckets() -> None:
    """A replica is behind its active, which is whom the client streams from."""
    talk = opened()
    talk.stream(7)
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 50}]}, state="active")
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 40}]}, state="replica")
    assert tables(talk).vbuckets[0]["high_seqno"] == 50


def test_the_last_time_is_that_of_whichever_stream_spoke_last() -> None:
    talk = opened(enable_stream_id="true")
    streams = [talk.stream(7, value={"sid": sid}) for sid in (1, 2, 3)]
    talk.wait(5)
    streams[1].snapshot(0, 5, "memory")
    seen = tables(talk)
    times = [found["last_time"] for found in seen.streams]
    assert times[1] > max(times[0], times[2])
    assert seen.vbuckets[0]["last_time"] == times[1]


def told(start: int, *flags: str, rollback: int | None = None) -> Record:
    """The vbucket of a client that asks from ``start``, and receives nothing."""
    talk = opened()
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 50}]}, state="active")
    talk.stream(7, start=start, flags=flags, rollback=rollback)
    (vbucket,) = tables(talk).vbuckets
    return vbucket


@pytest.mark.parametrize(("start", "behind"), [(0, 50), (20, 30), (50, 0), (60, 0)])
def test_a_client_that_received_nothing_is_behind_from_where_it_asked(
    start: int, behind: int
) -> None:
    assert told(start)["behind"] == behind


def test_where_a_client_begins_that_asks_for_the_latest_is_not_known() -> None:
    assert told(0, "from-latest")["behind"] is None


def test_a_client_that_was_rolled_back_is_behind_from_there() -> None:
    assert told(40, rollback=10)["behind"] == 40


def test_an_old_high_seqno_does_not_say_how_far_a_client_is_behind() -> None:
    talk = opened()
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 31}]}, state="active")
    stream = talk.stream(7)
    stream.snapshot(0, 50, "memory")
    stream.mutation(31, "k")
    assert tables(talk).vbuckets[0]["behind"] == 0
    stream.mutation(50, "k")
    (vbucket,) = tables(talk).vbuckets
    assert (vbucket["last_seqno"], vbucket["high_seqno"], vbucket["behind"]) == (50, 31, None)


def test_the_first_seqno_is_the_least_that_any_stream_received() -> None:
    one, other = opened("kafka:1"), opened("kafka:2", port=50_001)
    later = one.stream(7, start=4)
    later.snapshot(4, 5, "memory")
    later.mutation(5, "k")
    one.close()
    earlier = other.stream(7, start=0)
    earlier.snapshot(0, 1, "disk")
    earlier.mutation(1, "k")
    assert tables(one, other).vbuckets[0]["first_seqno"] == 1
