"""How clients take up vbuckets again: each rule by its smallest conversation, by what looks like
it, and by what may hide it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.protocol.statuses import Status, status_name
from dcpinspect.reading.reading import Reading
from tests.builders import Recorded, pcap
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.findings.test_moves import NODES
from tests.peers.script import Mark, Stream
from tests.streams.told import Told, opened, packets, sent_again

RULES = ("rollback-not-followed", "orphaned-vbucket", "oso-resume-point", "end-lost")
LOG = ((0xB, 100), (0xA, 0))


def found(*talks: Told) -> list[Finding]:
    return findings(*talks, rules=RULES)


def rolled_back() -> Told:
    talk = opened("kafka:1")
    other = talk.stream(8)
    talk.stream(7, start=150, uuid=0xA, rollback=100)
    talk.wait(9)
    other.snapshot(0, 9, "memory")
    other.mutation(1, "k")
    return talk


# -- rollback-not-followed
# ---------------------------------------------------------------------------------


def test_a_rollback_that_nobody_follows() -> None:
    (one,) = found(rolled_back())
    assert (one.rule, one.severity, one.vbuckets) == ("rollback-not-followed", "error", (7,))
    assert one.message == "the rollback to seqno 100 was never followed (9.0 s)"
    assert [place.row for place in one.places] == [8, 7]
    assert one.first_time_ns == one.places[0].time_ns


def test_a_rollback_that_is_followed_late_is_followed() -> None:
    talk = rolled_back()
    talk.stream(7, start=100, uuid=0xB, log=LOG)
    assert found(talk) == []


def test_on_another_connection_as_well() -> None:
    again = opened("kafka:2", port=50_001)
    again.stream(7, start=100, uuid=0xB, log=LOG)
    assert found(rolled_back(), again) == []
    stranger = opened("elastic:2", port=50_001)
    stranger.stream(7, start=100, uuid=0xB, log=LOG)
    assert len(found(rolled_back(), stranger)) == 1


def test_the_capture_may_end_too_soon() -> None:
    talk = opened()
    other = talk.stream(8)
    talk.stream(7, start=150, rollback=100)
    talk.wait(1.9)
    other.snapshot(0, 9, "memory")
    assert found(talk) == []


def test_a_client_that_closed_everything_follows_nothing() -> None:
    talk = opened()
    talk.stream(7, start=150, rollback=100)
    talk.close()
    other = opened("other:1", port=50_001)
    other.wait(9)
    other.stream(8)
    assert found(talk, other) == []


def test_a_client_that_is_slow_has_ten_times_as_long() -> None:
    talk = opened()
    other = talk.stream(8)
    talk.stream(6, start=150, rollback=100)
    talk.wait(1.5)
    talk.stream(6, start=100)
    talk.stream(7, start=150, rollback=100)
    talk.wait(14)
    other.snapshot(0, 9, "memory")
    assert found(talk) == []
    talk.wait(2)
    other.mutation(1, "k")
    assert [one.vbuckets for one in found(talk)] == [(7,)]


def test_a_client_that_still_works_through_others_is_not_done() -> None:
    talk = opened()
    for vbucket in range(10):
        talk.stream(vbucket, start=150, rollback=100)
    for vbucket in range(9):
        talk.wait(1)
        talk.stream(vbucket, start=100)
    talk.wait(1)
    talk.noop()
    assert found(talk) == []


def test_a_request_in_a_hole_may_have_followed() -> None:
    talk = rolled_back()
    with talk.lost():
        talk.stream(7, start=100, uuid=0xB, log=LOG)
    talk.stream(9)
    assert found(talk) == []


def test_a_connection_whose_open_is_not_captured_may_be_the_clients() -> None:
    again = opened("kafka:2", port=50_001)
    again.begin()
    again.stream(7, start=100, uuid=0xB, log=LOG)
    assert found(rolled_back(), again) == []


def test_many_are_told_as_one() -> None:
    talk = opened()
    other = talk.stream(8)
    for vbucket in (1, 2, 3, 5):
        talk.stream(vbucket, start=150 + vbucket, rollback=100 + vbucket)
    talk.wait(9)
    other.snapshot(0, 9, "memory")
    (one,) = found(talk)
    assert one.vbuckets == (1, 2, 3, 5)
    assert one.message.startswith("rollbacks never followed on 4 vbuckets in ")


# -- orphaned-vbucket
# -----------------------------------------------------------------------------------------


def ended(
    reason: str = "backfill-failed",
    *,
    vbucket: int = 7,
    again: bool = True,
    close: bool = False,
    end: int = ENDLESS,
    features: Sequence[str] = ("JSON", "Collections"),
) -> Told:
    """Vbuckets 7 and 8 end; 8 is reopened, 7 is not."""
    talk = Told("dcp:1")
    talk.hello("test/1.0", *features)
    talk.open("dcp:1", "producer")
    streams = [talk.stream(number, end=end) for number in (vbucket, 8)]
    for stream in streams:
        stream.snapshot(0, 5, "memory")
        stream.mutation(5, "k")
    if close:
        talk.send("client", encode("dcp_close_stream", vbucket=vbucket, opaque=99))
    for stream in streams:
        stream.end(reason)
    talk.wait(0.5)
    if again:
        talk.stream(8, start=5)
    talk.wait(10)
    talk.noop()
    return talk


@pytest.mark.parametrize(
    "reason", ["ok", "state-changed", "disconnected", "too-slow", "backfill-failed", "rollback"]
)
def test_a_vbucket_that_is_not_reopened_while_another_is(reason: str) -> None:
    (one,) = found(ended(reason))
    assert (one.rule, one.cause, one.vbuckets, one.seqnos) == (
        "orphaned-vbucket",
        reason,
        (7,),
        (5,),
    )
    assert one.message == f'ended "{reason}", never reopened (1 other vbucket was, within 500 ms)'
    assert len(one.places) == 3


@pytest.mark.parametrize("reason", ["closed", "filter-empty", "lost-privileges"])
def test_other_reasons_leave_nothing_to_reopen(reason: str) -> None:
    assert found(ended(reason)) == []


def test_a_stream_with_an_end_is_complete() -> None:
    assert found(ended("ok", end=5)) == []


def test_without_collections_ok_may_mean_that_the_filter_is_empty() -> None:
    assert found(ended("ok", features=("JSON",))) == []


def test_a_stream_that_the_client_had_asked_to_close_need_not_be_reopened() -> None:
    assert found(ended("state-changed", close=True)) == []


def test_a_client_that_reopens_nothing_may_be_done_with_them() -> None:
    assert found(ended(again=False)) == []


@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize(("then_s", "is_found"), [(45, False), (300, True)])
def test_a_client_that_is_slow_each_time_is_cut_off_before_it_is_late(
    then_s: float, is_found: bool, abort: bool
) -> None:
    """It asks again after 20 s each time. How long it goes on with others without the vbucket tells
    whether it forgot it, and not that its connection ends then.
    """
    talk = opened("dcp:1")
    talk.stream(8)
    for number in range(5):
        talk.stream(7, start=number).end("too-slow")
        talk.wait(20)
        talk.noop()
    talk.wait(then_s)
    talk.noop()
    if abort:
        talk.close("server", abort=True)
    assert [one.vbuckets for one in found(talk)] == [(7,)] * is_found


def test_each_refusal_of_a_vbucket_that_is_given_up_is_an_effect() -> None:
    talk = opened("dcp:1")
    for _ in range(3):
        for vbucket in range(4):
            talk.stream(vbucket, status=Status.ETMPFAIL)
        talk.wait(1)
    for vbucket in range(1, 4):
        talk.stream(vbucket)
    talk.wait(60)
    talk.noop()
    told = findings(talk, rules=["orphaned-vbucket", "stream-refused"])
    (orphan,) = (one for one in told if one.rule == "orphaned-vbucket")
    assert "(3 other vbuckets were, within " in orphan.message
    refusals = [one for one in told if one.rule == "stream-refused" and 0 in one.vbuckets]
    assert [one.effect_of for one in refusals] == [orphan.id]


@pytest.mark.parametrize(
    ("reason", "rules"), [("backfill-failed", ["orphaned-vbucket"]), ("state-changed", [])]
)
def test_a_vbucket_that_moved_may_be_reopened_where_nobody_looks(
    reason: str, rules: list[str]
) -> None:
    talk = opened()
    lost, other = talk.stream(7), talk.stream(8)
    lost.end(reason)
    talk.wait(10)
    other.snapshot(0, 5, "memory")
    assert [one.rule for one in found(talk)] == rules


def test_another_vbucket_that_was_refused_because_it_moved_does_not_show_that_this_one_is_here() -> (
    None
):
    talk = opened("dcp:1")
    for stream in [talk.stream(number) for number in (7, 8)]:
        stream.end("state-changed")
    talk.stream(8, status=Status.NOT_MY_VBUCKET)
    talk.wait(10)
    talk.noop()
    assert found(talk) == []


def test_that_the_same_vbucket_was_reopened_before_does_not_tell_that_it_should_be_again() -> None:
    talk = opened("dcp:1")
    for start in (0, 5):
        talk.stream(7, start=start).end("state-changed")
        talk.wait(0.5)
    talk.wait(10)
    talk.noop()
    assert found(talk) == []


def test_a_vbucket_may_be_reopened_on_another_connection() -> None:
    again = opened("dcp:2", port=50_001)
    again.stream(7, start=5)
    assert found(ended(), again) == []


def test_the_client_may_be_gone() -> None:
    talk = opened("dcp:1")
    for stream in [talk.stream(number) for number in (7, 8)]:
        stream.end("backfill-failed")
    talk.stream(8)
    talk.close()
    other = opened("other:1", port=50_001)
    other.wait(9)
    other.stream(8)
    assert found(talk, other) == []


def test_a_reopening_in_a_hole_is_not_known_to_be_missing() -> None:
    talk = ended()
    with talk.lost():
        talk.stream(7, start=5)
    talk.noop()
    assert found(talk) == []


# -- requests that are refused for now
# ------------------------------------------------------------------------


def refused(
    status: int = Status.ETMPFAIL, *, again: bool = True, vbucket: int = 77, seconds: float = 7
) -> Told:
    """Two vbuckets are refused; one is asked for again, and the client goes on."""
    talk = opened("dcp:1")
    other = talk.stream(9)
    for number in (vbucket, 78):
        talk.stream(number, status=status)
    talk.wait(0.5)
    if again:
        talk.stream(78)
    talk.wait(seconds)
    other.snapshot(0, 9, "memory")
    other.mutation(1, "k")
    return talk


@pytest.mark.parametrize(
    "status", [Status.ETMPFAIL, Status.ENOMEM, Status.COLLECTIONS_MANIFEST_IS_AHEAD]
)
def test_a_client_that_asks_again_for_one_refused_vbucket_has_forgotten_the_other(
    status: Status,
) -> None:
    told = findings(refused(status))
    one = next(finding for finding in told if finding.rule == "orphaned-vbucket")
    assert (one.severity, one.cause, one.whose, one.vbuckets, one.over) == (
        "error",
        status_name(status).replace("_", "-"),
        "client",
        (77,),
        "open",
    )
    assert one.message == (
        f"refused with {status_name(status)}, never asked again in 7.5 s (1 other vbucket was, within 500 ms)"
    )
    refusals = [finding for finding in told if finding.rule in ("stream-refused", "manifest-ahead")]
    assert [(finding.vbuckets, finding.effect_of) for finding in refusals] == [
        ((77,), one.id),
        ((78,), None),
    ]


@pytest.mark.parametrize(
    "status", [Status.EACCESS, Status.EINVAL, Status.UNKNOWN_COLLECTION, Status.NOT_SUPPORTED]
)
def test_what_will_be_refused_again_need_not_be_asked_again(status: int) -> None:
    assert found(refused(status)) == []


@pytest.mark.parametrize(("seconds", "is_told"), [(20, False), (40, True)])
def test_a_client_that_asked_again_for_nothing_may_wait_long(seconds: float, is_told: bool) -> None:
    told = found(refused(again=False, seconds=seconds))
    assert [one.vbuckets for one in told] == [(77, 78)] * is_told


def test_a_client_that_asks_again_as_late_as_it_did_before_is_not_done() -> None:
    talk = opened("dcp:1")
    talk.stream(78, status=Status.ETMPFAIL)
    talk.wait(1)
    talk.stream(78)
    talk.stream(77, status=Status.ETMPFAIL)
    talk.wait(9)
    talk.noop()
    assert found(talk) == []
    talk.stream(77)
    talk.wait(9)
    talk.noop()
    assert found(talk) == []


def test_a_refused_vbucket_may_be_asked_for_elsewhere_or_in_a_hole() -> None:
    elsewhere = opened("dcp:2", port=50_001)
    elsewhere.stream(77)
    assert found(refused(), elsewhere) == []
    talk = refused()
    with talk.lost():
        talk.stream(77)
    talk.noop()
    assert found(talk) == []


def not_mine(node: str, *, again: str = "node2", has_map: bool = True) -> list[Told]:
    """Node 1 does not have two vbuckets; one of them is opened at another node, and perhaps node 1
    says where they are.
    """
    first, second = (
        opened("dcp:1", port=port, enable_noop="true", set_noop_interval="30")
        for port in (50_000, 50_001)
    )
    second.server = "node2"
    document = {
        "vBucketServerMap": {
            "serverList": [*NODES.values()],
            "vBucketMap": [[0]] * 77 + [[[*NODES].index(node)]] + [[1]] * 4,
        }
    }
    for number in (77, 78):
        reply = {"value": json.dumps(document), "datatype": 1} if has_map else {}
        first.stream(number, status=Status.NOT_MY_VBUCKET, reply=reply)
    {"node1": first, "node2": second}[again].stream(78)
    second.wait(9)
    second.noop()
    return [first, second]


def test_a_vbucket_that_is_never_asked_for_at_its_node_names_that_node() -> None:
    (one,) = found(*not_mine("node2"))
    assert (one.cause, one.vbuckets, one.connections) == ("not-my-vbucket", (77,), (1,))
    assert one.message.startswith(
        "refused with not_my_vbucket, never asked at 10.0.0.3:11210 in 9.0 s (1 other vbucket was, "
    )
    assert one.next == (
        "restart the client, because until then the vbucket delivers nothing; it has to ask "
        "10.0.0.3:11210 after not_my_vbucket"
    )


def test_a_later_capture_takes_nothing_of_it_away(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("first.pcap", "later.pcap")]
    for days, (path, talks) in enumerate(
        zip(paths, (not_mine("node2"), [opened("other:1", port=50_002)]), strict=True)
    ):
        Path(path).write_bytes(
            pcap(
                Recorded(packet.data, packet.wire, packet.time_ns + days * 86_400 * 10**9)
                for packet in packets(*talks)
            )
        )
    for names in (paths[:1], paths):
        with Reading(names) as reading:
            reading.check()
            for _ in reading:
                pass
            assert "orphaned-vbucket" in [one.rule for one in reading.findings()], names


@pytest.mark.parametrize("node", ["node1", "node3"])
def test_a_node_that_nobody_captures_or_that_takes_over_leaves_it_open(node: str) -> None:
    assert found(*not_mine(node)) == []


def test_without_a_map_nobody_knows_where_a_vbucket_is() -> None:
    assert found(*not_mine("node2", has_map=False)) == []


# -- who may have taken up a vbucket
# ----------------------------------------------------------------------------


def together(*talks: Told) -> list[Finding]:
    """What is found in conversations that begin at the same time."""
    captured = (packet for talk in talks for packet in packets(talk))
    return found_in(sorted(captured, key=lambda packet: packet.time_ns))


def with_ids(sid: int, start: int, *named: str, rollback: bool = False) -> Told:
    """Two streams of vbucket 7 with stream-ids 1 and 2, for collections 8 and 9. The first is lost
    at seqno 5, and one of ``named`` is asked for from ``start``.
    """
    talk = opened("dcp:1", enable_stream_id="true")
    if rollback:
        value = {"sid": 1, "collections": ["8"]}
        talk.stream(7, start=9, uuid=0xA, rollback=5, value=value, log=LOG)
    else:
        first = talk.stream(7, value={"sid": 1, "collections": ["8"]})
        first.snapshot(0, 5, "memory")
        first.seqno_advanced(5)
    talk.stream(7, value={"sid": 2, "collections": ["9"]})
    if not rollback:
        first.end("too-slow")
    talk.wait(0.1)
    value = {"sid": sid, **({"collections": [*named]} if named else {})}
    talk.stream(7, start=start, uuid=0xB, value=value, log=LOG)
    talk.wait(9)
    talk.noop()
    return talk


@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize(
    ("sid", "start", "named", "is_taken"),
    [
        (3, 5, ["8"], True),
        (3, 5, ["8", "9"], True),
        (3, 5, [], True),
        (3, 2, ["8"], True),
        (3, 5, ["9"], False),
        (3, 6, ["8"], False),
    ],
)
def test_a_client_may_go_on_under_another_stream_id(
    sid: int, start: int, named: list[str], *, is_taken: bool, rollback: bool
) -> None:
    told = findings(with_ids(sid, start, *named, rollback=rollback))
    rule = "rollback-not-followed" if rollback else "orphaned-vbucket"
    assert [one.rule for one in told if one.rule in RULES] == [rule] * (not is_taken)
    (loss,) = [one for one in told if one.rule in ("rollback", "stream-end-reason")]
    assert loss.severity == ("note" if is_taken and rollback else "warning")
    assert not (is_taken and "has to" in loss.next.partition(";")[0])


def test_who_had_as_much_beside_the_stream_goes_on_with_its_own() -> None:
    talk = opened("dcp:1", enable_stream_id="true")
    streams = [talk.stream(7, value={"sid": sid, "collections": ["8"]}) for sid in (1, 2)]
    for stream in streams:
        stream.end("too-slow")
    talk.stream(7, value={"sid": 2, "collections": ["8"]})
    talk.wait(9)
    talk.noop()
    assert [(one.rule, one.sid) for one in found(talk)] == [("orphaned-vbucket", 1)]


def test_a_request_under_another_stream_id_that_is_granted_passes_a_refusal() -> None:
    talk = opened("dcp:1", enable_stream_id="true")
    for sid, status in ((1, Status.ETMPFAIL), (2, Status.SUCCESS)):
        talk.stream(7, value={"sid": sid, "collections": ["8"]}, status=status)
        talk.wait(1)
    (refused_once,) = [one for one in findings(talk) if one.rule == "stream-refused"]
    assert (refused_once.severity, refused_once.next) == (
        "note",
        "nothing is left to do, a later request was granted",
    )


def handed_over(
    name: str, start: int, *, rollback: bool = False, before: bool = False
) -> list[Told]:
    """A client of a group loses vbucket 7 at seqno 5, and goes on with 8. Another host, ``name``,
    asks for 7 later; ``before``: it already had it.
    """
    member, other = opened("grp:a"), opened(name, port=50_001)
    other.host = "10.0.0.5"
    member.stream(8)
    if rollback:
        member.stream(7, start=9, uuid=0xA, rollback=5, log=LOG)
    else:
        stream = member.stream(7)
        stream.snapshot(0, 5, "memory")
        stream.mutation(5, "k")
    if before:
        other.stream(7)
    other.stream(9)
    other.wait(3)
    member.wait(1)
    if not rollback:
        stream.end("too-slow")
    other.stream(7, start=start, uuid=0xB, log=LOG)
    for talk in (member, other):
        talk.wait(20)
        talk.noop()
    return [member, other]


@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize(
    ("name", "start", "before", "is_taken"),
    [
        ("grp:b", 5, False, True),
        ("grp:b", 4, False, False),  # perhaps it has always read the vbucket for itself
        ("grp:b", 5, True, False),
        ("other:b", 5, False, False),
    ],
)
def test_another_member_of_the_group_may_resume_where_a_stream_stood(
    name: str, start: int, *, before: bool, is_taken: bool, rollback: bool
) -> None:
    told = together(*handed_over(name, start, rollback=rollback, before=before))
    rule = "rollback-not-followed" if rollback else "orphaned-vbucket"
    assert [one.rule for one in told if one.rule in RULES] == [rule] * (not is_taken)
    if rollback and is_taken:
        (one,) = [one for one in told if one.rule == "rollback"]
        assert (one.severity, one.next) == (
            "note",
            "nothing is left to do, another member of the client's group resumed there",
        )


def left(
    lost: str,
    seconds: float,
    *,
    side: str = "client",
    closes: bool = True,
    again: int | None = None,
) -> list[Told]:
    """A client loses vbucket 7 on node 1, closes 8 and its connection there, and goes on with
    node 2. ``again``: a vbucket that it asks node 1 for later, on another connection.
    """
    first, second, third = (opened("dcp:1", port=port) for port in (50_000, 50_001, 50_002))
    second.server = "node2"
    for talk, vbuckets in ((first, (7, 8, 9)), (second, (20,))):  # it has all that they list
        seqnos = [{"vbucket": vbucket, "seqno": 0} for vbucket in vbuckets]
        talk.ask("get_all_vb_seqnos", {"seqnos": seqnos}, state="active")
    stream = first.stream(7)
    other = first.stream(8)
    if lost == "rollback":
        first.stream(9, start=50, uuid=0xA, rollback=3)
    elif lost == "refused":
        first.stream(9, status=Status.ETMPFAIL)
    else:
        stream.end(lost)
    first.wait(seconds)
    if closes:
        other.close()
        other.end("closed")
    if lost in ("rollback", "refused"):
        stream.close()
        stream.end("closed")
    if side:
        first.close("server" if side == "server" else "client", abort=side == "reset")
    else:
        for _ in range(60):
            first.wait(1)
            first.noop()
    for _ in range(60):
        second.noop()
        second.wait(1)
    second.stream(20)
    third.events[:0] = [Mark("wait 20")]
    if again is not None:
        third.stream(again)
        third.wait(30)
        third.noop()
    return [first, second] + ([] if again is None else [third])


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["too-slow", "disconnected", "rollback", "refused"])
@pytest.mark.parametrize("side", ["client", "reset", "server", ""])
def test_a_client_that_gives_up_a_node_or_loses_it_reopens_nothing_there(
    lost: str, side: str
) -> None:
    told = together(*left(lost, 0.05, side=side))
    assert [one.rule for one in told if one.rule in RULES] == []


@pytest.mark.parametrize("lost", ["too-slow", "rollback", "refused"])
@pytest.mark.parametrize(
    ("seconds", "closes", "again"),
    [(0.05, False, 8), (5, True, None)],
)
def test_one_that_comes_back_for_others_or_stays_for_long_has_forgotten_it(
    lost: str, seconds: float, *, closes: bool, again: int | None
) -> None:
    told = together(*left(lost, seconds, closes=closes, again=again))
    rule = "rollback-not-followed" if lost == "rollback" else "orphaned-vbucket"
    assert [one.rule for one in told if one.rule in RULES] == [rule]


@pytest.mark.parametrize(
    ("seconds", "log", "is_told"),
    [(0.5, ((0xA, 0),), True), (0.5, LOG, False), (12, ((0xA, 0),), False)],
)
def test_vbuckets_that_had_moved_and_came_back_do_not_show_where_the_others_are(
    seconds: float, log: tuple[tuple[int, int], ...], *, is_told: bool
) -> None:
    talk = opened("dcp:1")
    streams = [talk.stream(vbucket, log=((0xA, 0),)) for vbucket in range(5)]
    other = talk.stream(9)
    for stream in streams:
        stream.end("state-changed")
    talk.wait(seconds)
    for vbucket in range(4):
        talk.stream(vbucket, log=log)
    talk.wait(150)
    other.snapshot(0, 5, "memory")
    assert [one.rule for one in found(talk)] == ["orphaned-vbucket"] * is_told


# -- end-lost
# --------------------------------------------------------------------------------------------------


def finite(
    upto: int, reason: str | None = "state-changed", *, end: int = 100, other: int = 100
) -> tuple[Told, Stream]:
    """A stream up to an end that comes to a seqno, beside one of another vbucket up to
    ``other``.
    """
    talk = opened("dcp:1")
    talk.stream(10, end=other)
    stream = talk.stream(11, end=end)
    stream.snapshot(0, max(upto, 1), "memory")
    stream.mutation(upto, "k")
    if reason is not None:
        stream.end(reason)
    return talk, stream


def going_on(talk: Told, start: int, end: int = ENDLESS, *flags: str) -> Told:
    stream = talk.stream(11, start=start, end=end, flags=flags)
    stream.snapshot(start, start + 70, "memory")
    stream.mutation(start + 70, "k")
    return talk


@pytest.mark.parametrize("reason", ["state-changed", "too-slow", "disconnected"])
def test_a_client_that_forgets_the_end_reads_beyond_it(reason: str) -> None:
    (one,) = found(going_on(finite(40, reason)[0], 40))
    assert (one.rule, one.severity, one.whose, one.vbuckets, one.seqnos) == (
        "end-lost",
        "warning",
        "client",
        (11,),
        (100, 40),
    )
    assert one.message == "asked up to 100, then again from 40 without an end, and is at 110"


def test_a_client_that_asks_for_others_without_an_end_may_have_changed_its_mind() -> None:
    (one,) = found(going_on(finite(40, other=ENDLESS)[0], 40))
    assert (one.severity, one.whose) == ("note", "client")


def test_a_client_that_began_without_an_end_goes_on_without_one() -> None:
    talk = opened("dcp:1")
    talk.stream(11).end("too-slow")
    talk.stream(10, end=100)
    talk.stream(11, end=100).end("too-slow")
    assert found(going_on(talk, 0)) == []


def test_the_end_may_be_lost_after_a_rollback() -> None:
    talk = opened("dcp:1")
    talk.stream(11, start=60, end=100, uuid=0xA, rollback=20)
    (one,) = found(going_on(talk, 20))
    assert one.message == "asked up to 100, then again from 20 without an end"


def test_a_new_connection_goes_on_with_the_stream_where_it_stopped() -> None:
    first = finite(40, None)[0]
    first.close("server")
    assert [
        (one.rule, one.severity) for one in found(first, going_on(opened("dcp:1", port=50_001), 40))
    ] == [("end-lost", "note")]
    assert (
        found(first, going_on(opened("dcp:1", port=50_001), 0)) == []
    )  # perhaps another job of that name
    assert found(first, going_on(opened("other", port=50_001), 40)) == []


def test_a_client_that_has_all_up_to_the_end_goes_on_without_one() -> None:
    assert found(going_on(finite(100, "ok")[0], 100)) == []
    assert found(going_on(finite(40, "ok")[0], 100)) == []
    assert found(going_on(finite(40, "filter-empty")[0], 40)) == []


def test_another_end_is_no_lost_end_and_one_that_the_server_chooses_is_none() -> None:
    assert found(going_on(finite(40)[0], 40, 100)) == []
    assert found(going_on(finite(40)[0], 40, 500)) == []
    assert found(going_on(finite(40)[0], 40, ENDLESS, "to-latest")) == []


def test_a_stream_that_the_client_closed_is_not_gone_on_with() -> None:
    talk, stream = finite(40, None)
    stream.close()
    assert found(going_on(talk, 40)) == []


def test_a_hole_may_hide_that_the_end_was_reached_or_another_request() -> None:
    talk, stream = finite(40, None)
    with talk.lost():
        stream.mutation(100, "k")
        stream.end("ok")
    talk.noop()
    assert found(going_on(talk, 100)) == []
    talk = finite(40)[0]
    with talk.lost():
        talk.stream(11, start=40, end=41).end("ok")
    assert found(going_on(talk, 41)) == []


# -- oso-resume-point
# -----------------------------------------------------------------------------------------


def broken(*, done: bool = False, hole: bool = False) -> Told:
    """Seqnos up to 4 in order, then some of 5 to 20 out of order."""
    talk = opened("dcp:1", port=50_001)
    stream = talk.stream(7)
    stream.snapshot(0, 4, "memory")
    stream.mutation(4, "a")
    stream.oso("start")
    for seqno in (17, 9, 12):
        stream.mutation(seqno, f"k{seqno}")
    if done:
        stream.oso("end")
    if hole:
        with talk.lost():
            stream.oso("end")
        talk.noop()
    talk.close(abort=True)
    return talk


def resumed(start: int, *flags: str) -> Told:
    talk = opened("dcp:1", port=50_002)
    talk.stream(7, start=start, flags=flags)
    return talk


def test_only_the_seqno_before_an_unfinished_snapshot_is_safe() -> None:
    (one,) = found(broken(), resumed(17))
    assert (one.rule, one.severity, one.vbuckets) == ("oso-resume-point", "error", (7,))
    assert one.message == "resumed at 17 inside an unfinished OSO snapshot; only 4 is safe"
    assert one.next == (
        "let the client read the vbucket again, because items may be missing; it has to resume "
        "at 4 or below, because an unfinished OSO snapshot does not show which seqnos have come"
    )
    assert len(one.places) == 3


@pytest.mark.parametrize("start", [0, 4])
def test_from_there_or_from_below_is_safe(start: int) -> None:
    assert found(broken(), resumed(start)) == []


def test_after_the_end_of_the_snapshot_every_seqno_of_it_is_there() -> None:
    assert found(broken(done=True), resumed(17)) == []


def test_the_end_of_the_snapshot_may_be_in_a_hole() -> None:
    assert found(broken(hole=True), resumed(17)) == []


def test_what_the_server_chooses_is_not_resumed() -> None:
    assert found(broken(), resumed(17, "from-latest")) == []


@pytest.mark.parametrize(("status", "orphans"), [(0, []), (7, ["orphaned-vbucket"])])
def test_a_vbucket_that_is_open_already_on_another_node_is_not_orphaned(
    status: int, orphans: list[str]
) -> None:
    other = opened("dcp:2", port=50_001)
    other.server = "node2"
    other.stream(7, start=5, status=status)
    other.wait(20)
    other.noop()
    first = ended("state-changed")
    first.wait(15)
    first.noop()
    captured = sorted([*packets(other), *packets(first)], key=lambda packet: packet.time_ns)
    assert [one.rule for one in found_in(captured, rules=RULES)] == orphans


# -- what arrived late, or never
# --------------------------------------------------------------------------------------------------


def elsewhere(name: str = "kafka:2") -> Told:
    """Another connection of the client, which goes on for longer than the capture of the first."""
    talk = opened(name, port=50_001)
    stream = talk.stream(9)
    talk.wait(40)
    stream.snapshot(0, 9, "memory")
    return talk


def lost_answer(kind: str) -> Told:
    """A client that is told something about vbucket 7, which is the last message."""
    talk = opened("kafka:1")
    if kind == "rollback":
        talk.stream(7, start=150, uuid=0xA, rollback=100)
    elif kind == "refusal":
        talk.stream(7, status=int(Status.ETMPFAIL))
    else:
        talk.stream(7).end("too-slow")
    return talk


@pytest.mark.parametrize("kind", ["rollback", "refusal", "end"])
def test_a_client_does_nothing_about_what_never_arrived(kind: str) -> None:
    talk = lost_answer(kind)
    captured = packets(talk, elsewhere())
    number = len(packets(talk)) - 2
    assert [one.vbuckets for one in found_in(captured, rules=RULES)] == [(7,)]
    seen = sent_again(captured, number, 0.3, 0.9, 2.1, 4.5, arrives=False)
    assert found_in(seen, rules=RULES) == []


def test_it_has_its_time_from_when_that_arrived() -> None:
    captured = packets(rolled_back())
    for again, expected in (((0.3, 0.9, 2.1), ["(6.9 s)"]), ((0.3, 0.9, 2.1, 7.5), [])):
        found = found_in(sent_again(captured, -6, *again), rules=RULES)
        assert [one.message[-7:] for one in found] == expected


def test_a_client_that_was_told_late_is_no_slow_one() -> None:
    """It took 8 s for the first one, of which 7.9 are the network's: so it has not 80 s."""
    talk = opened("kafka:1")
    other = talk.stream(8)
    talk.stream(6, start=150, uuid=0xA, rollback=100)
    number = len(packets(talk)) - 2
    talk.wait(8)
    talk.stream(6, start=100, uuid=0xB, log=LOG)
    talk.stream(7, start=150, uuid=0xA, rollback=100)
    talk.wait(9)
    other.snapshot(0, 9, "memory")
    captured = packets(talk)
    assert found_in(captured, rules=RULES) == []
    seen = sent_again(captured, number, 0.3, 0.9, 2.1, 4.5, 7.9)
    assert [one.vbuckets for one in found_in(seen, rules=RULES)] == [(7,)]
