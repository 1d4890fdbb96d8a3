"""``dcpinspect explain``: one answer, or one line that says what to write instead."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from tests.encode import encode
from tests.protocol.vectors import BY_ID

DUMPS = Path(__file__).parents[1] / "protocol" / "dumps"


def explained(capsysbinary: pytest.CaptureFixture[bytes], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    printed = capsysbinary.readouterr()
    assert printed.err == b""
    return printed.out.decode()


def refused(capsysbinary: pytest.CaptureFixture[bytes], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 2
    printed = capsysbinary.readouterr()
    assert printed.out == b""
    (line,) = printed.err.decode().splitlines()
    return line


@pytest.fixture
def paste(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """What stands on standard input."""
    data = io.BytesIO()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(data))
    return data


@pytest.mark.parametrize(
    ("argument", "start"),
    [
        ("dcp_snapshot_marker", "dcp_snapshot_marker: opcode 0x56\n"),
        ("0x56", "dcp_snapshot_marker: opcode 0x56\n"),
        ("rollback", "rollback: status 0x0023\n"),
        (
            "0x23",
            (
                "0x23 is the status rollback, the command ioctl_get and the feature "
                "SubdocAllowReplicaReadOnDeletedDocs\n\nrollback: "
            ),
        ),
        ("max_marker_version", "max_marker_version: DCP control key"),
        ("Collections", "Collections: HELLO feature 0x12"),
    ],
)
def test_names_and_numbers_are_explained(
    argument: str, start: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = explained(capsysbinary, argument)
    assert text.startswith(start)
    assert text.endswith("\n")


def test_a_name_may_be_several_words(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    command = explained(capsysbinary, "dcp_snapshot_marker")
    assert explained(capsysbinary, "snapshot", "marker").startswith(command)  # the term follows
    assert explained(capsysbinary, "snapshot-marker") == explained(
        capsysbinary, "snapshot", "marker"
    )


def test_hex_may_be_several_words(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    digits = encode("dcp_noop", opaque=5).hex(" ").split()
    assert "DCP_NOOP command (v1)" in explained(capsysbinary, *digits)


@pytest.mark.parametrize("path", sorted(DUMPS.iterdir()), ids=lambda path: path.stem)
def test_a_dump_on_standard_input_is_explained(
    path: Path, paste: io.BytesIO, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    paste.write(path.read_bytes())
    paste.seek(0)
    text = explained(capsysbinary, "-")
    assert "DCP_MUTATION command (v1)" in text
    assert ": deadbeef cafe" in text


def test_a_printed_example_gets_the_reading_its_page_means(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert "If the body is the 20 bytes that follow:" in explained(
        capsysbinary, BY_ID["seed000-01"].literal.hex()
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["rolback"],
            (
                "dcpinspect: nothing is called rolback; did you mean rollback or rolled-back or "
                "rollback-loop?"
            ),
        ),
        (
            ["rollback-not-honored"],
            "dcpinspect: nothing is called rollback-not-honored;"
            " did you mean rollback-not-honoured or rollback-not-followed or rollback-loop?",
        ),
        (
            ["xyzzy"],
            "dcpinspect: xyzzy is no command, status, control key, feature, rule, word or column; "
            "'dcpinspect check --list-rules' and 'dcpinspect read --columns' list names",
        ),
        (
            ["xyzzy", "plugh"],
            (
                "dcpinspect: xyzzy plugh is no command, status, control key, feature, rule, word or "
                "column; 'dcpinspect check --list-rules' and 'dcpinspect read --columns' list names"
            ),
        ),
        (
            ["805600001"],
            "dcpinspect: 805600001 is no command, status, control key, feature, rule, word or "
            "column,"
            " and no hex either: an odd number of hex digits in line 1",
        ),
        (["0x7e"], "dcpinspect: 0x7e is the number of no command, status or feature"),
        ([""], "dcpinspect: nothing to explain: give a name, a number, or bytes in hex"),
        (["  ", "\n"], "dcpinspect: nothing to explain: give a name, a number, or bytes in hex"),
        (
            ["\x1b[2J\n"],
            r"dcpinspect: \x1b[2J is no command, status, control key, feature, rule, word or "
            r"column,"
            r" and no hex either: '\x1b' in line 1, column 1 is no hex digit",
        ),
    ],
)
def test_what_is_nothing_is_one_line(
    arguments: list[str], line: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert refused(capsysbinary, *arguments) == line


def test_a_long_text_that_is_nothing_is_not_repeated(
    paste: io.BytesIO, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    paste.write(b"xyz " * 100_000)
    paste.seek(0)
    assert len(refused(capsysbinary, "-")) < 250


def test_bytes_that_are_no_text_are_one_line(
    paste: io.BytesIO, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    paste.write(encode("dcp_noop") + b"\xff\xfe\x9b")
    paste.seek(0)
    assert refused(capsysbinary, "-").startswith("dcpinspect: ")


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("high seqno", "what the node said last, so later items may have greater seqnos"),
        ("no end", "unless a flag as to-latest sets its end"),
    ],
)
def test_words_say_when_they_do_not_hold(
    capsys: pytest.CaptureFixture[str], word: str, words: str
) -> None:
    assert main(["explain", word]) == 0
    assert words in " ".join(capsys.readouterr().out.split())
