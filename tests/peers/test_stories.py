"""The stories are what a correct producer and a correct consumer would say."""

from __future__ import annotations

from collections.abc import Callable
from struct import unpack_from

import pytest

from dcpinspect.protocol.header import HEADER_SIZE, decode_header
from dcpinspect.protocol.opcodes import Opcode
from tests.peers.script import Conversation, Send, Story
from tests.peers.stories import STORIES

_SEQNO_AT = {
    int(Opcode.DCP_MUTATION): 0,
    int(Opcode.DCP_DELETION): 0,
    int(Opcode.DCP_EXPIRATION): 0,
    int(Opcode.DCP_SYSTEM_EVENT): 0,
    int(Opcode.DCP_PREPARE): 0,
    int(Opcode.DCP_COMMIT): 8,
    int(Opcode.DCP_ABORT): 8,
    int(Opcode.DCP_SEQNO_ADVANCED): 0,
}
_UNIQUE = (Opcode.DCP_MUTATION, Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION)
_UNCOUNTED = (Opcode.DCP_NOOP,)
_MAY_DUPLICATE = 0x20

_STORIES = [
    pytest.param(make, id=name) for name, make in STORIES.items() if name not in ("large", "upr")
]
_STORIES.append(pytest.param(STORIES["large"], id="large", marks=pytest.mark.deep))


@pytest.mark.parametrize("make", _STORIES)
def test_seqnos_rise_within_their_snapshots_and_keys_are_unique_in_them(
    make: Callable[[], Story],
) -> None:
    for talk in make():
        ranges: dict[tuple[int, bytes], tuple[int, int, int]] = {}
        last: dict[tuple[int, bytes], int] = {}
        keys: dict[tuple[int, bytes], set[bytes]] = {}
        unordered: set[tuple[int, bytes]] = set()
        for event in talk.events:
            if not isinstance(event, Send) or event.raw:
                continue
            header = decode_header(event.data)
            if header.side == "response":
                continue
            # A stream-id stands first in the body even where the header leaves it out.
            quirk = header.is_flex and header.framing_size == 0
            at = HEADER_SIZE + (3 if quirk else header.framing_size)
            stream = header.specific, event.data[12:16]
            if header.opcode == Opcode.DCP_SNAPSHOT_MARKER:
                start, end, flags = unpack_from(">QQI", event.data, at + (header.extras_size == 1))
                assert start <= end
                assert end >= last.get(stream, 0)
                ranges[stream], keys[stream] = (start, end, flags), set()
            elif header.opcode == Opcode.DCP_OSO_SNAPSHOT:
                keys[stream] = set()
                (unordered.discard if stream in unordered else unordered.add)(stream)
            elif header.opcode in _SEQNO_AT:
                seqno = unpack_from(">Q", event.data, at + _SEQNO_AT[header.opcode])[0]
                if stream not in unordered:
                    assert ranges[stream][0] <= seqno <= ranges[stream][1], event.data.hex()
                    assert seqno > last.get(stream, 0), event.data.hex()
                last[stream] = max(seqno, last.get(stream, 0))
                if header.opcode in _UNIQUE and not (
                    stream in ranges and ranges[stream][2] & _MAY_DUPLICATE
                ):
                    start = at + header.extras_size
                    key = event.data[start : start + header.key_size]
                    assert key not in keys[stream], key
                    keys[stream].add(key)


@pytest.mark.parametrize("make", _STORIES)
def test_the_producer_never_starts_a_message_over_a_full_window(make: Callable[[], Story]) -> None:
    for talk in make():
        outstanding = window = 0
        pending: dict[bytes, int] = {}
        for event in talk.events:
            if not isinstance(event, Send) or event.raw:
                continue
            header = decode_header(event.data)
            if header.opcode == Opcode.DCP_CONTROL:
                if header.side == "response":
                    window = (
                        pending.pop(event.data[12:16], window) if header.specific == 0 else window
                    )
                elif b"connection_buffer_size" in event.data:
                    pending[event.data[12:16]] = int(
                        event.data.partition(b"connection_buffer_size")[2]
                    )
            elif header.opcode == Opcode.DCP_BUFFER_ACKNOWLEDGEMENT:
                outstanding -= unpack_from(">I", event.data, HEADER_SIZE)[0]
                assert outstanding >= 0
            elif _is_counted(talk, event):
                assert not window or outstanding < window
                outstanding += len(event.data) + 2 * (header.opcode == Opcode.DCP_PREPARE)


def _is_counted(talk: Conversation, event: Send) -> bool:
    header = decode_header(event.data)
    own = (
        Opcode.DCP_STREAM_END <= header.opcode <= Opcode.DCP_CACHE_TRANSFER_END
        and header.opcode not in _UNCOUNTED
    )
    return event.side == talk.producer and header.side == "request" and own and not header.is_server


@pytest.mark.parametrize("make", _STORIES)
def test_a_story_says_the_same_every_time(make: Callable[[], Story]) -> None:
    assert [talk.events for talk in make()] == [talk.events for talk in make()]


def test_the_tour_has_every_dcp_command_but_those_that_were_never_sent() -> None:
    seen = {
        event.data[1]
        for talk in STORIES["tour"]()
        for event in talk.events
        if isinstance(event, Send)
    }
    dcp = {int(opcode) for opcode in Opcode if opcode.name.startswith("DCP_")}
    assert dcp - seen == {int(Opcode.DCP_FLUSH)}
