"""Vbuckets that a client knows of and never asked for, or begins from 0 because no list has
them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

from dcpinspect.findings.unrequested import RULES
from dcpinspect.streams.conversation import Conversation
from tests.builders import ACK, RST, SYN
from tests.damage import Talk
from tests.findings.checked import findings, found_in
from tests.peers.script import text
from tests.streams.told import Told, opened, packets

IDS = [rule.id for rule in RULES]
REPORTS = Conversation.reports.fget.__code__  # type: ignore[attr-defined]


def found(*talks: Told) -> list[str]:
    return [one.message for one in findings(*talks, rules=IDS)]


def listed(talk: Told, vbuckets: Sequence[int], state: str = "active") -> None:
    talk.ask(
        "get_all_vb_seqnos",
        {"seqnos": [{"vbucket": vbucket, "seqno": 9} for vbucket in vbuckets]},
        state=state,
    )


def mapped(talk: Told, chains: Sequence[Sequence[int]]) -> None:
    servers = ["$HOST:11210", "10.0.0.8:11210"]
    document: dict[str, Any] = {
        "rev": 1,
        "vBucketServerMap": {"serverList": servers, "vBucketMap": chains},
    }
    talk.ask("get_cluster_config", {"value": text(document), "datatype": 1})


def goes_on(talk: Told, seconds: float = 3) -> Told:
    talk.wait(seconds)
    talk.noop()
    return talk


def test_active_vbuckets_that_are_not_requested() -> None:
    talk = opened()
    listed(talk, [4, 5, 6, 9])
    talk.stream(5)
    (message,) = found(goes_on(talk))
    assert message.startswith("1 of 4 vbuckets requested; missing: 4, 6, 9 on ")
    (whole,) = findings(talk, rules=IDS)
    assert (whole.severity, whole.vbuckets, [place.direction for place in whole.places]) == (
        "note",
        (4, 6, 9),
        ["s2c", "c2s"],
    )


def test_a_sentence_names_the_first_of_many_ranges_and_the_finding_all() -> None:
    talk = opened()
    listed(talk, range(1024))
    for vbucket in range(0, 1024, 3):
        talk.stream(vbucket)
    (whole,) = findings(goes_on(talk), rules=IDS)
    assert whole.message.startswith("342 of 1,024 vbuckets requested; missing: 1–2, 4–5, ")
    assert (len(whole.message) < 200, len(whole.vbuckets)) == (True, 682)


def test_of_several_clients_each_has_its_own_vbuckets() -> None:
    talks = [opened("a:1"), opened("b:1", port=50_001)]
    for number, talk in enumerate(talks):
        listed(talk, [4, 5, 6])
        for vbucket in range(4, 5 + number):
            talk.stream(vbucket)
        goes_on(talk)
    (whole,) = findings(*talks, rules=IDS)
    assert whole.message.startswith("not all vbuckets requested that were listed on 2 vbuckets")
    cases = [(case.vbuckets, case.facts["requested"]) for case in whole.case_of_each]
    assert cases == [((5, 6), "1 of 3"), ((6,), "2 of 3")]


def test_vbuckets_of_a_cluster_map_that_are_not_requested() -> None:
    talk = opened()
    mapped(talk, [[0, 1], [1, 0], [1, 0], [-1, 0]])
    talk.stream(0)
    (message,) = found(goes_on(talk))
    assert message == "1 of 3 vbuckets requested; missing: 1–2 on 10.0.0.8:11210"


def test_all_of_them_requested_or_none_or_only_replicas_listed() -> None:
    talk = opened()
    listed(talk, [4, 5])
    talk.stream(5)
    talk.stream(4)
    assert found(goes_on(talk)) == []
    talk = opened()
    listed(talk, [4, 5])
    assert found(goes_on(talk)) == []
    talk = opened()
    listed(talk, [4, 5], "replica")
    talk.stream(7)
    assert found(goes_on(talk)) == []


def test_a_client_that_comes_back_without_one_of_its_vbuckets() -> None:
    first, second = opened(port=50_001), opened(port=50_002)
    for vbucket in range(6):
        first.stream(vbucket)
    first.close("server", abort=True)
    listed(second, range(6))
    for vbucket in range(5):
        second.stream(vbucket)
    (finding,) = findings(first, goes_on(second), rules=IDS)
    assert (finding.severity, finding.vbuckets, finding.whose) == ("warning", (5,), "client")
    assert finding.message.startswith("5 of 6 vbuckets requested; missing: 5 on ")
    assert finding.message.endswith("; it had streams of 5 before")
    second.stream(5)
    assert found(first, goes_on(second)) == []


def test_a_client_that_forgets_half_of_what_it_lost() -> None:
    first, second = opened("x:1", port=50_001), opened("x:1", port=50_002)
    for vbucket in range(4):
        first.stream(vbucket)
    first.close("server", abort=True)
    listed(second, range(4))
    for vbucket in range(2):
        second.stream(vbucket)
    (finding,) = findings(first, goes_on(second), rules=IDS)
    assert (finding.severity, finding.vbuckets) == ("warning", (2, 3))
    member = opened("x:2", port=50_003)
    for vbucket in (2, 3):
        member.stream(vbucket)
    told = findings(first, second, goes_on(member), rules=IDS)
    assert {one.severity for one in told} <= {"note"}


def test_a_member_of_a_group_may_come_back_without_what_the_group_gave_to_others() -> None:
    first, second = opened("x-0", port=50_001), opened("x-0", port=50_002)
    for vbucket in range(5):
        first.stream(vbucket)
    first.close("server", abort=True)
    listed(second, range(10))
    for vbucket in range(4):
        second.stream(vbucket)
    (finding,) = findings(first, goes_on(second), rules=IDS)
    assert (finding.severity, finding.vbuckets) == ("note", tuple(range(4, 10)))


def test_vbuckets_that_other_members_of_the_group_have_are_not_missing() -> None:
    """Also if a member was away for so long that the others took its vbuckets over."""
    talks = [opened(f"x-{number}", port=50_001 + number) for number in range(3)]
    for number, talk in enumerate(talks):
        talk.host = f"10.0.0.{10 + number}"
        listed(talk, range(6))
        for vbucket in (2 * number, 2 * number + 1):
            talk.stream(vbucket)
    talks[0].close("client", abort=True)
    talks[0].wait(12)
    talks[1].stream(0)
    back = opened("x-0", port=50_009)
    back.host = "10.0.0.10"
    listed(back, range(6))
    back.stream(1)
    assert found(*talks, goes_on(back)) == []
    alone = findings(talks[0], talks[1], goes_on(back), rules=IDS)
    assert {vbucket for one in alone for vbucket in one.vbuckets} == {4, 5}


@pytest.mark.parametrize(("lasts_s", "said"), [(20, {"warning"}), (1, set())])
def test_programs_that_have_the_same_vbuckets_at_a_time_are_no_members_of_a_group(
    lasts_s: int, said: set[str]
) -> None:
    """Their server closes both. The second asks for all again, which does not excuse the first."""
    captured = []
    for number in range(2):
        talk, again = (
            Told(f"x-{number}", port=port + number, host=f"10.0.0.{10 + number}")
            for port in (50_000, 50_010)
        )
        for each, count in ((talk, 6), (again, 6 if number else 4)):
            each.hello("test/1.0", "JSON", "Collections")
            each.open(each.name, "producer")
            listed(each, range(6))
            for vbucket in range(count):
                each.stream(vbucket)
            goes_on(each, lasts_s if each is talk else 20)
        talk.close("server", abort=True)
        captured += packets(talk, again)
    captured.sort(key=lambda packet: packet.time_ns)
    told = [one for one in found_in(captured, rules=IDS) if 5 in one.vbuckets]
    assert {one.severity for one in told} == said


def test_what_moved_to_a_node_that_nobody_captured_may_be_asked_for_there() -> None:
    first, second = opened("x:1", port=50_001), opened("x:1", port=50_002)
    for vbucket in range(4):
        first.stream(vbucket)
    first.close("server", abort=True)
    mapped(second, [[0], [0], [1], [1]])
    for vbucket in range(2):
        second.stream(vbucket)
    assert found(first, goes_on(second)) == []


def test_a_client_that_cannot_reach_the_node_has_not_forgotten_its_vbuckets() -> None:
    first, second = opened("x:1", port=50_001), opened("x:1", port=50_002)
    first.server = "node2"
    for vbucket in range(4):
        first.stream(vbucket)
    first.close("server", abort=True)
    document = {
        "vBucketServerMap": {
            "serverList": ["10.0.0.2:11210", "10.0.0.3:11210"],
            "vBucketMap": [[0], [0], [1], [1]],
        }
    }
    second.ask("get_cluster_config", {"value": text(document), "datatype": 1})
    for vbucket in range(2):
        second.stream(vbucket)
    told = packets(first, goes_on(second, 60))
    assert [one.vbuckets for one in found_in(told, rules=IDS)] == [(2, 3)]
    again = Talk(50_009, hosts=("10.0.0.1", "10.0.0.3"), start_ns=told[-1].time_ns - 30 * 10**9)
    again.send(0, flags=SYN)
    again.send(1, flags=RST | ACK)
    tried = sorted([*told, *again.packets], key=lambda packet: packet.time_ns)
    assert found_in(tried, rules=IDS) == []


def test_a_client_that_closed_its_connection_may_have_given_some_to_a_new_member() -> None:
    first, second = opened(port=50_001), opened(port=50_002)
    for vbucket in range(6):
        first.stream(vbucket)
    first.close("client")
    listed(second, range(6))
    for vbucket in range(5):
        second.stream(vbucket)
    assert found(first, goes_on(second)) == []


def test_a_client_that_comes_back_for_a_part_may_have_given_the_rest_to_others() -> None:
    first, second = opened(port=50_001), opened(port=50_002)
    for vbucket in range(6):
        first.stream(vbucket)
    first.close("server", abort=True)
    listed(second, range(6))
    second.stream(5)
    (finding,) = findings(first, goes_on(second), rules=IDS)
    assert finding.severity == "note"


def test_another_connection_of_the_client_requests_the_rest() -> None:
    talk, other = opened("kafka:1"), opened("kafka:2", port=50_001)
    listed(talk, [4, 5])
    talk.stream(4)
    other.stream(5)
    assert found(talk, goes_on(other)) == []


def test_a_client_that_may_still_go_on() -> None:
    talk = opened()
    listed(talk, [4, 5])
    talk.stream(5)
    assert found(goes_on(talk, 0.5)) == []


def test_a_request_in_a_hole_accuses_nobody() -> None:
    talk = opened()
    listed(talk, [4, 5])
    talk.stream(5)
    with talk.lost():
        talk.stream(4)
    assert found(goes_on(talk)) == []


def test_a_capture_that_begins_in_the_middle_accuses_nobody() -> None:
    talk = opened()
    talk.stream(4)
    talk.begin()
    for _ in range(5):
        talk.noop()
    listed(talk, [4, 5])
    talk.stream(5)
    assert found(goes_on(talk)) == []


# -- start-not-listed
# ---------------------------------------------------------------------------------------------


def from_now(
    starts: dict[int, int],
    seqnos: dict[int, int],
    *,
    by: Told | None = None,
    lost: bool = False,
    behind: int = 0,
) -> Told:
    """A client asks for high seqnos, and begins vbuckets; each delivers one item. ``behind``: how
    far the snapshots that it names begin below the starts.
    """
    talk = opened("kafka:now")
    asks = by or talk
    if lost:
        with asks.lost():
            asks.high_seqnos({44: 9})
    asks.high_seqnos(seqnos)
    for vbucket, start in starts.items():
        stream = talk.stream(vbucket, start=start, snapshot=(max(0, start - behind), start))
        stream.snapshot(start, start + 1, "memory")
        stream.mutation(start + 1, "k")
    return talk


NINE = {40: 7, 41: 0, 42: 9}


def test_a_vbucket_that_no_list_of_high_seqnos_has_is_read_from_the_beginning() -> None:
    told = findings(from_now({**NINE, 44: 0}, NINE), rules=IDS)
    (one,) = (finding for finding in told if finding.rule == "start-not-listed")
    assert (one.severity, one.whose, one.vbuckets) == ("warning", "client", (44,))
    assert (
        one.message
        == "started from 0, because no list of high seqnos had it; 2 other vbuckets started at their high seqnos"
    )
    assert [place.direction for place in one.places] == ["c2s", "s2c"]


def test_the_list_may_come_on_another_connection_of_the_host() -> None:
    kv = Told("x", port=50_009)
    kv.hello("kafka/1", "JSON")
    talk = from_now({**NINE, 44: 0}, NINE, by=kv)
    assert [
        one.vbuckets for one in findings(kv, talk, rules=IDS) if one.rule == "start-not-listed"
    ] == [(44,)]


def test_who_begins_from_checkpoints_or_from_0_on_purpose_is_not_told() -> None:
    for starts, seqnos in (
        ({**NINE, 44: 0}, {**NINE, 44: 0}),  # it is listed
        ({40: 7, 42: 5, 43: 9, 44: 0}, {40: 7, 42: 9, 43: 9}),  # not all begin at their high seqno
        ({40: 7, 44: 0}, {40: 7}),  # one does not show what the client wants
        ({40: 0, 41: 0, 44: 0}, {40: 0, 41: 0}),
        ({**NINE, 44: 5}, NINE),
    ):
        assert [
            one
            for one in findings(from_now(starts, seqnos), rules=IDS)
            if one.rule == "start-not-listed"
        ] == []
    caught_up = from_now({**NINE, 44: 0}, NINE, behind=2)
    on_another_node = Told("kafka:now", server="node2", port=50_009)
    on_another_node.hello("kafka/1", "JSON", "Collections")
    on_another_node.open("kafka:now", "producer")
    stream = on_another_node.stream(44)
    stream.snapshot(0, 1, "memory")
    stream.mutation(1, "k")
    for talks in ([caught_up], [from_now(NINE, NINE), on_another_node]):
        assert [one for one in findings(*talks, rules=IDS) if one.rule == "start-not-listed"] == []


def test_a_vbucket_that_comes_to_the_node_later_is_not_told() -> None:
    """It was empty on its node before, or moved here: its beginning is what is new."""
    for wait_s, is_told in ((0.5, True), (5, False)):
        talk = from_now(NINE, NINE)
        talk.wait(wait_s)
        stream = talk.stream(44)
        stream.snapshot(0, 1, "memory")
        stream.mutation(1, "k")
        told = [one.rule for one in findings(talk, rules=IDS)]
        assert ("start-not-listed" in told) is is_told


def test_a_list_that_was_lost_may_have_had_it() -> None:
    assert [
        one
        for one in findings(from_now({**NINE, 44: 0}, NINE, lost=True), rules=IDS)
        if one.rule == "start-not-listed"
    ] == []


def test_a_vbucket_without_items_costs_nothing() -> None:
    talk = from_now(NINE, NINE)
    talk.stream(44)
    assert [one for one in findings(talk, rules=IDS) if one.rule == "start-not-listed"] == []


def calls_for(hosts: int) -> int:
    """How often what all servers told is put together, for clients on so many hosts."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is REPORTS

    talks = [opened(f"client{number}") for number in range(hosts)]
    for number, talk in enumerate(talks, 1):
        talk.host = f"10.0.1.{number}"
        listed(talk, [4, 5])
        talk.stream(5)
        goes_on(talk)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        assert found(*talks)
    finally:
        sys.setprofile(before)
    return calls


def test_what_servers_told_is_put_together_as_often_however_many_hosts_there_are() -> None:
    """Else it takes time for each pair of hosts."""
    assert calls_for(2) == calls_for(6)
