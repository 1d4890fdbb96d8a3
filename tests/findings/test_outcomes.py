"""Who a finding is about, and whether it is over."""

from __future__ import annotations

from typing import Literal

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.protocol.statuses import Status
from dcpinspect.reading.reading import Reading
from tests.captures import real_server
from tests.findings.checked import findings, found_in
from tests.streams.told import Told, opened, packets

OLD, NEW = 0xA, 0xB


def one(rule: str, *talks: Told) -> Finding:
    (found,) = (found for found in findings(*talks) if found.rule == rule)
    return found


def refused(status: int, *, again: bool, vbucket: int = 7) -> Told:
    talk = opened("a:1")
    talk.stream(7, start=50, uuid=OLD, status=status)
    if again:
        talk.stream(vbucket, start=0)
    return talk


@pytest.mark.parametrize("status", [Status.ETMPFAIL, Status.EACCESS, Status.UNKNOWN_COLLECTION])
def test_a_refused_request_that_the_client_handled_is_a_note(status: int) -> None:
    found = one("stream-refused", refused(status, again=True))
    assert (found.severity, found.over) == ("note", "recovered")
    assert found.over_place is not None
    assert found.over_place > found.places[-1]
    assert found.over_place.frame > found.places[-1].frame
    left = one("stream-refused", refused(status, again=False))
    assert (left.severity != "note", left.over, left.over_row) == (True, "unknown", None)


def test_so_is_every_other_refusal_that_the_client_handled() -> None:
    """One request was refused, whatever for, and the client got its stream: it cost nothing."""
    for rule, asked in (
        ("bad-stream-range", {"start": 50, "end": 40, "status": Status.ERANGE}),
        ("manifest-ahead", {"value": {"uid": "5"}, "status": Status.COLLECTIONS_MANIFEST_IS_AHEAD}),
    ):
        for again in (True, False):
            talk = opened("a:1")
            talk.stream(7, **asked)
            if again:
                talk.stream(7)
            found = one(rule, talk)
            assert (found.severity == "note", found.over == "recovered") == (again, again)


def test_an_open_that_was_refused_is_a_note_once_the_client_has_a_stream_on_another_connection() -> (
    None
):
    first, later = Told("a:1"), opened("a:2", port=50_001)
    first.hello("test/1.0", "JSON")
    first.open("a:1", "producer", status=Status.EACCESS)
    first.close()
    later.stream(7)
    assert one("open-refused", first).severity == "warning"
    found = one("open-refused", first, later)
    assert (found.severity, found.over) == ("note", "recovered")


def test_a_stream_of_another_vbucket_puts_nothing_right() -> None:
    assert one("stream-refused", refused(Status.EACCESS, again=True, vbucket=8)).over == "unknown"


def test_a_stream_of_another_client_puts_nothing_right() -> None:
    other = opened("b:1", port=50_001)
    other.stream(7)
    assert one("stream-refused", refused(Status.EACCESS, again=False), other).over == "unknown"


def test_on_a_later_connection_of_the_client_it_is_put_right() -> None:
    later = opened("a:2", port=50_001)
    later.stream(7)
    assert one("stream-refused", refused(Status.EACCESS, again=False), later).over == "recovered"


def test_a_connection_that_was_closed_is_made_up_for_by_a_stream_on_the_next() -> None:
    first, later = opened("a:1"), opened("a:2", port=50_001)
    first.stream(7)
    first.close("server")
    assert one("connection-closed", first).over == "unknown"
    assert one("connection-closed", first, later).over == "unknown"
    later.stream(7)
    assert one("connection-closed", first, later).over == "recovered"


def broken_off(*vbuckets: int) -> tuple[Told, Told]:
    """A connection that the server closes while it streams these vbuckets, and the next one of the
    client.
    """
    first, later = opened("a:1"), opened("a:2", port=50_001)
    for vbucket in vbuckets:
        first.stream(vbucket)
    first.close("server")
    return first, later


def test_a_stream_that_began_before_a_connection_was_closed_makes_up_for_nothing() -> None:
    first, beside = opened("a:1"), opened("a:2", port=50_001)
    first.stream(7)
    beside.stream(7)
    first.wait(60)
    first.close("server")
    captured = sorted(
        (packet for talk in (first, beside) for packet in packets(talk)),
        key=lambda packet: packet.time_ns,
    )
    (found,) = (found for found in found_in(captured) if found.rule == "connection-closed")
    assert found.over == "unknown"


def test_a_connection_is_made_up_for_once_all_its_streams_are_there_again() -> None:
    first, later = broken_off(7, 8)
    later.stream(7)
    assert one("connection-closed", first, later).over == "unknown"
    later.stream(8)
    found = one("connection-closed", first, later)
    assert (found.over, found.over_row) == ("recovered", 16)


def test_a_stream_of_another_vbucket_does_not_make_up_for_a_connection() -> None:
    first, later = broken_off(7)
    later.stream(8)
    assert one("connection-closed", first, later).over == "unknown"


@pytest.mark.parametrize(
    ("name", "over"),
    [("replication:n1->n3:default", "unknown"), ("replication:n4->n2:default", "recovered")],
)
def test_a_node_that_replicates_makes_up_for_a_connection_of_its_own_only(
    name: str, over: str
) -> None:
    """On one host, as where all nodes of a cluster run on the machine of a developer."""
    first, later = opened("replication:n1->n2:default"), opened(name, port=50_001)
    first.stream(7)
    first.close("client")
    later.stream(7)
    assert one("connection-closed", first, later).over == over


def test_a_stream_that_asks_for_nothing_does_not_make_up_for_itself() -> None:
    talk = opened("a:1")
    talk.stream(7).end()
    talk.stream(7, end=0).end()
    assert one("end-zero-reopen", talk).over == "unknown"


def looping(name: str = "a:1", *, goes_on: bool | None = None) -> Told:
    """``goes_on``: the client has a stream afterwards, from above what it was rolled back to; None:
    it has none.
    """
    talk = opened(name)
    for _ in range(3):
        talk.stream(7, start=150, uuid=OLD, rollback=100)
    if goes_on is not None:
        talk.stream(7, start=120 if goes_on else 100, uuid=NEW, log=((NEW, 90), (OLD, 0)))
    return talk


@pytest.mark.parametrize(
    ("goes_on", "over"), [(None, "open"), (False, "unknown"), (True, "recovered")]
)
def test_a_loop_is_over_once_the_client_could_go_on_from_above(
    goes_on: bool | None, over: str
) -> None:
    assert one("rollback-loop", looping(goes_on=goes_on)).over == over


def test_a_side_has_its_name_its_agent_and_its_address() -> None:
    found = one("rollback-loop", looping())
    assert (found.who, found.server) == (
        "client a:1 (10.0.0.1:50000, test/1.0)",
        "server 10.0.0.2:11210",
    )
    assert (found.clients, found.whose) == (("10.0.0.1 a",), "client")


def test_several_clients_are_counted_with_their_addresses() -> None:
    talks = [looping() for _ in range(3)]
    for number, talk in enumerate(talks):
        talk.host = f"10.0.1.{7 + number}"
    assert one("rollback-loop", *talks).who == "3 clients (10.0.1.7–9, a)"
    talks[1].host = "10.0.2.5"
    assert one("rollback-loop", *talks).who == "3 clients (10.0.1.7, 10.0.2.5 and 1 more, a)"


def test_clients_of_one_program_that_are_apart_are_named_as_they_are_known() -> None:
    with Reading([str(real_server("v85-collections"))]) as reading:
        reading.check()
        for _ in reading:
            pass
        said = [found.who for found in reading.findings() if found.connections == (4, 5, 6)]
    assert said == ["3 clients (127.0.0.1 real:flat, 127.0.0.1 real:nocoll and 1 more)"]


def test_several_clients_of_different_names_are_named_each_by_address_and_name() -> None:
    talks = [looping(name) for name in ("a:1", "b:1", "c:1", "d:1")]
    assert one("rollback-loop", *talks).who == "4 clients (10.0.0.1 a, 10.0.0.1 b and 2 more)"
    talks[0].host = "10.0.2.5"
    assert one("rollback-loop", *talks[:2]).who == "2 clients (10.0.0.1 b, 10.0.2.5 a)"


@pytest.mark.parametrize(
    ("producer", "whose", "refused", "unasked"),
    [
        (
            "client",
            "client",
            "; a server must not use it, and can reopen the stream from its last seqno",
            "report this message with the client's version; it has to ask for what it sends",
        ),
        (
            "server",
            "server",
            "; a client must not use it, and can reopen the stream from its last seqno",
            "report this message with the server's version; a client can tell the two forms",
        ),
    ],
)
def test_advice_is_for_the_consumer_also_where_that_is_the_server(
    producer: Literal["client", "server"], whose: str, refused: str, unasked: str
) -> None:
    """The author of a client that is the producer can do nothing about what it receives."""
    talk = Told("replication:n1->n2", producer=producer)
    talk.hello("test/1.0", "JSON")
    talk.open("replication:n1->n2", *(["producer"] if producer == "server" else []))
    stream = talk.stream(7)
    stream.snapshot(0, 2, "memory")
    talk.delete_times = True
    stream.deletion(1, "k")
    stream.mutation(9, "k")
    found = {finding.rule: finding for finding in findings(talk)}
    outside, mismatch = found["seqno-outside-snapshot"], found["delete-times-mismatch"]
    assert (outside.whose, mismatch.whose) == (whose, whose)
    assert outside.next.endswith(refused)
    assert mismatch.next.startswith(unasked)
