from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

import dcpinspect
from dcpinspect.cli import main as cli
from dcpinspect.cli.main import COMMANDS, SECTIONS, DeferredCommand, main, program
from dcpinspect.errors import CaptureError, DamagedCapture, UsageError
from tests import builders
from tests.peers.truth import SAMPLES

ROOT = Path(__file__).parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dcpinspect", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=60,
    )


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Replaces all commands by one, ``probe``, that does what the test says."""

    def install(action: Callable[[], object]) -> None:
        def command() -> object:
            return action()

        module = types.ModuleType("dcpinspect.cli.probe")
        module.probe = command  # type: ignore[attr-defined]  # as a command's module has it
        monkeypatch.setitem(sys.modules, "dcpinspect.cli.probe", module)
        monkeypatch.setattr(cli, "COMMANDS", {"probe": "Do what the test says."})

    return install


def raising(error: BaseException) -> Callable[[], object]:
    def action() -> object:
        raise error

    return action


def test_help_lists_every_command_by_section_with_its_whole_summary() -> None:
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    listed = " ".join(done.stdout.partition("\nRead:\n")[2].split())
    told = [
        f"{section}: " + " ".join(f"{name} {summary}" for name, summary in commands.items())
        for section, commands in SECTIONS.items()
    ]
    assert f"Read: {listed}" == " ".join(told)


def test_no_arguments_print_the_help() -> None:
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run("--help").stdout


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"dcpinspect {dcpinspect.__version__}\n",
        "",
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: dcpinspect {command} ")
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["shcema"], "there is no command shcema; did you mean schema? see 'dcpinspect --help'"),
        (["--colour"], "there is no option --colour; see 'dcpinspect --help'"),
        (["schema"], "TABLE is missing; see 'dcpinspect schema --help'"),
        (
            ["live", "lo", "eth1"],
            (
                "too many arguments; leave out lo eth1, or write -i lo -i eth1; see 'dcpinspect "
                "live --help'"
            ),
        ),
        (
            ["read", "--time", "", "a.pcap"],
            (
                "--time is empty: write relative, absolute, local, epoch or delta; see "
                "'dcpinspect read --help'"
            ),
        ),
        (
            ["read", str(SAMPLES / "tour.pcapng"), "-w", ""],
            "the name of an output is empty; name a file",
        ),
        (
            ["check", str(SAMPLES / "tour.pcapng"), "--keylog", ""],
            "--keylog: is empty; name a file with TLS secrets",
        ),
        (
            ["check", str(SAMPLES / "tour.pcapng"), "--keylog", "-"],
            "--keylog -: standard input is for captures; name a file",
        ),
        (["schema", "a", "b"], "too many arguments; leave out b; see 'dcpinspect schema --help'"),
        (
            ["read", "--forma", "csv", "a.pcap"],
            ("there is no option --forma; did you mean --format? see 'dcpinspect read --help'"),
        ),
        (["pipeline"], "a command is missing; see 'dcpinspect pipeline --help'"),
        (
            ["pipeline", "chec"],
            "there is no command chec; did you mean check? see 'dcpinspect pipeline --help'",
        ),
        (["read", "--follow=3", "a.pcap"], "--follow takes no value; see 'dcpinspect read --help'"),
        (
            ["live", "--buffer", "9999"],
            "--buffer 9999: write a whole number from 4 to 2047; see 'dcpinspect live --help'",
        ),
        (
            ["live", "--buffer", "9 is not 8"],
            (
                "--buffer 9 is not 8: write a whole number from 4 to 2047; see 'dcpinspect live "
                "--help'"
            ),
        ),
        (
            ["live", "--duration", "x"],
            "--duration x: write a number, 0 or more; see 'dcpinspect live --help'",
        ),
        (
            ["follow", "a.pcap", "0"],
            "CONNECTION 0: write a whole number, 1 or more; see 'dcpinspect follow --help'",
        ),
        (
            ["read", "--limit", "\x1b[2J", "a.pcap"],
            r"--limit \x1b[2J: write a whole number, 0 or more; see 'dcpinspect read --help'",
        ),
        (["schema", "--zzz"], "there is no option --zzz; see 'dcpinspect schema --help'"),
        (["read", "--limit"], "--limit needs a value; see 'dcpinspect read --help'"),
        (
            ["read", "--limit", "x", "a.pcap"],
            "--limit x: write a whole number, 0 or more; see 'dcpinspect read --help'",
        ),
        (
            ["check", "--format", "md", "a.pcap"],
            (
                "--format md: write text, json, ndjson, csv, parquet or arrow; 'dcpinspect report "
                "--format md' writes that; see 'dcpinspect check --help'"
            ),
        ),
        (
            ["read", "--format", "xml", "a.pcap"],
            (
                "--format xml: write text, json, ndjson, csv, parquet or arrow; see 'dcpinspect "
                "read --help'"
            ),
        ),
    ],
)
def test_usage_errors_are_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"dcpinspect: {line}\n")


def test_what_was_typed_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["\x1b[2J\n\u202e"]) == 2
    assert capsys.readouterr().err[:-1].isprintable()


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UsageError("--vbucket x: not a number"), 2, "--vbucket x: not a number"),
        (
            CaptureError("a.pcap", "cut", "copy it again", offset=24),
            2,
            "a.pcap, offset 24: cut; copy it again",
        ),
        (DamagedCapture("a.pcap", "cut", offset=24), 3, "a.pcap, offset 24: cut"),
        (
            FileNotFoundError(2, "No such file or directory", "a\x1b.out"),
            2,
            r"a\x1b.out: No such file or directory",
        ),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
    ],
)
def test_errors_of_a_command_are_one_line_and_a_status(
    error: Exception,
    status: int,
    line: str,
    probe: Callable[[Callable[[], object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    probe(raising(error))
    assert main(["probe"]) == status
    assert capsys.readouterr().err == f"dcpinspect: {line}\n"


@pytest.mark.parametrize(("returned", "status"), [(None, 0), (0, 0), (3, 3)])
def test_a_command_returns_its_status(
    returned: object, status: int, probe: Callable[[Callable[[], object]], None]
) -> None:
    probe(lambda: returned)
    assert main(["probe"]) == status


def test_a_fault_of_ours_keeps_its_traceback(probe: Callable[[Callable[[], object]], None]) -> None:
    probe(raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main(["probe"])


def interrupting_itself(module: str, before: str = "") -> str:
    """Code that runs the program, which gets Ctrl-C when it begins to import a module."""
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"][
        "dcpinspect"
    ]
    name, _, function = entry.partition(":")
    lines = [
        "import os, signal, sys",
        before,
        f"asked = lambda event, about: (event, about[0]) == ('import', {module!r})",
        (
            "sys.addaudithook(lambda event, about: os.kill(os.getpid(), signal.SIGINT) if "
            "asked(event, about) else None)"
        ),
        f"from {name} import {function}",
        f"sys.exit({function}())",
    ]
    return "\n".join(lines)


# json is imported by a compiled module that crashes when it is interrupted there.
@pytest.mark.parametrize(
    "module",
    ["typer", "numpy", "numpy._core._multiarray_umath", "dcpinspect.reading.engine", "json"],
)
def test_ctrl_c_while_the_program_loads_ends_it_with_130(module: str) -> None:
    command = [
        sys.executable,
        "-c",
        interrupting_itself(module),
        "read",
        str(ROOT / "sample_captures" / "tour.pcapng"),
    ]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (
        130,
        b"dcpinspect: interrupted; nothing was written\n",
    )


def test_a_program_that_was_told_to_ignore_ctrl_c_goes_on() -> None:
    code = interrupting_itself("typer", before="signal.signal(signal.SIGINT, signal.SIG_IGN)")
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"dcpinspect {dcpinspect.__version__}\n",
        "",
    )


def test_python_without_docstrings_is_refused_in_one_line() -> None:
    result = run("check", str(SAMPLES / "rollback.pcap"), PYTHONOPTIMIZE="2")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "dcpinspect: docstrings declare the options, and python -OO (PYTHONOPTIMIZE=2) leaves "
        "them out; use -O (PYTHONOPTIMIZE=1), or neither\n"
    )


def test_a_standard_input_that_is_closed_is_empty() -> None:
    """The next file that the program opened would have been number 0, and waited for."""
    read = subprocess.run(
        ["sh", "-c", 'exec "$0" -m dcpinspect read - <&-', sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (read.returncode, read.stdout) == (2, "")
    assert "standard input: is empty" in read.stderr


def test_a_closed_pipe_is_silent() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dcpinspect", "--help"],
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_lists_commands(shell: str) -> None:
    environment = {
        "_DCPINSPECT_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "dcpinspect sch",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "dcpinspect sch",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = run(**environment)
    assert "schema" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_lists_the_options_of_a_command_whatever_the_config_file_holds() -> None:
    environment = {
        "_DCPINSPECT_COMPLETE": "complete_bash",
        "COMP_WORDS": "dcpinspect read --lim",
        "COMP_CWORD": "2",
    }
    done = run(**environment, DCPINSPECT_CONFIG="/nowhere")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["--limit"], "")


def test_show_completion_prints_the_script_of_the_shell_it_runs_in() -> None:
    shell = pexpect.spawn(
        "bash",
        ["--norc", "-c", f"{sys.executable} -m dcpinspect --show-completion; true"],
        encoding="utf-8",
        timeout=60,
    )
    assert "_DCPINSPECT_COMPLETE=complete_bash" in shell.read()


def test_install_completion_sets_up_the_shell_it_runs_in(tmp_path: Path) -> None:
    command = f"{sys.executable} -m dcpinspect --install-completion; true"
    shell = pexpect.spawn(
        "bash",
        ["--norc", "-c", command],
        encoding="utf-8",
        timeout=60,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert "bash completion installed in" in shell.read()
    assert "dcpinspect" in (tmp_path / ".bashrc").read_text()


def test_building_the_program_imports_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in COMMANDS:
        monkeypatch.delitem(sys.modules, f"dcpinspect.cli.{name}", raising=False)
    program()
    assert not any(f"dcpinspect.cli.{name}" in sys.modules for name in COMMANDS)


def test_a_command_is_built_once() -> None:
    first, second = program().commands["read"], program().commands["read"]
    assert isinstance(first, DeferredCommand)
    assert isinstance(second, DeferredCommand)
    assert first.load() is second.load()


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch.pcap"],
        ["read", "nosuch.pcap"],
        ["nowhere/x"],
        ["check", "nosuch.pcap"],
        ["info", "x.pcap"],
    ],
)
def test_a_capture_that_is_not_there_is_said_to_be_missing(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert capsys.readouterr() == (
        "",
        f"dcpinspect: {arguments[-1]}: there is no such file; check the name\n",
    )


def test_a_directory_is_read_as_its_captures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("loop.pcap", "orphans.pcap"):
        (tmp_path / name).write_bytes((SAMPLES / name).read_bytes())
    assert main(["streams", str(tmp_path), "--format", "csv", "--columns", "file,vbucket"]) == 0
    folder = capsys.readouterr().out
    assert (
        main(
            [
                "streams",
                str(tmp_path / "loop.pcap"),
                str(tmp_path / "orphans.pcap"),
                "--format",
                "csv",
                "--columns",
                "file,vbucket",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out == folder
    assert {line.split(",")[0].strip('"') for line in folder.splitlines()[1:]} == {
        str(tmp_path / "loop.pcap"),
        str(tmp_path / "orphans.pcap"),
    }


@pytest.mark.parametrize(
    ("arguments", "ours"),
    [
        (["-r", "x.pcap"], "dcpinspect read FILE"),
        (["read", "-r", "x.pcap"], "dcpinspect read FILE"),
        (["read", "x.pcap", "-Y", "dcp"], "--filter"),
        (["read", "x.pcap", "-c", "5"], "-n N"),
        (["read", "x.pcap", "-T", "fields", "-e", "key"], "--columns"),
        (["read", "x.pcap", "-e", "key"], "--columns"),
        (["-D"], "live -D"),
    ],
)
def test_options_of_tshark_are_answered_with_ours(
    arguments: list[str], ours: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert ours in err


COMMON = [
    ["read"],
    ["stats"],
    ["streams"],
    ["rollbacks"],
    ["check"],
    ["info"],
    ["timeline", "--vbucket", "7"],
]


@pytest.mark.parametrize("arguments", COMMON, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("way", ["--ascii", "LC_ALL=C"])
def test_ascii_is_all_that_is_printed_where_that_is_wanted(
    arguments: list[str],
    way: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = [arguments[0], str(SAMPLES / "rollback.pcap"), *arguments[1:]]
    if way == "--ascii":
        command.append(way)
    else:
        monkeypatch.setenv("LC_ALL", "C")
    assert main(command) in (0, 1)
    out, err = capsys.readouterr()
    assert (out + err).isascii()
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert main(command[: -1 if way == "--ascii" else None]) in (0, 1)
    assert len(capsys.readouterr().out.splitlines()) == len(out.splitlines()), (
        "it was for that command alone, and says as much"
    )


def test_ascii_leaves_data_as_it_is(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    path = str(builders.capture(tmp_path / "x.pcap", server=builders.mutation(key="é→".encode())))
    assert main(["read", path, "--format", "csv", "--columns", "key"]) == 0
    assert capsysbinary.readouterr().out.decode().splitlines()[1] == '"é→"'
    assert main(["read", path]) == 0
    assert b"\\u00e9>" in capsysbinary.readouterr().out


def test_color_is_as_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(SAMPLES / "rollback.pcap")
    assert main(["read", path, "-n", "1", "--color=always"]) == 0
    assert capsys.readouterr().out.startswith("\x1b[1m")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["read", path, "-n", "1", "--color", "never"]) == 0
    assert "\x1b" not in capsys.readouterr().out
