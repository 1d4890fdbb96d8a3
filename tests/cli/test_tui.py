from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from textwrap import dedent

import pexpect
import pytest

from dcpinspect.cli.main import main
from tests.tui.screens import SAMPLES

pytestmark = pytest.mark.slow


def test_without_a_terminal_it_says_what_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tui", str(SAMPLES / "rollback.pcap")]) == 2
    said = capsys.readouterr().err
    assert "must be a terminal" in said
    assert said.count("\n") == 1


def test_it_starts_shows_and_leaves_in_a_real_terminal() -> None:
    command = [sys.executable, "-m", "dcpinspect", "tui", str(SAMPLES / "rollback.pcap")]
    terminal = pexpect.spawn(
        command[0], command[1:], dimensions=(36, 120), encoding="utf-8", timeout=60
    )
    terminal.expect("mirror/7.6")
    terminal.send("4")
    terminal.expect("Evidence")
    terminal.send("q")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
    assert "\x1b[?1049l" in terminal.before, "the screen that was there before comes back"


def test_a_signal_ends_it_although_findings_are_worked_out() -> None:
    program = """
    import sys, time
    from dcpinspect.__main__ import run
    from dcpinspect.tui.inspection import Inspection
    Inspection._work_out = lambda *_, **__: time.sleep(40)
    sys.argv = ["dcpinspect", "tui", sys.argv[1]]
    run()
    """
    arguments = ["-c", dedent(program), str(SAMPLES / "rollback.pcap")]
    terminal = pexpect.spawn(
        sys.executable, arguments, dimensions=(36, 120), encoding="utf-8", timeout=30
    )
    terminal.expect("rollback.pcap")
    time.sleep(1)
    terminal.kill(signal.SIGTERM)
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 143


@pytest.mark.parametrize("name", [str(SAMPLES / "README.md"), os.devnull])
def test_a_capture_that_is_none_is_said_before_the_screen_changes(name: str) -> None:
    command = [sys.executable, "-m", "dcpinspect", "tui", name]
    terminal = pexpect.spawn(command[0], command[1:], encoding="utf-8", timeout=60)
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 2
    assert "\x1b[?1049h" not in terminal.before
    assert Path(name).name in terminal.before


def test_options_that_looking_has_no_use_for_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["live", "-i", "lo", "--tui", "-f", "csv"]) == 2
    assert (
        capsys.readouterr().err
        == "dcpinspect: --format: --tui does not use it; leave one of them out\n"
    )
    assert main(["live", "-i", "lo", "--keep", "16"]) == 2
    assert (
        capsys.readouterr().err
        == "dcpinspect: --keep: is for --tui; printed messages are not kept\n"
    )
    for options in ([], ["--keylog", os.devnull, "--tls-search", "5"]):
        assert main(["live", "-i", "lo", "--tui", *options]) == 2
        assert "must be a terminal" in capsys.readouterr().err


def test_a_theme_of_the_config_file_that_there_is_not_is_refused_in_one_line(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[tui]\ntheme = "nrod"\n', "utf-8")
    command = [sys.executable, "-m", "dcpinspect", "tui", str(SAMPLES / "rollback.pcap")]
    terminal = pexpect.spawn(
        command[0],
        command[1:],
        encoding="utf-8",
        timeout=60,
        env={**os.environ, "DCPINSPECT_CONFIG": str(config), "COLUMNS": "400"},
    )
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 2
    assert terminal.before == (
        f"dcpinspect: {config} [tui] --theme nrod: no theme has this name; did you mean nord?\r\n"
    )


def test_a_span_of_time_is_the_filter_that_it_opens_with() -> None:
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "tui",
        str(SAMPLES / "rollback.pcap"),
        "--filter",
        "vbucket = 7",
        "--since",
        "-1ms",
    ]
    terminal = pexpect.spawn(
        command[0], command[1:], dimensions=(36, 160), encoding="utf-8", timeout=60
    )
    terminal.expect(r"\(vbucket = 7\) and time >= '2024-04-06T12:01:00\.9")
    terminal.send("q")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
