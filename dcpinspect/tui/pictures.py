"""Writes ``docs/tui.md`` and its pictures: screenshots of the views, and the table of keys from ``keys.KEYS``.

``python -m dcpinspect.tui.pictures sample_captures/rollback.pcap docs`` writes the page and ``docs/pictures/tui-*.svg``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dcpinspect.records import dataclass
from dcpinspect.tui import walks
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.keys import KEYS, PALETTE, VIEWS
from dcpinspect.tui.screenshot import screenshots


@dataclass(frozen=True, slots=True)
class Scene:
    """A view of the tour: its texts, and the keys that lead to it from the scene before."""

    name: str
    title: str
    text: str
    keys: Sequence[str]


TOUR = (
    Scene(
        "overview",
        "0 Overview",
        "The capture at a glance, and the first screen of one that is large, or that has an error or a warning. The first line is the"
        " verdict. Below it are the findings by cause, all vbuckets in a small map, the messages over time (bytes after `d`), and who"
        " talks to whom.\n\n"
        "`↑` `↓` and `Tab` go from part to part, `←` and `→` move in the map and in time. `Enter` goes in: to the finding, to the vbucket"
        " on the map, or to the messages at that time. On a connection, it shows this one alone in all views, as `C` does from everywhere;"
        " `Esc` shows all again.",
        ("0",),
    ),
    Scene(
        "packets",
        "1 Packets",
        "Each line is a message. Below the list are the fields of the message under the cursor, as the specification draws them, and its"
        " bytes. Fields and bytes are linked: when the cursor moves in one, the other shows the same place, and a click does the same."
        " `↗` is a link that `Enter` follows: from a request to its answer, from an item to its snapshot marker or to"
        " the item before it.\n\n"
        "JSON is taken apart: `→` and `←` unfold and fold an object, an array, or a long text. Extended attributes stand apart, and what"
        " was compressed is shown unpacked. `b` shows values as bytes, `d` the bytes as hex or as the grid of the specification. Names of"
        " fields and bytes have the colour of the part of the message that they are in. The lines between panes move with the mouse.\n\n"
        "`t` chooses what times count from: the first packet, the row before, the day, or the request. `f` follows the conversation that"
        " the message is part of: the stream, or the connection where it is part of none. `;` writes a note on the message.\n\n"
        "Colours are the kinds of messages. A message that shows an error or a warning names the rule at the end of its line, and the"
        " finding stands above its fields. `n` goes to the next such message, and `e` to its findings.\n\n"
        "`/` filters in SQL with completion, `=` filters"
        " by the field under the cursor. `Ctrl+F` finds text, `/regex/`, or bytes such as `x:80 57`,"
        " and counts them. `F3` goes to the next.",
        ("colon", *"99", "enter"),
    ),
    Scene(
        "vbuckets",
        "2 vBuckets",
        "All vbuckets at a glance, one cell each, as large as fits. The colour and the sign of a cell are its verdict: blocks are well,"
        " letters are not. The scale beside the map has the count of each. `d` shows a measure instead: seqnos behind, items, bytes, gaps,"
        " rollbacks, snapshots, share from disk, and when the vbucket was last heard. `o` goes to the vbucket that has most of it, `n` to"
        " the next one with an error or a warning, and `Enter` opens its timeline. Few vbuckets have cells with words,"
        " and with a chart of the items over time, on which letters say what happened.\n\n"
        "`|` shows a map for each client, or for each node of one client, with one cursor in all of them, where there are several.\n\n"
        "`|` again shows all vbuckets over time: a line for each, or half of one, or one for several. Colours are how many items came when;"
        " letters are requests, rollbacks and ends. `+` gives each vbucket more room, `o` goes to where most came, `[` and `]` to what"
        " happened, and `Enter` opens the vbucket's timeline at that time.\n\n"
        "`|` again shows the table of all streams. In it, `←` and `→` choose a column, and `d` sorts by it."
        " `&` shows only the streams with the same value in this column as the stream under the cursor, and `!` shows only the others."
        " `=` goes to the messages of the stream.",
        ("2",),
    ),
    Scene(
        "timeline",
        "3 Timeline",
        "The streams of one vbucket along their seqnos, or along time after `d`. The view shows requests, snapshots, how dense the items"
        " are, gaps by their cause, events and findings. The line below the streams describes what is under the cursor.\n\n"
        "`|` draws the same in other ways. Seqnos against time are curves, in which backfill, steady state, stalls and catching up are"
        " slopes; `d` adds the lanes below. The tree of histories has the branches that failover logs tell of, the newest at the top, and"
        " below each the streams that asked for it.\n\n"
        "`[` and `]` go from event to event, `{` and `}` from gap to gap, `n` and `N` from one error or warning to another. `↑` and `↓`"
        " choose a stream, `,` and `.` a vbucket. `+` and `-` zoom, `a` shows all, `Space` folds a stream. `Enter` opens the message,"
        " `e` the finding, `=` all messages of the vbucket.\n\n"
        "The wheel zooms around the mouse. A range that is dragged, or chosen with `Shift` and the arrows, is what `=` filters by and `+`"
        " zooms to. `m` marks a vbucket, here or on the map: its streams are drawn below those of any other, along the same time."
        " `tui A --beside B` draws the vbucket's streams in another capture below, too.",
        ("enter", "right_square_bracket"),
    ),
    Scene(
        "findings",
        "4 Findings",
        "All that is wrong, with the worst first and the effects below their cause, or by connection after `d`. Each finding has its"
        " evidence, what to do, and when it is no error. Below is the stretch of the timeline that shows it. `Enter` goes to the message"
        " that shows the finding, with the cursor on the right field. `Backspace` comes back, and `]` chooses the next evidence.",
        ("colon", *"rollback", "enter"),
    ),
    Scene(
        "stats",
        "5 Stats",
        "Messages and bytes over time, by command and by size, and how long answers took. Each connection with a flow-control window has a"
        " chart of the bytes that were not acknowledged, and charts of how long it took to answer requests and noops. A sign below a chart"
        " is where something was found. Below the charts are the numbers, and the capture loss. `d` draws bytes by command instead of"
        " messages.",
        ("5",),
    ),
)


OUT_OF_IT = """\
`x` exports what is under the cursor: the findings, the messages that show one, those of a vbucket, or the table of vbuckets. It also
exports the marked messages (`m`), those that the filter shows, or all. The name of the file chooses its format. `.pcapng` has packets;
`.ndjson`, `.json`, `.csv`, `.txt`, `.parquet` and `.arrow` have messages or tables. The file appears when it is complete, and it never
replaces another.

Marks and notes (`m`, `;`) are kept in `CAPTURE.dcpinspect.json` beside the capture, or in your own folder where that cannot be written.
They come back when the capture is opened again. In a `.pcapng`, notes are comments of packets.

`y` copies through the terminal (OSC 52), and `Y` the message as JSON, hex, a filter, or a `tshark` command. If a fault of the program
ends it, the terminal is restored, and one line names the log. The log has nothing from the capture.
"""


def page() -> Iterator[str]:
    """Yields the lines of docs/tui.md."""
    yield "# The terminal UI"
    yield ""
    yield "`dcpinspect tui CAPTURE…` opens captures in the terminal, and already shows what is read while it reads on. In a terminal,"
    yield "`dcpinspect CAPTURE` does the same. `dcpinspect tui` alone, and `Ctrl+O` inside, offer recent captures, files, and"
    yield "interfaces with what comes to them now. `tui --follow FILE`, `tui -` and `live -i IFACE --tui` show a capture that is still"
    yield "being written; see [live.md](live.md). Where TLS connections are not decrypted, `K` takes a key log and reads the capture"
    yield "again. `--filter` sets the first filter, and `--ascii` draws with ASCII characters only. `NO_COLOR` is respected, because no"
    yield "state is shown by colour alone. [config.md](config.md) has themes, and colours of one's own for messages. `--screenshot VIEW"
    yield "-o FILE.svg` draws a view without a terminal; `--size 200x50` and `--theme` say how."
    yield ""
    yield "The pictures and the table of keys are generated: `python -m dcpinspect.tui.pictures sample_captures/rollback.pcap docs`."
    for scene in TOUR:
        yield from ("", f"## {scene.title}", "", *scene.text.splitlines(), "", f"![{scene.title}](pictures/tui-{scene.name}.svg)")
    yield ""
    yield from walks.lines()
    yield from ("", "## Copy and export", "")
    yield from OUT_OF_IT.splitlines()
    yield from ("", "## Keys", "", "| key | does | where |", "|---|---|---|")
    for key in (*KEYS, PALETTE):
        where = "everywhere" if tuple(key.views) == VIEWS else ", ".join(key.views)
        yield f"| {_cell(key.shown)} | {_cell(key.text)} | {where} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def draw(capture: str, scenes: Sequence[Scene] = TOUR) -> dict[str, str]:
    """Returns the pictures as SVG, by name of the scene."""
    app = InspectApp(Inspection([capture]))
    try:
        return asyncio.run(screenshots(app, [(scene.name, scene.keys) for scene in scenes]))
    finally:
        app.close()


def write(capture: str, folder: Path) -> None:
    """Writes the page and its pictures."""
    (folder / "pictures").mkdir(exist_ok=True)
    for name, picture in draw(capture).items():
        (folder / "pictures" / f"tui-{name}.svg").write_text(picture, "utf-8")
    (folder / "tui.md").write_text("".join(f"{line}\n" for line in page()), "utf-8")


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
