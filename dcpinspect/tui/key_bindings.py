"""The table of all keys, of which bindings, footer, help, palette and docs are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from textual.app import SystemCommand

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import entries

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


def _key(head: str, text: str) -> Key:
    """Reads a line of the table: ``keys action word views``; before the keys stands how help writes
    them, if otherwise. ``-``: the key is not listed at the bottom. ``*``: all views.
    """
    names, action, short, views = head.split()
    help_name, _, keys = names.rpartition("|")
    return Key(
        keys,
        action,
        text,
        (help_name or keys).replace("_", " "),
        short.replace("_", " ").strip("-"),
        VIEWS if views == "*" else views.split(","),
    )


KEYS = tuple(
    _key(head, text)
    for head, text in entries(
        """
        Enter|enter open Open overview,packets,vbuckets,timeline,findings: open, or follow the link
        Backspace|backspace,alt+left return Back *: back to where you came from
        Esc|escape leave - *: close a dialog, stop a search or export, remove the filter
        n bad Next_bad *: next row, vbucket or finding that is an error or a warning
        N bad(True) - *: the error or warning before
        [|left_square_bracket near(-1) - packets,timeline,findings: the row, gap or evidence before
        ]|right_square_bracket near(1) - packets,timeline,findings: the next row, gap of a vbucket, or
            evidence
        e finding Finding overview,packets,vbuckets,timeline,findings: the finding about this; press
            again for the next one
        v vbucket vBucket overview,packets,vbuckets,findings: the timeline of this vbucket
        =|equals_sign by_this Filter_by overview,packets,vbuckets,timeline,findings: filter by the field,
            or the vbucket, under the cursor
        /|slash filter Filter *: filter messages
        &|ampersand by_this('and') - packets: also filter by this field
        !|exclamation_mark by_this('not') - packets: leave out messages with this field
        d display Display packets,timeline: bytes or fields; the axis of time or of seqnos
        f follow Follow packets: follow the conversation of this message; again: all messages
        t time - packets: another form of the time column
        c column - packets: add the field under the cursor as a column, or remove it
        ||vertical_line layout - packets,vbuckets: another layout (vbuckets: the map, or what came over
            time)
        z maximize - packets: make the pane as large as the screen, or normal again
        m mark Mark packets,findings: mark the message, or remove the mark
        ;|semicolon note - packets: write a note on the message
        '|apostrophe next_mark - *: the next mark
        y copy Copy packets,findings,timeline: copy the value, the line or the finding
        Y copy_as - packets: copy the message as JSON or hex
        C connections Connection *: all connections, to look at one alone, or at all again
        x export Export *: export to a file what is under the cursor, marked, shown, or all
        Ctrl+F|ctrl+f find - packets: find text, /regex/ or x:hex in the rows that are shown
        F3|f3 find_next - packets: find the next one, after the last the first
        Shift+F3|shift+f3 find_next(True) - packets: find the one before
        :|colon go Go_to *: go to row 1047, frame f988, vb417, vb417@842, time 12.5s, or a rule
        +|plus zoom(1) Zoom timeline: zoom in
        -|minus zoom(-1) - timeline: zoom out
        a zoom(0) - timeline: show all
        ,|comma neighbour(-1) - timeline: timeline of the vbucket before
        .|full_stop neighbour(1) vBucket timeline: timeline of the next vbucket
        0 view('overview') - *: Overview: the capture at a glance
        1 view('packets') - *: Packets: the messages
        2 view('vbuckets') - *: vBuckets: all of them at a glance
        3 view('timeline') - *: Timeline: one vbucket's streams along their seqnos
        4 view('findings') - *: Findings: what is wrong
        5 view('stats') - *: Stats: counts, sizes and times of messages
        Ctrl+O|ctrl+o another - *: open another capture
        K keylog - *: read the capture again with the TLS secrets of a key log
        Ctrl+Z|ctrl+z suspend_process - *: back to the shell; fg comes back
        Tab|tab app.focus_next - *: the next pane
        Shift+Tab|shift+tab app.focus_previous - *: the pane before
        ↑_k|up,k pane('step',-1) - *: up
        ↓_j|down,j pane('step',1) - *: down
        ←_h|left,h pane('fold') - *: left; fold the field
        →_l|right,l pane('unfold') - *: right; unfold the field
        Space|space pane('toggle_fold') - packets: fold or unfold
        PgUp|pageup pane('page',-1) - *: a screen up
        PgDn|pagedown pane('page',1) - *: a screen down
        Home_g|home,g pane('first') - *: to the first
        End_G|end,G pane('last') - *: to the last, and follow new ones
        ?|question_mark help Help *: these keys, and what the symbols mean
        q quit Quit *: leave
        """
    )
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
    """Returns the keys at the bottom of a view: name in Textual, text in help, and a word."""
    return [
        (key.keys.partition(",")[0], key.shown, key.short)
        for key in KEYS
        if key.short and view in key.views
    ]


def commands(do: Callable[[str, Sequence[str]], object]) -> Iterator[SystemCommand]:
    """Yields all entries of the palette in order: the views, the actions of other keys, and those
    that have no key. ``do`` runs an action, in one of the views that it belongs to; an action of
    another view shows that view first.
    """
    from dcpinspect.tui.theme import THEMES

    keys = [key for key in KEYS if not key.action.startswith(("app.", "pane"))]
    for key in sorted(keys, key=lambda key: not key.action.startswith("view(")):
        title = key.text if key.text.startswith("vB") else key.text[:1].upper() + key.text[1:]
        yield SystemCommand(title, key.shown, partial(do, key.action, key.views))
    for name in THEMES:
        yield SystemCommand(f"Theme: {name}", "", partial(do, f"theme('{name}')", VIEWS))
