"""Captures that are damaged, hold no DCP, or change while they are looked at: each view says so,
and goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dcpinspect.tui.app import InspectApp
from tests.builders import Conversation, capture, mutation, pcap, recorded
from tests.tui.screens import SAMPLES, Keys, follow, play, press, screen, until

pytestmark = pytest.mark.slow

ROLLBACK = (SAMPLES / "rollback.pcap").read_bytes()
EVERYWHERE = (
    "down",
    "enter",
    "n",
    "v",
    "e",
    "2",
    "enter",
    "3",
    "enter",
    "d",
    "4",
    "enter",
    "n",
    "5",
    "end",
    "x",
    "escape",
    "1",
    "c",
)
"""Keys of every view."""


def traffic(port: int, payload: bytes) -> bytes:
    """A capture of one connection to a port, with something that is no DCP."""
    one = Conversation(server=("10.0.0.2", port))
    one.handshake()
    one.stream(True, payload)
    one.close()
    return pcap(recorded(one.segments))


CLIENT_HELLO = b"\x16\x03\x01\x00\x50\x01" + bytes(79)


def broken_header() -> bytes:
    """A capture whose twentieth packet says that it is longer than any may be."""
    at = 24
    for _ in range(20):
        at += 16 + int.from_bytes(ROLLBACK[at + 8 : at + 12], "little")
    return ROLLBACK[: at + 8] + b"\xff" * 8 + ROLLBACK[at + 16 :]


BAD = {
    "cut": (ROLLBACK[:-7], "all that is readable was read"),
    "damaged": (broken_header(), "all that is readable was read"),
    "no packets": (ROLLBACK[:24], "no packets"),
    "other ports": (
        traffic(443, b"GET / HTTP/1.1\r\n\r\n"),
        "it has TCP ports 443; try --port 443",
    ),
    "only TLS": (traffic(11210, CLIENT_HELLO), "TLS, which is not decrypted"),
    "not DCP": (traffic(11210, b"\x00" * 100), "no DCP message in"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_capture_is_said_and_no_key_fails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, said = BAD[name]
    path = tmp_path / "a.pcap"
    path.write_bytes(content)

    async def scene(app: InspectApp, pilot: Keys) -> None:
        seen = " ".join(screen(app).split())
        assert said in seen
        await press(app, pilot, *EVERYWHERE)
        assert app.is_running

    monkeypatch.chdir(tmp_path)
    play(Path("a.pcap"), scene)


def gone(path: Path) -> None:
    path.unlink()


def shrunk(path: Path) -> None:
    path.write_bytes(b"")


def other(path: Path) -> None:
    path.write_bytes(ROLLBACK[:24] + bytes(len(ROLLBACK) - 24))


@pytest.mark.parametrize("change", [gone, shrunk, other], ids=lambda one: one.__name__)
def test_a_capture_that_changes_while_it_is_open_is_told_in_every_place(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(ROLLBACK)

    async def scene(app: InspectApp, pilot: Keys) -> None:
        change(path)
        app.packets.list.refill()
        await press(app, pilot, "end")
        lines = screen(app).splitlines()
        assert sum("a.pcap" in line for line in lines[3:]) > 5, "where its messages were"
        assert any(line.startswith("──") and "a.pcap" in line for line in lines), (
            "where its fields were"
        )
        await press(app, pilot, *EVERYWHERE)
        for key in ("v", "y", "x"):
            await press(app, pilot, "1", key, "escape")
        assert app.is_running

    monkeypatch.chdir(tmp_path)
    play(Path("a.pcap"), scene)


@pytest.mark.parametrize("change", [gone, shrunk], ids=lambda one: one.__name__)
def test_a_capture_that_changes_while_it_is_followed_is_told(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(ROLLBACK[:9000])

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await until(pilot, lambda: app.inspection.store.rows > 20 and app.is_up_to_date)
        change(path)
        app.packets.list.refill()
        await press(app, pilot, *EVERYWHERE)
        assert app.is_running

    follow(path, scene)


def test_a_capture_with_holes_everywhere_shows_what_there_is(tmp_path: Path) -> None:
    path = capture(
        tmp_path / "a.pcap",
        server=b"".join(mutation(number) for number in range(1, 400)),
        loss=set(range(6, 400, 3)),
    )

    async def scene(app: InspectApp, pilot: Keys) -> None:
        assert 0 < app.inspection.store.rows < 399
        await press(app, pilot, *EVERYWHERE)
        assert app.is_running

    play(path, scene)
