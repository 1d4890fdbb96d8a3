"""``python -m tests.pages`` writes the pages."""

from tests.pages import DOCS, PAGES

for name, page in PAGES.items():
    (DOCS / name).write_text(page(), "utf-8")
