"""``dcpinspect report``: files and Markdown, redaction, and what it says of bad usage."""

from __future__ import annotations

from pathlib import Path

import pytest

import dcpinspect
from dcpinspect.cli.main import main
from tests.builders import capture, mutation
from tests.peers.truth import SAMPLES

ORPHANS = str(SAMPLES / "orphans.pcap")


def test_a_page_is_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.html"
    assert main(["report", ORPHANS, "-o", str(path)]) == 0
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert "orphaned-vbucket" in path.read_text()
    assert capsys.readouterr().out == ""


def test_markdown_goes_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", ORPHANS]) == 0
    assert capsys.readouterr().out.startswith("# orphans.pcap\n")


def test_redacted_reports_have_no_keys_and_say_so(tmp_path: Path) -> None:
    path, out = (
        capture(
            tmp_path / "a.pcap",
            server=mutation(5, key=b"hush-key", value=b"hush-value") + mutation(4, key=b"hush-key"),
        ),
        [],
    )
    for name, options in (("a.html", ["--redact"]), ("a.md", ["--redact"]), ("b.html", [])):
        assert main(["report", str(path), "-o", str(tmp_path / name), *options]) == 0
        out.append((tmp_path / name).read_text())
    assert ["hush-" in text for text in out] == [False, False, True]
    assert ["<b>redacted</b>" in text for text in out] == [True, False, False]
    assert [b"hush-key".hex() in "".join(text.split()) for text in out] == [False, False, True]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([ORPHANS, "-o", "a.pdf"], "the name of a report ends in .html or .md"),
        ([ORPHANS, "--format", "html"], "name a file with -o"),
        ([ORPHANS, "-o", ORPHANS, "-f", "html"], "is the capture that is read"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_damaged_capture_is_reported_as_far_as_it_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes((SAMPLES / "orphans.pcap").read_bytes()[:9_000])
    assert main(["report", str(path), "-o", str(tmp_path / "r.html")]) == 3
    assert (tmp_path / "r.html").exists()
    assert "all that is readable was read" in capsys.readouterr().err


def test_python_writes_the_same_page(tmp_path: Path) -> None:
    with dcpinspect.open(ORPHANS) as recording:
        recording.report(tmp_path / "python.html")
    assert main(["report", ORPHANS, "-o", str(tmp_path / "cli.html")]) == 0
    assert (tmp_path / "python.html").read_text() == (tmp_path / "cli.html").read_text()


def test_md_is_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(SAMPLES / "rollback.pcap")
    assert main(["report", path, "--format", "md"]) == 0
    short = capsys.readouterr().out
    assert main(["report", path, "--format", "markdown"]) == 0
    assert capsys.readouterr().out == short
