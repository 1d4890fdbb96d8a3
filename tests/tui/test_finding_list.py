from __future__ import annotations

import pytest
from rich.style import Style

from dcpinspect.text import cells, one_line
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.finding_list import FindingList
from dcpinspect.tui.strips import wrapped
from tests.tui.screens import Keys, play, press, screen, settled

pytestmark = pytest.mark.slow


def test_the_chosen_one_is_whole_with_what_to_do_and_the_others_have_a_line() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0", "home")
        shown = app.navigation.overview.findings
        for place in range(shown.count):
            one = shown.shown_finding
            assert one is not None
            words = " ".join(
                "".join(shown.render_line(line).text for line in range(shown.size.height))
                .replace("▌", " ")
                .split()
            )
            assert one_line(one.what or one.message) in words
            assert not one.next or "Next: " in words
            assert shown.lines_of(place)[1] == 1 + len(shown._more[place])
            await press(app, pilot, "down")

    for size in ((80, 40), (120, 36)):
        play("loop.pcap", scene, size)


def test_nothing_wrong_is_said() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        app.navigation.findings.list.show([], {}, is_final=True)
        await settled(app, pilot)
        assert "no findings" in screen(app)

    play("rollback.pcap", scene)


def _text(shown: FindingList) -> str:
    """All lines, also those that are scrolled away."""
    return "\n".join(
        "".join(text for text, _ in shown._pieces(place, Style())) for place in range(shown.count)
    )


def test_findings_stand_under_their_connections() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "n", "d")
        found = app.navigation.findings.list
        assert found.shown_finding is not None
        assert found.shown_finding.rule == "rollback-loop", "the cursor stays"
        assert found.connection == 5
        text = _text(found)
        headings = [line for line in text.splitlines() if "→" in line]
        assert [line.split()[1] for line in headings] == ["1", "2", "3", "4", "5"]
        assert "10.11.0.1:50004 → 10.11.0.2:11210  connector:1" in headings[-1]
        await press(app, pilot, "d")
        assert "→" not in _text(found)

    play("loop.pcap", scene, (200, 50))


def test_lines_break_at_blanks_and_never_beyond_the_width() -> None:
    for text in ("a sentence of words", "a" * 30, "鍵" * 12 + " and 鍵鍵", ""):
        lines = wrapped(text, 10)
        assert all(cells(line) <= 10 for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
