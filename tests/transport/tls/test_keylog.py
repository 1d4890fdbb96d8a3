from __future__ import annotations

import os
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from dcpinspect.errors import CaptureError
from dcpinspect.transport.tls import keylog
from dcpinspect.transport.tls.keylog import MASTER, TRAFFIC, Damage, DefaultSecrets, KeyLog

ONE, TWO = "aa" * 32, "BB" * 32


def line(random: str, label: str = MASTER, secret: str = "0c" * 48) -> str:
    return f"{label} {random} {secret}\n"


def test_secrets_are_found_by_client_random_and_label(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text(
        "# comment\r\n\n"
        + line(ONE)
        + line(TWO, TRAFFIC[0], "11" * 32)
        + "EXPORTER_SECRET aa bb\n"
        + line(TWO, TRAFFIC[1]).rstrip()
    )
    keys = KeyLog([str(path)])
    assert keys.secrets_of(bytes.fromhex(ONE), ()) == {MASTER: bytes.fromhex("0c" * 48)}
    assert set(keys.secrets_of(bytes.fromhex(TWO), ())) == set(TRAFFIC)
    assert keys.secrets_of(bytes(32), ()) == {}
    assert [random.hex() for random, _ in keys.all_secrets()] == [TWO.lower(), ONE]
    assert keys.damage == []
    assert keys


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le"])
@pytest.mark.parametrize("size", [7, 1 << 24])
def test_a_key_log_may_have_any_encoding_and_ends_of_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, encoding: str, size: int
) -> None:
    monkeypatch.setattr(keylog, "_READ", size)
    path = tmp_path / "k"
    text = line(ONE) + "# comment\n" + line(TWO) + "garbage\n" + line("cc" * 32)
    path.write_bytes(text.replace("\n", end).encode(encoding))
    keys = KeyLog([str(path)])
    assert [random.hex() for random, _ in keys.all_secrets()] == ["cc" * 32, TWO.lower(), ONE]
    assert keys.damage == [Damage(str(path), 4)]
    assert keys.cut == []


def test_a_last_line_that_is_cut_is_told(tmp_path: Path) -> None:
    path = tmp_path / "k"
    for text, cut in (
        (line(ONE) + line(TWO)[:-9], [Damage(str(path), 2)]),
        (line(ONE) + "# comm", []),
        (line(ONE) + line(TWO).rstrip(), []),
    ):
        path.write_text(text)
        keys = KeyLog([str(path)])
        assert (keys.cut, keys.damage) == (cut, [])


def test_damaged_lines_are_told_by_number_and_without_what_they_have(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_bytes(b"garbage\n" + line(ONE).encode() + b"CLIENT_RANDOM secret\n\xff\xfe\0\n" * 2)
    keys = KeyLog([str(path)])
    assert keys.damage == [Damage(str(path), number) for number in (1, 3, 4, 5, 6)]
    assert keys.secrets_of(bytes.fromhex(ONE), ())


def test_a_key_log_that_grows_is_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keylog, "AGAIN_S", 0.0)
    path = tmp_path / "k"
    path.write_text("")
    keys = KeyLog([str(path)])
    text = line(ONE)
    with path.open("a") as file:
        file.write(text[:50])
        file.flush()
        assert keys.secrets_of(bytes.fromhex(ONE), (MASTER,)) == {}
        file.write(text[50:])
        file.flush()
        assert keys.secrets_of(bytes.fromhex(ONE), (MASTER,))
        file.write(line(ONE, TRAFFIC[0], "22" * 32))
        file.flush()
        assert TRAFFIC[0] in keys.secrets_of(bytes.fromhex(ONE), (TRAFFIC[0],))


def test_a_pipe_is_read_once() -> None:
    out, into = os.pipe()
    os.write(into, line(ONE).encode())
    os.close(into)
    keys = KeyLog([f"/dev/fd/{out}"])
    os.close(out)
    time.sleep(2 * keylog.AGAIN_S)
    assert keys.secrets_of(bytes.fromhex(ONE), ())
    assert keys.secrets_of(bytes(32), (MASTER,)) == {}


def test_readings_share_a_pipe() -> None:
    out, into = os.pipe()
    os.write(into, line(ONE).encode())
    os.close(into)
    chosen = DefaultSecrets()
    assert chosen.choose([f"/dev/fd/{out}"]).damage == []
    os.close(out)
    for _ in range(2):
        assert chosen.open().secrets_of(bytes.fromhex(ONE), ())


def test_a_file_that_is_begun_anew_is_read_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keylog, "AGAIN_S", 0.0)
    path = tmp_path / "k"
    path.write_text("# the first one\n" + line(ONE))
    keys = KeyLog([str(path)])
    path.write_text(line(TWO))
    assert keys.secrets_of(bytes.fromhex(TWO), (MASTER,))
    path.unlink()
    assert keys.secrets_of(bytes(32), (MASTER,)) == {}
    path.write_text("# " + "longer than the one before" * 20 + "\n" + line("cc" * 32))
    assert keys.secrets_of(bytes.fromhex("cc" * 32), (MASTER,))
    assert keys.secrets_of(bytes.fromhex(ONE), ())
    assert keys.damage == []


def test_of_a_folder_only_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(line(ONE))
    os.mkfifo(tmp_path / "b")
    (tmp_path / "c").symlink_to("nowhere")
    assert DefaultSecrets().choose([str(tmp_path)]).paths == (str(tmp_path / "a"),)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (Path.mkdir, "the key log cannot be read (Is a directory); check the name"),
        (os.mkfifo, "the key log cannot be read (it is no file); check the name"),
        (
            lambda path: path.symlink_to("/dev/zero"),
            "the key log cannot be read (it is no file); check the name",
        ),
        (
            lambda path: path.write_bytes(bytes(range(256)) * 20),
            "has no line of a key log in it; check the name",
        ),
        (
            lambda path: path.write_bytes(b"x" * 5_000_000),
            "has no line of a key log in it; check the name",
        ),
        (
            lambda path: path.write_text("CLIENT_RANDOM\n"),
            "has no line of a key log in it; check the name",
        ),
    ],
)
def test_what_is_no_key_log_is_told_in_a_line(
    make: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "k"
    make(path)
    with pytest.raises(CaptureError) as error:
        KeyLog([str(path)])
    assert str(error.value) == f"{path}: {says}"


def test_a_pipe_without_end_is_no_key_log() -> None:
    process = subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    path = f"/dev/fd/{process.stdout.fileno()}"
    with process, pytest.raises(CaptureError, match="has no line of a key log in it"):
        KeyLog([path])


def test_a_key_log_may_have_no_secret_yet(tmp_path: Path) -> None:
    path = tmp_path / "k"
    for text in ("", "# comment\n", "EXPORTER_SECRET aa bb\n", line(ONE)[:70]):
        path.write_text(text)
        assert KeyLog([str(path)]).damage == []


def test_the_oldest_connections_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keylog, "MOST_CONNECTIONS", 3)
    keys = KeyLog()
    keys.add("".join(line(f"{number:064x}") for number in range(5)).encode())
    assert (keys.dropped, len(list(keys.all_secrets()))) == (2, 3)
    assert not keys.secrets_of((0).to_bytes(32, "big"), ())
    assert keys.secrets_of((4).to_bytes(32, "big"), ())


def test_the_newest_connections_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keylog, "MOST_CONNECTIONS", 1000)
    keys = KeyLog()
    for number in range(5500):
        keys.add(line(f"{number:064x}").encode())
    assert len(list(keys.all_secrets())) + keys.dropped == 5500
    assert len(list(keys.all_secrets())) <= 1000
    assert all(keys.secrets_of(number.to_bytes(32, "big"), ()) for number in range(4700, 5500))


def test_secrets_of_a_wrong_length_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "k"
    wrong = [(MASTER, 32), (MASTER, 47), (TRAFFIC[0], 33), (TRAFFIC[1], 96), (TRAFFIC[0], 0)]
    path.write_text(
        "".join(line(ONE, label, "0c" * size) for label, size in wrong)
        + line(ONE, MASTER, "0" * 97)
        + line(TWO)
    )
    keys = KeyLog([str(path)])
    assert [one.line for one in keys.damage] == [1, 2, 3, 4, 5, 6]
    assert not keys.secrets_of(bytes.fromhex(ONE), ())
    assert keys.secrets_of(bytes.fromhex(TWO), ())


def test_what_agents_write_beside_secrets_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "k"
    others = (
        "# 2026-11-23 Peer: 127.0.0.1:11207, CipherSuite: X",
        "RSA Session-ID:AA Master-Key:" + "0c" * 48,
        "RSA 0011223344556677 " + "0c" * 48,
    )
    path.write_text("\n".join(others) + "\n" + line(ONE))
    keys = KeyLog([str(path)])
    assert keys.damage == []
    assert keys.secrets_of(bytes.fromhex(ONE), ())


def test_a_line_that_is_not_written_to_its_end_is_no_secret_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keylog, "AGAIN_S", 0.0)
    path, text = tmp_path / "k", line(ONE)
    keys = None
    for end in range(1, len(text) - 1):
        path.write_text(text[:end])
        keys = keys or KeyLog([str(path)])
        assert keys.secrets_of(bytes.fromhex(ONE), (MASTER,)) == {}
    path.write_text(text)
    assert keys is not None
    assert keys.secrets_of(bytes.fromhex(ONE), (MASTER,))
    assert keys.damage == []


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"\n", b"x\n", b"# \r\n", b"A aa bb\n", line(ONE).encode()])
def test_millions_of_lines_take_no_memory(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keylog, "_READ", 1 << 16)
    path = tmp_path / "k"
    path.write_bytes(b"#\n" + content * (4_000_000 // len(content)))
    tracemalloc.start()
    try:
        keys = KeyLog([str(path)])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert len(keys.damage) == (10 if content == b"x\n" else 0)


def test_lines_are_the_same_wherever_reads_cut_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k"
    path.write_text(
        "\n#\r\nnone\n"
        + line(ONE)
        + "OTHER aa bb\r\n \n"
        + line(TWO, TRAFFIC[0]).replace("\n", "\r\n")
        + "no ne"
    )
    for size in (1, 7, 64, 1 << 24):
        monkeypatch.setattr(keylog, "_READ", size)
        keys = KeyLog([str(path)])
        assert [one.line for one in keys.damage] == [3]
        assert [list(keys.secrets_of(bytes.fromhex(one), ())) for one in (ONE, TWO)] == [
            [MASTER],
            [TRAFFIC[0]],
        ]


def test_a_file_that_cannot_be_read_is_told() -> None:
    with pytest.raises(
        CaptureError,
        match=r"^/none: the key log cannot be read \(No such file or directory\); check the name$",
    ):
        KeyLog(["/none"])


def test_a_long_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_bytes(line(ONE).encode() + b"x" * 5_000_000)
    keys = KeyLog([str(path)])
    assert len(keys._files[0]._rest) <= 4096


def test_the_secrets_of_chosen_connections_are_lines_that_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_text(
        f"CLIENT_RANDOM {'1' * 64} {'a' * 96}\nCLIENT_TRAFFIC_SECRET_0 {'2' * 64} {'b' * 64}\n"
    )
    keys = KeyLog([str(path)])
    chosen = keys.secrets_of(bytes.fromhex("2" * 64), ())
    assert keys.lines([chosen, {}]) == path.read_bytes().splitlines(keepends=True)[1]
    assert keys.lines([]) == b""
