"""The command palette: lists every action by a title that people search for, with its key beside
it.

The actions are those of ``KEYS``, and those of ``MORE``, which have no key. An action of
another view shows that view first.
"""

from __future__ import annotations

from collections.abc import Sequence

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tables.presets import FILTERS
from dcpinspect.tui.copying import FORMS
from dcpinspect.tui.key_bindings import KEYS, VIEWS
from dcpinspect.tui.theme import THEMES


@dataclass(frozen=True, slots=True)
class Command:
    """One entry of the palette."""

    title: str
    action: str
    shown: str = ""
    """The key of the action, as help writes it."""
    about: str = ""
    """More words about the action."""
    views: Sequence[str] = VIEWS
    """Views in which the action does something."""


MORE = (
    *(
        Command(f"Filter: {name}", f"preset('{name}')", f"@{name}", preset.doc)
        for name, preset in FILTERS.items()
    ),
    *(Command(f"Theme: {name}", f"theme('{name}')") for name in THEMES),
    *(
        Command(f"Copy: {words}", f"copy_as('{form}')", views=("packets",))
        for form, words in FORMS.items()
    ),
)
"""Entries for actions that have no key."""


def commands() -> list[Command]:
    """Returns all entries of the palette in order: the views, the actions of other keys, and those
    that have no key.
    """
    keys = [key for key in KEYS if not key.action.startswith(("app.", "pane"))]
    keys.sort(key=lambda key: not key.action.startswith("view("))
    return [
        *(Command(_title(key.text), key.action, key.shown, views=key.views) for key in keys),
        *MORE,
    ]


def _title(text: str) -> str:
    return text if text.startswith("vB") else text[:1].upper() + text[1:]
