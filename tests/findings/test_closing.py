"""Why a server closed a connection: what was found before that makes servers close, and what only
happened to be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dcpinspect.findings.closing import CLOSES
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import ORDINARY, RULES
from dcpinspect.protocol.statuses import Status
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.words import by_side
from tests.captures import field
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.peers.script import Side, text
from tests.streams.told import Told, opened, packets, tables


def streaming(interval: str = "20") -> Told:
    """A connection with a stream that runs."""
    talk = opened(enable_noop="true", set_noop_interval=interval)
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "k")
    return talk


def ask(talk: Told, opaque: int) -> None:
    talk.send("server", encode("dcp_noop", opaque=opaque))


def answer(talk: Told, opaque: int) -> None:
    talk.answer("dcp_noop", opaque, by="client")


def wrong_opaque(talk: Told) -> None:
    ask(talk, 9)
    answer(talk, 8)


def marker_of_the_client(talk: Told) -> None:
    talk.send(
        "client",
        encode(
            "dcp_snapshot_marker",
            vbucket=7,
            opaque=9,
            start_seqno=0,
            end_seqno=9,
            snapshot_type=["memory"],
        ),
    )


def lengths_that_do_not_fit(talk: Told) -> None:
    said = bytearray(encode("dcp_control", opaque=9, key="enable_noop", value="true"))
    said[2:4] = b"\x00\xff"
    talk.send("client", bytes(said))


def garbage(talk: Told, side: Side = "client") -> None:
    talk.send(side, b"\x16\x03\x01 garbage, and more of it than a header has")


def too_long(talk: Told) -> None:
    talk.send("client", bytes.fromhex("805e0000000000007000000000000007") + bytes(8))


FAULTS = {
    "noop-opaque": wrong_opaque,
    "role-violation": marker_of_the_client,
    "length-mismatch": lengths_that_do_not_fit,
    "bad-magic": garbage,
    "oversized-body": too_long,
}


def closed(talk: Told, rules: tuple[str, ...] = tuple(ORDINARY)) -> Finding:
    (one,) = [one for one in findings(talk, rules=rules) if one.rule == "connection-closed"]
    return one


def is_explained(talk: Told) -> bool:
    return ", after " in closed(talk).message


@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("rule", FAULTS)
def test_a_close_by_the_server_points_at_the_fault_that_it_closes_for(
    rule: str, abort: bool
) -> None:
    talk = streaming()
    FAULTS[rule](talk)
    talk.close("server", abort=abort)
    found = findings(talk)
    (one,) = [one for one in found if one.rule == "connection-closed"]
    (fault,) = [one for one in found if one.rule == rule]
    way, cause = ("reset", "reset") if abort else ("closed", "by-server")
    row = f" (row {fault.places[0].row})" if fault.places else ""
    assert one.message == f"{way} by the server with 1 stream open, after {rule}{row}"
    assert (one.severity, one.cause) == ("note", cause)
    assert set(fault.places[:1]) < set(one.places)
    assert (one.effect_of, one.next) == (fault.id, "")
    assert fault.next == by_side(RULES[rule].next)


def test_every_fault_of_the_table_is_tried() -> None:
    assert set(CLOSES) == {*FAULTS, "noop-unanswered"}


def test_a_noop_that_nobody_answers_for_an_interval_explains_a_close() -> None:
    talk = streaming("5")
    ask(talk, 9)
    talk.wait(6)
    talk.close("server")
    one = closed(talk)
    assert one.message.startswith(
        "closed by the server with 1 stream open, after noop-unanswered (row "
    )
    assert {place.direction for place in one.places} == {"s2c"}


def acknowledging() -> Told:
    talk = streaming("5")
    ask(talk, 9)
    talk.wait(6)
    talk.failover_log(7, [(1, 0)])
    return talk


def waiting(interval: str) -> Told:
    talk = streaming(interval)
    ask(talk, 9)
    talk.wait(6)
    return talk


def without_interval() -> Told:
    talk = opened(enable_noop="true")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    ask(talk, 9)
    talk.wait(6)
    return talk


def long_ago() -> Told:
    talk = streaming()
    marker_of_the_client(talk)
    talk.wait(3)
    return talk


def heeded() -> Told:
    talk = streaming()
    wrong_opaque(talk)
    talk.wait(1)
    ask(talk, 10)
    answer(talk, 10)
    return talk


def of_the_server() -> Told:
    talk = streaming()
    talk.send("server", encode("dcp_control", opaque=9, key="enable_noop", value="true"))
    return talk


def garbage_of_the_server() -> Told:
    talk = streaming()
    garbage(talk, "server")
    return talk


def unknown_command() -> Told:
    talk = streaming()
    talk.send("client", b"\x80\x7b" + bytes(22))
    return talk


def in_a_hole() -> Told:
    talk = streaming()
    with talk.lost():
        marker_of_the_client(talk)
    return talk


@pytest.mark.parametrize(
    "talk",
    [
        acknowledging(),
        waiting("120"),
        without_interval(),
        long_ago(),
        heeded(),
        of_the_server(),
        garbage_of_the_server(),
        unknown_command(),
        in_a_hole(),
        streaming(),
    ],
    ids=[
        "the client said something else meanwhile",
        "the interval was not over",
        "the interval is not known",
        "the server went on for long",
        "the server sent another noop",
        "the server's own fault",
        "the server's own bytes",
        "a command that servers answer",
        "the fault was not captured",
        "no fault",
    ],
)
def test_what_servers_do_not_close_for_explains_no_close(talk: Told) -> None:
    talk.close("server")
    assert not is_explained(talk)


def test_nor_is_a_close_by_the_client_explained() -> None:
    talk = streaming()
    marker_of_the_client(talk)
    talk.close("client")
    assert not is_explained(talk)


def test_nor_one_by_the_server_on_another_connection() -> None:
    first = streaming()
    marker_of_the_client(first)
    second = opened(port=50_001)
    second.stream(7).snapshot(0, 9, "memory")
    second.close("server")
    found = [one for one in findings(first, second) if one.rule == "connection-closed"]
    assert [", after " in one.message for one in found] == [False]


def test_where_the_fault_was_not_asked_for_the_close_is_told_alone() -> None:
    talk = streaming()
    marker_of_the_client(talk)
    talk.close("server")
    assert closed(talk, ("connection-closed",)).message == "closed by the server with 1 stream open"


def test_of_two_faults_the_later_is_pointed_at() -> None:
    talk = streaming()
    marker_of_the_client(talk)
    wrong_opaque(talk)
    talk.close("server")
    assert "after noop-opaque" in closed(talk).message


@pytest.mark.parametrize(
    ("name", "frame", "message", "cause"),
    [
        ("t05-sidecar-two-legs", 164, "reset by the server with 4 streams open", "reset"),
        (
            "q09b-only-src-port",
            68,
            "closed by the client with 5 streams open: the other side acknowledged a FIN",
            None,
        ),
    ],
)
def test_a_close_cites_the_packet_that_shows_it_and_blames_nobody_whose_packets_are_not_there(
    name: str, frame: int, message: str, cause: str | None
) -> None:
    with Reading([str(field(name))]) as reading:
        reading.check()
        for _ in reading:
            pass
        (link, *_) = reading.links
        (one,) = (one for one in reading.findings() if one.rule == "connection-closed")
    packet, before = one.places
    assert (packet.frame, packet.time_ns, packet.has_message) == (frame, link.closed_ns, False)
    assert before.has_message
    assert before.frame < frame
    assert (one.message, one.cause, one.whose) == (message, cause, "unknown")


def test_a_client_that_closes_may_have_been_stopped_so_it_does_not_have_to_act() -> None:
    talk = streaming()
    talk.close("client")
    assert closed(talk).whose == "unknown"
    talk = streaming()
    talk.close("server")
    assert closed(talk).whose == "server"


def test_many_open_streams_are_counted_with_separators() -> None:
    talk = opened()
    for vbucket in range(1024):
        talk.stream(vbucket)
    talk.close("server")
    message = "closed by the server with 1,024 streams open"
    assert closed(talk, ("connection-closed",)).message == message


# -- what nobody takes up


def left(
    *,
    by: Side = "server",
    nodes: Sequence[str] = ("10.0.0.2:11210", "10.0.0.3:11210"),
    seconds: float = 90,
    back: Sequence[str] = (),
    again: bool = False,
    before: bool = False,
    name: str = "x:1",
    end: int | None = None,
) -> list[Told]:
    """A client whose connection to one node is closed, and that goes on with another node.

    ``back``: nodes to which it connects once more; ``again``: it asks there for the vbucket.
    ``before``: it had asked the other node for it before.
    """
    lost = Told(name, server="node2", port=50_001)
    lost.hello("test/1.0", "JSON", "Collections")
    lost.open(name, "producer")
    if end is None:
        lost.stream(7)
    else:
        lost.stream(7, end=end)
    lost.close(by)
    goes_on = opened(name)
    document = {
        "rev": 1,
        "vBucketServerMap": {
            "serverList": nodes,
            "vBucketMap": [[node] for node in range(len(nodes))],
        },
    }
    goes_on.ask("get_cluster_config", {"value": text(document), "datatype": 1})
    goes_on.stream(0)
    if before:
        goes_on.stream(7)
    talks = [goes_on, lost] if before else [lost, goes_on]
    for number, node in enumerate(back):
        talk = Told("x:1", server=node, port=50_002 + number)
        talk.hello("test/1.0", "JSON", "Collections")
        talk.open("x:1", "producer")
        if again:
            talk.stream(7)
        talks.append(talk)
    last = goes_on if before else talks[-1]
    last.wait(seconds)
    last.noop()
    return talks


def close_of(talks: Sequence[Told]) -> Finding:
    (one,) = (one for one in findings(*talks) if one.rule == "connection-closed")
    return one


def test_a_client_that_goes_on_without_what_a_closed_connection_had() -> None:
    one = close_of(left())
    assert (one.severity, one.cause, one.whose, one.vbuckets, one.over) == (
        "warning",
        "not-taken-up",
        "unknown",
        (7,),
        "open",
    )
    assert one.message == "closed by the server with 1 stream open; never taken up again in 90.0 s"


@pytest.mark.parametrize(
    "talks",
    [
        pytest.param(left(seconds=50), id="it may still come back"),
        pytest.param(left(by="client"), id="it closed the connection itself"),
        pytest.param(left(back=["node2"]), id="it connects again"),
        pytest.param(left(back=["node1"], again=True), id="it asks for the vbucket elsewhere"),
        pytest.param(
            left(nodes=["10.0.0.2:11210", "10.0.0.3:11210", "10.0.0.4:11210"]),
            id="the vbucket may be on a node that was not captured",
        ),
        pytest.param(left(end=100), id="it may not need the rest"),
        pytest.param(left(before=True), id="it has the vbucket elsewhere"),
        pytest.param(left(name="orders-0"), id="another member may have the vbucket"),
    ],
)
def test_a_close_that_costs_nothing_as_far_as_anybody_knows(talks: Sequence[Told]) -> None:
    assert close_of(talks).severity == "note"


def test_streams_whose_end_a_hole_may_hide_are_not_said_to_be_open() -> None:
    talk = opened()
    whole, holed = talk.stream(7), talk.stream(8)
    for stream in (whole, holed):
        stream.snapshot(0, 9, "memory")
        stream.mutation(1, "k")
    with talk.lost():
        holed.mutation(2, "k")
    whole.mutation(3, "k")
    talk.close("client")
    (one,) = findings(talk, rules=["connection-closed"])
    assert one.message == "closed by the client with 1 to 2 streams open"
    ends = {row["vbucket"]: row["end_reason"] for row in tables(talk).streams}
    assert ends == {7: "connection-closed", 8: "unknown"}


@pytest.mark.parametrize(
    ("order", "key", "status", "wait", "is_why"),
    [
        ("delete_bucket", "b", 0, 0.02, True),
        ("shutdown", "", 0, 0.02, True),
        ("delete_bucket", "other", 0, 0.02, False),
        ("delete_bucket", "b", Status.EACCESS, 0.02, False),
        ("delete_bucket", "b", 0, 30, False),
    ],
)
def test_a_client_that_had_the_bucket_deleted_is_why_the_server_closes(
    order: str, key: str, status: int, wait: float, is_why: bool
) -> None:
    streams, admin = Told("reader:1"), Told("admin", port=50_001)
    streams.hello("test/1.0", "JSON", "Collections")
    streams.select_bucket("b")
    streams.open("reader:1", "producer")
    stream = streams.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "k")
    streams.close("server")
    admin.ask(order, key=key, status=status)
    captured, count = packets(streams, admin), len(packets(streams))
    own, others = captured[:count], captured[count:]
    asked_ns = own[-2].time_ns - int(wait * 1e9)
    shift_ns = asked_ns - others[-4].time_ns
    moved = [replace(packet, time_ns=packet.time_ns + shift_ns) for packet in others]
    found = found_in(sorted([*own, *moved], key=lambda packet: packet.time_ns))
    (one,) = [one for one in found if one.rule == "connection-closed"]
    assert (one.whose == "normal", f"after {order} in row" in one.message) == (is_why, is_why)
