from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from dcpinspect.errors import UsageError
from dcpinspect.spark.secrets import closed_by, opens, secrets_at
from dcpinspect.transport.tls.connection import TlsConnection
from dcpinspect.transport.tls.handshake import Hello
from tests.peers.truth import SAMPLES

SECRET = "CLIENT_RANDOM {:064x} " + "0" * 96 + "\n"


def randoms(path: Path, point: str | None, *names: str) -> set[int]:
    """Client randoms that a capture point knows secrets of."""
    keys = secrets_at([name.format(path) for name in names])
    return {int.from_bytes(random) for random, _ in (keys if point is None else keys.of(point)).read().each()}


def test_key_logs_belong_to_the_capture_points_that_they_are_called_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, name in enumerate(["node1.log", "node2/a.keys", "node2/b.keys", "rack/node3.log", ".hidden", "10.1.0.1.log"], 1):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SECRET.format(number))
    assert randoms(tmp_path, None, "{}") == {1, 2, 3, 4, 6}
    assert [randoms(tmp_path, point, "{}") for point in ("node1", "node2", "rack/node3", "node3", "10.1.0.1", "rack")] == [
        {1},
        {2, 3},
        {4},
        set(),
        {6},
        {4},
    ]
    assert randoms(tmp_path, "p", "p={}/node1.log", "q={}/node2/a.keys", "{}/node2/b.keys") == {1, 3}
    assert randoms(tmp_path, "p", "p={}/node2") == set()  # in a folder names decide
    (tmp_path / "a=b").write_text(SECRET.format(7))
    assert randoms(tmp_path, "p", "{}/a=b") == {7}
    with pytest.raises(UsageError, match="keylog /none: every process of Spark reads it; name a file or a folder"):
        secrets_at(["p=/none"])
    for name in (str(tmp_path), f"node1={tmp_path}/node1.log"):
        assert main(["info", str(SAMPLES / "upr.pcap"), "--keylog", name]) == 0
        assert capsys.readouterr().err == ""


def test_a_connection_is_read_again_for_a_secret_that_was_not_tried(tmp_path: Path) -> None:
    about = TlsConnection(client=Hello(bytes(31) + b"\1", 0, ()))
    (tmp_path / "right.log").write_text(SECRET.format(1))
    (tmp_path / "others.log").write_text(SECRET.format(2))
    right, others = (secrets_at([str(tmp_path / name)]).read() for name in ("right.log", "others.log"))
    closed = closed_by(about)
    assert closed == f"{1:064x}"
    assert (opens(right, closed), opens(others, closed)) == (True, False)
    about.secrets = right.of(bytes(31) + b"\1", ())
    tried = closed_by(about)
    assert tried is not None
    assert not opens(right, tried)
    assert "0" * 96 not in tried
    about.is_open = True
    assert (closed_by(about), closed_by(TlsConnection())) == (None, "")
