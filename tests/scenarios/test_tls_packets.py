"""``-w`` on a TLS capture: what others can read of the packets, and what they cannot."""

from __future__ import annotations

import os
import stat
from itertools import pairwise
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcapng_writer import PcapNgWriter
from dcpinspect.cli.main import main
from dcpinspect.protocol.encode import encode
from tests import builders
from tests.tls import oracle
from tests.tls.forged import Forged
from tests.tls.peers import Recorded, Tls

COUNT = 60
WAYS = {
    "1.3": Tls("1.3", "TLS_AES_256_GCM_SHA384"),
    "1.2 GCM": Tls("1.2", "ECDHE-RSA-AES128-GCM-SHA256"),
    "1.2 CBC": Tls("1.2", "ECDHE-RSA-AES128-SHA"),
    "1.2 ChaCha20": Tls("1.2", "ECDHE-RSA-CHACHA20-POLY1305"),
}
NO_KEYS = Path(os.devnull)


def told(folder: Path, tls: Tls, *, port: int = 11207) -> Recorded:
    """A client that opens, and a server that streams: small records, then several messages in large ones."""
    folder.mkdir(exist_ok=True)
    forged = Forged(folder, tls, port=port)
    forged.send(0, encode("dcp_open", key=b"reader"))
    for seqno in range(1, COUNT // 2):
        forged.send(1, builders.mutation(seqno, key=b"key-%d" % seqno, value=b"v" * 40 * seqno))
    large = b"".join(builders.mutation(seqno, value=b"v" * 1000) for seqno in range(COUNT // 2, COUNT))
    for start, end in pairwise([*range(0, len(large), 16_000), len(large)]):
        forged.send(1, large[start:end])
    return forged.finish()


@pytest.fixture(scope="module", params=WAYS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return told(tmp_path_factory.mktemp("tls"), WAYS[request.param])


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Where the way does not matter."""
    return told(tmp_path_factory.mktemp("tls"), WAYS["1.3"])


def messages(path: Path, folder: Path, *arguments: str) -> list[str]:
    """What it says of each message, but for rows, frames and offsets."""
    rows = folder / "rows.csv"
    columns = "name,vbucket,opaque,by_seqno,key,value_size,magic"
    assert main(["read", str(path), "-o", str(rows), "--columns", columns, *arguments]) == 0
    return rows.read_text().splitlines()[1:]


def written(recorded: Recorded, target: Path, *arguments: str) -> Path:
    assert main(["read", str(recorded.path), "--keylog", str(recorded.keylog), "-w", str(target), *arguments]) == 0
    return target


def secrets_of(recorded: Recorded) -> list[str]:
    """But that of the exporter, which opens no record."""
    return [line.split()[2] for line in recorded.keylog.read_text().splitlines() if not line.startswith(("#", "EXPORTER"))]


def has_secrets(path: Path) -> bool:
    with open_capture(path) as capture:
        for _ in capture:
            pass
        return any(file.secrets for file in capture.files)


@pytest.mark.requires("tshark")
def test_with_secrets_others_decrypt_the_same_without_a_key_log(recorded: Recorded, tmp_path: Path) -> None:
    path = written(recorded, tmp_path / "x.pcapng", "--with-secrets")
    assert oracle.messages(path, NO_KEYS) == oracle.messages(recorded.path, recorded.keylog) == COUNT
    assert messages(path, tmp_path) == messages(recorded.path, tmp_path, "--keylog", str(recorded.keylog))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.requires("tshark")
def test_without_them_the_packets_tell_nothing(recorded: Recorded, tmp_path: Path) -> None:
    path = written(recorded, tmp_path / "x.pcapng", "--with-handshakes")
    assert not has_secrets(path)
    assert oracle.messages(path, NO_KEYS) == 0
    assert messages(path, tmp_path) == []
    assert oracle.messages(path, recorded.keylog) == COUNT


@pytest.mark.requires("tshark")
def test_the_first_messages_with_handshakes_are_decrypted_with_the_key_log(recorded: Recorded, tmp_path: Path) -> None:
    path = written(recorded, tmp_path / "x.pcapng", "--with-handshakes", "-n", "20")
    assert oracle.messages(path, recorded.keylog) == 20
    whole = messages(recorded.path, tmp_path, "--keylog", str(recorded.keylog))
    assert messages(path, tmp_path, "--keylog", str(recorded.keylog)) == whole[:20]


@pytest.mark.parametrize("condition", ["by_seqno between 20 and 25", "by_seqno = 45", "by_seqno in (7, 31, 58)"])
def test_any_messages_with_handshakes_are_decrypted_here(condition: str, recorded: Recorded, tmp_path: Path) -> None:
    """The packets of whole records are written, and how the connection began: so are other messages that are there, too."""
    path = written(recorded, tmp_path / "x.pcapng", "--with-handshakes", "--filter", condition)
    keys = ["--keylog", str(recorded.keylog)]
    found = messages(path, tmp_path, *keys, "--filter", condition)
    assert found == messages(recorded.path, tmp_path, *keys, "--filter", condition)
    assert len(messages(path, tmp_path, *keys)) < COUNT


def test_only_the_secrets_of_connections_that_are_written_are_embedded(tmp_path: Path) -> None:
    both = [told(tmp_path / str(port), WAYS["1.3"], port=port) for port in (11207, 11208)]
    keys = [option for one in both for option in ("--keylog", str(one.keylog))]
    path = tmp_path / "x.pcapng"
    paths = [str(one.path) for one in both]
    assert main(["read", *paths, *keys, "--port", "11208", "--connection", "2", "-w", str(path), "--with-secrets"]) == 0
    data = path.read_text("latin-1")
    assert [any(secret in data for secret in secrets_of(one)) for one in both] == [False, True]
    assert all(secret in data for secret in secrets_of(both[1]))


@pytest.mark.parametrize("command", ["read", "check"])
def test_secrets_of_the_capture_are_not_copied_unless_they_are_asked_for(command: str, one: Recorded, tmp_path: Path) -> None:
    given, path = tmp_path / "given.pcapng", tmp_path / "x.pcapng"
    with open_capture(one.path) as capture, given.open("wb") as file:
        writer = PcapNgWriter(file)
        writer.secrets(one.keylog.read_bytes())
        for batch in capture:
            writer.write(batch)
    assert has_secrets(given)
    assert len(messages(given, tmp_path)) == COUNT
    for options, are_there in (["--with-secrets"], True), ([], False):
        assert main([command, str(given), "-w", str(path), *options]) in (0, 1)
        assert has_secrets(path) == are_there
        assert any(secret in path.read_text("latin-1") for secret in secrets_of(one)) == are_there
