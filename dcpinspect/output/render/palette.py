"""Colours with a meaning, one palette for all views and for text: kinds of messages, verdicts,
causes of gaps, snapshots.

A colour is never the only sign of a meaning: a word, a letter or a glyph always says the same.
Colours are far apart for people who cannot tell red from green: good states are green, bad ones are
red or orange, and much brighter or darker.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.decode import Decoded
from dcpinspect.protocol.opcodes import Opcode, Trait, opcode_traits
from dcpinspect.protocol.statuses import Status
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import words_of


@dataclass(frozen=True, slots=True)
class PaletteColor:
    """One colour, for each kind of background."""

    dark: str
    """For a dark background."""
    light: str
    """For a light background."""
    text: str
    """For text on a terminal with unknown background: a colour of the terminal's own 16. Empty: the
    usual colour of text.
    """


GLYPHS = {"error": "✖", "warning": "!", "note": "·"}
"""Signs of severities."""
_PLAIN = PaletteColor("#e0e0e0", "#202428", "")
_GREY = PaletteColor("#8b929c", "#565d66", "bright_black")
_GREEN = PaletteColor("#4fc08d", "#136b41", "green")
_CYAN = PaletteColor("#5cc8d7", "#0a6779", "cyan")
_PALE = PaletteColor("#9fc3c8", "#38636a", "cyan")
_BLUE = PaletteColor("#6cb0f5", "#1864ab", "bright_blue")
_TEAL = PaletteColor("#45d6b5", "#00694f", "bright_cyan")
_YELLOW = PaletteColor("#e9c94a", "#7a5c00", "yellow")
_ORANGE = PaletteColor("#f49b57", "#9c4100", "bright_yellow")
_OLIVE = PaletteColor("#b9c46a", "#545f10", "bright_yellow")
_RED = PaletteColor("#ff6b6b", "#b52424", "bright_red")
_PURPLE = PaletteColor("#c9a0f5", "#7030b0", "magenta")
_PINK = PaletteColor("#f78fc4", "#a01a62", "bright_magenta")

KINDS = {
    "item": _PLAIN,
    "removal": _TEAL,
    "marker": _BLUE,
    "request": _CYAN,
    "response": _PALE,
    "refusal": _RED,
    "rollback": _PURPLE,
    "system-event": _GREEN,
    "end": _GREY,
    "upkeep": _GREY,
}
"""Colours of messages. An item stores a document, a removal deletes or expires one; upkeep is noops
and flow control.
"""

VERDICTS = {
    "caught-up": _GREEN,
    "advancing": _CYAN,
    "backfilling": _BLUE,
    "silent": _PALE,
    "ended": _GREY,
    "unknown-capture": _GREY,
    "behind": _YELLOW,
    "lost-something": _YELLOW,
    "orphaned": _ORANGE,
    "starved-by-flow-control": _ORANGE,
    "stalled": _ORANGE,
    "rolled-back": _PURPLE,
    "refused": _OLIVE,
    "never-answered": _RED,
    "never-opened": _RED,
}
"""Colours of the verdicts on vbuckets and streams, and of how a vbucket stood before it ended."""

CAUSES = {
    "deduplicated": _GREY,
    "filtered": _GREY,
    "seqno-advanced": _GREY,
    "oso": _GREY,
    "invisible": _GREY,
    "resumed": _YELLOW,
    "rollback": _PURPLE,
    "snapshot-tail": _YELLOW,
    "capture-loss": _PINK,
    "unexplained": _RED,
}
"""Colours of the causes of gaps: causes that are normal stay in the background; their letters tell
them apart.
"""

SEVERITIES = {"error": _RED, "warning": _YELLOW, "note": _GREY}
"""Colours of findings."""

SNAPSHOTS = {"memory": _GREEN, "disk": _PALE, "oso": _PURPLE, "unknown": _GREY}
"""Colours of snapshots, by type."""

CHARTS = {"bar": PaletteColor("#4a8fd9", "#2560a0", "blue")}
"""Colour of charts and of items, which no mark has."""

PARTS = {
    "header": _GREY,
    "header-next": _PALE,
    "framing": _PURPLE,
    "framing-next": _ORANGE,
    "extras": _BLUE,
    "extras-next": _CYAN,
    "key": _GREEN,
    "key-next": _GREEN,
    "value": _PLAIN,
    "value-next": _YELLOW,
}
"""Colours of bytes and of names of fields, by part of the message; neighbouring fields have two
colours in turn.
"""

_DARK_TO_BRIGHT = (
    "#24456e",
    "#2b578c",
    "#336aaa",
    "#3f7dc6",
    "#5591d8",
    "#78abe6",
    "#a3c8f1",
    "#d2e5fb",
)
_PALE_TO_DARK = (
    "#76a3d1",
    "#6592c4",
    "#5582b7",
    "#4471aa",
    "#33619e",
    "#215494",
    "#123d78",
    "#08285c",
)
_DIM_TO_BRIGHT = words_of("blue blue blue blue bright_blue bright_blue bright_blue bright_blue")
SCALE = {
    str(level): PaletteColor(*three)
    for level, three in enumerate(
        zip(_DARK_TO_BRIGHT, _PALE_TO_DARK, _DIM_TO_BRIGHT, strict=True), 1
    )
}
"""Colours of amounts, in eight levels of the colour of charts, which no mark has: the greatest
stands out on either background.
"""

PAINTS = {
    f"{group}-{name}": paint
    for group, paints in (
        ("kind", KINDS),
        ("verdict", VERDICTS),
        ("cause", CAUSES),
        ("severity", SEVERITIES),
        ("snapshot", SNAPSHOTS),
        ("chart", CHARTS),
        ("part", PARTS),
        ("scale", SCALE),
    )
    for name, paint in paints.items()
}
"""All colours, by their names in style sheets."""

_NAMES = list(KINDS)
_UPKEEP = (Opcode.DCP_NOOP, Opcode.DCP_BUFFER_ACKNOWLEDGEMENT, Opcode.NOOP)
_REMOVALS = (Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION, Opcode.DCP_FLUSH)
_MARKERS = (Opcode.DCP_SNAPSHOT_MARKER, Opcode.DCP_OSO_SNAPSHOT, Opcode.DCP_SEQNO_ADVANCED)


def _kind_of_request(code: int) -> str:
    traits = opcode_traits(code)
    if code in _REMOVALS:
        return "removal"
    if code in _MARKERS:
        return "marker"
    if code in _UPKEEP:
        return "upkeep"
    if code == Opcode.DCP_SYSTEM_EVENT:
        return "system-event"
    if Trait.ENDS in traits:
        return "end"
    return "item" if Trait.EVENT in traits else "request"


_OF_REQUEST = np.array([_NAMES.index(_kind_of_request(code)) for code in range(256)], np.int64)
_FINE = (Status.SUCCESS, Status.AUTH_CONTINUE)
_IS_UPKEEP = np.isin(np.arange(256), _UPKEEP)


def message_kinds(decoded: Decoded, rows: slice = slice(None)) -> RowNumbers:
    """Returns the kind of each message, as its number in ``KINDS``. A refusal is a response whose
    status says that something failed.
    """
    status = decoded.specific[rows]
    opcode = decoded.opcode[rows]
    is_server = decoded.is_server[rows]
    answers = np.select(
        [status == Status.ROLLBACK, ~np.isin(status, _FINE), _IS_UPKEEP[opcode] & ~is_server],
        [_NAMES.index("rollback"), _NAMES.index("refusal"), _NAMES.index("upkeep")],
        _NAMES.index("response"),
    )
    requests = np.where(is_server, _NAMES.index("request"), _OF_REQUEST[opcode])
    return np.where(decoded.is_response[rows], answers, requests)


def text_style(batch: MessageBatch, index: int) -> str:
    """Returns the style of a message's line in text: that of errors where it has a problem, or a
    colour of the terminal's own 16; empty: the usual colour of text.
    """
    if batch.problem_of(index) is not None:
        return f"bold {SEVERITIES['error'].text}"
    return KINDS[_NAMES[int(message_kinds(batch.decoded, slice(index, index + 1))[0])]].text
