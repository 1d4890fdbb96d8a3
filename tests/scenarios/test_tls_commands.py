"""Commands on a TLS capture, with a key log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dcpinspect
from dcpinspect.cli.main import main
from dcpinspect.protocol.encode import encode
from tests import builders
from tests.tls.forged import Forged
from tests.tls.oracle import embed
from tests.tls.peers import Recorded, Tls

COUNT = 50


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    forged = Forged(tmp_path_factory.mktemp("tls"), Tls("1.3", "TLS_AES_256_GCM_SHA384"))
    forged.send(0, encode("dcp_open", key=b"reader"))
    for seqno in range(1, COUNT + 1):
        forged.send(1, builders.mutation(seqno, key=b"key-%d" % seqno))
    return forged.finish()


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main([*arguments]) in (0, 1)
    return capsys.readouterr().out.splitlines()


def test_commands_that_read_captures_read_the_plain_text(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    path, keys = str(recorded.path), ["--keylog", str(recorded.keylog)]
    assert len(rows(capsys, "read", path, *keys)) == COUNT + 2
    seqnos = [json.loads(line).get("by_seqno") for line in rows(capsys, "export", path, "-f", "ndjson", "-o", "-", *keys)]
    assert seqnos[1:] == list(range(1, COUNT + 1))
    assert any("role-violation" in line for line in rows(capsys, "check", path, *keys))
    (told,) = [json.loads(line) for line in rows(capsys, "connections", path, "-f", "ndjson", *keys)]
    assert told["tls"].startswith("TLS 1.3, TLS_AES_256_GCM_SHA384: ")
    assert told["tls"].endswith(", 0 lost, 0 refused")
    assert "50" in rows(capsys, "sql", path, "select count(*) as n from messages where name = 'dcp_mutation'", "-f", "csv", *keys)[-1]
    for command in ("streams", "vbuckets", "gaps", "snapshots", "stats", "io", "info"):
        assert rows(capsys, command, path, *keys)


def test_without_the_key_log_it_says_what_to_do(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", str(recorded.path)]) == 0
    assert "TLS, which is not decrypted: give the client's key log with --keylog" in capsys.readouterr().err


def test_the_environment_may_name_the_key_log(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(recorded.keylog))
    assert len(rows(capsys, "read", str(recorded.path))) == 1
    assert len(rows(capsys, "read", str(recorded.path), "--keylog", "env")) == COUNT + 2
    monkeypatch.delenv("SSLKEYLOGFILE")
    assert main(["read", str(recorded.path), "--keylog", "env"]) == 2
    assert "--keylog env: the variable SSLKEYLOGFILE is not set; name the file" in capsys.readouterr().err


def test_damaged_lines_are_told_without_what_they_have(recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys\x1b.log"
    path.write_bytes(b"CLIENT_RANDOM deadbeef\n" + recorded.keylog.read_bytes())
    assert main(["read", str(recorded.path), "--keylog", str(path)]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == COUNT + 2
    assert said.err == f"dcpinspect: {tmp_path}/keys\\x1b.log, line 1: is no line of a key log; the others are used\n"


@pytest.mark.requires("editcap")
def test_secrets_in_a_pcapng_file_are_used_without_being_asked_for(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "with-secrets.pcapng"
    embed(recorded.path, recorded.keylog, path)
    assert len(rows(capsys, "read", str(path))) == COUNT + 2


def test_python_reads_it_too(recorded: Recorded) -> None:
    with dcpinspect.open(recorded.path, keylog=recorded.keylog) as captures:
        assert sum(batch.num_rows for batch in captures.messages()) == COUNT + 1
        assert captures.bytes_of(20) == builders.mutation(19, key=b"key-19")


def test_no_secret_is_in_what_is_printed(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    secrets = [line.split()[2] for line in recorded.keylog.read_text().splitlines() if not line.startswith("#")]
    for command in ("read", "check", "info", "stats"):
        main([command, str(recorded.path), "--keylog", str(recorded.keylog), *(["--all"] if command == "check" else [])])
        said = capsys.readouterr()
        assert not any(secret in said.out + said.err for secret in secrets)
