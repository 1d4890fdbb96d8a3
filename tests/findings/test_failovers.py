"""A failover that a client followed, and what only looks like one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dcpinspect.findings.finding import Finding
from tests.findings.checked import findings
from tests.streams.told import Told, opened

OLD, NEW, FOREIGN = 0xA, 0xB, 0xF
BEFORE, AFTER = ((OLD, 0),), ((NEW, 100), (OLD, 0))


def streaming(
    vbuckets: Sequence[int],
    *,
    name: str = "a:1",
    port: int = 50_000,
    log: Sequence[tuple[int, int]] = BEFORE,
) -> Told:
    """A client that streams up to 150, and then loses its connection."""
    talk = opened(name, port=port)
    for vbucket in vbuckets:
        stream = talk.stream(vbucket, log=log)
        stream.snapshot(0, 150, "memory")
        stream.mutation(150, "k")
    talk.close("server", abort=True)
    return talk


def resumed(
    vbuckets: Sequence[int],
    *,
    name: str = "a:1",
    port: int = 50_001,
    follows: int = 99,
    log: Sequence[tuple[int, int]] = AFTER,
) -> Told:
    """The same client, on a node that has the vbuckets up to 100 of the old branch; ``follows``: it
    goes on with so many of them.
    """
    talk = opened(name, port=port)
    for vbucket in vbuckets:
        talk.stream(vbucket, start=150, uuid=OLD, rollback=100)
    for vbucket in vbuckets:
        talk.failover_log(vbucket, log)
    for vbucket in vbuckets[:follows]:
        talk.stream(vbucket, start=100, uuid=OLD, log=log)
    return talk


def failovers(*talks: Told) -> list[Finding]:
    return [one for one in findings(*talks) if one.rule == "failover"]


def test_a_failover_that_the_client_followed_is_one_note() -> None:
    (one,) = failovers(streaming(range(6)), resumed(range(6)))
    assert (one.severity, one.vbuckets, one.count, one.connections) == (
        "note",
        (0, 1, 2, 3, 4, 5),
        6,
        (2,),
    )
    assert one.message.startswith("new branches, all followed on 6 vbuckets in ")
    assert [place.direction for place in one.places[:3]] == ["s2c", "s2c", "s2c"]


def test_it_owns_the_rollbacks_that_were_followed() -> None:
    found = findings(streaming(range(6)), resumed(range(6)))
    (cause,) = [one for one in found if one.rule == "failover"]
    (rollback,) = [one for one in found if one.rule == "rollback"]
    assert (rollback.effect_of, rollback.severity, rollback.count) == (cause.id, "note", 6)


def test_it_does_not_own_a_rollback_of_another_client_vbucket_or_time() -> None:
    later = resumed(range(6))
    later.stream(40, start=150, uuid=OLD, rollback=100)
    later.stream(40, start=100, uuid=OLD, log=AFTER)
    other = opened("b:1", port=50_002)
    other.stream(1, start=150, uuid=OLD, rollback=100)
    other.stream(1, start=100, uuid=OLD, log=AFTER)
    again = opened("a:1", port=50_003)
    again.stream(2, start=300, uuid=NEW, rollback=200)
    again.stream(2, start=200, uuid=NEW, log=AFTER)
    later.close()
    found = findings(streaming(range(6)), later, other, again)
    standing = [
        (case.connections, case.vbuckets)
        for one in found
        if one.rule == "rollback" and one.effect_of is None
        for case in one.case_of_each
    ]
    assert sorted(standing) == [((2,), (40,)), ((3,), (1,)), ((4,), (2,))]


def test_three_vbuckets_are_too_few() -> None:
    assert failovers(streaming(range(3)), resumed(range(3))) == []


def test_one_vbucket_that_is_not_followed_makes_it_no_note_to_pass_over() -> None:
    found = findings(streaming(range(6)), resumed(range(6), follows=5))
    assert [one for one in found if one.rule == "failover"] == []
    assert all(one.effect_of is None for one in found if one.rule == "rollback")


def test_changes_that_come_one_by_one_are_none() -> None:
    talks = [streaming(range(6))]
    for vbucket in range(6):
        talks.append(resumed([vbucket], port=50_001 + vbucket))
        talks[-1].wait(3)
        talks[-1].close()
    assert failovers(*talks) == []


@pytest.mark.parametrize(
    "log",
    [BEFORE, ((NEW, 0),), ((NEW, 100), (FOREIGN, 0))],
    ids=["the same", "anew", "another history"],
)
def test_the_same_branch_or_another_history_is_none(log: Sequence[tuple[int, int]]) -> None:
    assert failovers(streaming(range(6)), resumed(range(6), log=log)) == []


def test_who_was_not_told_the_old_branch_cannot_tell_when_it_changed() -> None:
    assert failovers(resumed(range(6))) == []
    assert failovers(streaming(range(6), name="b:1"), resumed(range(6))) == []


def test_behind_a_hole_it_may_be_another_bucket() -> None:
    talk = streaming(range(6))
    talk.events.pop()  # the close
    with talk.lost():
        talk.select_bucket("other")
    talk.noop()
    assert failovers(talk, resumed(range(6))) == []


def test_a_node_that_has_not_heard_of_it_yet_changes_nothing() -> None:
    late = opened("a:1", port=50_004)
    for vbucket in range(6):
        late.failover_log(vbucket, BEFORE)
    late.close()
    assert [one.count for one in failovers(streaming(range(6)), resumed(range(6)), late)] == [6]
