from __future__ import annotations

import re
from collections import Counter

import pytest
from rich.style import Style

from dcpinspect.text import cells, one_line, wrap
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.finding_list import FindingList
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
            assert shown.lines_of(place)[1] == 1 + len(shown.more.get(place, ()))
            await press(app, pilot, "down")

    for size in ((80, 40), (120, 36)):
        play("loop.pcap", scene, size)


def test_nothing_wrong_is_said() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        app.navigation.findings.list.show([], is_final=True)
        await settled(app, pilot)
        assert "no findings" in screen(app)

    play("rollback.pcap", scene)


def _text(shown: FindingList) -> str:
    """All lines, also those that are scrolled away."""
    return "\n".join(
        "".join(text for text, _ in shown._pieces(place, Style())) for place in range(shown.count)
    )


def test_places_and_sentences_stand_below_each_other_and_only_causes_have_signs() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4")
        found = app.navigation.findings.list
        lines = _text(found).splitlines()
        places = [re.search(r"(vb|con) \d", line) for line in lines]
        assert len({place.start() for place in places if place is not None}) == 1
        effects = [line for line in lines if line.startswith("   └ ")]
        assert [line.split()[1] for line in effects] == [
            "rollback",
            "rollback",
            "unknown-vbucket-uuid",
        ]
        signs = Counter(line[1] for line in lines if line not in effects)
        tabs = screen(app).splitlines()[0].split()
        assert tabs[-6:] == ["✖", str(signs["✖"]), "!", str(signs["!"]), "·", str(signs["·"])]

    play("loop.pcap", scene, (200, 50))


def test_lines_break_at_blanks_and_never_beyond_the_width() -> None:
    for text in ("a sentence of words", "a" * 30, "鍵" * 12 + " and 鍵鍵", ""):
        lines = wrap(text, 10)
        assert all(cells(line) <= 10 for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
