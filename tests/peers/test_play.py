"""Peers over the loopback interface: what one sends is what the other gets."""

from __future__ import annotations

import gc
import socket
from functools import partial

import pytest

from tests.encode import encode, encode_parts
from tests.peers import endpoint
from tests.peers.consumer import Consumer
from tests.peers.endpoint import Board, PeerError
from tests.peers.play import Said, play
from tests.peers.script import Conversation, Send, Side, Story
from tests.peers.stories import STORIES


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


def _scripted(story: Story) -> list[tuple[list[bytes], list[bytes]]]:
    def part(talk: Conversation, side: Side) -> list[bytes]:
        return [
            event.data for event in talk.events if isinstance(event, Send) and event.side == side
        ]

    return [(part(talk, "client"), part(talk, "server")) for talk in story]


def _messages(said: list[Said]) -> list[tuple[list[bytes], list[bytes]]]:
    return [(talk.c2s, talk.s2c) for talk in said]


def _opened() -> Conversation:
    talk = Conversation("reader")
    talk.hello("reader", "Collections")
    talk.open("reader", "producer")
    return talk


@pytest.mark.parametrize("name", ["rollback", "snapshots", "busy", "upr"])
def test_a_story_is_told_message_by_message(name: str) -> None:
    story = STORIES[name]()
    story[0].events = [
        event for event in story[0].events if not (isinstance(event, Send) and event.hold)
    ]
    assert _messages(play(story)) == _scripted(story)


@pytest.mark.skipif(not _has_ipv6(), reason="needs IPv6 on the loopback interface")
def test_the_tour_is_told_over_both_ip_versions() -> None:
    story = STORIES["tour"]()
    said = play(story, hosts={"client6": "::1", "node1-6": "::1"})
    assert _messages(said) == _scripted(story)
    assert [talk.server[0] for talk in said].count("::1") == 1


def test_one_write_may_hold_many_messages_and_one_message_many_segments() -> None:
    talk = _opened()
    talk.writes = (7,)
    stream = talk.stream(1)
    stream.snapshot(0, 50, "memory")
    for seqno in range(1, 51):
        stream.mutation(seqno, f"key::{seqno}", b"x" * (seqno % 5 * 40_000))
    assert _messages(play([talk])) == _scripted([talk])


def test_both_ends_may_speak_at_once() -> None:
    talk = _opened()
    for opaque in range(2000):
        talk.send("client", encode("noop", opaque=opaque, flex=False), waits=False)
        talk.send("server", encode("dcp_noop", opaque=opaque), waits=False)
    assert _messages(play([talk])) == _scripted([talk])


def test_a_connection_may_wait_for_the_end_of_another() -> None:
    seen: list[str] = []
    first, second = _opened(), _opened()
    first.name, second.name, second.after = "first", "second", "first ended"
    first.mark("first is open")
    second.mark("second is open")
    play(
        [first, second],
        hooks={mark: partial(seen.append, mark) for mark in ("first is open", "second is open")},
    )
    assert seen == ["first is open", "second is open"]


def test_connections_may_wait_for_each_others_marks() -> None:
    first, second = _opened(), _opened()
    first.name, second.name = "first", "second"
    first.wait_for("second is open")
    first.stream(1).end()
    second.mark("second is open")
    assert _messages(play([first, second])) == _scripted([first, second])


def test_a_hook_runs_while_half_a_message_is_there() -> None:
    halves: list[str] = []
    talk = _opened()
    stream = talk.stream(1)
    stream.snapshot(0, 1, "memory")
    stream.mutation(1, "key", b"x" * 5000, hold=(2500, "half"))
    stream.end()
    assert _messages(play([talk], hooks={"half": lambda: halves.append("half")})) == _scripted(
        [talk]
    )
    assert halves == ["half"]


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("abort", [False, True])
def test_either_end_may_close_or_reset(side: Side, abort: bool) -> None:
    talk = _opened()
    talk.stream(1)
    talk.close(side, abort=abort)
    assert _messages(play([talk])) == _scripted([talk])


def test_bytes_that_are_no_frame_arrive_as_they_are() -> None:
    talk = _opened()
    talk.send("server", b"\x80\x57 not a frame", raw=True)
    talk.send("server", encode_parts(0x80, 0x57, key=b"lies")[:26], raw=True)
    talk.send("server", encode("dcp_noop"))
    assert _messages(play([talk])) == _scripted([talk])


def test_a_length_that_lies_is_noticed_by_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "TIMEOUT", 0.2)
    talk = _opened()
    talk.send("server", encode_parts(0x80, 0x57, key=b"lies")[:26])
    talk.send("server", encode("dcp_noop"))
    with pytest.raises(PeerError):
        play([talk])


def test_an_error_in_a_hook_ends_the_play_with_that_error() -> None:
    def fail() -> None:
        raise ValueError("out of tape")

    talk = _opened()
    talk.mark("recording starts")
    with pytest.raises(ValueError, match="out of tape"):
        play([talk, _opened()], hooks={"recording starts": fail})


def test_a_client_whose_server_is_gone_leaves_no_socket_open() -> None:
    talk = _opened()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(ConnectionRefusedError):
        Consumer([talk], Board(), {talk.server: address}, {talk.client: "127.0.0.1"}).run()
    # a socket that is still open is an error of this test, and not of one that runs later
    gc.collect()


def test_servers_count_opaques_in_the_byte_order_of_their_host() -> None:
    talk = Conversation("replication", producer="client")
    talk.control("enable_noop", "true")
    talk.noop()
    control, _, noop, _ = (event.data[12:16] for event in talk.events if isinstance(event, Send))
    assert control == b"\x01\0\0\0"
    assert noop == bytes.fromhex("81969800")


def test_the_consumer_acknowledges_what_it_owes() -> None:
    talk = _opened()
    talk.control("connection_buffer_size", "1000")
    talk.ack_after = 100
    stream = talk.stream(1)
    stream.snapshot(0, 2, "memory")
    stream.prepare(1, "key", b"")
    acks = [
        event.data for event in talk.events if isinstance(event, Send) and event.data[1] == 0x5D
    ]
    # Marker 44, and prepare 24 + 31 + 4 with two more that both ends count.
    assert [int.from_bytes(data[24:], "big") for data in acks] == [44 + 61]
