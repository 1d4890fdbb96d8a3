"""Key logs whose lines come later than the packets that they open."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcapng import TLS_KEY_LOG
from dcpinspect.reading.engine import Engine
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.transport.connections import DEFAULT_PORTS
from dcpinspect.transport.tls import keylog, stage
from dcpinspect.transport.tls.keylog import KeyLog
from tests import builders
from tests.tls.forged import Forged
from tests.tls.peers import Recorded, Tls

SAID = [builders.mutation(seqno, value=b"x" * 900) for seqno in range(1, 41)]
WAYS = [Tls("1.3"), Tls("1.2", "ECDHE-RSA-AES128-GCM-SHA256")]


@pytest.fixture(params=WAYS, ids=lambda tls: tls.version)
def recorded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Recorded:
    monkeypatch.setattr(keylog, "AGAIN_S", 0.0)
    forged = Forged(tmp_path, request.param)
    for data in SAID:
        forged.send(1, data)
    return forged.finish()


class Followed:
    """A capture that is fed in pieces while its key log is written."""

    def __init__(self, recorded: Recorded) -> None:
        self.secrets = recorded.keylog.read_text()
        self.keylog = recorded.keylog
        self.keylog.write_text("")
        self.engine = Engine(
            [str(recorded.path)], ports=DEFAULT_PORTS, keys=KeyLog([str(recorded.keylog)])
        )
        self.said: list[bytes] = []
        with open_capture(recorded.path, batch_bytes=4096) as capture:
            self.pieces = list(capture)

    def feed(self, pieces: slice) -> None:
        for packets in self.pieces[pieces]:
            self.take(self.engine.feed(packets))

    def take(self, batch: MessageBatch | None) -> None:
        if batch is not None:
            self.said += [bytes(batch.bytes_of(place)) for place in range(len(batch))]


def test_what_came_before_its_secrets_is_read_when_they_come_and_no_packet_follows(
    recorded: Recorded,
) -> None:
    followed = Followed(recorded)
    followed.feed(slice(5))
    assert followed.said == []
    followed.keylog.write_text(followed.secrets)
    last = int(followed.pieces[4].time_ns[-1])
    followed.take(followed.engine.decode(followed.engine.frame_overdue(last + 10_000_000_000)))
    early = len(followed.said)
    assert early > 3
    followed.feed(slice(5, None))
    followed.take(followed.engine.finish())
    assert followed.said == SAID


def test_a_connection_that_is_over_waits_for_its_secrets_too(recorded: Recorded) -> None:
    followed = Followed(recorded)
    followed.feed(slice(None))
    assert followed.said == []
    followed.keylog.write_text(followed.secrets)
    followed.take(
        followed.engine.decode(followed.engine.frame_overdue(int(followed.pieces[-1].time_ns[-1])))
    )
    assert followed.said == SAID


def test_secrets_may_come_one_by_one(recorded: Recorded) -> None:
    followed = Followed(recorded)
    lines = [
        line for line in followed.secrets.splitlines(keepends=True) if not line.startswith("#")
    ]
    for number, line in enumerate(lines):
        followed.feed(slice(3 * number, 3 * number + 3))
        with followed.keylog.open("a") as file:
            file.write(line[:150])
        followed.take(
            followed.engine.decode(
                followed.engine.frame_overdue(int(followed.pieces[3 * number].time_ns[0]))
            )
        )
        with followed.keylog.open("a") as file:
            file.write(line[150:])
    followed.feed(slice(3 * len(lines), None))
    followed.take(followed.engine.finish())
    assert followed.said == SAID


def test_what_waits_is_bounded(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "MOST_FOR_KEYS", 20_000)
    followed = Followed(recorded)
    followed.feed(slice(None))
    assert followed.engine.tls._shared.waiting == 0
    followed.keylog.write_text(followed.secrets)
    followed.take(followed.engine.finish())
    assert followed.said == []
    assert all(
        one.tls == 0 and one.unique == one.not_decodable
        for one in followed.engine.coverage.directions
    )


def secrets_block(recorded: Recorded) -> bytes:
    """The secrets as a capture has them, which are nowhere else then."""
    lines = recorded.keylog.read_bytes()
    recorded.keylog.write_text("")
    body = struct.pack("<II", TLS_KEY_LOG, len(lines)) + lines + bytes(-len(lines) % 4)
    return builders.block(10, body)


def test_secrets_of_a_later_capture_open_what_came_before(
    recorded: Recorded, tmp_path: Path
) -> None:
    block = secrets_block(recorded)
    late = bytes(12) + b"\x88\xb5" + bytes(46)  # another protocol
    later = tmp_path / "later.pcapng"
    later.write_bytes(builders.pcapng([builders.Recorded(late, len(late), 1 << 62)]) + block)
    paths = [str(recorded.path), str(later)]
    with Reading(open_capture(paths, batch_bytes=4096)) as reading:
        said = [bytes(batch.bytes_of(place)) for batch in reading for place in range(len(batch))]
    assert said == SAID


def test_secrets_at_the_end_of_a_capture_open_it(recorded: Recorded, tmp_path: Path) -> None:
    with open_capture(recorded.path) as capture:
        packets = [
            builders.Recorded(packet, len(packet), time_ns)
            for batch in capture
            for packet, time_ns in zip(
                (
                    batch.data[start : start + size].tobytes()
                    for start, size in zip(batch.offset, batch.captured, strict=True)
                ),
                batch.time_ns.tolist(),
                strict=True,
            )
        ]
    block, statistics = secrets_block(recorded), builders.block(5, bytes(12))
    path = tmp_path / "one.pcapng"
    for behind, expected in (
        (block, SAID),
        (block + statistics, SAID),
        (statistics + b"\xff" * 20, []),
        (b"", []),
    ):
        path.write_bytes(builders.pcapng(packets) + behind)
        with Reading([str(path)]) as reading:
            said = [
                bytes(batch.bytes_of(place)) for batch in reading for place in range(len(batch))
            ]
        assert said == expected
