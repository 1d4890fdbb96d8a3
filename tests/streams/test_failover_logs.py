"""Failover logs: whose vbuckets they speak of, and which of them is nearest to an answer."""

from __future__ import annotations

from dcpinspect.streams.failover_logs import FailoverLogs
from dcpinspect.streams.visibility import Visibility
from tests.streams.told import Seen, Told, opened, packets

NEW, OLD = 0xB, 0xA


def logs(*talks: Told) -> FailoverLogs:
    seen = Seen(packets(*talks))
    state = seen.tracker.state
    sight = Visibility(state.known_tables, {link.number: link for link in seen.links})
    return FailoverLogs(state.known_tables.streams, sight, seen.tracker.conversation, seen.links)


def first(
    bucket: str, *, port: int = 50_001, log: tuple[tuple[int, int], ...] = ((OLD, 0),)
) -> Told:
    talk = Told("a:1", port=port)
    talk.hello("a/1", "Collections")
    if bucket:
        talk.select_bucket(bucket)
    talk.open("a:1", "producer")
    talk.stream(7, log=log)
    return talk


def test_the_next_log_is_nearest_else_the_last_one_before() -> None:
    talk = opened()
    talk.failover_log(7, [(OLD, 0)])
    talk.stream(7, start=9, rollback=0)
    talk.failover_log(7, [(NEW, 5), (OLD, 0)])
    talk.stream(7, start=9, rollback=0)
    talk.stream(8, start=9, rollback=0)
    found = logs(talk)
    assert [len(log.entries) for log in found.stream_logs(0)] == [1, 2]
    for stream in (0, 1):
        nearest = found.nearest(stream)
        assert nearest is not None
        assert nearest.entries == ((NEW, 5), (OLD, 0))
    assert [len(found.after(stream)) for stream in (0, 1)] == [1, 0]
    assert found.nearest(2) is None


def test_buckets_have_their_own_history() -> None:
    again = first("pears", port=50_002)
    again.stream(7, start=9, rollback=0)
    assert len(logs(first("apples"), again).stream_logs(2)) == 1
    again = first("apples", port=50_002)
    again.stream(7, start=9, rollback=0)
    assert len(logs(first("apples"), again).stream_logs(2)) == 2


def test_a_bucket_that_may_have_been_selected_unseen_is_nobody_elses() -> None:
    talk = Told("b:1", port=50_002)
    talk.hello("b/1", "Collections")
    talk.begin()
    talk.stream(7, start=9, rollback=0)
    assert logs(first(""), talk).nearest(1) is None


def test_the_newest_branch_at_or_below_a_seqno() -> None:
    (log,) = logs(first("", log=((NEW, 50), (OLD, 0)))).stream_logs(0)
    assert [log.newest_below(seqno) for seqno in (49, 50, 51)] == [OLD, NEW, NEW]
    assert (log.has(OLD), log.has(0xC)) == (True, False)
