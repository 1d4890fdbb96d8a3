"""The command palette: lists every action by a title that people search for, with its key beside
it.

The actions are those of ``KEYS``, and some that have no key. An action of another view shows that
view first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from textual.app import SystemCommand

from dcpinspect.tables.presets import FILTERS
from dcpinspect.tui.copying import FORMS
from dcpinspect.tui.key_bindings import KEYS, VIEWS
from dcpinspect.tui.theme import THEMES


def commands(do: Callable[[str, Sequence[str]], object]) -> Iterator[SystemCommand]:
    """Yields all entries of the palette in order: the views, the actions of other keys, and those
    that have no key. ``do`` runs an action, in one of the views that it belongs to.
    """
    keys = [key for key in KEYS if not key.action.startswith(("app.", "pane"))]
    for key in sorted(keys, key=lambda key: not key.action.startswith("view(")):
        title = key.text if key.text.startswith("vB") else key.text[:1].upper() + key.text[1:]
        yield SystemCommand(title, key.shown, partial(do, key.action, key.views))
    for name, preset in FILTERS.items():
        filtered = partial(do, f"preset('{name}')", VIEWS)
        yield SystemCommand(f"Filter: {name}", f"@{name}  {preset.doc}", filtered)
    for name in THEMES:
        yield SystemCommand(f"Theme: {name}", "", partial(do, f"theme('{name}')", VIEWS))
    for form, words in FORMS.items():
        yield SystemCommand(f"Copy: {words}", "", partial(do, f"copy_as('{form}')", ("packets",)))
