"""Writes what was found in captures as one file to hand over: a page for any browser, or Markdown
for a ticket.
"""
