"""What the TCP connection under the messages tells."""

from __future__ import annotations

from dataclasses import replace

from dcpinspect.reading.engine import Engine
from dcpinspect.streams.records import GREATEST
from dcpinspect.streams.tcp_facts import LateAck, TcpConnection
from tests.damage import PORT, batches
from tests.streams.told import Told, opened, packets


def links(*talks: Told) -> list[TcpConnection]:
    engine = Engine(["told.pcap"], ports=(PORT,))
    for part in batches(packets(*talks)):
        engine.feed(part)
    engine.finish()
    return engine.links


def test_times_and_the_start_of_a_connection() -> None:
    talk = opened()
    captured = packets(talk)
    (link,) = links(talk)
    assert (link.number, link.client, link.server, link.has_handshake) == (
        1,
        "10.0.0.1:50000",
        "10.0.0.2:11210",
        True,
    )
    assert (link.first_ns, link.last_ns) == (captured[0].time_ns, captured[-1].time_ns)
    assert (link.closed, link.closed_by) == ("", -1)
    talk.events.insert(0, talk.events[0])
    talk.begin()
    talk.noop()
    assert not links(talk)[0].has_handshake


def test_the_first_fin_or_reset_says_who_closed_and_when() -> None:
    for abort, closed in ((False, "fin"), (True, "rst")):
        talk = opened()
        talk.close("server", abort=abort)
        place = len(packets(talk)) - (1 if abort else 2)
        (link,) = links(talk)
        assert (link.closed, link.closed_by, link.closed_packet, link.closed_frame) == (
            closed,
            1,
            place,
            place + 1,
        )
        assert link.closed_ns == packets(talk)[place].time_ns


def test_a_new_connection_on_the_same_addresses_ends_the_old_one() -> None:
    one, other = opened(), opened()
    first, second = links(one, other)
    assert (first.closed, first.closed_by, second.closed) == ("replaced", -1, "")
    assert (
        first.closed_packet == len(packets(one)) + 1
    )  # the answer to the SYN shows that it is no stray one


def test_what_was_lost_behind_the_last_message_is_told() -> None:
    talk = opened()
    stream = talk.stream(7)
    with talk.lost():
        stream.mutation(1, "k")
    talk.send("client", bytes.fromhex("800a" + "00" * 22))
    (link,) = links(talk)
    assert link.lost_at_end[0] is None
    span = link.lost_at_end[1]
    assert span is not None
    assert span[1] - span[0] == 57 == link.missing[1]


def test_the_network_carries_but_while_bytes_are_sent_again() -> None:
    (link,) = links(opened())
    lossy = tuple(LateAck(at, at + 9, at, at + 20, at + 30) for at in (100, 200, 225))
    lossy_link = replace(link, late_acks=(lossy, (LateAck(300, 309, 300, 310, GREATEST),)))
    assert lossy_link.carried_ns(0, 400, 400) == 310 - 3 * 10
    assert lossy_link.carried_ns(125, 127, 400) == 0
    assert lossy_link.carried_ns(400, 300, 400) == 0


def test_a_network_that_carries_no_more_may_have_ended_when_the_other_side_was_heard_last() -> None:
    (link,) = links(opened())
    dead_link = replace(link, late_acks=((LateAck(300, 309, 120, 310, GREATEST),), ()))
    assert dead_link.carried_ns(100, 400, 150) == 50
    assert dead_link.carried_ns(200, 400, 150) == 0
    assert dead_link.carried_ns(100, 400, 90) == 20  # its host had acknowledged at 120


def test_what_was_acknowledged_before_all_that_is_remembered_came_when_it_was_sent() -> None:
    (link,) = links(opened())
    lossy = replace(link, late_acks=((), (LateAck(100, 200, 2, 6, 9),)))
    assert lossy.received_ns(1, 0, 3) == 3
    assert lossy.received_ns(1, 150, 3) == 9
    assert lossy.received_ns(1, 150, 1) == 1


def test_inside_tls_what_was_sent_meanwhile_came_late() -> None:
    (link,) = links(opened())
    lossy = replace(link, late_acks=((), (LateAck(0, GREATEST, 4, 6, 9),)))
    assert [lossy.received_ns(1, 0, sent_ns) for sent_ns in (3, 4, 8, 10)] == [3, 9, 9, 10]


def test_addresses_of_a_further_network_have_its_number_and_name_nodes_with_it() -> None:
    link = replace(links(opened())[0], proxied="[fd00::1]:9")
    further = link.in_network(2)
    assert (further.client, further.server) == ("10.0.0.1%2:50000", "10.0.0.2%2:11210")
    assert further.origin == "[fd00::1%2]:9"
    assert further.node("10.0.0.3:11210") == "10.0.0.3%2:11210"
    assert further.node("$HOST:11210") == further.node("") == further.server
