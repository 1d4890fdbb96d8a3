"""The table of all keys. Bindings, the line at the bottom, help, the palette and the page of the
docs are made from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dcpinspect.lazy_dataclass import dataclass

VIEWS = ("overview", "packets", "vbuckets", "timeline", "findings", "stats")
"""Names of the views, in the order of their numbers from 0."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key, or several keys that do the same."""

    keys: str
    """Names of the keys in Textual, separated by commas."""
    action: str
    text: str
    """What the key does, for help and palette."""
    shown: str = ""
    """The keys as help writes them."""
    short: str = ""
    """Text in the line at the bottom; empty: the key is not listed there."""
    views: Sequence[str] = VIEWS
    """Views in which the key does something."""


_LISTS = ("packets", "findings")
_THINGS = ("packets", "vbuckets", "timeline", "findings")

KEYS = (
    Key("enter", "open", "open, or follow the link", "Enter", "Open"),
    Key("backspace,alt+left", "return", "back to where you came from", "Backspace", "Back"),
    Key("alt+right", "forward", "forward again", "Alt+→"),
    Key("escape", "leave", "close a dialog, stop a search or export, remove the filter", "Esc"),
    Key("slash", "filter", "filter messages", "/", "Filter", ("packets",)),
    Key("n", "bad", "next row, vbucket or finding that is an error or a warning", "n", "Next bad"),
    Key("N", "bad(True)", "the error or warning before", "N"),
    Key(
        "left_square_bracket",
        "near(-1)",
        "the row, gap or evidence before",
        "[",
        views=("packets", "timeline", "findings"),
    ),
    Key(
        "right_square_bracket",
        "near(1)",
        "the next row, gap of a vbucket, or evidence",
        "]",
        views=("packets", "timeline", "findings"),
    ),
    Key(
        "e",
        "finding",
        "the finding about this; press again for the next one",
        "e",
        "Finding",
        ("overview", *_THINGS),
    ),
    Key("v", "vbucket", "the timeline of this row's vbucket", "v", "vBucket", _LISTS),
    Key(
        "equals_sign",
        "by_this",
        "filter by the field, or the vbucket, under the cursor",
        "=",
        "Filter by",
        ("packets", "vbuckets", "timeline"),
    ),
    Key(
        "ampersand",
        "by_this('and')",
        "also filter by this field",
        "&",
        views=("packets",),
    ),
    Key(
        "exclamation_mark",
        "by_this('not')",
        "leave out messages with this field",
        "!",
        views=("packets",),
    ),
    Key(
        "d",
        "display",
        "bytes or fields; the axis of time or of seqnos",
        "d",
        "Display",
        ("packets", "timeline"),
    ),
    Key(
        "f",
        "follow",
        "follow the conversation of this message; again: all messages",
        "f",
        "Follow",
        ("packets",),
    ),
    Key("t", "time", "another form of the time column", "t", views=("packets",)),
    Key(
        "c",
        "column",
        "add the field under the cursor as a column, or remove it",
        "c",
        views=("packets",),
    ),
    Key(
        "number_sign",
        "numbers",
        "commands and statuses as numbers or as names",
        "#",
        views=("packets",),
    ),
    Key(
        "less_than_sign",
        "resize(-1)",
        "less room for the list, more for the panes beside it",
        "<",
        views=("packets",),
    ),
    Key("greater_than_sign", "resize(1)", "more room for the list", ">", views=("packets",)),
    Key(
        "vertical_line",
        "layout",
        "another layout (vbuckets: the map, or what came over time)",
        "|",
        views=("packets", "vbuckets"),
    ),
    Key(
        "z",
        "maximize",
        "make the pane as large as the screen, or normal again",
        "z",
        views=("packets",),
    ),
    Key(
        "m",
        "mark",
        "mark the message, or remove the mark",
        "m",
        "Mark",
        _LISTS,
    ),
    Key("semicolon", "note", "write a note on the message", ";", views=("packets",)),
    Key("apostrophe", "next_mark", "the next mark", "'"),
    Key(
        "y",
        "copy",
        "copy the value, the line or the finding",
        "y",
        "Copy",
        ("packets", "findings", "timeline"),
    ),
    Key(
        "Y",
        "copy_as",
        "copy the message as JSON, hex, a filter or a tshark command",
        "Y",
        views=("packets",),
    ),
    Key(
        "C",
        "connections",
        "all connections, to look at one alone, or at all again",
        "C",
        "Connection",
    ),
    Key(
        "x",
        "export",
        "export to a file what is under the cursor, marked, shown, or all",
        "x",
        "Export",
    ),
    Key(
        "ctrl+f",
        "find",
        "find text, /regex/ or x:hex in the rows that are shown",
        "Ctrl+F",
        views=("packets",),
    ),
    Key("f3", "find_next", "find the next one, after the last the first", "F3", views=("packets",)),
    Key("shift+f3", "find_next(True)", "find the one before", "Shift+F3", views=("packets",)),
    Key(
        "colon",
        "go",
        "go to row 1047, frame f988, vb417, vb417@842, time 12.5s, mark m2, or a rule",
        ":",
        "Go to",
    ),
    Key("plus", "zoom(1)", "zoom in", "+", "Zoom", ("timeline",)),
    Key("minus", "zoom(-1)", "zoom out", "-", views=("timeline",)),
    Key("a", "zoom(0)", "show all", "a", views=("timeline",)),
    Key("comma", "neighbour(-1)", "timeline of the vbucket before", ",", views=("timeline",)),
    Key("full_stop", "neighbour(1)", "timeline of the next vbucket", ".", "vBucket", ("timeline",)),
    Key("0", "view('overview')", "Overview: the capture at a glance", "0"),
    Key("1", "view('packets')", "Packets: the messages", "1"),
    Key("2", "view('vbuckets')", "vBuckets: all of them at a glance", "2"),
    Key("3", "view('timeline')", "Timeline: one vbucket's streams along their seqnos", "3"),
    Key("4", "view('findings')", "Findings: what is wrong", "4"),
    Key("5", "view('stats')", "Stats: counts, sizes and times of messages", "5"),
    Key("ctrl+o", "another", "open another capture", "Ctrl+O"),
    Key("K", "keylog", "read the capture again with the TLS secrets of a key log", "K"),
    Key("ctrl+z", "suspend_process", "back to the shell; fg comes back", "Ctrl+Z"),
    Key("tab", "app.focus_next", "the next pane", "Tab"),
    Key("shift+tab", "app.focus_previous", "the pane before", "Shift+Tab"),
    Key("up,k", "pane('step', -1)", "up", "↑ k"),
    Key("down,j", "pane('step', 1)", "down", "↓ j"),
    Key("left,h", "pane('fold')", "left; fold the field", "← h"),
    Key("right,l", "pane('unfold')", "right; unfold the field", "→ l"),
    Key("space", "pane('toggle_fold')", "fold or unfold", "Space", views=("packets",)),
    Key("pageup", "pane('page', -1)", "a screen up", "PgUp"),
    Key("pagedown", "pane('page', 1)", "a screen down", "PgDn"),
    Key("home,g", "pane('first')", "to the first", "Home g"),
    Key("end,G", "pane('last')", "to the last, and follow new ones", "End G"),
    Key("question_mark", "help", "these keys, and what the symbols mean", "?", "Help"),
    Key("q", "quit", "leave", "q", "Quit"),
)
"""All keys, in the order of help."""

PALETTE = Key("ctrl+p", "app.command_palette", "every action by its title", "Ctrl+P")
"""The key of the palette, which Textual binds itself."""


TYPING = (
    ("enter", "Enter", "Apply"),
    ("tab", "Tab", "Complete"),
    ("down", "↓", "Choose"),
    ("up", "↑", "Used before"),
    ("escape", "Esc", "Leave"),
)
"""Keys of the line at the bottom while a filter is typed; the form is that of ``footer``."""


def footer(view: str) -> list[tuple[str, str, str]]:
    """Returns the keys of the line at the bottom of a view: name in Textual, text in help, and a
    word.
    """
    return [
        (key.keys.partition(",")[0], key.shown, key.short)
        for key in KEYS
        if key.short and view in key.views
    ]
