"""Writes what was found in captures as one file to hand over: a page for any browser, or Markdown
for a ticket.

A reading that has ended goes in; a text comes out, small enough to be attached to a ticket.

``report_contents.py`` gathers what is told, once for both forms; ``report_pictures.py`` draws
streams and charts as SVG. ``page.py`` makes the HTML page with Jinja. ``written.py`` makes the
Markdown page with the block that ``check`` prints, chooses the form by the file's name, and leaves
rows out until the page is small enough. Begin with ``written.py``.
"""
