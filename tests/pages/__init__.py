"""The pages of ``docs/`` that are made of the tables of the package: ``python -m tests.pages``
writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.pages.protocol import protocol_page
from tests.pages.rules import rules_page
from tests.pages.state import state_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "protocol.md": protocol_page,
    "rules.md": rules_page,
    "state.md": state_page,
}
"""Functions that return the text of a page, by its file."""
