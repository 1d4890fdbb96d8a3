from __future__ import annotations

import html
import re
from pathlib import Path

from dcpinspect.tui.keys import VIEWS
from dcpinspect.tui.pictures import TOUR, draw, page
from tests.tui.screens import SAMPLES

DOCS = Path(__file__).parents[2] / "docs"


def texts_of(picture: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", picture)).replace("\xa0", " ")


def test_the_page_is_what_the_program_says() -> None:
    assert (DOCS / "tui.md").read_text("utf-8").splitlines() == list(page()), "run python -m dcpinspect.tui.pictures, see its head"


def test_every_view_has_its_picture() -> None:
    assert tuple(scene.name for scene in TOUR) == VIEWS
    for scene in TOUR:
        picture = (DOCS / "pictures" / f"tui-{scene.name}.svg").read_text("utf-8")
        assert "url(" not in picture.replace("url(#", ""), "nothing is loaded from elsewhere"
        texts = texts_of(picture)
        assert scene.title in texts
        assert "rollback.pcap" in texts


def test_pictures_are_drawn_by_the_program() -> None:
    pictures = draw(str(SAMPLES / "rollback.pcap"), TOUR[:1])
    texts = texts_of(pictures["overview"])
    assert "161 messages" in texts
