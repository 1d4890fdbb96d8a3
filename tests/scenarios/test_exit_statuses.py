"""README's table of exit statuses, for every command that reads captures, and every kind of
input.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from tests import builders
from tests.peers.truth import SAMPLES
from tests.scenarios.test_field_cases import FIELD

pytestmark = pytest.mark.slow

ROLLBACK = (SAMPLES / "rollback.pcap").read_bytes()
HEADER = 24
COMMANDS = {
    "read": ["read", "{}"],
    "read -n": ["read", "{}", "--connection", "99"],
    "read -w": ["read", "{}", "-w", "x.pcapng"],
    "read --sort": ["read", "{}", "--sort", "key"],
    "export": ["export", "{}", "-o", "x.parquet"],
    "check": ["check", "{}", "--fail-on", "never"],
    "check -w": ["check", "{}", "--fail-on", "never", "-w", "x.pcapng"],
    "report": ["report", "{}"],
    **{
        name: [name, "{}"]
        for name in (
            "connections",
            "streams",
            "snapshots",
            "gaps",
            "rollbacks",
            "vbuckets",
            "stats",
            "io",
            "info",
        )
    },
    "timeline": ["timeline", "{}", "--vbucket", "7"],
    "timeline of what is cut off": ["timeline", "{}", "--vbucket", "999"],
    "follow": ["follow", "{}", "1"],
    "follow what is cut off": ["follow", "{}", "99"],
    "sql": ["sql", "{}", "select count(*) from messages"],
    "sql over findings": ["sql", "{}", "from findings"],
    "diff": ["diff", "{}", "{}"],
    "screenshot": ["tui", "{}", "--screenshot", "packets", "-o", "x.svg"],
}
CHECKING = ("check", "check -w", "report", "diff")
"""These need messages; for them captures without any are a failure."""
ABSENT = ("timeline of what is cut off", "follow what is cut off")
"""These ask for what is not there, which is bad usage, unless it may be in what is damaged."""

PICTURES = ("whole", "cut", "a part of a packet")
"""A picture takes half a second."""
TELLING = (*ABSENT, "read -n", "export")
"""These say something also of what is whole."""


def inputs(folder: Path) -> dict[str, tuple[bytes, int, int, int]]:
    """Files, with the statuses of a command that reads, of one that checks, and of one that asks
    for what is not there.
    """
    foreign = builders.capture(
        folder / "foreign", client=b"GET / HTTP/1.1\r\n\r\n" * 5
    ).read_bytes()
    first = HEADER + 16 + int.from_bytes(ROLLBACK[HEADER + 8 : HEADER + 12], "little")
    return {
        "whole": (ROLLBACK, 0, 0, 2),
        "cut": (ROLLBACK[:-5], 3, 3, 3),
        "garbage within": (ROLLBACK[:20_000] + b"\xff" * 300 + ROLLBACK[20_000:], 3, 3, 3),
        "one packet, and a part of another": (ROLLBACK[: first + 20], 3, 2, 3),
        "a part of a packet": (ROLLBACK[: first - 9], 2, 2, 2),
        "no packet": (ROLLBACK[:HEADER], 0, 2, 0),
        "another protocol": (foreign, 0, 2, 0),
        "another protocol, cut": (foreign[:-4], 3, 2, 3),
        "empty": (b"", 2, 2, 2),
        "no capture": (bytes(range(1, 250)) * 40, 2, 2, 2),
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_the_status_is_that_of_the_table(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    statuses, expected = {}, {}
    for what, (content, *by_kind) in inputs(tmp_path).items():
        if name == "screenshot" and what not in PICTURES:
            continue
        path = tmp_path / "input"
        path.write_bytes(content)
        statuses[what] = main([str(path) if part == "{}" else part for part in COMMANDS[name]])
        expected[what] = by_kind[1 if name in CHECKING else 2 if name in ABSENT else 0]
        said = capfd.readouterr().err
        is_verdict = what == "another protocol" and name in ("check", "check -w")
        assert bool(said) == ((what != "whole" and not is_verdict) or name in TELLING), what
    assert statuses == expected


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["check"], 1),
        (["check", "--fail-on", "never"], 0),
        (["report"], 0),
    ],
)
def test_trouble_without_a_message_is_the_headline_and_gives_the_status(
    command: list[str], status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(FIELD / "q05-tls-to-plain-port.pcap")
    assert main([command[0], path, *command[1:]]) == status
    out, err = capfd.readouterr()
    assert "5 connections were made to the wrong port" in out
    assert "nothing was checked" not in out + err


def test_a_note_without_a_message_is_no_check(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(FIELD / "q04-istio-mtls-on-11210.pcap")]) == 2
    assert capfd.readouterr().out.startswith("no DCP message in 163 packets of the ports")
