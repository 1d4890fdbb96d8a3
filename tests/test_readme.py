"""Every command that the documents give to type is run as written, apart from the set-up of a
machine, which CI does once.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from tests.catalogue import each
from tests.check import STEPS, USUAL

ROOT = Path(__file__).parent.parent
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/capture-guide.md",
    "docs/check.md",
    "docs/diff.md",
    "docs/filter.md",
    "docs/formats.md",
    "docs/logs.md",
    "docs/from-tshark.md",
    "docs/sql.md",
    "docs/streams.md",
    "docs/symptoms.md",
    "docs/watch.md",
)

SET_UP = "python3 -m venv .venv && .venv/bin/pip install "
CHECK = "-m tests.check"


def fenced_commands(document: str) -> list[str]:
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", (ROOT / document).read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return [
        line for block in blocks for line in block.splitlines() if line and not line.startswith("#")
    ]


def inline_commands(document: str) -> list[str]:
    """The commands on sample captures that stand in tables and sentences."""
    prose = re.sub(
        r"^```.*?^```$", "", (ROOT / document).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    quoted = re.findall(r"`((?:cat [^`]*)?dcpinspect [^`]+)`", prose)
    return [
        command.replace("\\|", "|")
        for command in quoted
        if "sample_captures/" in command or command.endswith(NEEDS_NO_CAPTURE)
    ]


NEEDS_NO_CAPTURE = ("--columns", "live -D")
PAGES_OF_COMMANDS = ("docs/capture-guide.md", "docs/from-tshark.md", "docs/symptoms.md")
COMMANDS = sorted(
    {command for document in DOCUMENTS for command in fenced_commands(document)}
    | {command for document in PAGES_OF_COMMANDS for command in inline_commands(document)}
)
RUNNABLE = [command for command in COMMANDS if not command.endswith(CHECK)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a reader has it after the set-up: the samples, and .venv/bin with this
    interpreter's programs.
    """
    folder = tmp_path_factory.mktemp("readme")
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (folder / "sample_captures").symlink_to(ROOT / "sample_captures")
    (folder / "tests").symlink_to(ROOT / "tests")
    return folder


def is_for_a_shell(command: str) -> bool:
    """Whether a shell does more for it than to split it into words."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    return (
        "$" in command
        or not command.startswith("dcpinspect ")
        or any(set(word) <= set("();<>|&") for word in words)
    )


@pytest.mark.parametrize(
    "command", [command for command in RUNNABLE if not is_for_a_shell(command)]
)
def test_command_of_this_program_runs(
    command: str,
    installed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process: the programs of its own that the other test starts take a third of a second
    each.
    """
    monkeypatch.chdir(installed)
    assert main(shlex.split(command)[1:]) == 0
    out, err = capsys.readouterr()
    if not any(told in command for told in TOLD_ON_STANDARD_ERROR):
        assert err == ""
    assert out


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in RUNNABLE if is_for_a_shell(command)])
def test_command_runs(command: str, installed: Path) -> None:
    if command.startswith(SET_UP):
        command = command.partition(" && ")[2].partition(" && ")[2]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(installed / ".venv" / "bin"), os.environ["PATH"]]),
    }
    script = f"set -euo pipefail\n{command}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=installed,
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    if not any(told in command for told in TOLD_ON_STANDARD_ERROR):
        assert done.stderr == b""
    assert done.stdout


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_first_five_minutes_of_the_pipeline_go_as_they_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order, since each goes on from what the first one has made."""
    (tmp_path / "sample_captures").symlink_to(ROOT / "sample_captures")
    monkeypatch.chdir(tmp_path)
    first, *others = fenced_commands("docs/pipeline.md")
    assert "pipeline run" in first
    assert len(others) >= 5
    for command in (first, *others):
        assert main(shlex.split(command)[1:]) == 0, command
        out, err = capsys.readouterr()
        assert err == "", command
        assert out or (tmp_path / "report.html").stat().st_size, command
    assert json.loads(out)["known"] == 2
    assert {path.name for path in tmp_path.iterdir()} == {
        "sample_captures",
        "tables",
        "report.html",
    }


TOLD_ON_STANDARD_ERROR = ("--stats", "capture-loss.pcap", "dcpinspect watch", "dcpinspect export")
"""What was asked for, what was lost, and what was written is said on standard error."""


def consoles(document: str) -> list[str]:
    """The blocks that show a command and what it prints."""
    return re.findall(
        r"^```console\n(\$ .*?)^```$",
        (ROOT / document).read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )


@pytest.mark.parametrize("document", [document for document in DOCUMENTS if consoles(document)])
def test_what_documents_show_is_what_the_commands_print(
    document: str,
    installed: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(installed)
    for block in consoles(document):
        command, _, shown = block.removeprefix("$ ").partition("\n")
        program, *arguments = shlex.split(command)
        status = main(arguments)
        printed = capsys.readouterr().out
        assert (program, status) == (
            "dcpinspect",
            int(
                ("A and B differ." in printed or "\n✖ " in printed)
                and "--fail-on never" not in command
            ),
        )
        if request.config.getoption("--update-golden"):
            path = ROOT / document
            path.write_text(
                path.read_text("utf-8").replace(block, f"$ {command}\n{printed}"), "utf-8"
            )
        else:
            assert printed == shown


SESSIONS = [
    path.relative_to(ROOT)
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    if "```pycon" in path.read_text("utf-8")
]


@pytest.mark.parametrize("document", SESSIONS, ids=str)
def test_what_python_sessions_of_the_documents_show_is_what_python_prints(
    document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a document are one session; blanks at the ends of lines do not count."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / document).read_text("utf-8")
    session = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(session, {}, document.name, document.name, 0)
    told: list[str] = []
    assert (
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        .run(test, out=told.append)
        .attempted
    )
    assert told == []


def test_the_two_first_commands_set_up_a_fresh_machine() -> None:
    show, check = fenced_commands("README.md")[:2]
    assert show.startswith(SET_UP + ". && ")
    assert check.startswith(SET_UP + "-e '.[dev]' && ")


def test_ci_runs_the_command_for_the_tests_as_the_readme_has_it_and_then_what_it_leaves_out() -> (
    None
):
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    found = re.search(r"^command=\$\((grep .* README\.md)\)$", script, re.MULTILINE)
    assert found is not None
    taken = subprocess.run(
        shlex.split(found[1]), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert taken.splitlines() == [
        command for command in fenced_commands("README.md") if command.endswith(CHECK)
    ]
    assert len(taken.splitlines()) == 1
    *_, first, _, day, second = script.splitlines()
    assert first.endswith('eval "$command"')
    assert day == "day=$(date +%-j)"
    assert [
        *USUAL,
        *second.removeprefix(f'.venv/bin/python {CHECK} --share "$((day % 7))/7" ').split(),
    ] == STEPS


def test_documents_agree_on_the_command_for_the_tests() -> None:
    assert len({command for command in COMMANDS if command.endswith(CHECK)}) == 1


PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = [
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    ]
    return {*headings, *re.findall(r'<a id="([^"]+)">', text)}


@each("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text("utf-8")):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), f"{target}#{anchor}"


def test_the_map_of_the_docs_leads_to_every_page() -> None:
    text = (ROOT / "docs" / "README.md").read_text("utf-8")
    for page in (ROOT / "docs").iterdir():
        if page.suffix in (".md", ".ipynb") and page.name != "README.md":
            assert f"]({page.name})" in text, page.name


@pytest.mark.parametrize("document", PAGES_OF_COMMANDS)
def test_pages_of_commands_have_commands(document: str) -> None:
    assert (
        len(fenced_commands(document)) + len(inline_commands(document)) + len(consoles(document))
        >= 5
    )


def test_every_row_for_users_of_tshark_has_a_command_that_is_run() -> None:
    rows = re.findall(
        r"^\| (?!tshark|Wireshark|---|.*nothing to do)(.*) \|$",
        (ROOT / "docs" / "from-tshark.md").read_text("utf-8"),
        re.MULTILINE,
    )
    run = inline_commands("docs/from-tshark.md")
    for row in rows:
        assert any(row.replace("\\|", "|").endswith(f"| `{command}`") for command in run), row
    assert len(rows) >= 40


def test_the_page_of_streams_begins_with_worked_examples_and_ends_with_the_rules() -> None:
    text = (ROOT / "docs" / "streams.md").read_text("utf-8")
    chapters = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert all(
        "```console\n$ dcpinspect timeline sample_captures/" in chapter for chapter in chapters[:3]
    )
    assert chapters[-1].startswith("Rules\n")
    assert "```" not in chapters[-1]
