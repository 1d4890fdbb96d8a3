"""Requests of which the capture lacks the stream-id, or all but the header: nobody knows which
stream they go on with.
"""

from __future__ import annotations

import pytest

from dcpinspect.streams.unread_requests import UnreadRequests
from dcpinspect.streams.visibility import Visibility
from tests.streams.told import Seen, Told, opened, packets

CLIENT = {1: "c"}


def vague(talk: Told, snaplen: int) -> tuple[Seen, UnreadRequests]:
    seen = Seen([packet.cut(snaplen) for packet in packets(talk)])
    state = seen.tracker.state
    links = {link.number: link for link in seen.links}
    found = UnreadRequests(
        state.known_tables.streams,
        Visibility(state.known_tables, links),
        links,
        seen.tracker.conversation.sessions,
        CLIENT,
    )
    return seen, found


def twice() -> Told:
    """A stream that received something, and another one that did not."""
    talk = opened(enable_stream_id="true")
    stream = talk.stream(7, value={"collections": ["0"], "sid": 1})
    stream.snapshot(0, 1, "memory")
    stream.mutation(1, "a")
    stream.end("too-slow")
    talk.stream(7, start=9, uuid=0xD0C5_0000_0000_0001, value={"collections": ["0"], "sid": 2})
    return talk


def test_a_request_without_its_value_may_be_for_any_stream_id() -> None:
    seen, found = vague(twice(), 130)
    first_ns = min(seen.tracker.state.known_tables.streams.opened.time.tolist())
    assert found.asked_between("c", 7, first_ns)
    assert not found.asked_between("c", 8, first_ns)
    assert not found.asked_between("other", 7, first_ns)
    assert not found.asked_between("c", 7, 0, first_ns)
    assert "resumed" not in [gap["cause"] for gap in seen.gaps]


@pytest.mark.parametrize("snaplen", [1 << 18, 90])
def test_without_stream_ids_only_what_lacks_more_is_vague(snaplen: int) -> None:
    talk = opened()
    talk.stream(7, value={"collections": ["0"]}, rollback=0, start=9)
    _, found = vague(talk, snaplen)
    assert found.streams.any() == (snaplen == 90)
    assert found.asked_between("c", 7, 0) is (snaplen == 90)


def test_stream_ids_that_are_not_in_use_leave_nothing_vague() -> None:
    talk = opened()
    talk.stream(7, value={"collections": ["0"]}, rollback=0, start=9)
    seen, found = vague(talk, 130)
    assert [record["filter"] for record in seen.streams] == [None]
    assert not found.asked_between("c", 7, 0)
