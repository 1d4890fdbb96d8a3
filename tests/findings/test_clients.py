"""A client over all its connections: how long it takes to ask again, and what it may have asked
unseen.
"""

from __future__ import annotations

from dcpinspect.findings.clients import Clients
from dcpinspect.findings.context import Context
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.verdicts import PATIENCE_NS
from tests.streams.told import Seen, Told, opened, packets


def clients(*talks: Told) -> Clients:
    seen = Seen(packets(*talks))
    return Clients(Context(seen.tracker, seen.links))


def test_a_refusal_for_now_is_a_turn_of_its_own_and_makes_nobody_wait_longer_for_others() -> None:
    talk = opened("kafka:1")
    for status in (Status.ETMPFAIL, Status.EACCESS, Status.NOT_MY_VBUCKET):
        talk.stream(7, status=status)
        talk.wait(9)
    talk.stream(7).end("state-changed")
    found = clients(talk)
    (refused,), (ended,) = found.refusals.values(), found.losses.values()
    assert [loss.row for loss in refused.all] == [6, 10]
    assert refused.patience_ns(10**20) // 10**9 == 90
    assert ended.patience_ns(10**20) == PATIENCE_NS


def test_what_was_lost_between_two_times_may_hide_a_request() -> None:
    talk = opened("kafka:1")
    talk.stream(7)
    with talk.lost():
        talk.stream(8)
    talk.stream(9)
    seen = Seen(packets(talk))
    first_ns, second_ns = seen.tracker.state.known_tables.streams.opened.time.tolist()
    found = Clients(Context(seen.tracker, seen.links))
    assert found.may_have_said(1, first_ns, second_ns, vbucket=8)
    assert found.may_have_heard(1, first_ns, second_ns)
    assert found.may_have_said(1, first_ns, vbucket=8)
    assert not found.may_have_said(1, second_ns, vbucket=8)
    assert not found.may_have_said(1, 0, first_ns, vbucket=8)
