from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dcpinspect.errors import CaptureError
from dcpinspect.transport.tls import keylog
from dcpinspect.transport.tls.keylog import MASTER, TRAFFIC, Chosen, Damage, KeyLog

ONE, TWO = "aa" * 32, "BB" * 32


def line(random: str, label: str = MASTER, secret: str = "0c" * 48) -> str:
    return f"{label} {random} {secret}\n"


def test_secrets_are_found_by_client_random_and_label(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text(
        "# comment\r\n\n" + line(ONE) + line(TWO, TRAFFIC[0], "11" * 32) + "EXPORTER_SECRET aa bb\n" + line(TWO, TRAFFIC[1]).rstrip()
    )
    keys = KeyLog([str(path)])
    assert keys.of(bytes.fromhex(ONE), ()) == {MASTER: bytes.fromhex("0c" * 48)}
    assert set(keys.of(bytes.fromhex(TWO), ())) == set(TRAFFIC)
    assert keys.of(bytes(32), ()) == {}
    assert [random.hex() for random, _ in keys.each()] == [TWO.lower(), ONE]
    assert keys.damage == []
    assert keys


def test_damaged_lines_are_told_by_number_and_without_what_they_have(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_bytes(b"garbage\n" + line(ONE).encode() + b"CLIENT_RANDOM secret\n\xff\xfe\0\n" * 2)
    keys = KeyLog([str(path)])
    assert keys.damage == [Damage(str(path), number) for number in (1, 3, 4, 5, 6)]
    assert keys.of(bytes.fromhex(ONE), ())


def test_a_key_log_that_grows_is_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keylog, "AGAIN_S", 0.0)
    path = tmp_path / "k"
    path.write_text("")
    keys = KeyLog([str(path)])
    text = line(ONE)
    with path.open("a") as file:
        file.write(text[:50])
        file.flush()
        assert keys.of(bytes.fromhex(ONE), (MASTER,)) == {}
        file.write(text[50:])
        file.flush()
        assert keys.of(bytes.fromhex(ONE), (MASTER,))
        file.write(line(ONE, TRAFFIC[0], "22" * 32))
        file.flush()
        assert TRAFFIC[0] in keys.of(bytes.fromhex(ONE), (TRAFFIC[0],))


def test_a_pipe_is_read_once() -> None:
    out, into = os.pipe()
    os.write(into, line(ONE).encode())
    os.close(into)
    keys = KeyLog([f"/dev/fd/{out}"])
    os.close(out)
    time.sleep(2 * keylog.AGAIN_S)
    assert keys.of(bytes.fromhex(ONE), ())
    assert keys.of(bytes(32), (MASTER,)) == {}


def test_readings_share_a_pipe() -> None:
    out, into = os.pipe()
    os.write(into, line(ONE).encode())
    os.close(into)
    chosen = Chosen()
    assert chosen.choose([f"/dev/fd/{out}"]) == []
    os.close(out)
    for _ in range(2):
        assert chosen.open().of(bytes.fromhex(ONE), ())


def test_a_file_that_is_begun_anew_is_read_from_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keylog, "AGAIN_S", 0.0)
    path = tmp_path / "k"
    path.write_text("# the first one\n" + line(ONE))
    keys = KeyLog([str(path)])
    path.write_text(line(TWO))
    assert keys.of(bytes.fromhex(TWO), (MASTER,))
    path.unlink()
    assert keys.of(bytes(32), (MASTER,)) == {}
    path.write_text("# " + "longer than the one before" * 20 + "\n" + line("cc" * 32))
    assert keys.of(bytes.fromhex("cc" * 32), (MASTER,))
    assert keys.of(bytes.fromhex(ONE), ())
    assert keys.damage == []


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (Path.mkdir, "the key log cannot be read (Is a directory); check the name"),
        (os.mkfifo, "the key log cannot be read (it is no file); check the name"),
        (lambda path: path.symlink_to("/dev/zero"), "the key log cannot be read (it is no file); check the name"),
        (lambda path: path.write_bytes(bytes(range(256)) * 20), "has no line of a key log in it; check the name"),
        (lambda path: path.write_bytes(b"x" * 5_000_000), "has no line of a key log in it; check the name"),
        (lambda path: path.write_text("CLIENT_RANDOM\n"), "has no line of a key log in it; check the name"),
    ],
)
def test_what_is_no_key_log_is_told_in_a_line(make: Callable[[Path], object], says: str, tmp_path: Path) -> None:
    path = tmp_path / "k"
    make(path)
    with pytest.raises(CaptureError) as error:
        KeyLog([str(path)])
    assert str(error.value) == f"{path}: {says}"


def test_a_key_log_may_have_no_secret_yet(tmp_path: Path) -> None:
    path = tmp_path / "k"
    for text in ("", "# comment\n", "EXPORTER_SECRET aa bb\n", line(ONE)[:70]):
        path.write_text(text)
        assert KeyLog([str(path)]).damage == []


def test_the_oldest_connections_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keylog, "MOST_CONNECTIONS", 3)
    keys = KeyLog()
    keys.add("".join(line(f"{number:064x}") for number in range(5)).encode())
    assert (keys.dropped, len(list(keys.each()))) == (2, 3)
    assert not keys.of((0).to_bytes(32, "big"), ())
    assert keys.of((4).to_bytes(32, "big"), ())


def test_a_file_that_cannot_be_read_is_told() -> None:
    with pytest.raises(CaptureError, match=r"^/none: the key log cannot be read \(No such file or directory\); check the name$"):
        KeyLog(["/none"])


def test_a_long_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_bytes(line(ONE).encode() + b"x" * 5_000_000)
    keys = KeyLog([str(path)])
    assert len(keys._files[0]._rest) <= 4096
