"""How a report is kept small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from dcpinspect.cli.main import main
from dcpinspect.errors import UsageError
from dcpinspect.output.render.palette import GLYPHS
from dcpinspect.output.report import written as module
from dcpinspect.output.report.report_contents import Limits
from dcpinspect.output.report.written import MOST_LINES, format_of, markdown, plain, written
from tests.captures import field, real_server
from tests.output.report.gathered import MARKUP, gathered, hostile, source
from tests.peers.truth import SAMPLES


def test_a_page_that_is_too_large_has_less_of_everything_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with source(SAMPLES / "orphans.pcap") as found:
        whole = written("html", found)
        monkeypatch.setattr(module, "MOST_BYTES", len(whole.encode()) * 9 // 10)
        text = written("html", found)
    assert len(text.encode()) <= module.MOST_BYTES
    assert "so that this page is smaller than" in text


@pytest.mark.parametrize(
    ("name", "format_"), [("a.html", "html"), ("a.HTM", "html"), ("a.md", "markdown")]
)
def test_the_name_chooses_the_format(name: str, format_: str) -> None:
    assert format_of(name) == format_


def test_another_name_is_refused() -> None:
    with pytest.raises(UsageError, match=r"ends in \.html or \.md"):
        format_of("a.pdf")


@pytest.mark.parametrize(
    "sample", ["rollback.pcap", "orphans.pcap", "tour.pcapng", "capture-loss.pcap", "loop.pcap"]
)
def test_it_has_the_verdict_and_the_worst_findings(sample: str) -> None:
    told = gathered(SAMPLES / sample)
    lines = markdown(told).splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[2] == f"**{plain(told.verdict)}**"
    severe = [one for one in told.causes if one.severity != "note"]
    assert all(
        any(line.startswith(f"{GLYPHS[one.severity]} {one.rule}:") for line in lines)
        for one in severe
    )


@pytest.mark.parametrize("path", [SAMPLES / "orphans.pcap", real_server("resume")])
def test_findings_are_the_block_that_check_prints_into_a_pipe(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    lines = markdown(gathered(path)).splitlines()
    begin, end = (number for number, line in enumerate(lines) if line == "```")
    assert main(["check", str(path)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].startswith("check --all"), "which is of no use without the capture"
    block = lines[begin + 1 : end]
    assert " ".join(" ".join(block).split()) == " ".join(" ".join(printed[1:-1]).split())
    assert sum("Wireshark: frame.number" in line for line in block) > 1


def test_notes_have_next_steps_and_rollbacks_the_request_that_works() -> None:
    told = gathered(SAMPLES / "rollback.pcap")
    text = markdown(told)
    steps = [f"next: {one.next}" for one in told.causes[:3]]
    assert all(step in " ".join(text.split()) for step in steps)
    assert (
        "| 50 | 50 | 50 | 50 | 0xb8b8000000000007 | 41 | 60 | 0xa7a7000000000007 | 99 | 111 | the client "
        "is ahead of the branch point 50, so resume there with that branch's uuid |"
    ) in text


def test_vbuckets_and_connections_with_errors_do_not_look_healthy() -> None:
    text = markdown(gathered(SAMPLES / "loop.pcap"))
    assert "\n2 with an error.\n" in text
    assert "\n| 5 | 10.11.0.1:50004 " in text
    [faulty] = [line for line in text.splitlines() if line.startswith("| 5 | 10.11.0.1:50004 ")]
    assert "| closed | ✖ 1 · 2 | server |" in faulty
    told = gathered(real_server("6.0.5-dcp1"))
    assert "\n5 with a warning; 5 ended: 2 connection-closed, 3 state-changed.\n" in markdown(told)
    assert len(told.vbuckets) == 10, "each is counted once"


def test_vbuckets_that_several_clients_have_are_counted_for_each_and_once() -> None:
    text = markdown(gathered(real_server("durability")))
    assert "\n- vbuckets: 2: 0–1\n" in text
    assert "\n## Vbuckets\n\n8 ended (2 vbuckets of 4 clients).\n" in text


def test_what_has_no_room_in_a_row_stands_below_the_table() -> None:
    text = markdown(gathered(SAMPLES / "orphans.pcap"))
    rows = text.partition("## Rollbacks\n\n")[2].partition("\n## ")[0]
    assert "failover" not in rows.splitlines()[0]
    log = "uuid=0x7e57000000000210 seqno=50, uuid=0x7e57000000000060 seqno=0"
    assert rows.endswith(f" |\n\n- connection 1, vbucket 48: {plain(f'failover_log {log}')}\n")


def test_nothing_of_a_capture_is_markup(tmp_path: Path) -> None:
    text = markdown(gathered(hostile(tmp_path / "a.pcap", markup=b"```\n\n" + MARKUP)))
    tokens = MarkdownIt("commonmark").parse(text)
    assert [
        token.type
        for token in tokens
        if "html" in token.type or token.type in ("link_open", "image")
    ] == []
    assert [token.type for token in tokens].count("fence") == 1
    assert "document.title" in next(token.content for token in tokens if token.type == "fence")
    assert len(text.splitlines()) <= MOST_LINES


def test_texts_are_escaped() -> None:
    assert plain("*a* [b](c) `d` <e> |") == r"\*a\* \[b\](c) \`d\` &lt;e> \|"


def test_connections_that_have_room_are_those_with_the_worst_findings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = Limits(evidence=0, timelines=0, rows=5)
    monkeypatch.setattr("dcpinspect.output.report.written._ROWS", 5)
    text = markdown(gathered(real_server("6.0.5-dcp2"), limits=limits))
    rows, _, rest = text.partition("## Connections\n\n")[2].partition("\n\n")
    numbers = [int(row.split(" | ")[0].removeprefix("| ")) for row in rows.splitlines()[2:]]
    assert numbers == [2, 3, 5, 6, 7]
    assert "✖ 2" in rows
    # below the table, and no row of it
    assert rest.startswith("2 more connections\n\n")


def test_what_is_in_the_capture_is_told_and_all_connections_with_their_columns() -> None:
    text = markdown(gathered(SAMPLES / "tour.pcapng"))
    facts = dict(re.findall(r"^- (\w+): (.*)$", text, re.M))
    assert "travel" in facts["buckets"]
    assert facts["vbuckets"].startswith("15: 5")
    assert (
        "\n- clients:\n  - 10.11.0.1 secidx:orders-1, agent indexer/8.0: connection 2; 8 vb" in text
    )
    assert text.count("\n  - 10.11.0.1 ") == 6, "all of them"
    head, _, *rows = text.partition("## Connections\n\n")[2].partition("\n\n")[0].splitlines()
    assert {"role", "streams", "window_bytes", "holes"} <= {*head.strip("| ").split(" | ")}
    assert len(rows) == 7


def test_notes_about_connections_without_dcp_are_told_in_full() -> None:
    text = markdown(gathered(real_server("6.0.5-dcp2")))
    assert "--all" not in text
    assert "\n\n· health-probe: " in text


def test_advice_that_a_finding_gives_is_given_once(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(field("q05-tls-to-plain-port"))
    assert main(["report", path]) == 0
    out, err = capsys.readouterr()
    assert " ".join((out + err).split()).count("connect to the TLS port of this node") == 1
