"""Streams that stop inside a snapshot: the smallest conversation, and what looks like it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from dcpinspect.findings.finding import Finding
from tests.encode import encode
from tests.findings.checked import findings
from tests.streams.told import Told, opened


def found(*talks: Told) -> list[Finding]:
    return findings(*talks, rules=("snapshot-stalled",))


def standing(
    talk: Told | None = None,
    kind: str = "disk",
    *,
    last: int = 40,
    end: int = 2**64 - 1,
    seconds: float = 41,
    **asked: object,
) -> Told:
    """A stream came to 40 in a snapshot up to 100; then the server says something else."""
    talk = talk or opened()
    stream = talk.stream(7, end=end, **asked)  # type: ignore[arg-type] # parts of a request
    stream.snapshot(0, 100, kind)
    for seqno in range(10, last + 1, 10):
        stream.mutation(seqno, f"k{seqno}")
    talk.wait(seconds)
    talk.noop()
    return talk


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (
            "disk",
            "on the server, look at this stream's backfill in 'cbstats dcp', at the memory that "
            "is in use, and at how fast the disk is; a client can only reopen the stream, from "
            "the last seqno that it received",
        ),
        (
            "memory",
            "on the server, look at this stream in 'cbstats dcp'; a client can only reopen it, "
            "from the last seqno that it received",
        ),
    ],
)
def test_a_stream_that_stops_inside_a_snapshot(kind: str, advice: str) -> None:
    (one,) = found(standing(kind=kind))
    assert (one.severity, one.cause, one.vbuckets, one.seqnos, one.whose) == (
        "warning",
        kind,
        (7,),
        (40, 100),
        "server",
    )
    assert one.message == "stopped at 40 of 100, idle 41.0 s, connection alive"
    assert one.next == advice
    assert [place.row for place in one.places] == [11, 7, 5]


def test_it_may_stop_before_the_first_item() -> None:
    (one,) = found(standing(last=0))
    assert (
        one.message
        == "stopped before the first item of a snapshot up to 100, idle 41.0 s, connection alive"
    )
    assert one.seqnos == (100,)


def test_items_of_another_vbucket_show_that_the_connection_is_alive() -> None:
    talk = standing(seconds=0)
    other = talk.stream(8)
    talk.wait(41)
    other.snapshot(0, 1, "memory")
    other.mutation(1, "a")
    (one,) = found(talk)
    assert one.vbuckets == (7,)


def test_it_is_over_once_a_later_stream_has_brought_the_rest() -> None:
    first, later = standing(opened("a:1")), opened("a:2", port=50_001)
    first.close()
    assert [one.over for one in found(first)] == ["open"]
    stream = later.stream(7, start=40)
    stream.snapshot(40, 100, "memory")
    stream.mutation(100, "k")
    assert [one.over for one in found(first, later)] == ["recovered"]


def test_it_is_the_effect_of_what_is_known_better() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 100, "memory")
    stream.mutation(40, "k")
    talk.high_seqnos({7: 100})
    talk.wait(41)
    talk.noop()
    told = findings(talk, rules=("server-owes-seqno", "snapshot-stalled"))
    assert [(one.rule, one.effect_of is None) for one in told] == [
        ("server-owes-seqno", True),
        ("snapshot-stalled", False),
    ]


def test_a_client_without_collections_does_not_see_every_seqno() -> None:
    talk = Told("old:1")
    talk.hello("old/1", "XATTR")
    talk.open("old:1", "producer")
    assert [one.severity for one in found(standing(talk))] == ["note"]


def passed(*, is_marker: bool) -> Told:
    """What a stream still waits for lies behind what came: of a marker that goes back, and of one
    that a SeqnoAdvanced leaps over.
    """
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 100, "disk")
    if is_marker:
        stream.mutation(100, "k")
        stream.snapshot(3, 8, "disk")
    else:
        stream.mutation(40, "k")
        stream.seqno_advanced(200)
    talk.wait(41)
    talk.noop()
    return talk


@pytest.mark.parametrize(
    "sound",
    [
        standing(seconds=29),
        standing(last=100),
        standing(end=40),
        standing(start=100, last=0),
        passed(is_marker=True),
        passed(is_marker=False),
        standing(value={"collections": ["8"]}),
        standing(opened(connection_buffer_size="200")),
        standing(opened("test:1", "skip-deletes-in-initial-backfill")),
        standing(flags=("active-only",), status=7),
    ],
    ids=[
        "not for long",
        "complete",
        "all that was asked for",
        "the client had it",
        "the marker lies behind what came",
        "a SeqnoAdvanced beyond the snapshot",
        "a filter",
        "window full",
        "deletions",
        "refused",
    ],
)
def test_streams_that_do_not_stand_still(sound: Told) -> None:
    assert found(sound) == []


def test_a_server_that_says_nothing_else_may_be_unreachable() -> None:
    talk = standing(seconds=0)
    talk.wait(60)
    talk.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    assert found(talk) == []


@pytest.mark.parametrize("reason", ["ok", "too-slow"])
def test_a_stream_that_has_ended_is_for_other_rules(reason: str) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 100, "disk")
    stream.mutation(40, "k")
    stream.end(reason)
    talk.wait(41)
    talk.noop()
    assert found(talk) == []


def test_a_stream_that_the_client_closes_need_not_go_on() -> None:
    talk = standing(seconds=0)
    talk.send("client", encode("dcp_close_stream", vbucket=7, opaque=99))
    talk.wait(41)
    talk.noop()
    assert found(talk) == []


def test_the_window_may_have_been_full_meanwhile() -> None:
    """The wait begins when the window has room again."""
    for seconds, rules in ((20, []), (31, ["snapshot-stalled"])):
        talk = standing(opened(connection_buffer_size="200"), seconds=25)
        talk.send("client", encode("dcp_buffer_acknowledgement", opaque=0, ack_bytes=300))
        talk.wait(seconds)
        talk.noop()
        assert [one.rule for one in found(talk)] == rules


@pytest.mark.parametrize(
    ("is_ended", "is_lost", "rules"),
    [(False, False, ["snapshot-stalled"]), (True, False, []), (False, True, [])],
)
def test_an_oso_snapshot_says_where_it_ends_also_of_some_collections(
    is_ended: bool, is_lost: bool, rules: list[str]
) -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7, value={"collections": ["8"]})
    stream.oso("start")
    stream.mutation(40, "k", collection=8)
    if is_ended:
        stream.oso("end")
    with talk.lost() if is_lost else nullcontext():
        talk.noop()
    talk.wait(41)
    talk.noop()
    told = found(talk)
    assert [one.rule for one in told] == rules
    for one in told:
        assert one.message == "stopped in an OSO snapshot, idle 41.0 s, connection alive"
        assert (one.cause, one.seqnos, one.over) == ("oso", (40,), "open")


@pytest.mark.parametrize(("kind", "rules"), [("disk", []), ("memory", ["snapshot-stalled"])])
def test_backfills_take_turns(kind: str, rules: list[str]) -> None:
    talk = standing(kind=kind, seconds=0)
    other = talk.stream(8)
    other.snapshot(0, 100, "disk")
    for seqno in range(1, 9):
        talk.wait(5)
        other.mutation(seqno, f"k{seqno}")
    assert [one.rule for one in found(talk) if one.vbuckets == (7,)] == rules


@pytest.mark.parametrize("side", ["server", "client"])
def test_what_follows_may_be_in_a_hole(side: str) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 100, "disk")
    stream.mutation(40, "k")
    with talk.lost():
        if side == "server":
            stream.mutation(100, "z")
        else:
            stream.close()
    talk.noop()
    talk.wait(41)
    talk.noop()
    assert found(talk) == []


def test_a_capture_that_begins_later_does_not_show_the_window() -> None:
    talk = opened()
    talk.begin()
    assert found(standing(talk)) == []


def test_a_replica_gets_the_rest_from_another_node() -> None:
    talk = opened()
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 40}]}, state="replica")
    assert found(standing(talk)) == []


@pytest.mark.parametrize(
    ("flags", "rules"),
    [((), []), (("active-only",), ["snapshot-stalled"])],
    ids=["may be", "asked not to be"],
)
def test_that_it_is_a_replica_may_be_in_a_hole(flags: tuple[str, ...], rules: list[str]) -> None:
    talk = opened()
    talk.send("client", encode("get_all_vb_seqnos", opaque=77, state="replica"))
    with talk.lost():
        talk.answer("get_all_vb_seqnos", 77, seqnos=[{"vbucket": 7, "seqno": 40}])
    assert [one.rule for one in found(standing(talk, flags=flags))] == rules
