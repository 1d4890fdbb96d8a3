from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.output.finding_marks import rows_of
from dcpinspect.output.render.finding_text import place_of
from dcpinspect.protocol.column_types import NO_ROWS
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.finding_details import about
from dcpinspect.tui.theme import UNICODE
from tests.captures import field, real_server
from tests.damage import Talk
from tests.tls.damage import save
from tests.tls.invented import Invented
from tests.tui.screens import NARROW, SAMPLES, Keys, lanes_of, play, press, screen, settled


def test_evidence_is_walked_and_opened() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "n")
        one = app.navigation.findings.list.shown_finding
        assert one is not None
        await press(app, pilot, "right_square_bracket", "enter")
        assert app.packets.list.row == one.places[1].row
        await press(app, pilot, "backspace", "v")
        assert "#1         row 279" in screen(app), "streams above it are scrolled out of the way"
        assert screen(app).splitlines()[1].startswith(" vb 30 · "), "what is shown stays at the top"

    play("loop.pcap", scene)


@pytest.mark.parametrize(
    "capture",
    [real_server("v85-consumer-errors"), SAMPLES / "orphans.pcap", SAMPLES / "loop.pcap"],
    ids=lambda path: path.name,
)
def test_the_list_gives_room_to_the_chosen_evidence(capture: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        assert f"{app.glyphs.folded} row {app.navigation.findings.row_here} · " in screen(app)
        assert " what   " in screen(app)
        assert app.navigation.findings.list.size.height >= 3

    play(capture, scene, NARROW)


def test_the_evidence_that_is_chosen_is_scrolled_to() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        view, seen = app.navigation.findings, set[int]()
        for _ in range(3):
            await press(app, pilot, "right_square_bracket")
            seen.add(view.row_here)
            assert f"{app.glyphs.folded} row {view.row_here} · " in screen(app)
        assert len(seen) == 3

    play("loop.pcap", scene, NARROW)


def test_the_timeline_opens_at_the_message_that_one_comes_from() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        app.navigation.go_to("rollback")
        await press(app, pilot, "right_square_bracket", "v")
        assert (
            (track := lanes_of(app).track) and track.connection,
            lanes_of(app).at,
            lanes_of(app).chosen_row,
        ) == (
            2,
            50,
            100,
        )
        assert "connection 2 · seqno 50" in screen(app)
        app.navigation.to_row(13)
        await press(app, pilot, "v")
        assert (
            (track := lanes_of(app).track) and track.connection,
            lanes_of(app).chosen_row,
        ) == (1, 13)
        app.navigation.to_row(112)
        await press(app, pilot, "v")
        assert (
            (track := lanes_of(app).track) and track.name,
            lanes_of(app).chosen_row,
        ) == ("#2", 112)

    play("rollback.pcap", scene)


def test_all_there_is_to_say_is_said() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        for one in app.navigation.findings.list.findings:
            text = about(one, UNICODE, rows_of(one)).plain
            assert place_of(one) in text
            assert all(f"row {place.row}" in text for place in one.places)

    play("rollback.pcap", scene)


def test_what_a_name_from_the_wire_holds_is_escaped_once(tmp_path: Path) -> None:
    talk, packets = Invented(host=b"evil\x1b[31m"), Talk(server_port=11207)
    packets.handshake()
    for side, data in talk.writes:
        packets.stream(side, data)
    packets.close()

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "n")
        one = next(
            one for one in app.navigation.findings.list.findings if one.rule == "tls-without-key"
        )
        assert r"server name evil\x1b[31m" in one.message
        assert one.message in about(one, UNICODE).plain
        assert r"evil\\x1b" not in screen(app)

    play(save(tmp_path / "x.pcap", packets.packets), scene)


def test_effects_stand_under_their_cause() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "home")
        found = app.navigation.findings.list
        cause = found.shown_finding
        assert cause is not None
        assert cause.rule == "rollback-loop"
        text = about(cause, UNICODE, NO_ROWS, 0, found.findings).plain
        assert "Explains 9 other findings: 8 rollback, 1 unknown-vbucket-uuid." in text
        assert "client connector:1 (10.11.0.1, connector/4.2) · server 10.11.0.2:11210" in text
        assert "whose  the client has to act; not over by the end" in text
        assert text.count("rolled back 4 times to 0 in 30 ms, 86 items sent again") == 1
        await press(app, pilot, "down")
        effect = found.shown_finding
        assert effect is not None
        assert effect.effect_of == cause.id
        text = about(effect, UNICODE, NO_ROWS, 0, found.findings).plain
        assert (
            "it is explained by rollback-loop, 2 vbuckets, connections 2–5, which says what to do"
            in text
        )

    play("loop.pcap", scene)


def test_the_same_key_goes_on_to_what_else_was_found_of_the_message() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        marked = app.inspection.results.marked
        row, numbers = next(
            (row, numbers)
            for row in marked.rows.tolist()
            if len(numbers := marked.finding_numbers(row)) > 1
        )
        app.navigation.to_row(row)
        await settled(app, pilot)
        seen = []
        for _ in range(len(numbers) + 1):
            await press(app, pilot, "e")
            seen.append(app.navigation.findings.list.finding)
        assert seen == [*numbers, numbers[0]]
        await press(app, pilot, "backspace")
        assert app.packets.list.row == row

    play("loop.pcap", scene)


def test_a_finding_opens_at_the_field_that_it_speaks_of() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "home", "enter")
        assert app.packets.field is not None
        assert app.packets.field.name == "start_seqno"
        await press(app, pilot, "backspace", "right_square_bracket", "enter")
        assert app.packets.field.name == "status"

    play("loop.pcap", scene)


def test_a_refused_request_opens_at_its_value_and_the_answer_at_its_status() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "home", "enter")
        assert app.packets.field is not None
        assert app.packets.field.name == "value"
        assert """▌▾ Value                  (72-90)  : {"collections":["8\"""" in screen(app)
        await press(app, pilot, "backspace", "right_square_bracket", "enter")
        assert app.packets.field.name == "status"

    play(real_server("coll-filter"), scene, NARROW)


def test_a_refused_request_opens_at_what_its_status_is_about() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        names = []
        await press(app, pilot, "4")
        for number, finding in enumerate(app.inspection.results.findings):
            if finding.rule == "stream-refused":
                app.navigation.findings.list.select(number)
                await press(app, pilot, "enter")
                assert app.packets.field is not None
                names.append((finding.cause, app.packets.field.name))
                await press(app, pilot, "backspace")
        assert names == [
            ("dcp-stream-id-invalid", "value"),
            ("unknown-collection", "value"),
            ("not-my-vbucket", "vbucket"),
        ]

    play("tour.pcapng", scene)


@pytest.mark.parametrize(
    ("capture", "rule", "name"),
    [
        (field("p01-bucket-missing-loop"), "bucket-refused", "status"),
        (field("p02-select-bucket-one-node"), "bucket-refused", "status"),
        (field("p03-no-bucket-selected"), "bucket-refused", "status"),
        (field("r04-hello-key-not-json"), "hello-key-not-json", "key"),
        (real_server("6.0.5-dcp1"), "ack-missing", "snapshot_type"),
        (field("r05-nmvb-not-retried"), "orphaned-vbucket", "status"),
        (SAMPLES / "orphans.pcap", "orphaned-vbucket", "end_reason"),
        (real_server("replication-60-66"), "delete-times-mismatch", "delete_time"),
        (real_server("v85-oso"), "credentials-in-clear", "value"),
        (real_server("v85-consumer-errors"), "consumer-refused", "status"),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else value,
)
def test_a_finding_opens_at_the_field_of_its_rule(capture: Path, rule: str, name: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        findings = app.inspection.results.findings
        app.navigation.findings.list.select([one.rule for one in findings].index(rule))
        await press(app, pilot, "enter")
        assert app.packets.field is not None
        assert app.packets.field.name == name

    play(capture, scene)


def test_the_title_counts_findings_below_without_their_effects() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        assert "9 findings, the worst first · 5 more below" in screen(app)
        await press(app, pilot, "end")
        assert "9 findings, the worst first─" in screen(app)

    play(real_server("v85-consumer-errors"), scene, NARROW)


def test_the_cursor_goes_to_the_worst_where_a_connection_alone_does_not_have_its_finding() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        findings = app.navigation.findings.list
        findings.set_cursor(2)
        assert findings.shown_finding is not None
        assert findings.shown_finding.rule == "duplicate-stream-request"
        app.navigation.choose(4)
        await settled(app, pilot)
        assert findings.at == 0
        app.navigation.choose(None)
        findings.set_cursor(5)
        kept = findings.shown_finding
        assert kept is not None
        app.navigation.choose(kept.connections[0])
        await settled(app, pilot)
        shown = findings.shown_finding
        assert shown is not None
        assert findings.at != 5
        assert shown.id == kept.id

    play("tour.pcapng", scene)
