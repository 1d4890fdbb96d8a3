from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from dcpinspect.errors import UsageError
from dcpinspect.spark import plan
from dcpinspect.spark.pipeline import Options, expire
from dcpinspect.spark.secrets import closed_by, mark_of, opens, secrets_at
from dcpinspect.transport.tls.connection import TlsConnection
from dcpinspect.transport.tls.handshake import Hello
from dcpinspect.transport.tls.keylog import KeyLog
from dcpinspect.transport.tls.tls_records import TLS12
from tests import builders
from tests.builders import Recorded
from tests.damage import Talk
from tests.peers.truth import SAMPLES
from tests.scenarios.test_tls_renegotiation import SUITES
from tests.scenarios.test_tls_renegotiation import recorded as renegotiated
from tests.spark.cuts import cut, packets_of, written
from tests.spark.outputs import here, ran, stored, told
from tests.tls.damage import save
from tests.tls.forged import Forged
from tests.tls.peers import Tls

pytestmark = pytest.mark.slow

SECRET = "CLIENT_RANDOM {:064x} " + "0" * 96 + "\n"


def randoms(path: Path, point: str | None, *names: str) -> set[int]:
    """Client randoms that a capture point knows secrets of."""
    keys = secrets_at([name.format(path) for name in names])
    return {
        int.from_bytes(random)
        for random, _ in (keys if point is None else keys.of_point(point)).read().all_secrets()
    }


def test_key_logs_belong_to_the_capture_points_that_they_are_called_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, name in enumerate(
        ["node1.log", "node2/a.keys", "node2/b.keys", "rack/node3.log", ".hidden", "10.1.0.1.log"],
        1,
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SECRET.format(number))
    assert randoms(tmp_path, None, "{}") == {1, 2, 3, 4, 6}
    assert [
        randoms(tmp_path, point, "{}")
        for point in ("node1", "node2", "rack/node3", "node3", "10.1.0.1", "rack")
    ] == [
        {1},
        {2, 3},
        {4},
        set(),
        {6},
        {4},
    ]
    assert randoms(tmp_path, "p", "p={}/node1.log", "q={}/node2/a.keys", "{}/node2/b.keys") == {
        1,
        3,
    }
    assert randoms(tmp_path, "p", "p={}/node2") == set()  # in a folder names decide
    (tmp_path / "a=b").write_text(SECRET.format(7))
    assert randoms(tmp_path, "p", "{}/a=b") == {7}
    with pytest.raises(
        UsageError, match="keylog /none: every process of Spark reads it; name a file or a folder"
    ):
        secrets_at(["p=/none"])
    for name in (str(tmp_path), f"node1={tmp_path}/node1.log"):
        assert main(["info", str(SAMPLES / "upr.pcap"), "--keylog", name]) == 0
        assert capsys.readouterr().err == ""


def test_what_says_that_a_connection_was_not_read_tells_no_secret(tmp_path: Path) -> None:
    about = TlsConnection(client=Hello(bytes(31) + b"\1", 0, ()))
    (tmp_path / "right.log").write_text(SECRET.format(1))
    (tmp_path / "others.log").write_text(SECRET.format(2))
    right, others = (
        secrets_at([str(tmp_path / name)]).read() for name in ("right.log", "others.log")
    )
    closed = closed_by(about, others)
    assert closed == f"{1:064x}"
    assert (opens(right, closed), opens(others, closed)) == (True, False)
    about.secrets = right.secrets_of(bytes(31) + b"\1", ())
    tried = closed_by(about, right)
    assert tried is not None
    assert not opens(right, tried)
    assert "0" * 96 not in tried
    about.is_open = True
    assert closed_by(about, right) is None


def test_a_connection_that_began_before_is_read_again_for_any_other_secret(tmp_path: Path) -> None:
    """But not one of TLS 1.2, whose handshake is needed."""
    empty = tmp_path / "empty.log"
    empty.write_text("# none yet\n")
    (tmp_path / "right.log").write_text(SECRET.format(1))
    (tmp_path / "others.log").write_text(SECRET.format(2))
    logs = [
        secrets_at([str(tmp_path / name)]).read()
        for name in ("empty.log", "right.log", "others.log")
    ]
    assert mark_of(logs[0]) == ""
    assert len({*map(mark_of, logs)}) == 3
    closed = [closed_by(TlsConnection(), keys) for keys in logs]
    assert [[opens(keys, one or "") for keys in logs] for one in closed] == [
        [False, True, True],
        [False, False, True],
        [False, True, False],
    ]
    assert closed_by(TlsConnection(version=TLS12), logs[1]) is None


@pytest.mark.parametrize(
    "first", [None, "other", "TRAFFIC_SECRET_0", "CLIENT_TRAFFIC_SECRET_0", "HANDSHAKE"]
)
def test_a_connection_is_read_again_for_secrets_that_come_later(
    first: str | None, tmp_path: Path
) -> None:
    """``first``: those of the first run, by label; None: there is no key log."""
    forged, other = Forged(tmp_path / "tls"), Forged(tmp_path / "other")
    for number in range(1, 41):
        forged.send(1, builders.mutation(number))
    recorded, unused = forged.finish(), other.finish().keylog.read_text()
    keylog = tmp_path / "keys.log"
    lines = recorded.keylog.read_text().splitlines(keepends=True)
    keylog.write_text(
        unused
        if first == "other"
        else "".join(line for line in lines if (first or "") in line.split()[0])
    )
    ran(
        tmp_path / "out",
        recorded.path,
        **({} if first is None else {"secrets": secrets_at([str(keylog)])}),
    )
    keylog.write_text(unused)
    ran(tmp_path / "out", recorded.path, secrets=secrets_at([str(keylog)]))
    if first is None:
        assert stored(tmp_path / "out", cut=True) == told(
            recorded.path, cut=True, keys=KeyLog([str(keylog)])
        )
    keylog.write_text(unused + recorded.keylog.read_text())
    ran(tmp_path / "out", recorded.path, secrets=secrets_at([str(keylog)]))
    found = stored(tmp_path / "out", cut=True)
    assert found == told(recorded.path, cut=True, keys=KeyLog([str(keylog)]))
    assert len(found["messages"]) == 40


def test_a_connection_is_read_again_for_the_secret_of_a_handshake_inside_it(tmp_path: Path) -> None:
    packets, keylog, _ = renegotiated(tmp_path, SUITES[0])
    capture, now = save(tmp_path / "x.pcap", packets), tmp_path / "now.log"
    lines = [line for line in keylog.read_text().splitlines(keepends=True) if line[0] != "#"]
    for count in (2, 3):
        now.write_text("".join(lines[:count]))
        ran(tmp_path / "out", capture, secrets=secrets_at([str(now)]))
        assert stored(tmp_path / "out", cut=True) == told(
            capture, cut=True, keys=KeyLog([str(now)])
        )


def test_secrets_are_those_of_the_time_when_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a connection would count as tried with secrets that came while its task still read
    others.
    """
    monkeypatch.setattr("dcpinspect.transport.tls.keylog.AGAIN_S", 0)
    keylog = tmp_path / "keys.log"
    keylog.write_text(SECRET.format(1))
    keys, following = secrets_at([str(keylog)]).read(), KeyLog([str(keylog)])
    with keylog.open("a") as more:
        more.write(SECRET.format(2))
    assert [len(list(one.all_secrets())) for one in (keys, following)] == [1, 2]


@pytest.mark.parametrize("is_later", [False, True])
def test_secrets_in_a_capture_open_connections_of_all_captures_of_its_point(
    is_later: bool, tmp_path: Path
) -> None:
    """Of captures before it as well; in one run, or in several."""
    forged = Forged(tmp_path / "tls")
    for number in range(1, 41):
        forged.send(1, builders.mutation(number))
    recorded = forged.finish()
    packets, secrets = recorded.path.read_bytes(), recorded.keylog.read_bytes()
    names = ("ring_1.pcap", "ring_2.pcapng") if is_later else ("ring_2.pcap", "ring_1.pcapng")
    content = dict(
        zip(
            names,
            (packets, builders.section("<") + builders.interface(1, "<") + tls_secrets(secrets)),
            strict=True,
        )
    )
    for out in ("at once", "singly"):
        ring = tmp_path / f"ring of {out}"
        ring.mkdir()
        for name in sorted(names):
            (ring / name).write_bytes(content[name])
            if out == "singly":
                ran(tmp_path / out, ring)
        ran(tmp_path / out, ring)
    found = stored(tmp_path / "singly", cut=True)
    assert len(found["messages"]) == 40
    assert found == stored(tmp_path / "at once", cut=True)


def test_secrets_leave_with_the_capture_that_they_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PART_BYTES", 1000)
    forged, before = Forged(tmp_path / "tls"), Talk(50_001, start_ns=builders.START_NS - 10**9)
    for number in range(1, 41):
        forged.send(1, builders.mutation(number))
    tls = forged.finish()
    before.handshake()
    before.stream(1, builders.message(magic=0x80, opcode=0x5C))
    ring, old = (
        tmp_path / "ring",
        [Recorded(one.data, one.wire, one.time_ns) for one in before.packets],
    )
    ring.mkdir()
    begin = builders.section("<")
    (ring / "ring_1.pcapng").write_bytes(
        begin + tls_secrets(tls.keylog.read_bytes()) + builders.pcapng(old)[len(begin) :]
    )
    (ring / "ring_2.pcapng").write_bytes(builders.pcapng(packets_of(tls.path)))
    ran(tmp_path / "out", ring)
    assert len(stored(tmp_path / "out", cut=True)["messages"]) == 41
    expire(
        Options([], str(tmp_path / "out"), redacts=None), max(one.time_ns for one in old) + 1, here
    )
    assert stored(tmp_path / "out", cut=True) == told(ring / "ring_2.pcapng", cut=True)


def test_a_certificate_is_seen_wherever_a_ring_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In TLS 1.2 it is in plain text, so it takes no key log."""
    monkeypatch.setattr("tests.tls.forged.Talk", partial(Talk, mss=300))
    forged = Forged(tmp_path / "tls", Tls("1.2"))
    forged.send(1, builders.mutation(1))
    packets = packets_of(forged.finish().path)
    expected = told(written(tmp_path / "x.pcap", packets), cut=True)
    assert "tls-certificate" in {one["rule"] for one in expected["findings"]}
    for place in range(1, len(packets)):
        for number, _ in enumerate(files := cut(tmp_path / f"ring {place}", packets, [place]), 1):
            ran(tmp_path / f"out {place}", *files[:number])
        assert stored(tmp_path / f"out {place}", cut=True) == expected


def tls_secrets(text: bytes) -> bytes:
    """A block of pcapng with lines of a key log."""
    body = struct.pack("<II", 0x544C534B, len(text)) + text + bytes(-len(text) % 4)
    return struct.pack("<II", 0x0000000A, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))
