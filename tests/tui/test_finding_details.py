from __future__ import annotations

from dataclasses import replace

from dcpinspect.output.finding_marks import rows_of
from dcpinspect.protocol.column_types import NO_ROWS
from dcpinspect.reading.store.store import Store
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.finding_details import MOST_CASES, about, in_words
from dcpinspect.tui.theme import UNICODE
from tests.captures import field, real_server
from tests.tui.screens import Keys, play, press, read, settled


def test_messages_are_told_in_a_line(store: Store) -> None:
    told = in_words(store, [99, 100, 10**9])
    assert told[99].startswith("stream_req v1 vb 7 from 60, no end, uuid 0x")
    assert told[100].startswith("stream_req rollback vb 7 to 50  after ")
    assert set(told) == {99, 100}, "others are not kept"


def test_a_request_that_works_is_shown() -> None:
    with read("loop.pcap") as inspection:
        results = inspection.results
    one = next(one for one in results.findings if one.rule == "rollback-loop")
    text = about(one, UNICODE, NO_ROWS, 0, results.findings, {}, results.records["rollbacks"]).plain
    assert "vbucket 31: from 0, uuid 0x7e5700000000004f, snapshot 0–0" in text
    assert "dcpinspect" not in text
    lines = about(
        one, UNICODE, NO_ROWS, 0, results.findings, {}, results.records["rollbacks"], width=40
    ).plain.splitlines()
    at = next(
        place
        for place, line in enumerate(lines)
        if line.strip().startswith("vbucket 31: from 0, uuid")
    )
    assert lines[at + 1].startswith("         "), "what is too long goes on with an indent"


def test_a_request_that_works_stands_under_the_latest_rollback_of_its_vbucket() -> None:
    with read(real_server("failover-log-long")) as inspection:
        results = inspection.results
    rollbacks = [one for one in results.findings if one.rule == "rollback"]
    texts = [
        about(one, UNICODE, NO_ROWS, 0, results.findings, {}, results.records["rollbacks"]).plain
        for one in sorted(rollbacks, key=lambda one: one.first_time_ns)
    ]
    assert ["vbucket 0: from " in text for text in texts] == [False, True]


def test_cases_that_do_not_differ_have_no_lines() -> None:
    texts = {}
    for sample in ("loop.pcap", "orphans.pcap"):
        with read(sample) as inspection:
            for one in inspection.results.findings:
                texts[sample, one.rule, one.where] = one, about(one, UNICODE).plain
    one, text = next(
        told for (_, rule, _), told in texts.items() if rule == "rollback-loop" and told[0].cases
    )
    assert {case.message for case in one.cases} == {one.what.removesuffix(" on each vbucket")}
    elsewhere = replace(one, cases=(replace(one.cases[0], connections=(9,)), *one.cases[1:]))
    for told in (text, about(elsewhere, UNICODE).plain):
        assert told.count(one.cases[0].message) == 1
        assert "connection 9" not in told
    differing = [
        (one, text) for one, text in texts.values() if len({case.message for case in one.cases}) > 1
    ]
    assert differing
    for one, text in differing:
        assert all(f"{case.where}: " in text for case in one.cases[:MOST_CASES])


def test_evidence_is_wrapped_below_itself() -> None:
    with read("loop.pcap") as inspection:
        one = next(one for one in inspection.results.findings if one.rule == "rollback-loop")
    rows = rows_of(one)
    told = dict.fromkeys(rows.tolist(), "words " * 20)
    lines = about(one, UNICODE, rows, len(rows) - 1, (), told, width=40).plain.splitlines()
    assert any(line.startswith(f"Evidence, {len(rows)} of {len(rows)}") for line in lines)
    assert f"▸ row {rows[-1]} · words words words" in "\n".join(lines)
    assert all(len(line) <= 40 for line in lines if "words" in line)
    assert "    words" in "\n".join(lines)


def test_all_messages_are_evidence_and_the_best_is_chosen_first() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        number, one = next(
            (place, one)
            for place, one in enumerate(app.inspection.results.findings)
            if one.rule == "orphaned-vbucket"
        )
        app.navigation.to_finding(number)
        await settled(app, pilot)  # the view is made now
        rows = app.navigation.findings.evidence
        assert rows.tolist() == [
            row
            for row in range(1, 108)
            if number in app.inspection.results.marked.finding_numbers(row)
        ] + [75], "they rise; the last is of a vbucket that it does not accuse, and has no mark"
        assert app.navigation.findings.row_here == one.places[0].row
        await press(app, pilot, *["right_square_bracket"] * 20)
        assert app.navigation.findings.row_here == rows[-1]

    play("orphans.pcap", scene)


def test_the_same_four_parts_stand_in_the_same_order_at_every_width() -> None:
    with read("orphans.pcap") as inspection:
        found = inspection.results.findings
    for width in (40, 80, 120, 200):
        for one in found:
            lines = about(one, UNICODE, rows_of(one), 0, found, width=width).plain.splitlines()
            names = [
                line[:7].strip()
                for line in lines
                if line[:7].strip() in ("what", "who", "whose", "next")
            ]
            assert names == ["what", "who", "whose", "next"], f"{one.rule} at {width}"
            assert all(
                len(line) <= width
                for line in lines[: lines.index(next(line for line in lines if "Evidence" in line))]
            )


def test_what_no_message_shows_has_its_frames() -> None:
    with read(field("q02-syn-refused")) as inspection:
        (one,) = (one for one in inspection.results.findings if one.rule == "server-not-reached")
        assert not len(rows_of(one))
        assert "frames frame.number in {66, 67, 80, 81," in about(one, UNICODE).plain


def test_frames_that_are_left_out_are_counted() -> None:
    with read(field("q06-health-probes")) as inspection:
        (one,) = (one for one in inspection.results.findings if one.left_out)
        assert len(one.places) + one.left_out == 300
        assert "frames without the other 276: frame.number in {" in about(one, UNICODE).plain
