"""Runs of the pipeline over TLS captures: their tables are those of a reading with the key log, and
no secret is in them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dcpinspect.capture.zstd import zstd
from dcpinspect.cli.main import main
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.secrets import Secrets, secrets_at
from dcpinspect.transport.tls.keylog import KeyLog
from tests import builders
from tests.peers.truth import SAMPLES
from tests.spark.cuts import cut, packets_of
from tests.spark.outputs import ran, stored, told
from tests.spark.test_pipeline import equal
from tests.tls.forged import Forged
from tests.tls.oracle import embed
from tests.tls.peers import Recorded, Tls

pytestmark = pytest.mark.slow

COUNT = 60


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    forged = Forged(tmp_path_factory.mktemp("tls"), Tls("1.3", "TLS_AES_256_GCM_SHA384"))
    for seqno in range(1, COUNT + 1):
        forged.send(1, builders.mutation(seqno, key=b"key-%d" % seqno, value=b"x" * 900))
    return forged.finish()


def secrets_of(recorded: Recorded) -> list[bytes]:
    texts = [
        line.split()[2]
        for line in recorded.keylog.read_text().splitlines()
        if not line.startswith("#")
    ]
    return [*(text.encode() for text in texts), *map(bytes.fromhex, texts)]


def written(out: Path) -> bytes:
    """All that a run wrote, parts unpacked."""
    found = b""
    for path in out.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found += zstd.decompress(data) if path.suffix == ".part" else data
    return found


def test_a_ring_with_a_key_log_is_read_as_its_uncut_capture(
    recorded: Recorded, tmp_path: Path
) -> None:
    *_, last = cut(tmp_path / "ring", packets_of(recorded.path), [12, 25, 50])
    later = last.rename(tmp_path / last.name)
    secrets = secrets_at([str(recorded.keylog)])
    ran(tmp_path / "out", tmp_path / "ring", secrets=secrets)
    later.rename(last)
    with pytest.raises(
        UsageError,
        match=r"^--keylog: .*/out was made with one; give it again, or name a new directory$",
    ):
        ran(tmp_path / "out", tmp_path / "ring")
    ran(tmp_path / "out", tmp_path / "ring", secrets=secrets)
    expected = told(recorded.path, cut=True, keys=KeyLog([str(recorded.keylog)]))
    assert len(expected["messages"]) == COUNT
    equal(stored(tmp_path / "out", cut=True), expected)
    everything = written(tmp_path / "out")
    assert not [secret for secret in secrets_of(recorded) if secret in everything]
    assert str(recorded.keylog).encode() not in everything


def test_secrets_that_come_later_open_what_was_closed_and_leave_the_rest(
    recorded: Recorded, tmp_path: Path
) -> None:
    for name, path in (("tls", recorded.path), ("plain", SAMPLES / "rollback.pcap")):
        (tmp_path / name).mkdir()
        shutil.copy(path, tmp_path / name / "a.pcap")
    folders = tmp_path / "tls", tmp_path / "plain"
    keylog = tmp_path / "keys" / "tls.log"
    keylog.parent.mkdir()
    keylog.write_text("# nothing yet\n")
    secrets = secrets_at([str(keylog.parent)])
    rules = [
        row["rule"]
        for row in (ran(tmp_path / "out", *folders), stored(tmp_path / "out", cut=True))[1][
            "findings"
        ]
    ]
    assert "tls-without-key" in rules
    ran(tmp_path / "out", *folders, secrets=secrets)
    assert ran(tmp_path / "out", *folders, secrets=secrets).parts == 0
    shutil.copy(recorded.keylog, elsewhere := keylog.with_name("plain.log"))
    assert (
        ran(tmp_path / "out", *folders, secrets=secrets).parts == 0
    )  # these are the secrets of another point
    assert ran(tmp_path / "out", *folders, secrets=secrets_at([f"plain={elsewhere}"])).parts == 0
    shutil.copy(recorded.keylog, keylog)
    done = ran(tmp_path / "out", *folders, secrets=secrets)
    assert (done.captures, done.parts, done.kept_parts) == (0, 1, 1)
    assert done.rows["messages"] > COUNT
    assert not Manifest.newest(tmp_path / "out").parts[-1].closed
    assert "tls-without-key" not in [
        row["rule"] for row in stored(tmp_path / "out", cut=True)["findings"]
    ]


def test_right_secrets_open_what_wrong_ones_did_not(recorded: Recorded, tmp_path: Path) -> None:
    keylog = tmp_path / "keys.log"
    lines = [
        line.split()
        for line in recorded.keylog.read_text().splitlines()
        if not line.startswith("#")
    ]
    keylog.write_text(
        "".join(f"{label} {random} {secret[16:]}{secret[:16]}\n" for label, random, secret in lines)
    )
    wrong = secrets_at([str(keylog)])
    ran(tmp_path / "out", recorded.path, secrets=wrong)
    assert "tls-key-unknown" in [
        row["rule"] for row in stored(tmp_path / "out", cut=True)["findings"]
    ]
    assert ran(tmp_path / "out", recorded.path, secrets=wrong).parts == 0
    done = ran(tmp_path / "out", recorded.path, secrets=secrets_at([str(recorded.keylog)]))
    assert (done.captures, done.parts, done.rows["messages"]) == (0, 1, COUNT)
    assert not Manifest.newest(tmp_path / "out").parts[-1].closed
    assert not [secret for secret in secrets_of(recorded) if secret in written(tmp_path / "out")]


@pytest.mark.requires("editcap")
def test_secrets_inside_captures_are_used_and_stay_there(
    recorded: Recorded, tmp_path: Path
) -> None:
    path = embed(recorded.path, recorded.keylog, tmp_path / "with-secrets.pcapng")
    assert ran(tmp_path / "out", path).rows["messages"] == COUNT
    everything = written(tmp_path / "out")
    assert not [secret for secret in secrets_of(recorded) if secret in everything]


def test_what_tasks_cannot_read_is_told(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        CaptureError,
        match=r"/gone: the key log cannot be read \(No such file or directory\); check the name",
    ):
        ran(tmp_path / "out", recorded.path, secrets=Secrets(((None, "/gone"),)))
    assert not list((tmp_path / "out" / "_manifest").glob("*.json"))
    assert (
        main(
            [
                "pipeline",
                "run",
                str(recorded.path),
                "-o",
                str(tmp_path / "out"),
                "--keylog",
                "/gone",
            ]
        )
        == 2
    )
    assert capsys.readouterr().err == (
        "dcpinspect: /gone: the key log cannot be read (No such file or directory); check the "
        "name\n"
    )


def test_check_takes_the_key_log_too(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(tmp_path / "out", recorded.path, secrets=secrets_at([str(recorded.keylog)]))
    assert main(["pipeline", "check", str(tmp_path / "out"), "--keylog", str(recorded.keylog)]) == 1
    assert capsys.readouterr().err == ""
    assert main(["pipeline", "check", str(tmp_path / "out")]) == 1
    assert (
        "without it, streams inside TLS are not compared with each other" in capsys.readouterr().err
    )
