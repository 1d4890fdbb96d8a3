from __future__ import annotations

import pytest

from dcpinspect.protocol.flex import REQUEST_FRAMES, RESPONSE_FRAMES, encode_frames
from dcpinspect.scapy_layer import (
    DCP,
    DcpFrame,
    DcpFrameBarrier,
    DcpFrameDurability,
    DcpFrameImpersonateUser,
    DcpFrameServerDuration,
)
from dcpinspect.scapy_layer.frames import FRAMES
from tests.encode import encode_parts


def read(framing: bytes, magic: int = 0x08) -> list[DcpFrame]:
    packet = DCP(encode_parts(magic, 0x0A, framing=framing))
    packet.clear_cache()
    assert bytes(packet) == encode_parts(magic, 0x0A, framing=framing)
    frames: list[DcpFrame] = packet.framing_extras
    return frames


def test_every_known_element_is_a_class() -> None:
    assert len(FRAMES) == len(REQUEST_FRAMES) + len(RESPONSE_FRAMES)


def test_requests_and_responses_number_their_elements_separately() -> None:
    framing = encode_frames([(0, b"\0\x10")])
    assert [type(frame) for frame in read(framing, 0x18)] == [DcpFrameServerDuration]
    assert [type(frame) for frame in read(framing)] == [DcpFrame]  # a barrier has no data


def test_several_elements_are_several_packets() -> None:
    frames = read(
        bytes(DcpFrameBarrier()) + bytes(DcpFrameImpersonateUser(user=b"^someone-with-a-long-name"))
    )
    assert [type(frame) for frame in frames] == [DcpFrameBarrier, DcpFrameImpersonateUser]
    assert frames[1].user == b"^someone-with-a-long-name"


@pytest.mark.parametrize(("data", "timeout"), [(b"\1", None), (b"\1\0\x05", 5)])
def test_a_number_at_the_end_may_be_absent(data: bytes, timeout: int | None) -> None:
    (frame,) = read(encode_frames([(1, data)]))
    assert (frame.level, frame.timeout_ms) == (1, timeout)
    assert bytes(DcpFrameDurability(level="majority", timeout_ms=timeout)) == encode_frames(
        [(1, data)]
    )


def test_an_unknown_element_keeps_its_number_and_data() -> None:
    (frame,) = read(encode_frames([(40, b"data")]))
    assert (type(frame), frame.id, frame.data) == (DcpFrame, 40, b"data")
    assert bytes(DcpFrame(id=40, data=b"data")) == encode_frames([(40, b"data")])


def test_bytes_that_are_no_element_are_raw() -> None:
    frames = read(b"\x22\0\7\x2f")
    assert [type(frame).__name__ for frame in frames] == ["DcpFrameStreamId", "Raw"]
