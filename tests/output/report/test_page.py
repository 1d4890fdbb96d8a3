"""The page in a real browser: what a capture says is never markup, and the page is whole without
scripts and without a network.
"""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dcpinspect.output.report.page import page
from tests.captures import field, real_server
from tests.output.report.gathered import MARKUP, gathered, hostile
from tests.peers.truth import SAMPLES


def in_browser(path: Path, *options: str) -> str:
    """The document after its scripts have run, as the browser has it."""
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={path.parent / 'profile'}",
        *options,
    ]
    done = subprocess.run(
        [*command, "--virtual-time-budget=2000", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout


class Elements(HTMLParser):
    """Counts elements, and keeps ids and where links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


@pytest.mark.requires("chromium")
def test_nothing_of_a_capture_is_markup(tmp_path: Path) -> None:
    told = gathered(hostile(tmp_path / "a.pcap"))
    assert {"seqno-not-increasing", "control-unknown-key"} <= {one.rule for one in told.causes}
    path = tmp_path / "report.html"
    path.write_text(page(told))
    text = in_browser(path)
    found = Elements(text)
    assert "document.title=" in text, "the names are shown"
    assert re.search(r"<title>a\.pcap · dcpinspect report</title>", text), (
        "no script of the capture ran"
    )
    assert found.tags["script"] == 1
    assert "img" not in found.tags
    assert "taken" not in found.ids
    assert found.handlers == []
    assert MARKUP.decode() not in path.read_text()


@pytest.mark.slow
@pytest.mark.requires("chromium")
def test_tables_are_sorted_and_searched_by_the_script(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(gathered(SAMPLES / "tour.pcapng")))
    assert '<th scope="col" class="number"><button>vbucket</button></th>' in in_browser(path)
    plain = Elements(path.read_text())
    assert "button" not in plain.tags, "it is readable before any script has run"
    assert plain.tags["table"] >= 2


@pytest.mark.slow
@pytest.mark.requires("chromium")
@pytest.mark.parametrize("sample", ["rollback.pcap", "tour.pcapng"])
def test_tables_fit_a_window_of_1280_pixels(sample: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    cut = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)"
    path.write_text(
        re.sub("<meta http-equiv[^>]*>", "", page(gathered(SAMPLES / sample)))
        + f"<script>document.title = 'cut: ' + {cut}.length</script>"
    )
    assert "<title>cut: 0</title>" in in_browser(path, "--window-size=1280,900")


def test_tables_have_the_colours_of_findings_and_sentences_below_their_rows() -> None:
    text = page(gathered(SAMPLES / "orphans.pcap"))
    assert '<td class="text-severity-error">orphaned</td>' in text
    assert '<td class="text-quiet">ended</td>' in text
    text = page(gathered(SAMPLES / "rollback.pcap"))
    below = re.findall(r'<tr class="below"><td colspan="\d+">(.*?)</td>', text)
    assert [one.partition(" · ")[0] for one in below] == [
        "the client is ahead of the branch point 50, so resume there with that branch&#39;s uuid",
        "no history in common, uuid 0xa7a7000000000009 is not in the server&#39;s log",
        "the snapshot 0–20 straddles the branch point, so roll back to its start",
    ]


def test_numbers_stand_on_the_right_amounts_have_separators_and_zeros_stand_back() -> None:
    text = page(gathered(SAMPLES / "tour.pcapng"))
    coverage = text.partition('id="table-coverage"')[2]
    assert '<th scope="col">direction</th>' in coverage
    assert '<td class="number text-quiet">0</td>' in coverage
    connections = text.partition('id="table-connections"')[2].partition("</table>")[0]
    assert re.search(r'<td class="number">\d+,\d{3}</td>', connections)
    assert not re.search(r"<td[^>]*>\d{4,}</td>", connections)


def test_the_connection_of_a_vbucket_does_not_look_like_a_count() -> None:
    text = page(gathered(SAMPLES / "tour.pcapng"))
    vbuckets = text.partition('id="table-vbuckets"')[2].partition("</table>")[0]
    assert '<th scope="col">connections</th>' in vbuckets
    assert "<td>con 3</td>" in vbuckets


@pytest.mark.parametrize("sample", ["rollback.pcap", "orphans.pcap", "capture-loss.pcap"])
def test_links_lead_to_places_of_the_page_and_nowhere_else(sample: str) -> None:
    text = page(gathered(SAMPLES / sample))
    found = Elements(text)
    assert len(found.ids) == len(set(found.ids))
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)
    assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in text


def test_a_finding_links_to_its_messages_and_back() -> None:
    found = Elements(page(told := gathered(SAMPLES / "orphans.pcap")))
    for row, one in told.shown.items():
        assert f"#row-{row}" in found.links
        for name in one.findings:
            assert f"#finding-{name}" in found.links


def test_messages_have_their_row_and_frame_in_columns() -> None:
    text = page(gathered(SAMPLES / "orphans.pcap"))
    messages = text[text.index('<section id="messages">') :]
    heads = re.findall(r"<span[^>]*>(\w+)</span>", messages[: messages.index("</div>")])
    assert heads[:5] == ["row", "frame", "time", "con", "message"]
    line = messages[messages.index('id="row-31"') :].partition("</summary>")[0]
    assert re.findall(r"<span>(\d+)</span>", line)[:2] == ["31", "36"]


def test_every_message_has_its_frame() -> None:
    text = page(told := gathered(SAMPLES / "loop.pcap"))
    frames = re.findall(r'id="row-(\d+)">\s*<summary>.*?<span>\d+</span> <span>(\d*)</span>', text)
    assert len(frames) == len(told.shown)
    assert ("126", "94") in frames, "which the packet after it shows"
    assert all(frame for _, frame in frames)


def test_a_packet_without_a_message_has_its_time() -> None:
    text = page(gathered(field("p06-zero-window")))
    (line,) = re.findall(r"<tr><td></td><td>117</td>.*</tr>", text)
    assert '<td class="of-time">0.811392</td>' in line


@pytest.mark.parametrize(
    ("sample", "row", "severity", "sign"),
    [
        ("orphans.pcap", 31, "error", "✖"),
        ("orphans.pcap", 3, "note", "·"),
        ("loop.pcap", 213, "error", "✖"),
    ],
)
def test_messages_have_the_severity_of_the_worst_finding_that_they_show(
    sample: str, row: int, severity: str, sign: str
) -> None:
    text = page(gathered(SAMPLES / sample))
    (summary,) = re.findall(
        rf'<details class="message {severity}" id="row-{row}">\s*<summary>(.*?)</summary>', text
    )
    assert summary.startswith(f'<span class="glyph">{sign}</span>')


def test_the_page_says_whether_it_is_redacted() -> None:
    told = page(gathered(SAMPLES / "rollback.pcap"))
    assert "<b>not redacted</b>: this page has keys and values of the capture</p>" in told
    assert "<b>not redacted</b></p>" in page(gathered(field("q04-istio-mtls-on-11210")))


def test_headings_are_as_in_the_navigation() -> None:
    text = page(gathered(SAMPLES / "rollback.pcap"))
    names = re.findall(r"<a href=\"#[^\"]*\">([^<]*)</a>", text[: text.index("</nav>")])
    headings = re.findall(r"<h2>([^<]*)</h2>", text)
    assert [name.partition(":")[0] for name in headings if name != "Left out"] == names


def test_evidence_has_column_heads_and_the_frame_of_each_message() -> None:
    told = gathered(SAMPLES / "orphans.pcap")
    text = page(told)
    names = ["row", "frame", "time", "con", "message", "vb", "opaque", "bytes", "summary"]
    first = text[text.index("<dt>evidence</dt>") :].partition("</thead>")[0]
    heads = re.findall(r"<th [^>]*>(\w+)</th>", first)
    assert heads == names, "without a column that would be empty"
    for place in told.causes[0].places[:1]:
        assert re.search(rf">{place.row}</a></td><td>{place.frame}</td>", text)


def test_evidence_that_is_left_out_is_counted_and_named() -> None:
    told = gathered(SAMPLES / "loop.pcap")
    loop = next(finding for finding in told.causes if finding.rule == "rollback-loop")
    assert len({place.row for case in loop.case_of_each for place in case.places}) == 16
    rows = "rows 79, 80, 141, 142, 145, 146, 209, 210, 213, 214"
    assert f"</tbody></table>and 10 more messages: {rows}</dd>" in page(told)


def test_when_it_was_and_whose_it_is_have_rows_of_their_own() -> None:
    text = page(gathered(SAMPLES / "orphans.pcap"))
    assert "<dt>when</dt><dd>since 2024-04-06 12:01:00.827 UTC</dd>" in text
    assert "<dt>whose</dt><dd>the client has to act; not over by the end</dd>" in text


def test_a_finding_names_its_vbuckets_once() -> None:
    text = page(gathered(SAMPLES / "orphans.pcap"))
    heading = re.search(r"<summary>.*<b>orphaned-vbucket</b>.*</summary>", text)
    assert heading is not None
    assert heading[0].count("42, 45") == 1


def test_a_message_of_evidence_is_shown_whole() -> None:
    text = page(gathered(real_server("resume")))
    assert ", snapshot 45–50</td>" in text
    assert "ellipsis" not in text


def test_the_legend_of_timelines_has_the_curve_of_items() -> None:
    text = page(gathered(SAMPLES / "rollback.pcap"))
    assert 'class="items"></i>items, more where it is higher' in text
    assert 'class="arrow"></i>arrow: to the seqno of the rollback' in text
    assert 'class="promised"></i>pale: the part of a snapshot' in text
    assert "pale:" not in page(gathered(real_server("6.0.5-dcp1")))


def test_a_timeline_has_its_findings_and_links_to_them() -> None:
    text = page(gathered(SAMPLES / "loop.pcap"))
    timeline = text.partition('id="vb-30"')[2].partition('id="vb-')[0]
    [(link, sign)] = re.findall(r'href="#(finding-[^"]+)"><text[^>]*>(.) rollback-loop:', timeline)
    assert sign == "✖"
    assert f'id="{link}"' in text
    assert ".error { fill: var(--severity-error)" in text


@pytest.mark.requires("chromium")
def test_a_page_of_800_pixels_has_heads_above_its_messages(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    text = page(gathered(SAMPLES / "orphans.pcap"))
    measured = "getComputedStyle(document.querySelector('.line.head')).display"
    script = text.index("<script>") + len("<script>")
    path.write_text(
        re.sub(
            "<meta http-equiv[^>]*>",
            "",
            f"{text[:script]}document.title={measured};{text[script:]}",
        )
    )
    assert "<title>inline-grid</title>" in in_browser(path, "--window-size=800,600")


def test_a_packet_without_a_message_is_told_as_such_after_what_came_before_it() -> None:
    text = page(gathered(field("p06-zero-window")))
    table = text[text.index("<dt>evidence</dt>") :].partition("</table>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
    assert [row[1] for row in rows] == ["114", "117"]
    assert rows[1][0] == ""
    assert rows[1][-1] == "a packet without a message"


def test_cases_that_say_the_same_of_the_same_place_are_no_list() -> None:
    text = page(gathered(SAMPLES / "tour.pcapng"))
    of_rule = text[text.index("<b>credentials-in-clear</b>") :].partition("</details>")[0]
    assert of_rule.count("a password is in clear") == 1


def test_cases_of_one_sentence_do_not_repeat_it() -> None:
    without_messages = page(gathered(field("q01-syn-unanswered")))
    assert without_messages.count("no answer to 4 SYNs in 7.0 s") == 1
    assert "<summary>6 cases</summary>" not in without_messages
    with_messages = page(gathered(field("p01-bucket-missing-loop")))
    assert "<summary>8 cases</summary><ul>\n<li>connection 1 (<a " in with_messages


def test_all_clients_are_named() -> None:
    told = gathered(SAMPLES / "tour.pcapng")
    assert len(dict(told.source.facts)["clients"]) == 7


@pytest.mark.parametrize(("name", "is_said"), [("large.pcapng.gz", True), ("orphans.pcap", False)])
def test_the_page_says_why_it_has_these_timelines(name: str, is_said: bool) -> None:
    text = page(gathered(SAMPLES / name))
    assert ("No vbucket has an error, a warning or a rollback." in text) is is_said


def test_evidence_of_captures_of_different_days_has_the_day() -> None:
    text = page(gathered(SAMPLES / "orphans.pcap", SAMPLES / "real-server" / "stuck.pcap.gz"))
    times = re.findall(r'<td class="of-time">([^<]*)</td>', text)
    assert {time.partition(" ")[0] for time in times} == {"2024-04-06", "2026-11-27"}
