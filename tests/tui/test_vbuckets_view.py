from __future__ import annotations

import re
from pathlib import Path

import pytest

from dcpinspect.tui.app import InspectApp
from tests.captures import field, real_server
from tests.tui.screens import NARROW, SAMPLES, WIDE, Keys, play, press, screen

pytestmark = pytest.mark.slow


def test_the_messages_of_a_vbucket_are_one_key_away() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "n")
        vbucket = app.navigation.vbuckets.vbucket_here
        await press(app, pilot, "equals_sign")
        assert (app.view, app.packets.filtering.text) == ("packets", f"vbucket = {vbucket}")

    play("rollback.pcap", scene)


def test_n_stops_at_the_last_bad_vbucket() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        view = app.navigation.vbuckets
        await press(app, pilot, "2", "end")
        visited = []
        for _ in range(4):
            await press(app, pilot, "n")
            visited.append(view.vbucket_here)
        assert visited == [42, 45, 45, 45]
        await press(app, pilot, "N")
        assert view.vbucket_here == 42

    play("orphans.pcap", scene)


def test_a_capture_without_a_bad_vbucket_says_so() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "n")
        assert "no vbucket with an error or a warning" in screen(app)

    play("rollback.pcap", scene)


@pytest.mark.parametrize(
    ("capture", "vbucket", "items", "seqnos"),
    [
        (SAMPLES / "upr.pcap", 528, "items 0, 3 more that no stream took", ""),
        (real_server("v85-consumer-errors"), 0, "items 3, 2 more that no stream took", "1–3"),
        (SAMPLES / "rollback.pcap", 7, "items 35", "2–58 (up to 60 earlier)"),
    ],
    ids=["never-opened", "refused", "rolled-back"],
)
def test_bars_have_the_items_and_the_card_tells_those_that_no_stream_took(
    capture: Path, vbucket: int, items: str, seqnos: str
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        view = app.navigation.vbuckets
        await press(app, pilot, "2")
        view.move_to(vbucket)
        text = "   ".join(view._card(vbucket, 200).plain.splitlines())
        assert f"   {items}   messages " in text
        assert f"   seqnos {seqnos}   " in text or not seqnos
        assert view.heat.amounts[view.heat.row].sum() == sum(map(int, re.findall(r"\d+", items)))

    play(capture, scene)


def test_few_vbuckets_have_all_their_facts_below_them() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        lines = screen(app).splitlines()
        assert [line.split()[:3] for line in lines[4:7:2]] == [
            ["R", "7", "ended"],
            ["■", "8", "ended"],
        ]
        assert not any("1 ended" in line for line in lines), "each says its own state"
        assert "snapshots 3" in re.sub(" +", " ", " ".join(lines))
        said = "rollback 10 seqnos in 1 gap, deduplicated 33 seqnos in 26 gaps"
        assert said in " ".join(screen(app).split())
        assert any(line.startswith(" · rollback: asked for seqno 60") for line in lines)
        assert " 7–10\n" in screen(app), "nothing is cut"
        await press(app, pilot, "vertical_line")
        assert "there is no map of them" in screen(app)

    play("rollback.pcap", scene, NARROW)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=lambda size: f"{size[0]}x{size[1]}")
def test_more_vbuckets_than_lines_scroll_and_leave_room_for_what_is_wrong(
    size: tuple[int, int],
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        assert app.navigation.vbuckets.vbucket_here == 421
        assert (" ■ 5    ended" in screen(app)) == (size == WIDE)
        assert " ✖ 421  refused" in screen(app)
        assert "start 20 is above end 10, answered with erange" in screen(app)
        await press(app, pilot, "home")
        assert " ■ 5    ended" in screen(app)
        assert "vb 5" in screen(app)

    play("tour.pcapng", scene, size)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_stalled_vbucket_has_the_finding_of_its_connection(size: tuple[int, int]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "home")
        assert "vb 6" in screen(app)
        assert "tcp-window-zero" in screen(app)
        vbucket_map = app.navigation.vbuckets.map
        stalled = [
            vbucket_map.cells.states.get(one) == "stalled" for one in vbucket_map.cells.numbers
        ]
        await press(app, pilot, "n")
        assert vbucket_map.at == (stalled.index(True, 1) if sum(stalled) > 1 else 0)
        await press(app, pilot, "home", "e")
        assert app.view == "findings"
        finding = app.navigation.findings.list.shown_finding
        assert finding is not None
        assert (finding.rule, 6 in finding.vbuckets) == ("tcp-window-zero", True)

    play(field("p06-zero-window"), scene, size)


@pytest.mark.parametrize(
    ("capture", "vbucket", "state"),
    [
        ("large.pcapng.gz", 0, "ended: state-changed"),
        ("tour.pcapng", 5, "ended: ok"),
        ("tour.pcapng", 418, "ended: closed"),
        ("orphans.pcap", 40, "ended: connection-closed by the client"),
        ("rollback.pcap", 7, "ended after a rollback: closed"),
        ("loop.pcap", 30, "ended after a rollback: connection-closed"),
        ("orphans.pcap", 48, "rolled-back"),
    ],
)
def test_the_card_says_why_the_newest_stream_ended(capture: str, vbucket: int, state: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        app.navigation.to_map(vbucket)
        await press(app, pilot)
        assert f"vb {vbucket}" in screen(app)
        assert re.search(rf"(· |state +){state}( ·|\n)", re.sub(r" *\n", "\n", screen(app)))

    play(capture, scene, NARROW)


def test_lines_of_the_card_stay_indented_beside_a_scroll_bar() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "n")
        text = screen(app)
        assert "unknown to the server" in text
        assert all(line.startswith("   ") for line in text.splitlines() if "(log:" in line)

    play("loop.pcap", scene, (80, 24))


def test_signs_before_several_vbuckets_have_a_legend() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "vertical_line")
        assert "E 1,024 ended: state-changed" in screen(app)
        assert "items, at most 2,831 a cell   Q request   E stream end" in screen(app)

    play("large.pcapng.gz", scene, NARROW)


def test_a_title_leaves_out_what_does_not_fit_and_cuts_no_number() -> None:
    for columns in range(40, 81, 2):

        async def scene(app: InspectApp, pilot: Keys) -> None:
            await press(app, pilot, "2")
            *_, last = screen(app).splitlines()[1].rstrip().split(" · ")
            assert last == " items of 4 vbuckets over time" or re.fullmatch(r"a cell .* ms", last)

        play(field("r02-duplicate-collection-ids"), scene, (columns, 15))


def test_help_has_the_signs_that_words_leave_out() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        assert "■ 1 ended" not in screen(app)
        (legend,) = app.navigation.vbuckets.legend()
        assert legend.startswith("■ ended\n")
        assert legend.count("ended after a rollback") == 1
        assert "R before a vb: ended after a rollback" in legend

    play("rollback.pcap", scene, NARROW)


def test_each_client_of_a_vbucket_has_its_connections_beside_its_numbers() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        text = screen(app)
        for number, client, state in (
            (3, "coll", "ended"),
            (4, "filter", "back"),
            (5, "sids", "re"),
        ):
            assert f"127.0.0.1 {client} · con {number} · {state}" in text
            assert f"\n connection {number}   seqnos" in text or number == 5
        assert "✖ stream-refused, con 5: stream request refused" in text

    play(real_server("6.6.5-dcp"), scene, (100, 40))


@pytest.mark.parametrize("name", ["p01-bucket-missing-loop", "q05-tls-to-plain-port"])
def test_each_key_says_why_there_is_no_vbucket(name: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        reason = app.inspection.results.no_vbucket
        assert reason
        await press(app, pilot, "2")
        for key in ("enter", "v", "n"):
            await press(app, pilot, "t", key)  # which says that it does nothing here
            assert screen(app).splitlines()[-2] == f" {reason}", key

    play(field(name), scene)
