"""``-w`` on a TLS capture: what others can read of the packets, and what they cannot."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from dcpinspect.capture.open import CaptureFile, open_capture
from dcpinspect.capture.pcapng_writer import PcapNgWriter
from dcpinspect.cli.main import main
from dcpinspect.output.exposition import Metrics
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.tls import direction
from dcpinspect.transport.tls.keylog import KeyLog
from tests import builders
from tests import damage as packets
from tests.capture.test_pcapng_writer import packets_in, tshark
from tests.encode import encode
from tests.tls import damage, oracle
from tests.tls.forged import Forged
from tests.tls.peers import Recorded, Tls

pytestmark = pytest.mark.slow

COUNT = 60
WAYS = {
    "1.3": Tls("1.3", "TLS_AES_256_GCM_SHA384"),
    "1.2 GCM": Tls("1.2", "ECDHE-RSA-AES128-GCM-SHA256"),
    "1.2 CBC": Tls("1.2", "ECDHE-RSA-AES128-SHA"),
    "1.2 ChaCha20": Tls("1.2", "ECDHE-RSA-CHACHA20-POLY1305"),
}
NO_KEYS = Path(os.devnull)


def told(folder: Path, tls: Tls, *, port: int = 11207) -> Recorded:
    """A client that opens, and a server that streams: small records, then several messages in large
    ones.
    """
    folder.mkdir(exist_ok=True)
    forged = Forged(folder, tls, port=port)
    forged.send(0, encode("dcp_open", key=b"reader"))
    for seqno in range(1, COUNT // 2):
        forged.send(1, builders.mutation(seqno, key=b"key-%d" % seqno, value=b"v" * 40 * seqno))
    large = b"".join(
        builders.mutation(seqno, value=b"v" * 1000) for seqno in range(COUNT // 2, COUNT)
    )
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
    columns = "direction,name,vbucket,opaque,by_seqno,key,value_size,missing_bytes"
    assert main(["read", str(path), "-o", str(rows), "--columns", columns, *arguments]) == 0
    return rows.read_text().splitlines()[1:]


def written(recorded: Recorded, target: Path, *arguments: str) -> Path:
    assert (
        main(
            [
                "read",
                str(recorded.path),
                "--keylog",
                str(recorded.keylog),
                "-w",
                str(target),
                *arguments,
            ]
        )
        == 0
    )
    return target


def secrets_of(recorded: Recorded) -> list[str]:
    """But that of the exporter, which opens no record."""
    return [
        line.split()[2]
        for line in recorded.keylog.read_text().splitlines()
        if not line.startswith(("#", "EXPORTER"))
    ]


def has_secrets(path: Path) -> bool:
    with open_capture(path) as capture:
        for _ in capture:
            pass
        return any(file.secrets for file in capture.files)


@pytest.mark.requires("tshark")
def test_with_secrets_others_decrypt_the_same_without_a_key_log(
    recorded: Recorded, tmp_path: Path
) -> None:
    path = written(recorded, tmp_path / "x.pcapng", "--with-secrets")
    assert (
        oracle.messages(path, NO_KEYS) == oracle.messages(recorded.path, recorded.keylog) == COUNT
    )
    assert messages(path, tmp_path) == messages(
        recorded.path, tmp_path, "--keylog", str(recorded.keylog)
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.requires("tshark")
def test_without_them_the_packets_tell_nothing(recorded: Recorded, tmp_path: Path) -> None:
    path = written(recorded, tmp_path / "x.pcapng", "--with-handshakes")
    assert not has_secrets(path)
    assert oracle.messages(path, NO_KEYS) == 0
    assert messages(path, tmp_path) == []
    assert oracle.messages(path, recorded.keylog) == COUNT


@pytest.mark.requires("tshark")
def test_the_first_messages_with_handshakes_are_decrypted_with_the_key_log(
    recorded: Recorded, tmp_path: Path
) -> None:
    path = written(recorded, tmp_path / "x.pcapng", "--with-handshakes", "-n", "20")
    assert oracle.messages(path, recorded.keylog) == 20
    whole = messages(recorded.path, tmp_path, "--keylog", str(recorded.keylog))
    assert messages(path, tmp_path, "--keylog", str(recorded.keylog)) == whole[:20]


@pytest.mark.parametrize(
    "condition", ["by_seqno between 20 and 25", "by_seqno = 45", "by_seqno in (7, 31, 58)"]
)
def test_any_messages_with_handshakes_are_decrypted_here(
    condition: str, recorded: Recorded, tmp_path: Path
) -> None:
    """The packets of whole records are written, and how the connection began: so are other messages
    that are there, too.
    """
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
    assert (
        main(
            [
                "read",
                *paths,
                *keys,
                "--port",
                "11208",
                "--connection",
                "2",
                "-w",
                str(path),
                "--with-secrets",
            ]
        )
        == 0
    )
    data = path.read_text("latin-1")
    assert [any(secret in data for secret in secrets_of(one)) for one in both] == [False, True]
    assert all(secret in data for secret in secrets_of(both[1]))


def with_its_secrets(recorded: Recorded, path: Path) -> Path:
    with open_capture(recorded.path) as capture, path.open("wb") as file:
        writer = PcapNgWriter(file)
        writer.secrets(recorded.keylog.read_bytes())
        for batch in capture:
            writer.write(batch)
    return path


@pytest.mark.parametrize("command", ["read", "check"])
def test_secrets_of_the_capture_are_not_copied_unless_they_are_asked_for(
    command: str, one: Recorded, tmp_path: Path
) -> None:
    given, path = with_its_secrets(one, tmp_path / "given.pcapng"), tmp_path / "x.pcapng"
    assert has_secrets(given)
    assert len(messages(given, tmp_path)) == COUNT
    for options, are_there in (["--with-secrets"], True), ([], False):
        assert main([command, str(given), "-w", str(path), *options]) in (0, 1)
        assert has_secrets(path) == are_there
        assert any(secret in path.read_text("latin-1") for secret in secrets_of(one)) == are_there


def test_secrets_of_a_pipe_are_known_when_it_is_read_again(one: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    command = [sys.executable, "-m", "dcpinspect", "check", "-", "-w", str(path), "--decrypted"]
    with with_its_secrets(one, tmp_path / "given.pcapng").open("rb") as capture:
        subprocess.run(command, stdin=capture, capture_output=True, check=False)
    assert len(messages(path, tmp_path)) > 5


# -- plain text
# -----------------------------------------------------------------------------------------


@pytest.mark.requires("tshark")
def test_decrypted_packets_need_no_keys(recorded: Recorded, tmp_path: Path) -> None:
    path = written(recorded, tmp_path / "x.pcapng", "--decrypted")
    assert messages(path, tmp_path) == messages(
        recorded.path, tmp_path, "--keylog", str(recorded.keylog)
    )
    assert plain_messages(path) == COUNT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def plain_messages(path: Path) -> int:
    """How many tshark finds, which must find no fault with the packets."""
    decode = [
        "-d",
        "tcp.port==11207,couchbase",
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
    ]
    fields = ["-e", "couchbase.magic", "-e", "tcp.checksum.status", "-e", "ip.checksum.status"]
    command = ["tshark", "-n", "-r", str(path), *decode, "-Y", "couchbase", "-T", "fields", *fields]
    rows = [
        line.split("\t")
        for line in subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    ]
    assert {tuple(row[1:]) for row in rows} == {("1", "1")}
    return sum(len(row[0].split(",")) for row in rows)


@pytest.mark.requires("tshark", "capinfos")
def test_they_say_that_nobody_captured_them(one: Recorded, tmp_path: Path) -> None:
    path = written(one, tmp_path / "x.pcapng", "--decrypted")
    remark = "plain text of a TLS connection, made by dcpinspect: not captured bytes"
    assert (
        f"Capture comment:     {remark}"
        in subprocess.run(["capinfos", path], capture_output=True, text=True, check=True).stdout
    )
    comments = [comment for (comment,) in tshark(path, "frame.comment")]
    assert comments.count(remark) == 2
    assert comments[2] == remark
    assert not has_secrets(path)


DAMAGES: dict[str, Callable[[list[packets.Packet]], list[packets.Packet]]] = {
    "1 % lost": partial(packets.lost, share=0.01, seed=2),
    "10 % lost": partial(packets.lost, share=0.1, seed=1),
    "swapped": partial(packets.swapped, share=0.1, seed=3, by=3),
    "doubled": packets.doubled,
    "snaplen": partial(damage.cut, snaplen=600),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_of_a_damaged_capture_they_have_the_same_messages(
    name: str, one: Recorded, tmp_path: Path
) -> None:
    path = damage.save(tmp_path / "damaged.pcap", DAMAGES[name](damage.taped(one).packets))
    made, keys = tmp_path / "x.pcapng", ["--keylog", str(one.keylog)]
    assert main(["read", str(path), *keys, "-w", str(made), "--decrypted"]) == 0
    whole = messages(path, tmp_path, *keys)
    assert 10 < len(whole) <= COUNT
    assert sorted(messages(made, tmp_path)) == sorted(whole)
    times = [time_ns for *_, time_ns, _ in packets_in(made)]
    assert times == sorted(times)


@pytest.mark.parametrize(
    "condition", ["by_seqno between 20 and 25", "by_seqno = 45", "by_seqno in (7, 31, 58)"]
)
def test_they_have_the_chosen_messages_and_no_others(
    condition: str, one: Recorded, tmp_path: Path
) -> None:
    path = written(one, tmp_path / "x.pcapng", "--decrypted", "--filter", condition)
    keys = ["--keylog", str(one.keylog)]
    assert messages(path, tmp_path) == messages(one.path, tmp_path, *keys, "--filter", condition)


def test_packets_of_other_connections_stay_as_they_are(one: Recorded, tmp_path: Path) -> None:
    plain = packets_in(
        builders.capture(tmp_path / "plain.pcap", server=b"".join(builders.mutations(30)))
    )
    both, path, keys = tmp_path / "both.pcap", tmp_path / "x.pcapng", ["--keylog", str(one.keylog)]
    mixed = sorted([*plain, *packets_in(one.path)], key=lambda packet: packet[2])
    both.write_bytes(
        builders.pcap([builders.Recorded(*packet) for packet in mixed], magic=0xA1B23C4D)
    )
    assert main(["read", str(both), *keys, "-w", str(path), "--decrypted"]) == 0
    found = packets_in(path)
    with_payload = [packet for packet in plain if len(packet[0]) > 60]
    assert [packet for packet in found if packet in with_payload] == with_payload
    times = [time_ns for *_, time_ns, _ in found]
    assert times == sorted(times)
    assert len(messages(path, tmp_path)) == COUNT + 30


def test_what_comes_through_a_pipe_is_decrypted_too(one: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "read",
        "-",
        "--keylog",
        str(one.keylog),
        "-w",
        str(path),
        "--decrypted",
    ]
    with (
        one.path.open("rb") as capture,
        subprocess.Popen(["cat"], stdin=capture, stdout=subprocess.PIPE) as pipe,
    ):
        subprocess.run(command, stdin=pipe.stdout, capture_output=True, check=True)
    assert packets_in(path) == packets_in(written(one, tmp_path / "y.pcapng", "--decrypted"))


def test_redacted_they_have_nothing_private(one: Recorded, tmp_path: Path) -> None:
    whole = written(one, tmp_path / "x.pcapng", "--decrypted").read_bytes()
    redacted = written(one, tmp_path / "y.pcapng", "--decrypted", "--redact").read_bytes()
    assert [b"key-17" in data or b"vvvv" in data for data in (whole, redacted)] == [True, False]
    assert len(messages(tmp_path / "y.pcapng", tmp_path)) == COUNT


@pytest.mark.requires("tshark")
def test_findings_are_comments_on_them(one: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    assert main(
        ["check", str(one.path), "--keylog", str(one.keylog), "-w", str(path), "--decrypted"]
    ) in (0, 1)
    comments = [comment for (comment,) in tshark(path, "frame.comment")]
    assert any("role-violation" in comment for comment in comments)
    assert messages(path, tmp_path, "--limit", "5") == messages(
        one.path, tmp_path, "--keylog", str(one.keylog), "--limit", "5"
    )


# -- what nobody may see
# ----------------------------------------------------------------------------------


def outputs(given: Path, keys: list[str], folder: Path) -> Iterator[list[str]]:
    """Commands that write into the folder, or print."""
    path = str(given)
    yield from (
        ["read", path, *keys, *options]
        for options in ([], ["-V", "-x"], ["--stats", "--check"], ["-f", "ndjson"])
    )
    yield from (
        ["export", path, *keys, "-o", str(folder / f"x.{form}")]
        for form in ("json", "csv", "parquet", "arrow")
    )
    yield from (
        ["check", path, *keys, "--all", *options]
        for options in ([], ["-f", "json"], ["-w", str(folder / "c.pcapng")])
    )
    tables = (
        "info",
        "stats",
        "connections",
        "streams",
        "snapshots",
        "gaps",
        "vbuckets",
        "io",
        "follow",
        "rollbacks",
    )
    yield from ([command, path, *keys] for command in tables)
    yield ["timeline", path, *keys, "--vbucket", "7", "--messages"]
    yield ["sql", path, "select * from connections", *keys]
    yield ["read", path, *keys, "-w", str(folder / "w.pcapng"), "--with-handshakes"]
    yield ["read", path, *keys, "-w", str(folder / "d.pcapng"), "--decrypted"]
    yield ["read", path, "--keylog", str(folder / "missing.log")]
    yield ["watch", "--follow", path, "--wrong", *keys]


def spelled(secrets: list[str]) -> list[bytes]:
    """Every form in which an output could have them."""
    raw = [bytes.fromhex(secret) for secret in secrets]
    forms = (
        bytes,
        lambda one: one.hex().encode(),
        lambda one: one.hex().upper().encode(),
        lambda one: repr(one)[2:-1].encode(),
        base64.b64encode,
    )
    return [form(one) for one in raw for form in forms]


def test_no_output_has_a_secret(
    one: Recorded,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given, folder = with_its_secrets(one, tmp_path / "given.pcapng"), tmp_path / "out"
    folder.mkdir()
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(folder))
    forbidden = spelled(secrets_of(one))
    assert any(form in given.read_bytes() for form in forbidden), "the search finds what is there"
    for arguments in outputs(given, ["--keylog", str(one.keylog)], folder):
        main(arguments)
        said = b"".join(capfdbinary.readouterr())
        assert said or "-o" in arguments, arguments
        assert not any(form in said for form in forbidden), arguments
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "watch",
        "-",
        "--save-around",
        "10s",
        "--save-to",
        str(folder),
        "--summary",
        "1s",
    ]
    with given.open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, check=False)
    assert b"1 file saved" in done.stderr
    assert not any(form in done.stdout + done.stderr for form in forbidden)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) >= 8
    assert not [path for path in files if any(form in path.read_bytes() for form in forbidden)]


def test_no_metric_no_repr_and_no_traceback_has_a_secret(
    one: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbidden = spelled(secrets_of(one))
    keys = KeyLog([str(one.keylog)])
    with Reading([str(one.path)], keys=keys) as reading:
        metrics = Metrics(reading)
        for batch in reading:
            metrics.feed(batch)
        tls = reading.engine.tls
        said = [
            repr(metrics.snapshot()),
            repr(keys),
            repr(tls),
            repr(tls.connections),
            repr(reading.engine.links),
            tls.text(1),
        ]
    said.append(repr(CaptureFile("x", secrets=[one.keylog.read_bytes()])))
    monkeypatch.setattr(direction.TlsDirection, "_take_record", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught, Reading([str(one.path)], keys=keys) as reading:
        list(reading)
    said += traceback.format_exception(caught.value)
    assert not [form for form in forbidden if form in repr(said).encode()]
