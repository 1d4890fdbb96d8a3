"""What directions say first, looked at in columns, is what framers find."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.protocol import first_bytes
from dcpinspect.protocol.foreign import Recogniser, may_be_foreign
from dcpinspect.reading.engine import Engine
from tests import builders, damage
from tests.builders import ACK, FIN, RST, SYN, Segment
from tests.catalogue import first_of
from tests.encode import encode
from tests.scenarios.test_crowds import read

NOOP = encode("noop", opaque=5)
GET = encode("get", opaque=6, key="some key")
HELLO = encode("hello", opaque=1, key='{"a":"x"}', features=[{"feature": 6}, {"feature": 0x12}])
ASK = encode("dcp_stream_req", vbucket=7, opaque=0x11)
TEXT = b"get some-key\r\n"
MESSAGES = (
    NOOP, GET, HELLO, ASK, encode("dcp_stream_req", "response", opaque=0x11, failover_log=[{"uuid": 1, "seqno": 0}]), builders.mutation(1),
    builders.mutation(2, vbucket=9, opaque=0x77),
)  # fmt: skip
SAID = (
    NOOP, GET, HELLO, ASK, encode("hello", "response", opaque=1, features=[{"feature": 0x12}]), builders.mutation(1),
    NOOP * 2, NOOP * 3, NOOP * 5, NOOP * 20, HELLO + NOOP, NOOP + ASK, NOOP + GET[:30], NOOP[:15], GET[:24], GET[:30], NOOP[:1], HELLO[:-1],
    b"GET / HTTP/1.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n" + NOOP, TEXT, TEXT * 3, b"END\r\n" * 2, TEXT[:-1],
    b"x" * 30 + TEXT * 3,
    b"\x16\x03\x01\x00\x05\1hello", b"\x16", b"\x16\x03", b"\x17\x03\x03\x00\x40" + b"x" * 64, b"\x15\x03\x03\x00\x02\x02\x28",
    b"\1\2\3\4\5", b"\x80" * 5, b"\x80" * 60, bytes(40), b"\x99" + NOOP, b"\x99" * 30 + GET, bytes(range(1, 200)), bytes(2000),
    NOOP[:5] + b"\x09" + NOOP[6:], NOOP[:8] + b"\x7f" + NOOP[9:], GET[:4] + b"\x03" + GET[5:], b"\x82\x01" + bytes(22), b"\x81" + bytes(23),
    encode("dcp_stream_req", vbucket=65_535, opaque=4),
)  # fmt: skip


def flood(chance: random.Random, count: int, port: int) -> bytes:
    """Connections that say a little of any of that, begun and ended in any way, at the same
    time.
    """
    talks = []
    for number in range(count):
        next_seq = [1000, 5000]
        packets: list[tuple[int, int, int, bytes]] = []

        def send(
            side: int,
            flags: int,
            data: bytes = b"",
            next_seq: list[int] = next_seq,
            packets: list[tuple[int, int, int, bytes]] = packets,
        ) -> None:
            packets.append((side, flags, next_seq[side], data))
            next_seq[side] += len(data) + (flags & (SYN | FIN) != 0)

        for side, flags in ((0, SYN), (1, SYN | ACK)):
            if chance.random() < 0.7:
                send(side, flags)
        for _ in range(chance.choice((0, 0, 1, 2))):
            side, data = (
                chance.randrange(2),
                b"".join(chance.choices(MESSAGES, k=chance.randrange(1, 6))),
            )
            while data:
                size = chance.choice((24, 30, 60, 200))
                send(side, ACK, data[:size])
                data = data[size:]
                if chance.random() < 0.03:
                    packets[-2:] = packets[:-3:-1]
                if chance.random() < 0.05:
                    next_seq[side] += 30
        for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 2, 3))):
            side = chance.randrange(2)
            data = chance.choice(SAID)
            send(side, ACK, data)
            if chance.random() < 0.05:
                packets.append(packets[-1])
            if chance.random() < 0.05:
                next_seq[side] += 30
        for side, flags in ((0, FIN | ACK), (1, FIN | ACK), (0, RST)):
            if chance.random() < 0.4:
                send(side, flags)
        talks.append((("10.0.0.1", 20_000 + number), packets))
    order = [index for index, (_, packets) in enumerate(talks) for _ in packets]
    if chance.random() < 0.5:
        chance.shuffle(order)
    made = []
    for place, index in enumerate(order):
        client, packets = talks[index]
        side, flags, seq, data = packets.pop(0)
        made.append(
            Segment(
                side == 0,
                seq,
                1,
                flags,
                data,
                builders.START_NS + place * 1_000_000,
                client,
                ("10.0.0.2", port),
            )
        )
    return builders.pcap(builders.recorded(made))


@pytest.mark.slow
@pytest.mark.parametrize("find_ports", [False, True])
@pytest.mark.parametrize("seed", first_of(range(2), 1))
def test_columns_find_what_framers_find(
    seed: int, find_ports: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, the account of every direction, and links."""
    path = tmp_path / "a.pcap"
    path.write_bytes(flood(random.Random(seed), 120, 9999 if find_ports else 11_210))
    for batch_bytes in (1 << 24, 700):
        monkeypatch.setattr(first_bytes, "MANY", 1 << 30)
        framed = read(path, batch_bytes, find_ports=find_ports)
        assert len(framed) > 250
        monkeypatch.setattr(first_bytes, "MANY", 1)
        for packets in (1 << 31, 150):
            monkeypatch.setattr(first_bytes, "MOST_PACKETS", packets)
            assert read(path, batch_bytes, find_ports=find_ports) == framed


def test_an_answer_shows_its_stream_whoever_looks_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the first thing that a direction says; here its events come behind a hole."""
    talk = builders.Conversation()
    talk.handshake()
    talk.send(False, encode("dcp_stream_req", "response", opaque=0x77))
    talk.send(False, b"".join(builders.mutations(3)))
    lost = talk.send(False, bytes(30))
    talk.send(
        False,
        b"rest of a value"
        + b"".join(builders.mutations(2, vbucket=9, opaque=0x77) + builders.mutations(2)),
    )
    talk.close()
    path = tmp_path / "a.pcap"
    path.write_bytes(
        builders.pcap(builders.recorded([one for one in talk.segments if one is not lost]))
    )
    found = []
    for many in (1, 1 << 30):
        monkeypatch.setattr(first_bytes, "MANY", many)
        found.append(read(path, 1, find_ports=False))
    assert found[0] == found[1]
    assert sum(isinstance(row, tuple) and isinstance(row[0], int) for row in found[0]) == 8


def test_nothing_that_has_a_name_passes() -> None:
    """Whatever a Recogniser names is left to it."""
    texts = [
        b"%s k 0 0 1\r\n" % word
        for word in (
            b"get gets touch incr decr delete gat gats mg md ma me set add replace append prepend"
        ).split()
    ]
    texts += [
        b"cas k 1 2 3 4\r\n",
        b"ms k 1\r\n",
        b"mn\r\n",
        b"stats\r\n",
        b"version\r\n",
        b"verbosity 1\r\n",
        b"flush_all\r\n",
        b"quit\r\n",
    ]
    texts += [
        b"VALUE k 0 1\r\n",
        b"STAT a b\r\n",
        b"VERSION 1\r\n",
        b"END\r\n",
        b"STORED\r\n",
        b"NOT_STORED\r\n",
        b"EXISTS\r\n",
        b"NOT_FOUND\r\n",
    ]
    texts += [
        b"DELETED\r\n",
        b"TOUCHED\r\n",
        b"ERROR\r\n",
        b"CLIENT_ERROR x\r\n",
        b"SERVER_ERROR x\r\n",
        b"OK\r\n",
        b"RESET\r\n",
        b"VA 1\r\n",
    ]
    texts += [
        b"HD\r\n",
        b"EN\r\n",
        b"MN\r\n",
        b"\x16\x03\x01\x00\x05\x01",
        b"\x17\x03\x03\x00\x01x",
        b"\x16",
    ]
    for text in texts:
        piece = np.frombuffer(b"x" + text + b"y", np.uint8)
        assert may_be_foreign(piece, np.array([1]), np.array([len(piece) - 1])).all(), text
        if b"\n" in text:
            recogniser = Recogniser()
            recogniser.add(np.frombuffer(text * 3, np.uint8), 0, (), is_start=False)
            assert recogniser.name() is not None or b" k 0 0 1" in text, text


def test_what_waits_for_the_end_is_told_when_time_has_passed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(
        builders.pcap(builders.recorded([Segment(True, 7, 1, ACK, NOOP, builders.START_NS)]))
    )
    found = []
    for many in (1 << 30, 1):
        monkeypatch.setattr(first_bytes, "MANY", many)
        engine = Engine(["a"])
        with open_capture(path) as opened:
            assert [engine.feed(batch) for batch in opened] == [None]
        assert engine.decode(engine.frame_overdue(builders.START_NS + 400_000_000)) is None
        found.append(
            damage.rows_in(engine.decode(engine.frame_overdue(builders.START_NS + 600_000_000)))
        )
    assert len(found[0]) == 1
    assert found[0] == found[1]


def test_one_message_in_the_middle_needs_no_framer_whatever_stream_it_shows(
    tmp_path: Path,
) -> None:
    said = [ASK, builders.mutation(1), NOOP, MESSAGES[4]] * 16
    made = [
        Segment(True, 7, 1, ACK, data, builders.START_NS + number, ("10.0.0.1", 20_000 + number))
        for number, data in enumerate(said)
    ]
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(builders.recorded(made)))
    engine = Engine(["a"])
    with open_capture(path) as opened:
        assert [engine.feed(batch) for batch in opened] == [None]
    assert not engine._framers
    last = engine.finish()
    assert last is not None
    assert len(last) == len(said)
