"""``docs/tui.md`` and its pictures: the views as they are, and the table of keys from ``keys.KEYS``.

``python -m dcpinspect.tui.pictures sample_captures/rollback.pcap docs`` writes the page and ``docs/pictures/tui-*.svg``.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from dcpinspect.tui import walks
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.keys import KEYS, VIEWS

SIZE = (120, 36)
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Scene:
    """A view of the tour: what it is, and the keys that lead there from the scene before."""

    name: str
    title: str
    text: str
    keys: Sequence[str]


TOUR = (
    Scene(
        "packets",
        "1 Packets",
        "Every message a line; below it the fields of the one under the cursor, as the specification draws them, and its bytes. Field and"
        " bytes are linked: moving in one lights the other, so does a click. `↗` is a link that `Enter` follows: request and answer, item"
        " and snapshot marker, the item before. `n` goes to the next message with an error or a warning, `e` to what is found of it, `/`"
        " filters in SQL with completion, `=` filters by the field under the cursor, `Ctrl+F` finds text, `/regex/` or `x:80 57`.",
        ("colon", *"99", "enter"),
    ),
    Scene(
        "vbuckets",
        "2 vBuckets",
        "All 1,024 vbuckets at a glance, a cell each, higher for more messages on a logarithmic scale; a finding takes the cell. `d` shows"
        " another measure, `n` goes to the next vbucket with an error or a warning, `Enter` opens its timeline. `|` turns the grid into the"
        " table of all streams: `←` and `→` choose a column, `d` sorts by it, `&` and `!` show only streams that are like the one under the"
        " cursor in it or only the others, `=` goes to its messages.",
        ("2",),
    ),
    Scene(
        "timeline",
        "3 Timeline",
        "The streams of one vbucket along their seqnos, or with `d` along time: requests, snapshots, density of items, gaps by cause,"
        " events, what was found. The line below says what is under the cursor. `[` and `]` walk the events, `{` and `}` the gaps, `n` and"
        " `N` the errors and warnings, `↑` and `↓` the streams, `,` and `.` the vbuckets; `+` and `-` zoom, `0` shows all, `Space` folds a"
        " stream; `Enter` opens the message, `e` the finding, `=` all messages of the vbucket.",
        ("enter", "right_square_bracket"),
    ),
    Scene(
        "findings",
        "4 Findings",
        "What is wrong, worst first, its effects under it, with the evidence, when it is no error, and what to do. "
        "`Enter` goes to the message and the very field"
        " that shows it, `Backspace` comes back; `]` chooses the next evidence.",
        ("colon", *"rollback", "enter"),
    ),
    Scene(
        "stats",
        "5 Stats",
        "Messages and bytes over time, by command, by size; how long answers took; of each connection with a window the bytes that were"
        " not acknowledged; below the charts the numbers, and what the capture lacks. `d` draws bytes by command instead of messages.",
        ("5",),
    ),
)


OUT_OF_IT = """\
`x` offers what is under the cursor - the findings, the messages that show one, those of a vbucket, the table of vbuckets - and the
marked messages (`m`), those that the filter shows, or all, and writes them to a file of the form that its name says: `.pcapng` has
packets, `.ndjson`, `.json`, `.csv`, `.txt`, `.parquet` and `.arrow` messages or tables. It appears when it is complete, and never
replaces another. `y` copies through the terminal (OSC 52). Should a fault of the program end it, the terminal is given back and a line
names the log, which holds nothing of the capture.
"""


def page() -> Iterator[str]:
    """The lines of docs/tui.md."""
    yield "# The terminal UI"
    yield ""
    yield "`dcpinspect tui CAPTURE…`, in a terminal also `dcpinspect CAPTURE`, looks through captures while they are still being read;"
    yield "`tui --follow FILE`, `tui -` and `live -i IFACE --tui` look at what is still coming: [live.md](live.md). `--filter` begins with"
    yield "a filter, `--ascii` draws with ASCII characters only, and `NO_COLOR` is respected: no state is told by colour alone. Pictures"
    yield "and keys of this page are made from the program by `python -m dcpinspect.tui.pictures sample_captures/rollback.pcap docs`."
    for scene in TOUR:
        yield from ("", f"## {scene.title}", "", scene.text, "", f"![{scene.title}](pictures/tui-{scene.name}.svg)")
    yield ""
    yield from walks.lines()
    yield from ("", "## Out of it", "")
    yield from OUT_OF_IT.splitlines()
    yield from ("", "## Keys", "", "| key | does | where |", "|---|---|---|")
    for key in KEYS:
        where = "everywhere" if tuple(key.views) == VIEWS else ", ".join(key.views)
        yield f"| {_cell(key.shown)} | {_cell(key.text)} | {where} |"
    yield "| Ctrl+P | every action by name | everywhere |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


async def draw(capture: str, scenes: Sequence[Scene] = TOUR) -> dict[str, str]:
    """The pictures, as SVG, by the names of the scenes."""
    app = InspectApp(Inspection([capture]))
    pictures = {}
    try:
        async with app.run_test(size=SIZE) as pilot:
            await _settled(app, pilot)
            for scene in scenes:
                for key in scene.keys:
                    await pilot.press(key)
                    await _settled(app, pilot)
                # The fonts that Rich would load from elsewhere are not needed: any monospaced one does.
                pictures[scene.name] = _FONTS.sub("", app.export_screenshot(title=f"dcpinspect {Path(capture).name}"))
    finally:
        app.close()
    return pictures


async def _settled(app: InspectApp, pilot: Pilot[None]) -> None:
    await pilot.pause()
    while app.inspection.state == "reading" or not app.is_at_rest:
        await pilot.pause(0.01)
    await pilot.pause()


def write(capture: str, folder: Path) -> None:
    """Writes the page and its pictures."""
    (folder / "pictures").mkdir(exist_ok=True)
    for name, picture in asyncio.run(draw(capture)).items():
        (folder / "pictures" / f"tui-{name}.svg").write_text(picture, "utf-8")
    (folder / "tui.md").write_text("".join(f"{line}\n" for line in page()), "utf-8")


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
