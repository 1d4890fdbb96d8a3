"""Commands on a TLS capture, with a key log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dcpinspect
from dcpinspect.cli.main import main
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.tls.keylog import KeyLog
from tests import builders
from tests.encode import encode
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


def test_commands_that_read_captures_read_the_plain_text(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    path, keys = str(recorded.path), ["--keylog", str(recorded.keylog)]
    assert len(rows(capsys, "read", path, *keys)) == COUNT + 2
    seqnos = [
        json.loads(line).get("by_seqno")
        for line in rows(capsys, "export", path, "-f", "ndjson", "-o", "-", *keys)
    ]
    assert seqnos[1:] == list(range(1, COUNT + 1))
    assert any("role-violation" in line for line in rows(capsys, "check", path, *keys))
    (told,) = [
        json.loads(line) for line in rows(capsys, "connections", path, "-f", "ndjson", *keys)
    ]
    assert told["tls"].startswith("TLS 1.3, TLS_AES_256_GCM_SHA384: ")
    assert told["tls"].endswith(", 0 lost, 0 refused")
    assert (
        "50"
        in rows(
            capsys,
            "sql",
            path,
            "select count(*) as n from messages where name = 'dcp_mutation'",
            "-f",
            "csv",
            *keys,
        )[-1]
    )
    for command in ("streams", "vbuckets", "gaps", "snapshots", "stats", "io", "info"):
        assert rows(capsys, command, path, *keys)


def test_connections_name_what_to_look_for_in_a_key_log(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    (told,) = [
        json.loads(line) for line in rows(capsys, "connections", str(recorded.path), "-f", "ndjson")
    ]
    name, random = told["tls"].split("; client random ")
    assert name == "TLS 1.3, TLS_AES_256_GCM_SHA384: not decrypted"
    assert random in [
        line.split()[1] for line in recorded.keylog.read_text().splitlines() if line[0] != "#"
    ]


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_secrets_that_do_not_fit_leave_the_connection_encrypted(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = Forged(tmp_path, Tls(version))  # type: ignore[arg-type] # one of the two
    forged.send(1, builders.mutation(1))
    made = forged.finish()
    path, wrong = str(made.path), tmp_path / "wrong.log"
    wrong.write_text(
        re.sub("[0-9a-f]{8}$", "00000000", made.keylog.read_text(), flags=re.MULTILINE)
    )
    told = " ".join(rows(capsys, "info", path, "--keylog", str(wrong)))
    assert "on connection 1, not decrypted: the secrets in the key log do not fit" in told
    assert "bytes decoded (TLS is not decrypted)" in told
    assert "complete  not known, because nothing can be read: 0 % of " in told
    (link,) = [
        json.loads(line)
        for line in rows(capsys, "connections", path, "-f", "ndjson", "--keylog", str(wrong))
    ]
    assert ": not decrypted; the secrets in the key log do not fit; client random " in link["tls"]
    assert link["verdict"] == "unknown-capture"
    assert main(["check", path, "--keylog", str(wrong)]) == 2
    said = capsys.readouterr()
    assert (
        f"· tls-key-unknown: encrypted, and the secrets in the key log do not fit: TLS {version}, "
        in said.out
    )
    assert said.out.startswith("no DCP message in ")
    assert "; they carry TLS, which is not decrypted\n" in said.out
    assert said.err == ""
    with Reading([path], keys=KeyLog([str(wrong)])) as reading:
        list(reading)
        for _, sizes in reading.coverage.sizes:
            assert (
                sizes.not_decodable.tolist()
                == sizes.unique.tolist()
                == [one.not_decodable for one in reading.coverage.directions]
            )


def test_info_tells_what_is_of_tls_itself(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {
        line.split()[0]: line
        for line in rows(capsys, "info", str(recorded.path), "--keylog", str(recorded.keylog))
    }
    assert "yes, all bytes come after a handshake; 100 % of " in told["complete"]
    assert "connection 1 decrypted; " in told["TLS"]
    assert told["next"].endswith(f"check {recorded.path} --keylog {recorded.keylog}")


def test_other_ports_that_carry_tls_are_told(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = Forged(tmp_path, Tls(), port=12_345)
    forged.send(1, builders.mutation(1))
    path = str(forged.finish().path)
    main(["read", path, "--port", "auto"])
    assert (
        "some carry TLS, which --keylog decrypts with the client's key log"
        in capsys.readouterr().err
    )
    main(["read", path, "--port", "auto", "--keylog", str(recorded.keylog)])
    assert "some carry TLS, which the key log does not open" in capsys.readouterr().err


def test_without_the_key_log_it_says_what_to_do(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", str(recorded.path)]) == 0
    assert (
        "TLS, which is not decrypted: give the client's key log with --keylog"
        in capsys.readouterr().err
    )


def test_the_environment_may_name_the_key_log(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(recorded.keylog))
    assert len(rows(capsys, "read", str(recorded.path))) == 1
    assert len(rows(capsys, "read", str(recorded.path), "--keylog", "env")) == COUNT + 2
    monkeypatch.delenv("SSLKEYLOGFILE")
    assert main(["read", str(recorded.path), "--keylog", "env"]) == 2
    assert (
        "--keylog env: the variable SSLKEYLOGFILE is not set; name the file"
        in capsys.readouterr().err
    )


def test_several_key_logs_may_stand_in_the_config_file(
    recorded: Recorded,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [line for line in recorded.keylog.read_text().splitlines() if not line.startswith("#")]
    for number, line in enumerate(lines):
        (tmp_path / f"{number}.log").write_text(line + "\n")
    names = [str(tmp_path / f"{number}.log") for number in range(len(lines))]
    assert (
        len(rows(capsys, "read", str(recorded.path), *(f"--keylog={name}" for name in names)))
        == COUNT + 2
    )
    config = tmp_path / "config.toml"
    config.write_text(f"[read]\nkeylog = {json.dumps(names)}\ntls-search = 10\n")
    monkeypatch.setenv("DCPINSPECT_CONFIG", str(config))
    assert len(rows(capsys, "read", str(recorded.path))) == COUNT + 2
    config.write_text('[read]\nkeylog = ["nosuch.log"]\n')
    assert main(["read", str(recorded.path)]) == 2
    assert capsys.readouterr().err == (
        "dcpinspect: nosuch.log: the key log cannot be read (No such file or directory); check "
        "the name\n"
    )


def test_damaged_lines_are_told_without_what_they_have(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "keys\x1b.log"
    path.write_bytes(b"CLIENT_RANDOM deadbeef\n" + recorded.keylog.read_bytes())
    assert main(["read", str(recorded.path), "--keylog", str(path)]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == COUNT + 2
    assert said.err == (
        f"dcpinspect: {tmp_path}/keys\\x1b.log, line 1: is no line of a key log; "
        f"{KeyLog([str(recorded.keylog)]).count} secrets were read\n"
    )


def test_a_text_that_is_no_key_log_is_told_in_one_line_with_counts(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n" + "a line of text\n" * 300)
    assert main(["read", str(recorded.path), "--keylog", str(path)]) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if "key log" in line][:1] == [
        f"dcpinspect: {path}, line 2: is no line of a key log, and so are 299 more; 0 secrets "
        "were read"
    ]


def test_connections_that_a_large_key_log_has_too_many_are_told(
    recorded: Recorded,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.transport.tls.keylog.MOST_CONNECTIONS", 3)
    path = tmp_path / "keys.log"
    others = "".join(f"CLIENT_RANDOM {number:064x} {'0c' * 48}\n" for number in range(5))
    path.write_bytes(others.encode() + recorded.keylog.read_bytes())
    assert len(rows(capsys, "read", str(recorded.path), "--keylog", str(path))) == COUNT + 2
    assert main(["read", str(recorded.path), "--keylog", str(path)]) == 0
    assert (
        capsys.readouterr().err
        == "dcpinspect: --keylog: has more than 3 connections; the oldest 3 are left out\n"
    )


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


def test_no_secret_is_in_what_is_printed(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = [
        line.split()[2]
        for line in recorded.keylog.read_text().splitlines()
        if not line.startswith("#")
    ]
    for command in ("read", "check", "info", "stats"):
        main(
            [
                command,
                str(recorded.path),
                "--keylog",
                str(recorded.keylog),
                *(["--all"] if command == "check" else []),
            ]
        )
        said = capsys.readouterr()
        assert not any(secret in said.out + said.err for secret in secrets)
