"""A consumer over all its connections: which may be its own, and what it had received."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.protocol.statuses import Status
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.consumers import Consumers
from dcpinspect.streams.records import LEAST
from tests.damage import Packet
from tests.findings.checked import found_in
from tests.peers.script import Event, Mark
from tests.streams.told import Seen, Told, capture, opened, packets


def consumers(*talks: Told) -> Consumers:
    seen = Seen(packets(*talks))
    return seen.tracker.tables(seen.links).seen.consumers


def test_connections_without_a_beginning_may_be_anybodys_of_their_host() -> None:
    late = opened("elastic:1", port=50_003)
    late.begin()
    late.stream(9)
    found = consumers(
        opened("kafka:1", port=50_001),
        opened("kafka:2", port=50_002),
        late,
        opened("elastic:2", port=50_004),
    )
    assert found.may_be(1) == {1, 2, 3}
    assert found.may_be(3) == {1, 2, 3, 4}


def time_of(packet: Packet) -> int:
    return packet.time_ns


def beside(*talks: Told) -> Consumers:
    """Of conversations that begin at the same time."""
    together = sorted((p for talk in talks for p in packets(talk)), key=time_of)
    seen = Seen(together)
    return seen.tracker.tables(seen.links).seen.consumers


def streaming(name: str, port: int, vbucket: int = 7, *, seconds: int = 9) -> Told:
    talk = opened(name, port=port)
    talk.stream(vbucket).snapshot(0, 5, "memory")
    for _ in range(seconds):
        talk.wait(1)
        talk.noop()
    return talk


def names(found: Consumers) -> list[str]:
    return [found.owners[number].name.removeprefix("10.0.0.1 ") for number in sorted(found.owners)]


def test_names_of_one_program_that_have_a_vbucket_beside_each_other_are_two_consumers() -> None:
    one, two = streaming("kafka:a", 50_001), streaming("kafka:b", 50_002)
    other = streaming("kafka:c", 50_003, 9)  # it may be the one or the other
    again = opened("kafka:a", port=50_004)
    found = beside(one, two, other, again)
    number = {link.client.rpartition(":")[2]: link.number for link in found._sight._links.values()}
    one_, two_, other_, again_ = (number[str(port)] for port in range(50_001, 50_005))
    assert {found.owners[each].name for each in (one_, again_)} == {"10.0.0.1 kafka:a"}
    assert found.owners[two_].name == "10.0.0.1 kafka:b"
    assert found.owners[other_].name == "10.0.0.1 kafka"
    assert found.may_be(one_) == {one_, again_, other_}
    assert found.may_be(two_) == {two_, other_}
    assert found.may_be(other_) == {one_, two_, other_, again_}


def test_a_program_of_several_buckets_is_told_apart_in_each() -> None:
    talks = [streaming(f"kafka:{port}", port) for port in (50_001, 50_002, 50_003)]
    talks[2] = opened("kafka:x", port=50_003)
    for talk, bucket in zip(talks, ("beer", "beer", "travel"), strict=True):
        talk.events[:0] = opened_to(bucket)
    assert sorted(names(beside(*talks))) == [
        "kafka:50001@beer",
        "kafka:50002@beer",
        "kafka@travel",
    ]


def opened_to(bucket: str) -> list[Event]:
    talk = Told("none")
    talk.select_bucket(bucket)
    return talk.events


def test_names_that_are_never_beside_each_other_may_be_connections_of_one_consumer() -> None:
    """Beside a consumer of the same program that has all of their vbuckets."""
    quiet = streaming("kafka:b", 50_009, seconds=40)
    others = [streaming(f"kafka:a{number}", 50_000 + number, seconds=4) for number in range(6)]
    for number, other in enumerate(others):
        other.events[:0] = [Mark(f"wait {6 * number}")]
    found = beside(quiet, *others)
    assert sorted(names(found)) == [*["kafka:a0"] * 6, "kafka:b"]


def test_a_client_of_java_is_known_by_its_id() -> None:
    name = '{{"i":"{}/{}","a":"java-dcp-client/0.40"}}'.format
    talks = [streaming(name("AA", 1), 50_001), streaming(name("BB", 1), 50_002)]
    found = beside(*talks, streaming(name("AA", 2), 50_003, 9))
    assert sorted(names(found)) == ["AA", "AA", "BB"]


def test_a_stream_that_came_to_its_end_beside_another_is_another_consumers() -> None:
    job = opened("kafka:job", port=50_001)
    job.wait(3)
    job.stream(7, end=1).end("ok")
    assert names(beside(streaming("kafka:b", 50_002), job)) == ["kafka:b", "kafka:job"]


@pytest.mark.parametrize("how", ["later", "other vbuckets", "gone", "closed", "ended", "shortly"])
def test_names_of_one_program_may_be_one_consumer(how: str) -> None:
    one, two = streaming("kafka:a", 50_001, seconds=3), streaming("kafka:b", 50_002)
    if how == "later":
        assert names(consumers(one, two)) == ["kafka", "kafka"]
        return
    if how == "other vbuckets":
        one = streaming("kafka:a", 50_001, 8)
    elif how == "gone":  # the producer goes on for a while
        one = opened("kafka:a", port=50_001)
        stream = one.stream(7)
        for seqno in range(1, 9):
            one.wait(1)
            stream.snapshot(seqno, seqno, "memory")
    elif how == "closed":
        one = opened("kafka:a", port=50_001)
        one.stream(7).close()
        one.wait(9)
        one.noop()
    elif how == "ended":
        one = opened("kafka:a", port=50_001)
        one.stream(7).end("ok")
        one.wait(9)
        one.noop()
    elif how == "shortly":
        one = opened("kafka:a", port=50_001)
        one.wait(3)
        one.stream(7).close()
        one.wait(9)
        one.noop()
    assert names(beside(one, two)) == ["kafka", "kafka"]


@pytest.mark.parametrize(
    ("hides", "closes", "received"), [(False, True, 5), (True, True, None), (False, False, None)]
)
def test_what_it_had_received_is_known_unless_something_unseen_may_have_brought_more(
    hides: bool, closes: bool, received: int | None
) -> None:
    """Of a connection whose client came again, and that was not closed, the end is missing."""
    first, second = opened(port=50_001), opened(port=50_002)
    stream = first.stream(7)
    stream.snapshot(0, 5, "memory")
    stream.mutation(5, "k")
    if hides:
        with first.lost():
            stream.snapshot(5, 9, "memory")
            stream.mutation(9, "k")
        first.noop()
    if closes:
        first.close()
    second.wait(1)
    second.stream(7, start=9)
    found = consumers(first, second)
    before = found.received_before(1)
    assert (before is None) == (received is None)
    assert before is None or before - LEAST == received
    assert found.received_before(0) is None


def in_vlan(tag: int, *talks: Told) -> list[Packet]:
    return [
        replace(
            p,
            data=p.data[:12] + struct.pack(">HH", 0x8100, tag) + p.data[12:],
            wire=p.wire + 4,
        )
        for p in packets(*talks)
    ]


def of_environment(port: int, uuid: int, *, vbuckets: tuple[int, ...] = (1, 3)) -> Told:
    """The same names and addresses in each environment; the histories have other uuids."""
    talk = opened("kafka:a", port=port)
    talk.events[:0] = opened_to("beer")
    for vbucket in vbuckets:
        talk.stream(vbucket, log=[(uuid + vbucket, 0)])
    return talk


def going_on(talk: Told, seconds: int) -> None:
    for _ in range(seconds):
        talk.wait(1)
        talk.noop()


def without_a_reopening(first_uuid: int, second_uuid: int) -> tuple[Told, Told]:
    """A client that never reopens vbucket 1, and one, with another port, that has it."""
    one = of_environment(50_001, first_uuid, vbuckets=(3,))
    lost = one.stream(1, log=[(first_uuid + 1, 0)])
    lost.snapshot(0, 5, "memory")
    lost.end("too-slow")
    going_on(one, 40)
    two = of_environment(50_002, second_uuid)
    two.events[:0] = [Mark("wait 3")]
    going_on(two, 37)
    return one, two


@pytest.mark.parametrize(
    ("tags", "uuids", "is_orphaned"),
    [
        ((10, 20), (0xA0, 0xB0), True),
        ((10, 20), (0xA0, 0xA0), True),  # a copy of the environment; both go on with vbucket 3
        ((10, 10), (0xA0, 0xB0), False),
    ],
    ids=["another environment", "its copy", "one network"],
)
def test_a_client_in_another_network_does_not_take_a_vbucket_up(
    tags: tuple[int, int], uuids: tuple[int, int], is_orphaned: bool
) -> None:
    one, two = without_a_reopening(*uuids)
    together = sorted([*in_vlan(tags[0], one), *in_vlan(tags[1], two)], key=time_of)
    rules = {finding.rule for finding in found_in(together)}
    assert ("orphaned-vbucket" in rules) == is_orphaned


def test_networks_that_share_a_connection_are_one() -> None:
    """A third connection is seen with each of the tags: a mirror of two ports."""
    one, two = without_a_reopening(0xA0, 0xB0)
    third = of_environment(50_003, 0xA0, vbuckets=(9,))
    halves = [*in_vlan(10, third)[::2], *in_vlan(20, third)[1::2]]
    together = sorted([*in_vlan(10, one), *in_vlan(20, two), *halves], key=time_of)
    assert "orphaned-vbucket" not in {finding.rule for finding in found_in(together)}


def test_a_connection_that_another_one_followed_was_in_no_other_network() -> None:
    """In the second network two have the ends of the first client, one after the other."""
    one, two = without_a_reopening(0xA0, 0xB0)
    followed, latest = opened("fts:b", port=50_001), opened("fts:b", port=50_001)
    followed.close()
    together = sorted([*in_vlan(10, one), *in_vlan(20, two, followed, latest)], key=time_of)
    assert "orphaned-vbucket" in {finding.rule for finding in found_in(together)}
    assert {link.networks for link in Seen(together).links} == {(10,), (20,)}


@pytest.mark.parametrize("tags", [(10, 10), (10, 20)], ids=["one tag", "a tag each"])
def test_connections_of_one_server_are_of_one_network_whatever_their_tags(
    tags: tuple[int, int],
) -> None:
    """Two ways between two routers: the second connection of the client takes the other."""
    one = of_environment(50_001, 0xA0)
    two = of_environment(50_002, 0xA0)
    together = sorted([*in_vlan(tags[0], one), *in_vlan(tags[1], two)], key=time_of)
    seen = Seen(together)
    tables = seen.tracker.tables(seen.links)
    assert tables.connections.values("server") == ["10.0.0.2:11210"] * 2
    assert len(set(tables.seen.clients.values())) == 1


@pytest.mark.parametrize(("port", "is_apart"), [(50_001, True), (50_002, False)])
def test_connections_with_the_same_ends_at_one_time_are_of_two_networks(
    port: int, is_apart: bool
) -> None:
    """Too short a time to tell by their names, and the histories are the same."""
    one, two = of_environment(50_001, 0xA0), of_environment(port, 0xA0)
    going_on(one, 1)
    captured = [*in_vlan(10, one), *in_vlan(20, opened(port=49_999), two)]
    seen = Seen(sorted((p for p in captured if b"\xc3\x4f" not in p.data[38:42]), key=time_of))
    servers = seen.tracker.tables(seen.links).connections.values("server")
    assert ("10.0.0.2%2:11210" in servers) == is_apart


def test_addresses_of_a_further_network_have_its_number() -> None:
    one, two = without_a_reopening(0xA0, 0xB0)
    seen = Seen(sorted([*in_vlan(10, one), *in_vlan(20, two)], key=time_of))
    tables = seen.tracker.tables(seen.links)
    assert tables.connections.values("client") == ["10.0.0.1:50001", "10.0.0.1%2:50002"]
    assert tables.connections.values("server") == ["10.0.0.2:11210", "10.0.0.2%2:11210"]
    assert tables is seen.tracker.tables(seen.links)


def test_captures_of_two_environments_beside_each_other_are_told_apart(tmp_path: Path) -> None:
    paths = []
    for number, talk in enumerate(without_a_reopening(0xA0, 0xB0)):
        paths.append(tmp_path / f"{number}.pcap")
        paths[-1].write_bytes(capture(talk))
    with Reading(list(map(str, paths))) as reading:
        reading.check(["orphaned-vbucket"])
        for _ in reading:
            pass
        assert "orphaned-vbucket" in {finding.rule for finding in reading.findings()}


@pytest.mark.parametrize(
    ("beside_it", "is_orphaned"), [(True, True), (False, False)], ids=["another", "perhaps itself"]
)
def test_who_is_another_consumer_does_not_take_a_vbucket_up(
    beside_it: bool, is_orphaned: bool
) -> None:
    """kafka:b has vbucket 1 as kafka:a has, so kafka:a still lacks vbucket 3 when kafka:b asks for
    it. kafka:c has nothing beside the others: it may be the same program's next connection.
    """
    one, two, third = (opened(f"kafka:{name}", port=50_001 + ord(name) - 97) for name in "abc")
    for talk in (one, two):
        talk.stream(1).snapshot(0, 5, "memory")
    third.wait(4)
    one.stream(3, status=Status.ETMPFAIL)
    for seconds in range(40):
        for talk in (one, two, third):
            talk.wait(1)
            talk.noop()
        if seconds == 6:
            (two if beside_it else third).stream(3)
    together = sorted((p for talk in (one, two, third) for p in packets(talk)), key=time_of)
    rules = {finding.rule for finding in found_in(together)}
    assert ("orphaned-vbucket" in rules) == is_orphaned


def test_consumers_beside_each_other_that_are_rolled_back_once_each_do_not_loop() -> None:
    talks = []
    for name in "ab":
        talk = opened(f"kafka:{name}", port=50_000 + ord(name))
        log = [(0xB, 50), (0xA, 0)]
        talk.stream(1, start=100, uuid=0xA, snapshot=(100, 100), rollback=50, log=log)
        talk.stream(1, start=50, uuid=0xA, snapshot=(50, 50), log=log).snapshot(50, 60, "memory")
        for _ in range(6):
            talk.wait(1)
            talk.noop()
        talks.append(talk)
    together = sorted((p for talk in talks for p in packets(talk)), key=time_of)
    assert "rollback-loop" not in {finding.rule for finding in found_in(together)}


@pytest.mark.parametrize("seconds", [0.5, 1.9])
def test_a_capture_that_ends_too_soon_to_tell_names_apart_shows_no_loop(seconds: float) -> None:
    talks = []
    for name in "ab":
        talk = opened(f"kafka:{name}", port=50_000 + ord(name))
        log = [(0xB, 50), (0xA, 0)]
        talk.stream(1, start=100, uuid=0xA, snapshot=(100, 100), rollback=50, log=log)
        talk.stream(1, start=50, uuid=0xA, snapshot=(50, 50), log=log).snapshot(50, 60, "memory")
        talk.wait(seconds)
        talk.noop()
        talks.append(talk)
    together = sorted((p for talk in talks for p in packets(talk)), key=time_of)
    assert "rollback-loop" not in {finding.rule for finding in found_in(together)}


def test_streams_of_a_vbucket_with_other_stream_ids_are_another_consumers() -> None:
    one, two = opened("kafka:a", port=50_001), opened("kafka:b", port=50_002)
    for talk, stream_id in ((one, 1), (two, 3)):
        talk.control("enable_stream_id", "true")
        talk.stream(7, value={"sid": stream_id}).snapshot(0, 5, "memory")
        for _ in range(9):
            talk.wait(1)
            talk.noop()
    assert names(beside(one, two)) == ["kafka:a", "kafka:b"]


def of_two_clusters(*, share: bool) -> list[Told]:
    """A client whose vbucket 1 ends at one server, while it has vbucket 1 at another, too."""
    one, two = opened("kafka:1", port=50_001), opened("kafka:1", port=50_002)
    two.server = "node2"
    two.wait(4)
    two.stream(1, log=[(0xC, 0), *([(0xA, 0)] if share else [])]).snapshot(0, 5, "memory")
    two.stream(2, log=[(0xD, 0)]).snapshot(0, 5, "memory")
    for vbucket in (1, 2):
        stream = one.stream(vbucket, log=[(0xA if vbucket == 1 else 0xB, 0)])
        stream.snapshot(0, 5, "memory")
        if vbucket == 1:
            stream.end("too-slow")
    for talk in (one, two):
        for _ in range(40):
            talk.wait(1)
            talk.noop()
    return [one, two]


@pytest.mark.parametrize("share", [False, True])
def test_a_client_of_two_clusters_is_a_consumer_in_each(share: bool) -> None:
    """Nodes of one cluster have vbuckets of one history."""
    talks = of_two_clusters(share=share)
    assert names(beside(*talks)) == (
        ["kafka"] * 2 if share else ["kafka@10.0.0.2:11210", "kafka@10.0.0.3:11210"]
    )
    together = sorted((p for talk in talks for p in packets(talk)), key=time_of)
    rules = {finding.rule for finding in found_in(together)}
    assert ("orphaned-vbucket" in rules) is not share


@pytest.mark.parametrize("goes_on_at", [20, 30])
def test_who_goes_on_just_where_a_stream_stood_may_be_its_consumer(goes_on_at: int) -> None:
    """A client with a name for each connection that keeps the old one, and has vb 1 on both."""
    one, two = opened("kafka:A-1", port=50_001), opened("kafka:A-2", port=50_002)
    for talk in (one, two):
        talk.stream(1).snapshot(0, 5, "memory")
    stream = one.stream(3)
    stream.snapshot(0, 20, "memory")
    stream.mutation(20, "k")
    stream.end("too-slow")
    for seconds in range(40):
        for talk in (one, two):
            talk.wait(1)
            talk.noop()
        if seconds == 3:
            two.stream(3, start=goes_on_at)
    together = sorted((p for talk in (one, two) for p in packets(talk)), key=time_of)
    rules = {finding.rule for finding in found_in(together)}
    assert ("orphaned-vbucket" in rules) == (goes_on_at == 30)
